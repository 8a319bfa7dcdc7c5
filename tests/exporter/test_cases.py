"""Cases from the field that concern the exporter, each with the value that would have been right.

A case bears its number in the list of cases; its first line says what went wrong for whom (a public
issue). Cases 8 and 17 need a process of their own: tests/system/test_cases.py.
"""

import re
from pathlib import Path

import pytest

from gputailor_exporter import metrics as m
from gputailor_exporter.accounting import AccountingSettings
from gputailor_exporter.attribution.allocations import AllocationError
from gputailor_exporter.metrics import Sharing, Signal
from tests.exporter.fake_nodes import FakeNode, rich_gpu
from tests.exporter.golden_machines import a100, container, held
from tests.exporter.machines import holds, one, samples
from tests.exporter.running_sampler import errors, running, value
from tests.exporter.serving import FixedSource, get, serving
from tests.exporter.stubs import StubAllocations, StubBackend, eventually
from tests.fakes.fixtures import fake_driver, fake_nvml_library, preloaded_nvml
from tests.fakes.nvml import GIB, FakeEvent, FakeMig, FakeProcess, square

__all__ = ["fake_driver", "fake_nvml_library", "preloaded_nvml"]


#: Cases that are the exporter's.
NUMBERS = {*range(1, 14), 16, 17, 39}


def test_every_case_of_the_exporter_is_a_test_that_bears_its_number():
    here = Path(__file__)
    files = (here, here.parents[1] / "system" / here.name)
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    assert {
        int(number) for number in re.findall(r"^def test_case_(\d\d)_", text, re.MULTILINE)
    } == NUMBERS


@pytest.fixture
def machine(preloaded_nvml, tmp_path):
    """Return a function: a node of these GPUs that was discovered."""
    opened = []

    def make(*gpus, **about):
        for gpu in gpus:
            preloaded_nvml.add(gpu)
        opened.append(FakeNode(preloaded_nvml, tmp_path, **about))
        opened[-1].discover()
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def time_sliced(machine, *names, **about):
    """A GPU shared by time by the named pods, each with a process of 100, 101, …"""
    pids = {100 + place: container(name) for place, name in enumerate(names)}
    node = machine(a100(**about), owners=pids)
    uuid = node.driver.gpus[0].uuid
    everyone = [held(name, uuid, Sharing.TIME_SLICING, 1 / len(names)) for name in names]
    node.hold(*everyone)
    return node, everyone


def get_one(node, family, **labels):
    return one(node.snapshot(), family, **labels)


def total(node, family, **labels):
    return sum(samples(node.snapshot(), family, **labels).values())


def reason(node, signal, device=0):
    uuid = node.devices[device].uuid
    found = samples(node.snapshot(), m.EXPORTER_SIGNAL_UNAVAILABLE, signal=signal, gpu_uuid=uuid)
    return next((row[2] for row in found), None)


def test_case_01_two_pods_on_a_time_sliced_gpu_both_have_a_row_and_their_own_use(machine):
    """One pod got the label and the other vanished (dcgm-exporter#151, #201)."""
    processes = [FakeProcess(100, sm=50.0), FakeProcess(101, sm=20.0), FakeProcess(7, sm=10.0)]
    node, everyone = time_sliced(machine, "a", "b", processes=processes, util_gpu=80.0)
    assert total(node, m.CONTAINER_ALLOCATED, sharing="time_slicing") == 2.0
    node.run(21, everyone)
    active = {
        pod: get_one(node, m.CONTAINER_ACTIVE_SECONDS, pod=pod, signal="kernel") for pod in "ab"
    }
    assert active == {"a": pytest.approx(10.0), "b": pytest.approx(4.0)}
    rest = get_one(node, m.DEVICE_UNATTRIBUTED_ACTIVE_SECONDS, signal="kernel")
    assert rest == pytest.approx(2.0)


