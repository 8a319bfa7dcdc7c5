"""A scenario is a pure function of device and time; a wrong file gets a clear error."""

import copy
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_exporter.devices.base import DeviceError, Reason
from gputailor_exporter.metrics import Sharing, Signal
from gputailor_exporter.scenarios.document import parse_bytes, parse_duration, parse_time
from gputailor_exporter.scenarios.scenario import DEMO, ScenarioError, load, parse, pinned

SMALL = Path(__file__).resolve().parents[1] / "fakes" / "scenarios" / "small.yaml"
NOW = 1_764_590_400.0  # 2025-12-01 12:00 UTC
HOUR = 3600.0
GIB = 1024**3


@pytest.fixture(scope="module")
def small():
    return load(SMALL, NOW)


@pytest.fixture(scope="module")
def demo():
    return load(DEMO, NOW)


@pytest.fixture
def document():
    return yaml.safe_load(SMALL.read_text(encoding="utf-8"))


def uuid_of(scenario, node, address):
    return scenario.nodes[node].by_address(address).identity.uuid


def test_values_while_held_are_those_of_the_activity(small):
    reading = small.reading("node-a", uuid_of(small, "node-a", "0"), NOW - 6000, NOW - 5000)
    assert reading.signals[Signal.SM].value == pytest.approx(0.5)
    assert reading.signals[Signal.KERNEL].value == pytest.approx(0.8)
    assert reading.signals[Signal.SM].covers_seconds == 1000
    assert reading.signals[Signal.FP64].value == 0.0


def test_an_interval_across_the_end_of_a_job_is_the_weighted_mean(small):
    uuid = uuid_of(small, "node-a", "0")
    reading = small.reading("node-a", uuid, NOW - HOUR - 30, NOW - HOUR + 90)
    assert reading.signals[Signal.SM].value == pytest.approx(0.5 * 30 / 120)


def test_nothing_runs_on_a_device_that_is_held_and_never_touched(small):
    reading = small.reading("node-a", uuid_of(small, "node-a", "1"), NOW - 6000, NOW - 5000)
    assert {value.value for value in reading.signals.values()} == {0.0}
    assert reading.memory.used_bytes == 0
    assert reading.power_watts == 55


def test_memory_climbs_peaks_and_falls_back(small):
    uuid, start = uuid_of(small, "node-a", "0"), NOW - 3 * HOUR

    def used(age):
        return small.reading("node-a", uuid, start + age - 1, start + age).memory.used_bytes

    assert used(300) == pytest.approx(11 * GIB, rel=0.01)
    assert used(900) == 20 * GIB
    assert used(1300) == 30 * GIB
    assert used(1600) == 20 * GIB


def test_power_lies_between_idle_and_maximum_and_rises_with_work(small):
    uuid = uuid_of(small, "node-a", "0")
    busy = small.reading("node-a", uuid, NOW - 6000, NOW - 5940).power_watts
    after = small.reading("node-a", uuid, NOW - 600, NOW - 540).power_watts
    assert 68 < busy < 400
    assert after == 55


def test_a_mig_instance_has_no_kernel_signal_and_its_parent_has_the_power(small):
    instance = small.reading("node-a", uuid_of(small, "node-a", "2/0"), NOW - 60, NOW)
    parent = small.reading("node-a", uuid_of(small, "node-a", "2"), NOW - 60, NOW)
    assert Signal.KERNEL not in instance.signals
    assert instance.unavailable["kernel"] is Reason.NOT_SUPPORTED
    assert instance.signals[Signal.SM].value == pytest.approx(0.3)
    assert instance.power_watts is None
    assert instance.memory.total_bytes == int(39.5 * GIB)
    assert parent.power_watts > 68
    assert parent.signals == {}
    assert parent.memory is None


def test_a_shared_device_has_its_holders_processes_and_those_of_the_host(small):
    uuid = uuid_of(small, "node-a", "3")
    reading = small.reading("node-a", uuid, NOW - 60, NOW)
    owners = [small.owners["node-a", process.pid] for process in reading.processes]
    assert reading.process_utilization_known
    assert [process.kernel for process in reading.processes] == pytest.approx([0.3] * 3)
    assert reading.signals[Signal.KERNEL].value == pytest.approx(0.9)
    assert reading.memory.used_bytes == sum(p.memory_used_bytes for p in reading.processes)
    assert owners.count(None) == 1
    assert {owner.container for owner in owners if owner} == {"main"}


