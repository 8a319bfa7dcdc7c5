"""The dcgm dialect: what each label and value of dcgm-exporter's pages means."""

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gputailor_agent.dialects.dcgm import GAUGES
from gputailor_agent.dialects.gauges import Measure, gauge_dialects
from gputailor_agent.sources.prometheus.gauges import present_gauges

CARD = "GPU-11111111-2222-3333-4444-555555555555"
MIB = 1024**2

# Written by hand in the shape of dcgm-exporter's pages; names and figures are ours.
PAGE = f"""
DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{CARD}",device="nvidia0",modelName="NVIDIA L4",hostname="node-7",DCGM_FI_DRIVER_VERSION="580.95.05",container="main",namespace="team",pod="train-0",pod_uid=""}} 37
DCGM_FI_DEV_MEM_COPY_UTIL{{gpu="0",UUID="{CARD}",hostname="node-7",container="main",namespace="team",pod="train-0"}} 12
DCGM_FI_DEV_FB_USED{{gpu="0",UUID="{CARD}",hostname="node-7",container="main",namespace="team",pod="train-0"}} 2048
DCGM_FI_DEV_FB_FREE{{gpu="0",UUID="{CARD}",hostname="node-7",container="main",namespace="team",pod="train-0"}} 20480
DCGM_FI_DEV_FB_RESERVED{{gpu="0",UUID="{CARD}",hostname="node-7",container="main",namespace="team",pod="train-0"}} 506
DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="{CARD}",hostname="node-7",container="main",namespace="team",pod="train-0"}} 41.5
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{gpu="0",UUID="{CARD}",hostname="node-7",container="main",namespace="team",pod="train-0"}} 0.25
DCGM_FI_DEV_ENC_UTIL{{gpu="1",UUID="GPU-b",hostname="node-7"}} 9223372036854775794
DCGM_FI_PROF_SM_ACTIVE{{gpu="1",UUID="GPU-c",hostname="node-7",GPU_I_ID="7",GPU_I_PROFILE="1g.10gb"}} 1.29
"""


def read(text):
    """Every value of a page: {(metric, uuid): (gauge, subject, canonical value)}."""
    gauges = {name: gauge for gauge in GAUGES.gauges for name in gauge.names}
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            subject = GAUGES.identify(sample.labels, "test")
            if sample.name in gauges and subject is not None:
                gauge = gauges[sample.name]
                key = sample.name, subject.device.gpu_uuid, subject.holder and subject.holder.pod
                found[key] = (gauge, subject, gauge.canonical(sample.value))
    return found


def test_dcgm_is_a_dialect_of_gauges():
    assert "dcgm" in {dialect.name for dialect in gauge_dialects()}


@pytest.mark.parametrize(
    ("metric", "measure", "signal", "value"),
    [
        ("DEV_GPU_UTIL", Measure.ACTIVITY, "kernel", 0.37),
        ("DEV_MEM_COPY_UTIL", Measure.ACTIVITY, "memcopy", 0.12),
        ("DEV_FB_USED", Measure.MEMORY_USED, "", 2048 * MIB),
        ("DEV_FB_FREE", Measure.MEMORY_FREE, "", 20480 * MIB),
        ("DEV_FB_RESERVED", Measure.MEMORY_RESERVED, "", 506 * MIB),
        ("DEV_POWER_USAGE", Measure.POWER, "", 41.5),
        ("PROF_PIPE_TENSOR_ACTIVE", Measure.ACTIVITY, "tensor", 0.25),
    ],
)
def test_values_come_in_base_units(metric, measure, signal, value):
    gauge, _, told = read(PAGE)[f"DCGM_FI_{metric}", CARD, "train-0"]
    assert (gauge.measure, gauge.signal) == (measure, signal)
    assert told == pytest.approx(value)


def test_a_lower_case_hostname_is_the_node():
    _, subject, _ = read(PAGE)["DCGM_FI_DEV_GPU_UTIL", CARD, "train-0"]
    device = subject.device
    assert (device.node, device.model, device.index) == ("node-7", "NVIDIA L4", "0")
    assert device.driver_version == "580.95.05"