def test_case_02_sharers_and_unattributed_add_up_to_the_device_once(machine):
    """The device's value was copied to each sharer, so sums multiplied (dcgm-exporter#587, #725)."""
    processes = [FakeProcess(100, sm=60.0, memory=9 * GIB), FakeProcess(101, sm=30.0, memory=GIB)]
    node, everyone = time_sliced(
        machine, "a", "b", processes=processes, util_gpu=90.0, memory_used=12 * GIB
    )
    node.run(31, everyone)
    for containers, rest, device, labels in (
        (
            m.CONTAINER_ACTIVE_SECONDS,
            m.DEVICE_UNATTRIBUTED_ACTIVE_SECONDS,
            m.DEVICE_ACTIVE_SECONDS,
            {"signal": "kernel"},
        ),
        (m.CONTAINER_ENERGY, m.DEVICE_UNATTRIBUTED_ENERGY, m.DEVICE_ENERGY, {}),
        (m.CONTAINER_MEMORY_USED, m.DEVICE_UNATTRIBUTED_MEMORY, m.DEVICE_MEMORY_USED, {}),
    ):
        parts = total(node, containers, **labels) + total(node, rest, **labels)
        assert parts == pytest.approx(total(node, device, **labels))
    assert not samples(node.snapshot(), m.CONTAINER_ACTIVE_SECONDS, signal="memcopy")


def test_case_03_a_slice_has_no_utilisation_with_a_reason_and_gpm_where_the_driver_has_it(machine):
    """On MIG utilisation was missing without a word, or 0 (dcgm-exporter#430, #105)."""
    slices = [FakeMig("MIG-a", "GPU MIG 1g.10gb", gi=7, gpm={1: 80.0, 2: 40.0})]
    node = machine(rich_gpu(mig_mode=1, mig=slices, util_gpu=90.0))
    node.run(11)
    of_slice = {"gpu_uuid": "MIG-a"}
    assert get_one(node, m.DEVICE_ACTIVE_SECONDS, signal="kernel", **of_slice) is None
    assert reason(node, "kernel", device=1) == "not_supported"
    assert get_one(node, m.DEVICE_ACTIVE_SECONDS, signal="sm", **of_slice) == pytest.approx(4.0)
    assert reason(node, "sm", device=0) == "not_supported"  # the parent leaves it to its slices


def test_case_03_a_slice_without_gpm_is_unknown_not_idle(machine):
    slices = [FakeMig("MIG-a", "GPU MIG 1g.10gb", gi=7)]
    node = machine(a100(mig_mode=1, mig=slices))
    node.run(5)
    assert not samples(node.snapshot(), m.DEVICE_OBSERVED_SECONDS, gpu_uuid="MIG-a")
    assert {reason(node, signal, device=1) for signal in ("kernel", "sm")} == {"not_supported"}


@pytest.mark.parametrize(
    "nonsense", [9223372036854775794, (1 << 64) - 1, 4294967295.0, 129.0, -1.0, "nan"]
)
def test_case_04_nonsense_is_dropped_and_counted_and_never_zero(machine, nonsense):
    """9223372036854776000 % (gpu-monitoring-tools#152), 1.29 on MIG (DCGM#152)."""
    node = machine(rich_gpu(util_gpu=50.0, gpm={1: 70.0, 2: nonsense}))
    node.run(6)
    assert get_one(node, m.DEVICE_ACTIVITY_RATIO, signal="sm") is None
    assert get_one(node, m.DEVICE_ACTIVE_SECONDS, signal="sm") is None
    assert reason(node, "sm") == "invalid_value"
    assert get_one(node, m.DEVICE_INVALID_VALUES, signal="sm") == 5.0
    assert get_one(node, m.DEVICE_ACTIVITY_RATIO, signal="graphics") == pytest.approx(0.7)


