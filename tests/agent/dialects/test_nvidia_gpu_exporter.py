"""The nvidia_gpu_exporter dialect: cards and GPU instances by UUID, nobody's pods."""

from tests.agent.dialects.served import history_of, rows_of, samples_of

CARD = "aaaaaaaa-0000-1111-2222-333333333333"

# Written by hand in the shape of the exporter's pages; figures are ours.
PAGE = f"""
nvidia_smi_gpu_info{{uuid="{CARD}",name="NVIDIA H200",index="3",compute_cap="9.0",driver_version="590.48.01",cuda_version="13.1"}} 1
nvidia_smi_utilization_gpu_ratio{{uuid="{CARD}"}} 0.4
nvidia_smi_utilization_memory_ratio{{uuid="{CARD}"}} 0.07
nvidia_smi_utilization_encoder_ratio{{uuid="{CARD}"}} 0
nvidia_smi_utilization_decoder_ratio{{uuid="{CARD}"}} 0
nvidia_smi_memory_used_bytes{{uuid="{CARD}"}} 4e+10
nvidia_smi_memory_total_bytes{{uuid="{CARD}"}} 1.5e+11
nvidia_smi_power_draw_watts{{uuid="{CARD}"}} 250
nvidia_smi_mig_info{{uuid="{CARD}",gpu_instance_id="2",compute_instance_id="0",mig_uuid="x",profile="3g.71gb"}} 1
nvidia_smi_mig_memory_used_bytes{{uuid="{CARD}",gpu_instance_id="2"}} 1e+10
nvidia_smi_mig_memory_total_bytes{{uuid="{CARD}",gpu_instance_id="2"}} 7e+10
"""  # fmt: skip


def test_a_page_gives_these_rows():
    card, instance = rows_of(PAGE)
    assert card == {
        "of": ("", "", "", f"GPU-{CARD}"), "dialect": "nvidia_gpu_exporter", "hours": 1.0,
        "kernel": 0.4, "memcopy": 0.07, "encoder": 0.0, "decoder": 0.0,
        "memory": 40_000_000_000, "of_memory": 150_000_000_000, "watts": 250.0,
    }  # fmt: skip
    assert instance == {
        "of": ("", "", "", f"MIG-GPU-{CARD}/2"), "dialect": "nvidia_gpu_exporter", "hours": 1.0,
        "memory": 10_000_000_000, "of_memory": 70_000_000_000, "watts": None,
    }  # fmt: skip


def test_the_info_series_describes_the_card_and_its_instances():
    history = history_of(samples_of(PAGE, job="smi", instance="node-3:9835"))
    devices = {device.gpu_uuid: device for device in history.devices}
    card = devices[f"GPU-{CARD}"]
    assert (card.model, card.index, card.node) == ("NVIDIA H200", "3", "node-3")
    assert (card.driver_version, card.compute_capability) == ("590.48.01", "9.0")
    instance = devices[f"MIG-GPU-{CARD}/2"]
    assert (instance.mig_profile, instance.parent_uuid) == ("3g.71gb", f"GPU-{CARD}")


def test_the_pod_that_prometheus_adds_is_the_exporters_and_holds_nothing():
    (row, _) = rows_of(PAGE, pod="nvidia-gpu-exporter-x", namespace="monitoring")
    assert row["of"][:3] == ("", "", "")