def test_bandwidth_is_never_taken_for_memory_size():
    memory = [gauge for gauge in GAUGES.gauges if gauge.measure.startswith("memory")]
    assert not any("UTIL" in name for gauge in memory for name in gauge.names)


def test_a_sentinel_is_unknown():
    assert read(PAGE)["DCGM_FI_DEV_ENC_UTIL", "GPU-b", None][2] is None


@pytest.mark.parametrize(
    "raw",
    [
        *range(9223372036854775792, 9223372036854775796),
        *range(2147483632, 2147483636),
        140737488355328,
        -1,
        math.nan,
        math.inf,
    ],
)
def test_no_blank_value_becomes_a_measurement(raw):
    """Nanoseconds have 64 bits, of which the others' blanks are ordinary values."""
    long = {gauge for gauge in GAUGES.gauges if gauge.measure is Measure.THROTTLED_SECONDS}
    read = long if raw > 2**62 else set(GAUGES.gauges) - long
    assert all(gauge.canonical(float(raw)) is None for gauge in read)
    assert long


def test_an_activity_above_one_is_dropped_and_rounding_is_clamped():
    gauge, _, told = read(PAGE)["DCGM_FI_PROF_SM_ACTIVE", "MIG-GPU-c/7", None]
    assert told is None
    assert gauge.canonical(1.004) == 1.0
    assert gauge.canonical(0.0) == 0.0


def test_a_mig_instance_is_a_device_of_its_card():
    _, subject, _ = read(PAGE)["DCGM_FI_PROF_SM_ACTIVE", "MIG-GPU-c/7", None]
    assert subject.device.parent_uuid == "GPU-c"
    assert subject.device.mig_profile == "1g.10gb"


def test_what_is_the_cards_is_not_read_from_an_instance():
    own = {gauge.names[0] for gauge in GAUGES.gauges if gauge.of_instance}
    assert "DCGM_FI_PROF_SM_ACTIVE" in own
    assert "DCGM_FI_DEV_FB_USED" in own
    assert own.isdisjoint({"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"})


def identify(**labels):
    return GAUGES.identify({"UUID": CARD, **labels}, "test")


def test_labels_that_were_not_honoured_are_read_before_the_exporters_own():
    holder = identify(
        pod="metrics-abc", namespace="gpu", container="m",
        exported_pod="train-0", exported_namespace="team", exported_container="main",
    ).holder  # fmt: skip
    assert (holder.namespace, holder.pod, holder.container) == ("team", "train-0", "main")


def test_an_exporters_own_pod_holds_nothing():
    assert identify(pod="nvidia-dcgm-exporter-x2", namespace="gpu", container="main").holder is None
    assert identify(pod="p", namespace="gpu", container="nvidia-dcgm-exporter").holder is None


def test_empty_pod_labels_mean_an_idle_device():
    assert identify(pod="", namespace="", container="").holder is None


def test_labels_of_early_releases_are_read():
    subject = GAUGES.identify(
        {"uuid": CARD, "pod_name": "p", "pod_namespace": "n", "container_name": "c"}, "test"
    )
    assert subject.holder[:4] == ("n", "p", "", "c")


def test_labels_of_early_releases_count_before_the_exporters_own_pod():
    holder = identify(
        pod_name="p", pod_namespace="n", container_name="c", pod="exporter-x", namespace="gpu"
    ).holder
    assert holder[:4] == ("n", "p", "", "c")


def test_case_15_the_node_is_known_by_the_label_of_either_spelling():
    assert [identify(**{name: "n7"}).device.node for name in ("Hostname", "hostname")] == ["n7"] * 2


def test_an_exporter_that_was_not_told_its_node_is_placed_by_what_the_scrape_knows():
    own = {"Hostname": "dcgm-exporter-x7k2p"}
    assert identify(**own, node="n7").device.node == "n7"
    assert identify(**own, kubernetes_node="n7").device.node == "n7"
    assert identify(**own).device.node == "dcgm-exporter-x7k2p"
    assert identify(Hostname="n7", node="other").device.node == "n7"