def test_case_05_counters_that_stand_at_0_on_a_busy_gpu_are_unknown(machine):
    """After Xid 31 the profiling counters stayed at 0 while utilisation was high (DCGM#303)."""
    node = machine(rich_gpu(util_gpu=98.0))
    node.run(11)
    before = get_one(node, m.DEVICE_OBSERVED_SECONDS, signal="sm")
    gpu = node.driver.gpus[0]
    gpu.gpm = dict.fromkeys(gpu.gpm, 0.0)
    gpu.events.append(FakeEvent(31))
    node.driver.write()
    node.run(10)
    assert get_one(node, m.DEVICE_OBSERVED_SECONDS, signal="sm") <= before + 1.0
    assert reason(node, "sm") == "contradicted"
    assert get_one(node, m.DEVICE_ACTIVITY_RATIO, signal="kernel") == pytest.approx(0.98)


def test_case_06_xids_are_counted_by_code_with_their_last_time(machine):
    """A gauge of the last Xid hid repeats and never went back (dcgm-exporter#500, #190)."""
    node = machine(a100())
    node.run(2)
    for codes in ((31, 31), (31, 94)):
        node.driver.gpus[0].events += [FakeEvent(code) for code in codes]
        node.driver.write()
        node.run(1)
    assert get_one(node, m.DEVICE_XID_ERRORS, xid="31") == 3.0
    assert get_one(node, m.DEVICE_XID_ERRORS, xid="94") == 1.0
    assert get_one(node, m.DEVICE_XID_LAST, xid="31") == node.at
    node.run(20)
    assert get_one(node, m.DEVICE_XID_LAST, xid="31") == node.at - 20.0


def test_case_07_a_gpu_off_the_bus_is_down_and_counted_and_the_others_go_on(machine):
    """Its series vanished, or all stopped (dcgm-exporter#348, #164)."""
    node = machine(a100(), a100(util_gpu=50.0))
    lost, well = (gpu.uuid for gpu in node.driver.gpus)
    node.run(11)
    node.driver.faults[("*", 0)] = {"error": 15}
    node.driver.write()
    node.run(5)
    node.discover()
    node.run(5)
    assert get_one(node, m.DEVICE_UP, gpu_uuid=lost) == 0.0
    assert get_one(node, m.DEVICE_UP, gpu_uuid=well) == 1.0
    assert get_one(node, m.EXPORTER_DEVICES, state="expected") == 2.0
    assert get_one(node, m.EXPORTER_DEVICES, state="present") == 1.0
    seconds = {
        uuid: get_one(node, m.DEVICE_OBSERVED_SECONDS, signal="kernel", gpu_uuid=uuid)
        for uuid in (lost, well)
    }
    assert seconds == {lost: pytest.approx(10.0), well: pytest.approx(20.0)}


def test_case_09_a_kubelet_that_restarts_costs_no_label_for_a_bounded_time():
    """Labels went missing for a while (dcgm-exporter#342)."""
    source = StubAllocations((holds("a"),))

    def gone():
        raise AllocationError("unavailable", "the socket is gone")

    with running(StubBackend(), source) as sampler:
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED) == 1.0)
        source.before = gone
        eventually(lambda: errors(sampler, "kubelet", "unavailable") >= 3)
        assert value(sampler, m.CONTAINER_ALLOCATED) == 1.0
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED) is None)
        assert errors(sampler, "kubelet", "stale_dropped") == 1.0
        source.before = lambda: None
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED) == 1.0)


def test_case_10_an_ended_pod_loses_its_allocation_at_once_and_all_else_after_its_linger(machine):
    """Ended pods kept their series for ever (dcgm-exporter#140)."""
    node = machine(a100(util_gpu=50.0), settings=AccountingSettings(linger_seconds=180.0))
    node.hold(held("train", node.driver.gpus[0].uuid))
    node.run(11)
    node.hold()
    assert get_one(node, m.CONTAINER_ALLOCATED) is None
    kept = get_one(node, m.CONTAINER_ACTIVE_SECONDS, signal="kernel")
    assert kept == pytest.approx(5.0, abs=0.6)
    node.run(100)
    node.hold()
    assert get_one(node, m.CONTAINER_ACTIVE_SECONDS, signal="kernel") == kept
    node.run(81)
    node.hold()
    assert "gputailor_container_" not in node.page()