def test_allocations_come_and_go_with_the_pods(small):
    during = small.allocations("node-a", NOW - 2 * HOUR)
    after = small.allocations("node-a", NOW)
    jobs = [one for one in during if one.holder.pod.startswith("train")]
    assert {one.gpu_uuid for one in jobs} == {uuid_of(small, "node-a", n) for n in "01"}
    assert not [one for one in after if one.holder.pod.startswith("train")]
    shares = sorted(one.share for one in after if one.sharing is Sharing.TIME_SLICING)
    assert shares == [0.25, 0.5]
    assert [one.sharing for one in after if "slices" in one.holder.pod] == [Sharing.MIG]


def test_a_signal_that_is_missing_is_absent_and_has_a_reason(small):
    uuid = uuid_of(small, "node-a", "0")
    reading = small.reading("node-a", uuid, NOW - 2.25 * HOUR, NOW - 2.2 * HOUR)
    assert Signal.SM not in reading.signals
    assert reading.unavailable["sm"] is Reason.NO_SAMPLES
    assert reading.signals[Signal.KERNEL].value == pytest.approx(0.8)


def test_only_the_readable_part_of_an_interval_is_covered(small):
    uuid = uuid_of(small, "node-a", "0")
    reading = small.reading("node-a", uuid, NOW - 2 * HOUR - 40, NOW - 2 * HOUR + 60)
    assert reading.signals[Signal.SM].covers_seconds == pytest.approx(60)
    assert reading.signals[Signal.SM].value == pytest.approx(0.5)
    assert reading.signals[Signal.DRAM].covers_seconds == 100


def test_a_lost_device_cannot_be_read(small):
    with pytest.raises(DeviceError) as caught:
        small.reading("node-a", uuid_of(small, "node-a", "1"), NOW - 61, NOW - 1)
    assert caught.value.reason is Reason.GPU_IS_LOST


def test_without_profiling_only_what_nvml_reads_is_there(small):
    reading = small.reading("node-b", uuid_of(small, "node-b", "0"), NOW - 60, NOW)
    assert set(reading.signals) == {
        Signal.KERNEL,
        Signal.MEMCOPY,
        Signal.ENCODER,
        Signal.DECODER,
    }
    assert reading.unavailable["sm"] is Reason.NOT_SUPPORTED


@settings(max_examples=60)
@given(st.integers(0, 40), st.floats(60, 13 * 86400), st.floats(1, 7200), st.floats(1, 7200))
def test_the_mean_of_an_interval_is_the_weighted_mean_of_its_parts(place, ago, first, second):
    scenario = _DEMO
    pairs = sorted(scenario.timelines)
    node, uuid = pairs[place % len(pairs)]
    start = NOW - ago
    whole = scenario.reading(node, uuid, start, start + first + second)
    left = scenario.reading(node, uuid, start, start + first)
    right = scenario.reading(node, uuid, start + first, start + first + second)
    for signal, reading in whole.signals.items():
        parts = [one.signals[signal] for one in (left, right) if signal in one.signals]
        active = sum(part.value * part.covers_seconds for part in parts)
        covered = sum(part.covers_seconds for part in parts)
        assert reading.covers_seconds == pytest.approx(covered)
        assert reading.value * covered == pytest.approx(active, rel=1e-6, abs=1e-3)
    if whole.power_watts is not None:
        joules = left.power_watts * first + right.power_watts * second
        assert whole.power_watts * (first + second) == pytest.approx(joules, rel=1e-6)


_DEMO = load(DEMO, NOW)


@settings(max_examples=60)
@given(st.integers(0, 40), st.floats(60, 13 * 86400))
def test_every_reading_of_the_demo_is_within_its_bounds(place, ago):
    pairs = sorted(_DEMO.timelines)
    node, uuid = pairs[place % len(pairs)]
    reading = _DEMO.reading(node, uuid, NOW - ago - 60, NOW - ago)
    assert all(0.0 <= one.value <= 1.0 for one in reading.signals.values())
    if reading.memory is not None:
        assert reading.memory.used_bytes <= reading.memory.total_bytes
    if reading.power_watts is not None:
        assert 0 < reading.power_watts <= reading.power_limit_watts + 1e-6