def test_labels_of_a_claim_change_nothing():
    claim = {"dra_claim_name": "single", "dra_driver_name": "gpu.nvidia.com", "dra_pool_name": "n"}
    with_it, without = (
        identify(pod="p", namespace="n", container="c", **more) for more in (claim, {})
    )
    assert with_it == without


def test_a_job_of_a_batch_scheduler_stands_in_for_the_pod():
    subject = identify(Hostname="n7", hpc_job="4711")
    assert subject.holder[:4] == ("slurm", "4711@n7", "", "job")
    assert identify(Hostname="n7", hpc_job="0").holder is None
    assert identify(pod="p", namespace="n", container="c", hpc_job="4711").holder.pod == "p"


def test_a_series_without_a_device_says_nothing():
    assert GAUGES.identify({"gpu": "0"}, "test") is None


def test_every_name_of_a_metric_is_found_the_present_one_first():
    names = ["dcgm_gpu_utilization", "dcgm_fi_dev_fb_used", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_X"]
    found = [(present.name, present.rank) for present in present_gauges(GAUGES, names)]
    assert found == [
        ("dcgm_gpu_utilization", 2), ("DCGM_FI_DEV_FB_USED", 0), ("dcgm_fi_dev_fb_used", 1)
    ]  # fmt: skip


# ---- pages that were captured ----------------------------------------------------------------


def captured(shared_data, name):
    return read((shared_data / "captures" / "pages" / name).read_text("utf-8"))


@pytest.mark.restricted
def test_a_captured_page_with_a_pod_maps_to_its_values(shared_data):
    found = captured(shared_data, "dcgm-exporter-rtx4000ada-pod.prom")
    subject = next(iter(found.values()))[1]
    assert subject.holder.namespace == "default"
    assert subject.holder.container == "cuda"
    assert subject.device.model == "NVIDIA RTX 4000 Ada Generation"
    by_metric = {key[0]: value for key, (_, _, value) in found.items()}
    assert by_metric["DCGM_FI_DEV_GPU_UTIL"] == 0.0
    assert by_metric["DCGM_FI_DEV_FB_USED"] == 1 * MIB
    assert by_metric["DCGM_FI_DEV_FB_FREE"] == 20015 * MIB
    assert by_metric["DCGM_FI_DEV_POWER_USAGE"] == pytest.approx(40.979)


@pytest.mark.restricted
def test_a_captured_page_of_mig_instances_keeps_them_apart(shared_data):
    found = captured(shared_data, "dcgm-exporter_512_h100_mig_kserve.prom")
    instances = {key[1] for key in found}
    assert {uuid.rpartition("/")[2] for uuid in instances} >= {"7", "8", "9"}
    held = {key[1].rpartition("/")[2]: key[2] for key in found}
    assert held["7"].startswith("text-embedding")
    assert held["8"] is None


@pytest.mark.restricted
def test_a_captured_page_of_a_whole_card_and_an_instance(shared_data):
    found = captured(shared_data, "dcgm-exporter-a100-mig.prom")
    whole = {key[0]: told for key, (_, _, told) in found.items() if not key[1].startswith("MIG-")}
    assert whole["DCGM_FI_PROF_GR_ENGINE_ACTIVE"] == pytest.approx(0.99563)
    assert whole["DCGM_FI_DEV_FB_USED"] == 4845 * MIB
    assert any(key[1].startswith("MIG-") for key in found)


@pytest.mark.restricted
@pytest.mark.parametrize(
    "name", ["dcgm-exporter_272_a100_mig_lowercase.prom", "dcgm-exporter_188_old_names.prom"]
)
def test_captured_pages_of_other_spellings_are_understood(shared_data, name):
    found = captured(shared_data, name)
    assert found
    assert all(subject.holder is None for _, subject, _ in found.values())
    assert all(value is not None for _, _, value in found.values())
