"""What is asked of the driver seldom, and that nothing is lost by it."""

import ctypes

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_exporter.devices.base import PcieLink
from gputailor_exporter.devices.nvml_activity import EMPTY_SECONDS
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


class Row(ctypes.Structure):
    _fields_ = (("number", ctypes.c_uint),)


class Driver:
    """A list of the driver: tells its length where there is no room, fills it where there is."""

    def __init__(self):
        self.rows, self.asked, self.size_is_success = [], 0, False

    def __call__(self, count, rows):
        self.asked += 1
        told, room = count._obj, count._obj.value
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