def test_the_demo_has_what_it_promises(demo):
    models = {device.model for node in demo.nodes for device in demo.devices(node)}
    assert len(demo.nodes) >= 4
    assert {"NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA L4", "Tesla T4"} <= models
    assert len(demo.workloads) >= 12
    assert {one.kind for one in demo.workloads} >= {
        "CronJob",
        "Deployment",
        "Job",
        "PyTorchJob",
        "StatefulSet",
    }
    nightly = next(one for one in demo.workloads if one.kind == "CronJob")
    assert sum(run.start >= NOW - 14 * 86400 and run.end <= NOW for run in nightly.runs) == 14


def test_the_demo_goes_on_after_now(demo):
    for node in demo.nodes:
        assert demo.allocations(node, NOW + 6 * HOUR)


def test_pods_keep_their_names_when_the_file_is_read_again_later():
    later = load(DEMO, NOW)
    assert [
        (pod.name, pod.uid) for one in later.workloads for run in one.runs for pod in run.pods
    ] == [(pod.name, pod.uid) for one in _DEMO.workloads for run in one.runs for pod in run.pods]


def test_a_pinned_file_means_the_same_whenever_it_is_read(tmp_path):
    path = tmp_path / "pinned.yaml"
    path.write_text(pinned(SMALL, NOW), encoding="utf-8")
    later = load(path, NOW + 90 * 86400)
    assert later.now == NOW
    assert later.allocations("node-a", NOW) == load(SMALL, NOW).allocations("node-a", NOW)
    assert pinned(path, NOW + 5) == path.read_text(encoding="utf-8")


def break_document(document, *path_and_value):
    *path, last, value = path_and_value
    broken = copy.deepcopy(document)
    place = broken
    for step in path:
        place = place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return broken


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("nodes", 0, "gpus", 0, "model", "a100"),
            r"nodes\[0\]\.gpus\[0\]\.model: expected one of",
        ),
        (("nodes", 0, "gpus", 1, "mig", ["9g.90gb"]), "has no MIG profile '9g.90gb'"),
        (("nodes", 0, "gpus", 1, "mig", ["4g.40gb", "4g.40gb"]), "at most 7 slices, found 8"),
        (("nodes", 0, "gpus", 1, "replicas", 2), "no replicas on a GPU with MIG"),
        (("nodes", 1, "name", "node-a"), "node-a is there twice"),
        (("nodes", 1, "name", "Not A Name"), "expected a Kubernetes object name"),
        (("nodes", []), "expected a list with at least one entry"),
        (("version", 7), "expected 1, found 7"),
        (("extra", 1), r"extra: unknown key .*known here: .*workloads"),
        (("activities", "steady", "signals", "sn", 0.5), r"steady\.signals\.sn: expected one of"),
        (
            ("activities", "steady", "signals", "sm", 1.5),
            "expected a number from 0 to 1, found 1.5",
        ),
        (("activities", "steady", "signals", "sm", 0.9), "expected at most the level of kernel"),
        (("activities", "steady", "memory", "peak", "1GiB"), "expected at least start and plateau"),
        (("activities", "steady", "memory", "plateau", "much"), "expected a size as 61GiB"),
        (("activities", "steady", "memory", {"plateau": "300GiB"}), "peaks of"),
        (("activities", "steady", "shape", {"kind": "wave"}), "shape.kind: expected one of burst"),
        (("activities", "steady", "shape", {"kind": "on_off", "duty": 1}), "expected a duration"),
        (
            ("activities", "steady", "shape", {"kind": "burst", "every": "1m", "length": "2m"}),
            "at most the duration of every",
        ),
        (
            ("activities", "steady", "shape", {"kind": "hours", "from": "18:00", "to": "09:00"}),
            "expected a time of day after from",
        ),
        (("activities", "steady", "noise", {"amplitude": 3}), "expected a number from 0 to 1"),
        (("workloads", 0, "kind", "Jobb"), "did you mean 'Job'"),
        (("workloads", 0, "runs", 0, "start", "yesterday"), r"runs\[0\]\.start: expected a time"),
        (("workloads", 0, "runs", 0, "end", "-9h"), "expected a time after start"),
        (("workloads", 0, "runs", 0, "outcome", "lost"), "expected one of failed"),
        (("workloads", 0, "runs", None), "runs: expected a list"),
        (("workloads", 0, "ports", ["http"]), "expected a list of port numbers"),
        (
            ("workloads", 0, "runs", 0, "pods", 0, "gpus", [0, 9]),
            "node-a has no device '9' to hold",
        ),
        (("workloads", 0, "runs", 0, "pods", 0, "gpus", [0, 2]), "has no device '2' to hold"),
        (("workloads", 0, "runs", 0, "pods", 0, "gpus", []), "expected a list of devices"),
        (("workloads", 0, "runs", 0, "pods", 0, "activities", ["steady"]), "one per device"),
        (
            ("workloads", 0, "runs", 0, "pods", 0, "activities", ["steady", "sleepy"]),
            "'sleepy' is not among slice, steady, third, none",
        ),
        (
            ("workloads", 0, "runs", 0, "pods", 0, "node", "node-c"),
            "expected one of node-a, node-b",
        ),
        (("workloads", 2, "runs", 0, "pods", 1, "replicas", 9), "the device has 4"),
        (("workloads", 2, "runs", 0, "pods", 1, "replicas", 4), "is held already by"),
        (("workloads", 1, "runs", 0, "pods", 0, "gpus", ["0"]), "is held already by"),
        (
            ("activities", "third", "signals", "kernel", 0.4),
            "levels of kernel of all holders add up",
        ),
        (("workloads", 3, "runs", 0, "pods", 0, "gpus", [0]), "expected a shared device"),
        (("workloads", 4, "schedule", "at", "25:00"), 'expected a time of day as "02:30"'),
        (("workloads", 4, "schedule", "days", ["friday"]), "expected weekdays of mon"),
        (("missing", 0, "what", "everything"), "expected one of device, exporter, signals"),
        (("missing", 1, "what", ["heat"]), "expected signals of"),
        (("missing", 0, "gpus", [0]), "an exporter is down for its whole node"),
        (("missing", 1, "gpus", [8]), "node-a has no device '8'"),
        (("missing", 1, "end", "-3h"), "expected a time after start"),
    ],
)
def test_each_mistake_is_told_with_file_place_and_what_was_expected(document, change, message):
    with pytest.raises(ScenarioError, match=message) as caught:
        parse(break_document(document, *change), NOW, "my.yaml")
    assert str(caught.value).startswith("my.yaml: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "expected a mapping, found list"),
        ("", "expected a mapping, found NoneType"),
        ("a: [", "is not YAML"),
    ],
)
def test_a_file_that_is_no_scenario_says_so(tmp_path, text, message):
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match=message):
        load(path, NOW)


