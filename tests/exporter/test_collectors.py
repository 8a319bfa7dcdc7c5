"""What is off is not asked, not published and not unavailable; every optional family has a switch."""

import pytest

from gputailor_exporter import collectors
from gputailor_exporter import metrics as m
from gputailor_exporter.collectors import COLLECTORS
from gputailor_exporter.devices.base import Reason
from gputailor_exporter.devices.nvml_gpm import SIGNALS
from tests.exporter.devices.calls import counted_calls
from tests.exporter.fake_nodes import FakeNode, rich_gpu, sample_names
from tests.fakes.fixtures import fake_driver, fake_nvml_library, preloaded_nvml
from tests.fakes.nvml import FakeEvent, FakeGpu

__all__ = ["fake_driver", "fake_nvml_library", "preloaded_nvml"]

ALL = frozenset(one.name for one in COLLECTORS)

#: Families that no switch turns off: without them nothing is left to look at.
CORE = {
    m.DEVICE_INFO,
    m.DEVICE_UP,
    m.DEVICE_INVALID_VALUES,
    m.DEVICE_ACTIVE_SECONDS,
    m.DEVICE_OBSERVED_SECONDS,
    m.DEVICE_ACTIVITY_RATIO,
    m.DEVICE_MEMORY_TOTAL,
    m.DEVICE_MEMORY_USED,
    m.DEVICE_MEMORY_RESERVED,
    m.DEVICE_POWER,
    m.DEVICE_POWER_LIMIT,
    m.DEVICE_POWER_LIMIT_DEFAULT,
    m.DEVICE_POWER_LIMIT_MAX,
    m.DEVICE_ENERGY,
    m.DEVICE_ENERGY_SOURCE,
    m.DEVICE_UNATTRIBUTED_ACTIVE_SECONDS,
    m.DEVICE_UNATTRIBUTED_MEMORY,
    m.DEVICE_UNATTRIBUTED_ENERGY,
}

#: What each collector that has families is told by on a card that tells everything.
DRIVER_COLLECTORS = sorted(ALL - {"histogram"})


@pytest.fixture
def node(preloaded_nvml, tmp_path):
    opened = []

    def make(gpu, on=ALL):
        if not preloaded_nvml.gpus:
            preloaded_nvml.add(gpu)
        opened.append(FakeNode(preloaded_nvml, tmp_path, on=on))
        opened[-1].discover()
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def everything():
    """A card of no real make: with row remapping, retired pages and fans at once."""
    return rich_gpu(retired_pages=(1, 0, 0), fan=40)


def test_every_optional_family_of_a_device_belongs_to_one_collector():
    owned = [family for one in COLLECTORS for family in one.families]
    assert len(owned) == len(set(owned))
    devices = {family for family in m.FAMILIES if family.name.startswith("gputailor_device_")}
    assert devices - CORE == {family for family in owned if family in devices}
    assert not CORE & set(owned)


def test_names_are_unique_and_only_the_serial_number_is_off_unasked():
    assert len(ALL) == len(COLLECTORS)
    assert frozenset({"serial"}) == ALL - collectors.DEFAULT


@pytest.mark.parametrize("name", DRIVER_COLLECTORS)
def test_a_collector_that_is_off_is_not_asked_not_published_and_not_unavailable(
    node, monkeypatch, name
):
    asked = counted_calls(monkeypatch)

    def run(on):
        asked.clear()
        made = node(everything(), on)
        made.driver.gpus[0].events.append(FakeEvent(31))
        made.driver.write()
        made.run(3)
        return made, dict(asked), made.page()

    whole, calls_with, page_with = run(ALL)
    part, calls_without, page_without = run(ALL - {name})
    assert sum(calls_without.values()) < sum(calls_with.values())
    families = {f.name for one in COLLECTORS if one.name == name for f in one.families}
    assert families <= sample_names(page_with)
    assert not families & sample_names(page_without)
    assert sample_names(page_with) - sample_names(page_without) == families
    uuid = whole.devices[0].uuid
    assert part.readings[uuid].unavailable.keys() <= whole.readings[uuid].unavailable.keys()


def test_a_card_that_tells_nothing_lists_nothing_of_what_is_off(node):
    poor = FakeGpu(util_gpu=None, energy=False, ecc=False, remapped_rows=None, persistence=None)
    made = node(poor, frozenset()).run(2)
    (reading,) = made.readings.values()
    assert set(reading.unavailable) <= {
        "kernel",
        "energy",
        "power_limit_default",
        "power_limit_max",
        "process_utilization",
        "process_memory",
    }


def test_without_gpm_no_gpm_signal_is_read_or_missed_also_on_the_parent_of_slices(node):
    made = node(rich_gpu(mig_mode=1), ALL - {"gpm"}).run(2)
    (reading,) = made.readings.values()
    assert not set(SIGNALS.values()) & reading.unavailable.keys()
    assert reading.unavailable[m.Signal.KERNEL] is Reason.NOT_SUPPORTED


def test_without_xid_no_event_is_asked_for(node, monkeypatch):
    asked = counted_calls(monkeypatch)
    made = node(FakeGpu(), ALL - {"xid"})
    made.driver.gpus[0].events = [FakeEvent(31)]
    made.driver.write()
    assert made.backend.wait_events(0.01) == ()
    assert not any("Event" in name for name in asked)
