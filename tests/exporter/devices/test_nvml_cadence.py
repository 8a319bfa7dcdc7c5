"""What is asked of the driver seldom, and that nothing is lost by it."""

import ctypes
import math
from collections import Counter

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_exporter.devices import nvml_lists
from gputailor_exporter.devices.base import PcieLink, Reason
from gputailor_exporter.devices.nvml_activity import EMPTY_SECONDS, UNWANTED_SECONDS
from gputailor_exporter.devices.nvml_gauges import GAUGE_SECONDS
from gputailor_exporter.devices.nvml_lists import MOST_ROWS, Room
from gputailor_exporter.metrics import Signal
from tests.fakes.nvml import FakeProcess, square


def test_a_codec_that_rests_is_read_seldom_and_none_of_its_seconds_is_lost(rig):
    rig.add(util_encoder=0.0)
    device = rig.device()
    rig.second(device)
    rig.step(device)
    assert rig.step(device).signals[Signal.ENCODER].covers_seconds == 0.0
    start = rig.driver.now
    rig.change(util_encoder=square(2.0, 1.0, 50.0))
    active = asked = 0
    for _ in range(30):
        reading = rig.step(device).signals[Signal.ENCODER]
        active += reading.value * reading.covers_seconds
        if reading.covers_seconds:
            asked, until = asked + 1, rig.driver.now
    assert asked < 20
    told = rig.driver.integral("gpu.0.util.encoder", start, until) / 100
    assert active == pytest.approx(told, abs=0.1)


def test_kernel_activity_is_read_at_each_step_also_while_it_rests(rig):
    rig.add(util_gpu=0.0)
    device = rig.device()
    rig.second(device)
    for _ in range(5):
        assert rig.step(device).signals[Signal.KERNEL].covers_seconds == pytest.approx(1.0, abs=0.2)


def test_clocks_and_temperature_are_at_most_five_seconds_old(rig):
    rig.add(clocks_mhz={"sm": 1000}, temperature_gpu=40)
    device = rig.device()
    rig.step(device)
    rig.change(clocks_mhz={"sm": 2000}, temperature_gpu=70)
    young = rig.step(device)
    old = rig.step(device, GAUGE_SECONDS)
    assert (young.clocks_hertz["sm"], young.temperatures_celsius["gpu"]) == (1e9, 40)
    assert (old.clocks_hertz["sm"], old.temperatures_celsius["gpu"]) == (2e9, 70)


def test_a_clock_that_cannot_be_read_has_its_reason_in_every_reading(rig):
    rig.add(clocks_mhz={"sm": 1000})
    device = rig.device()
    assert all("clock_video" in rig.step(device).unavailable for _ in range(3))


def test_a_pcie_link_that_sleeps_is_seen_to_wake_at_once(rig):
    rig.add(pcie_generation=1)
    device = rig.device()
    rig.second(device)
    rig.change(pcie_generation=4)
    assert rig.step(device).pcie_link == PcieLink(4, 4, 16, 16)


def test_a_pcie_link_that_became_slower_is_seen_within_five_seconds(rig):
    rig.add()
    device = rig.device()
    rig.second(device)
    rig.change(pcie_width=8)
    assert rig.step(device).pcie_link == PcieLink(4, 4, 16, 16)
    assert rig.step(device, GAUGE_SECONDS).pcie_link == PcieLink(4, 4, 8, 16)


@pytest.mark.parametrize("kind", ["graphics", "mps"])
def test_a_new_graphics_or_mps_process_is_known_at_once_and_its_memory_soon(rig, kind):
    rig.add(util_gpu=50.0)
    device = rig.device()
    rig.second(device)
    rig.change(processes=[FakeProcess(42, memory=1 << 30, kind=kind, sm=50.0)])
    (first,) = rig.step(device).processes
    assert (first.pid, first.memory_used_bytes) == (42, None)
    (later,) = rig.step(device, EMPTY_SECONDS).processes
    assert (later.pid, later.memory_used_bytes) == (42, 1 << 30)


