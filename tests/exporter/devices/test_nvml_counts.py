"""A count of the driver that cannot be is unknown, with a reason, and never the length of a loop."""

import pynvml
import pytest

from gputailor_exporter.devices.base import DeviceError, Reason
from gputailor_exporter.devices.nvml_counts import MOST_EVENTS, ImpossibleCount, counted
from gputailor_exporter.metrics import Signal
from tests.exporter.devices.calls import counted_calls
from tests.exporter.fake_nodes import rich_gpu
from tests.fakes.nvml import FakeMig, FakeProcess

#: Blanks of 32 bits, unsigned and signed, and a number that merely is too large.
IMPOSSIBLE = (0xFFFFFFFF, 0x7FFFFFFF, 1 << 20)

impossible = pytest.mark.parametrize("count", IMPOSSIBLE, ids=hex)


@pytest.mark.parametrize("answer", [*IMPOSSIBLE, -1, float("nan"), 0x7FFFFFFFFFFFFFF2])
def test_a_number_beyond_what_can_be_is_no_count(answer):
    with pytest.raises(ImpossibleCount, match="GPUs"):
        counted("GPUs", answer, 256)


@pytest.mark.parametrize("answer", [0, 8, 256])
def test_a_number_that_can_be_is_a_count(answer):
    assert counted("GPUs", answer, 256) == answer


@impossible
def test_a_node_of_impossibly_many_gpus_fails_with_its_reason(rig, monkeypatch, count):
    rig.add()
    assert rig.backend.expected() == 1
    rig.driver.counts["nvmlDeviceGetCount_v2", -1] = count
    rig.driver.write()
    asked = counted_calls(monkeypatch)
    with pytest.raises(DeviceError, match=r"nvmlDeviceGetCount: the driver counts .* GPUs") as told:
        rig.backend.devices()
    assert told.value.reason is Reason.INVALID_VALUE
    assert asked["nvmlDeviceGetHandleByIndex"] == 0
    assert rig.backend.expected() == 1


@impossible
def test_mig_instances_are_found_whatever_their_count(rig, monkeypatch, count):
    rig.add(mig_mode=1, mig=[FakeMig("MIG-a", "GPU MIG 1g.10gb", gi=7)])
    rig.driver.raw["nvmlDeviceGetMaxMigDeviceCount", 0] = count
    rig.driver.write()
    asked = counted_calls(monkeypatch)
    assert [device.mig_enabled for device in rig.backend.devices()] == [True, False]
    assert asked["nvmlDeviceGetMigDeviceHandleByIndex"] <= 64


def busy(rig):
    gpu = rich_gpu(retired_pages=(1, 2, 0), processes=[FakeProcess(7, sm=50.0)])
    rig.driver.add(gpu)
    rig.driver.write()
    return rig.device()


#: List of the driver -> what is unknown where its length cannot be.
LISTS = {
    "nvmlDeviceGetComputeRunningProcesses_v3": "processes",
    "nvmlDeviceGetProcessUtilization": "process_utilization",
    "nvmlDeviceGetRetiredPages": "retired_pages",
}


@pytest.mark.parametrize("function", LISTS)
@impossible
def test_a_list_that_is_impossibly_long_is_unknown_and_costs_nothing_else(rig, function, count):
    device = busy(rig)
    rig.driver.counts[function, 0] = count
    rig.driver.write()
    reading = rig.second(device)
    assert reading.unavailable.get(LISTS[function]) is Reason.INVALID_VALUE
    others = set(LISTS.values()) - {LISTS[function]}
    assert not others & reading.unavailable.keys()
    assert reading.power_watts is not None


@impossible
def test_the_newer_list_of_process_utilization_is_bounded_too(rig, count):
    device = busy(rig)
    rig.fault("nvmlDeviceGetProcessUtilization", error=pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert rig.second(device).process_utilization_known
    rig.driver.counts["nvmlDeviceGetProcessesUtilizationInfo", 0] = count
    rig.driver.write()
    reading = rig.step(device)
    assert not reading.process_utilization_known
    assert reading.unavailable["process_utilization"] is Reason.INVALID_VALUE


@impossible
def test_where_samples_are_impossibly_many_the_rates_stand_in(rig, count):
    device = busy(rig)
    rig.driver.counts["nvmlDeviceGetSamples", 0] = count
    rig.driver.write()
    assert rig.second(device).signals[Signal.KERNEL].covers_seconds is None


@impossible
def test_links_that_are_impossibly_many_are_unknown(rig, count):
    device = busy(rig)
    rig.driver.raw_fields[pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 0] = count
    rig.driver.write()
    reading = rig.second(device)
    assert reading.unavailable["nvlinks"] is Reason.INVALID_VALUE
    assert reading.state.nvlinks_up == {}


def test_links_that_are_impossibly_many_leave_no_bytes_where_gpm_has_none(rig):
    rig.add(nvlink_links=4, nvlink_tx_bytes_per_second=1e9)
    rig.driver.raw_fields[pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 0] = 0xFFFFFFFF
    rig.driver.write()
    reading = rig.second(rig.device())
    assert reading.unavailable["nvlink_bytes"] is Reason.INVALID_VALUE
    assert reading.nvlink_bytes == {}


def test_events_without_end_are_taken_in_parts(rig, monkeypatch):
    rig.add()
    rig.backend.devices()
    event = pynvml.c_nvmlEventData_t()
    monkeypatch.setattr(pynvml, "nvmlEventSetWait_v2", lambda *_: event)
    assert rig.backend.wait_events(0.01) == ()  # of no device of ours
    asked = counted_calls(monkeypatch)
    rig.backend.wait_events(0.01)
    assert asked["nvmlEventSetWait_v2"] == MOST_EVENTS