def test_a_file_that_is_not_there_or_not_text_says_so(tmp_path):
    with pytest.raises(ScenarioError, match="cannot be read: No such file"):
        load(tmp_path / "none.yaml", NOW)
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="is not YAML"):
        load(path, NOW)


def test_two_pods_of_one_name_at_one_time_are_refused(document):
    document["workloads"][1]["runs"].append(
        {"start": "-1h", "pods": [{"node": "node-a", "gpus": ["2/1"]}]}
    )
    with pytest.raises(ScenarioError, match="two pods named team/slices-0 at the same time"):
        parse(document, NOW)


def test_a_gpu_model_of_ones_own_can_be_described(document):
    document["models"] = {
        "mine": {"name": "ACME 1", "memory": "8GiB", "sms": 10, "idle_watts": 5, "max_watts": 50}
    }
    document["nodes"].append({"name": "node-c", "gpus": [{"model": "mine"}]})
    scenario = parse(document, NOW)
    assert scenario.devices("node-c")[0].model == "ACME 1"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("2h30m", 9000), (15, 15), ("1.5h", 5400), ("500ms", 0.5), ("1w", 604800)],
)
def test_durations_are_read(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5", "3x", "1h-2m", True, None, -4])
def test_what_is_no_duration_is_none(text):
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ("now", NOW),
        ("-14d", NOW - 14 * 86400),
        ("+2h", NOW + 7200),
        ("-3d@09:00", NOW - 3 * 86400 - 3 * 3600),
        ("now@13:00", NOW + 3600),
        ("2025-12-01T12:00:00Z", NOW),
        ("2025-12-01 12:00", NOW),
        (NOW, NOW),
    ],
)
def test_times_are_read(value, at):
    assert parse_time(value, NOW) == at


@pytest.mark.parametrize("value", ["", "then", "n5m", "-later", "now@99:00", None, True, [1]])
def test_what_is_no_time_is_none(value):
    assert parse_time(value, NOW) is None


@pytest.mark.parametrize(
    ("value", "size"),
    [("1GiB", GIB), ("1Gi", GIB), ("1.5 MiB", 1572864), ("9GB", 9_000_000_000), (7, 7), ("5B", 5)],
)
def test_sizes_are_read(value, size):
    assert parse_bytes(value) == size