def test_memory_copies_are_told_seldom_and_none_of_their_seconds_is_lost(rig):
    rig.add(util_memory=square(2.0, 1.0, 50.0))
    device = rig.device()
    rig.second(device)
    start, until = rig.driver.now, rig.driver.now
    active, told = 0.0, 0
    for _ in range(32):
        reading = rig.step(device).signals[Signal.MEMCOPY]
        active += reading.value * reading.covers_seconds
        if reading.covers_seconds:
            told, until = told + 1, rig.driver.now
    assert told <= 9
    expected = rig.driver.integral("gpu.0.util.memory", start, until) / 100
    assert active == pytest.approx(expected, abs=0.3)


@pytest.mark.parametrize(("energy", "told"), [(True, [100.0, 300.0]), (False, [300.0, 300.0])])
def test_power_is_read_seldom_where_the_driver_counts_energy_itself(rig, energy, told):
    rig.add(power_watts=100.0, energy=energy)
    device = rig.device()
    rig.second(device)
    rig.change(power_watts=300.0)
    assert [rig.step(device, s).power_watts for s in (1.0, GAUGE_SECONDS)] == told


LISTS = ("Compute", "Graphics", "MPSCompute")


def listed(asked):
    """How often processes were listed and asked for their utilisation."""
    names = [f"nvmlDeviceGet{kind}RunningProcesses_v3" for kind in LISTS]
    return sum(asked[name] for name in (*names, "nvmlDeviceGetProcessUtilization"))


@pytest.fixture
def asked(monkeypatch):
    """Counts the lists that are asked for, which go past the binding's own functions."""
    found = Counter()
    symbol = nvml_lists._symbol

    def counting(name):
        found[name] += 1
        return symbol(name)

    monkeypatch.setattr(nvml_lists, "_symbol", counting)
    return found


def test_processes_that_nobody_wants_are_looked_for_seldom(rig, asked):
    rig.add(processes=[FakeProcess(42, sm=50.0)], util_gpu=50.0)
    device = rig.device()
    rig.second(device)
    rig.backend.want_processes(frozenset())
    asked.clear()
    found = [rig.step(device).processes for _ in range(int(UNWANTED_SECONDS))]
    assert [one is None for one in found] == [True] * (len(found) - 1) + [False]
    assert listed(asked) <= 4


def test_why_processes_cannot_be_read_stays_known_while_they_are_not_looked_for(rig):
    rig.add()
    device = rig.device()
    refused = pynvml.NVML_ERROR_NO_PERMISSION
    rig.fault("nvmlDeviceGetComputeRunningProcesses_v3", error=refused)
    rig.step(device)
    rig.backend.want_processes(frozenset())
    assert rig.step(device).unavailable["processes"] is Reason.NO_PERMISSION


def test_processes_that_are_wanted_again_are_read_each_cycle_and_of_that_cycle_alone(rig):
    rig.add(processes=[FakeProcess(42, sm=80.0)], util_gpu=80.0)
    device = rig.device()
    rig.backend.want_processes(frozenset({"another"}))
    rig.second(device)
    rig.step(device, 7.0)
    rig.change(processes=[FakeProcess(42, sm=20.0)], util_gpu=20.0)
    rig.backend.want_processes(frozenset({device.uuid}))
    for _ in range(3):
        reading = rig.step(device)
        assert reading.process_utilization_known
    (process,) = reading.processes
    assert process.kernel == pytest.approx(0.2, abs=0.01)


def test_after_a_pause_a_process_is_credited_with_its_last_second_not_with_the_pause(rig):
    rig.add(processes=[FakeProcess(42, sm=80.0)], util_gpu=80.0)
    device = rig.device()
    rig.second(device)
    rig.backend.want_processes(frozenset())
    rig.step(device, 8.0)
    rig.change(processes=[FakeProcess(42, sm=20.0)], util_gpu=20.0)
    rig.step(device)
    rig.backend.want_processes(frozenset({device.uuid}))
    (process,) = rig.step(device).processes
    assert process.kernel == pytest.approx(0.2, abs=0.01)