@pytest.mark.parametrize("how", ["not_found", "success"])
def test_case_11_empty_process_samples_of_a_busy_gpu_are_unknown_not_0(machine, how):
    """On Blackwell use per process came back empty and was shown as a sure 0 (HAMi#2015)."""
    processes = [FakeProcess(100, sm=60.0), FakeProcess(101, sm=30.0)]
    node, everyone = time_sliced(
        machine, "a", "b", processes=processes, util_gpu=90.0, process_samples=how
    )
    node.run(11, everyone)
    assert not samples(node.snapshot(), m.CONTAINER_ACTIVE_SECONDS)
    assert not samples(node.snapshot(), m.CONTAINER_OBSERVED_SECONDS)
    assert reason(node, "process_utilization") == "no_samples"
    assert get_one(node, m.DEVICE_UNATTRIBUTED_ACTIVE_SECONDS, signal="kernel") == pytest.approx(
        9.0
    )


def test_case_12_a_buffer_that_ran_dry_on_an_idle_gpu_is_measured_as_idle(machine):
    """It looked like a dead agent (gpu-metrics-agent#37)."""
    node = machine(a100(util_gpu=0.0))
    node.run(5)
    node.driver.gpus[0].samples_stop = node.at
    node.driver.write()
    node.run(30)
    assert get_one(node, m.DEVICE_OBSERVED_SECONDS, signal="kernel") == pytest.approx(34.0, abs=2.0)
    assert get_one(node, m.DEVICE_ACTIVE_SECONDS, signal="kernel") == 0.0
    assert reason(node, "kernel") is None


@pytest.mark.parametrize("scrape_seconds", [5, 15, 30, 60])
def test_case_13_one_second_on_one_second_off_is_one_half_at_any_scrape(machine, scrape_seconds):
    """It read 0 or 100 (nvidia_gpu_prometheus_exporter#12)."""
    node = machine(a100(util_gpu=square(1.0, 1.0)))
    node.hold(held("bursty", node.driver.gpus[0].uuid))
    node.run(10)

    def scraped():
        return [
            get_one(node, family, signal="kernel")
            for family in (m.CONTAINER_ACTIVE_SECONDS, m.CONTAINER_OBSERVED_SECONDS)
        ]

    before = scraped()
    node.run(2 * scrape_seconds)
    rise = [now - then for now, then in zip(scraped(), before, strict=True)]
    assert rise[0] / rise[1] == pytest.approx(0.5, abs=0.02)


def test_case_16_memory_that_the_driver_reserves_is_not_in_use(machine):
    """Version 1 of the call said 912 MB where 8 MB were in use."""
    node = machine(a100(memory_used=8 << 20, memory_reserved=904 << 20))
    node.run(1)
    assert get_one(node, m.DEVICE_MEMORY_USED) == 8 << 20
    assert get_one(node, m.DEVICE_MEMORY_RESERVED) == 904 << 20
    assert get_one(node, m.DEVICE_MEMORY_TOTAL) == 80 * GIB


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain;version=0.0.4", "text/plain; version=0.0.4; charset=utf-8"),
        (
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
    ],
)
def test_case_39_the_content_type_is_exact(accept, expected):
    """Prometheus 3 refused the scrape (xpumanager#93)."""
    with serving(FixedSource()) as server:
        status, headers, _ = get(server, Accept=accept)
    assert status == 200
    assert headers["Content-Type"] == expected


def test_every_signal_of_the_contract_that_is_unknown_is_absent_not_0(machine):
    node = machine(a100(util_gpu=None, util_memory=None, util_encoder=None, util_decoder=None))
    node.run(5)
    for signal in Signal:
        assert get_one(node, m.DEVICE_ACTIVE_SECONDS, signal=signal) is None
        assert reason(node, signal) is not None