def test_a_long_interval_is_told_of_a_process_as_a_whole(rig):
    rig.add(processes=[FakeProcess(42, sm=80.0)], util_gpu=80.0)
    device = rig.device()
    rig.second(device)
    rig.step(device, 6.0)
    rig.driver.now += 5.0
    rig.change(processes=[FakeProcess(42, sm=20.0)], util_gpu=20.0)
    (process,) = rig.step(device, 1.0).processes
    assert process.kernel == pytest.approx((5 * 0.8 + 0.2) / 6, abs=0.05)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (pynvml.NVML_VALUE_TYPE_DOUBLE, "dVal", 12.5),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, "uiVal", 0xFFFFFFFF),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG, "ulVal", 1 << 40),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, "ullVal", 1 << 63),
        (pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG, "sllVal", -5),
        (pynvml.NVML_VALUE_TYPE_SIGNED_INT, "siVal", -7),
        (pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT, "usVal", 0xFFFF),
        (99, "uiVal", None),
    ],
)
def test_samples_are_read_by_the_type_of_their_values(monkeypatch, kind, field, value):
    def samples(_handle, _kind, _since, value_type, count, rows):
        value_type._obj.value, room, count._obj.value = kind, count._obj.value, 2
        if rows is not None and room >= 2:
            for place in range(2):
                rows[place].timeStamp = 1000 + place
                rows[place].sampleValue.ullVal = (1 << 64) - 1  # what lies behind a short value
                setattr(rows[place].sampleValue, field, value or 0)
        return pynvml.NVML_SUCCESS

    monkeypatch.setattr(nvml_lists, "_symbol", lambda _: samples)
    told = nvml_lists.Lists().samples(None, 1, 0)
    assert [when for when, _ in told] == [1000, 1001]
    assert all(math.isnan(number) if value is None else number == value for _, number in told)


class Row(ctypes.Structure):
    _fields_ = (("number", ctypes.c_uint),)


class Driver:
    """A list of the driver: tells its length where there is no room, fills it where there is."""

    def __init__(self):
        self.rows, self.asked, self.size_is_success = [], 0, False

    def __call__(self, count, rows):
        self.asked += 1
        told, room = count, count.value
        told.value = len(self.rows)
        if rows is None and self.size_is_success:
            return pynvml.NVML_SUCCESS
        if len(self.rows) > room:
            return pynvml.NVML_ERROR_INSUFFICIENT_SIZE
        for place, number in enumerate(self.rows):
            rows[place].number = number
        return pynvml.NVML_SUCCESS


@pytest.fixture
def driver():
    return Driver()


@pytest.mark.parametrize("size_is_success", [False, True])
def test_a_list_is_asked_for_once_when_there_is_room(driver, size_is_success):
    driver.rows, driver.size_is_success = [1, 2, 3], size_is_success
    room = Room(Row)
    assert [row.number for row in room.fill(driver)] == [1, 2, 3]
    driver.asked, driver.rows = 0, [4, 5, 6, 7]
    assert [row.number for row in room.fill(driver)] == [4, 5, 6, 7]
    assert driver.asked == 1


@given(lengths=st.lists(st.integers(0, 300), min_size=1, max_size=20))
def test_whatever_a_lists_length_each_row_comes_once(lengths):
    driver, room = Driver(), Room(Row)
    for length in lengths:
        driver.rows = list(range(length))
        assert [row.number for row in room.fill(driver)] == driver.rows


def test_an_error_is_raised_as_it_is():
    with pytest.raises(pynvml.NVMLError_NotFound):
        Room(Row).fill(lambda count, rows: pynvml.NVML_ERROR_NOT_FOUND)


def test_a_driver_that_never_has_room_enough_does_not_eat_the_nodes_memory():
    room = Room(Row)
    for _ in range(30):
        with pytest.raises(pynvml.NVMLError):
            room.fill(lambda count, rows: pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
    assert len(room._rows) <= MOST_ROWS
