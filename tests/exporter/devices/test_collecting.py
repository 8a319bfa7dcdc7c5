"""Whatever back end reads: what is off is neither in its readings nor among what is missing."""

from dataclasses import replace

import pynvml
import pytest

from gputailor_exporter.collectors import COLLECTORS
from gputailor_exporter.devices.base import XidEvent
from gputailor_exporter.devices.collecting import Collected
from gputailor_exporter.lifecycle.assembly import assemble
from gputailor_exporter.options import parse_options
from gputailor_exporter.vocabulary import BASIC, PROFILED
from tests.exporter.fake_nodes import FakeNode, rich_gpu
from tests.exporter.machines import GPU
from tests.exporter.stubs import StubBackend
from tests.fakes.nvml import FakeDriver

ALL = frozenset(one.name for one in COLLECTORS)
#: What a reading carries; signals (gpm) are the back end's own, the rest is no part of a reading.
CARRIED = sorted(ALL - {"gpm", "xid", "histogram"})


def read_by_nvml(driver, folder, on, refused=None):
    """The third reading of a card that tells everything, or that refuses it all but power."""
    if not driver.gpus:
        driver.add(rich_gpu(retired_pages=(1, 0, 0), fan=40))
    driver.faults.clear()
    node = FakeNode(driver, folder, on=on)
    node.discover()
    if refused is not None:
        driver.faults["*", 0] = {"error": refused}
        driver.faults["nvmlDeviceGetPowerUsage", 0] = {"error": pynvml.NVML_SUCCESS}
        driver.write()
    (reading,) = node.run(3).readings.values()
    node.close()
    return reading


@pytest.mark.parametrize("name", CARRIED)
def test_what_is_taken_away_is_what_the_nvidia_back_end_leaves_out(
    preloaded_nvml: FakeDriver, tmp_path, name
):
    whole = read_by_nvml(preloaded_nvml, tmp_path, ALL)
    told = Collected(StubBackend(answer=lambda *_: whole), ALL - {name}).read(GPU, 0.0)
    assert told != whole
    assert told == read_by_nvml(preloaded_nvml, tmp_path, ALL - {name})


@pytest.mark.parametrize("name", CARRIED)
def test_what_is_off_is_not_missing_either(preloaded_nvml: FakeDriver, tmp_path, name):
    def missing(on):
        return read_by_nvml(preloaded_nvml, tmp_path, on, pynvml.NVML_ERROR_NO_PERMISSION)

    whole = missing(ALL)
    told = Collected(StubBackend(answer=lambda *_: whole), ALL - {name}).read(GPU, 0.0)
    assert told.unavailable.keys() < whole.unavailable.keys()
    assert told.unavailable == missing(ALL - {name}).unavailable


def test_a_reading_that_has_nothing_of_what_is_off_is_passed_on_as_it_is():
    bare = replace(StubBackend().read(GPU, 1.0))
    assert Collected(StubBackend(answer=lambda *_: bare), frozenset()).read(GPU, 1.0) is bare


@pytest.mark.parametrize(("on", "count"), [(ALL, 1), (ALL - {"xid"}, 0)])
def test_events_that_are_off_are_not_told(on, count):
    backend = Collected(StubBackend(events=[XidEvent("GPU-a", 31, 0.0)]), on)
    assert len(backend.wait_events(0.0)) == count


def simulated(*flags):
    arguments = ("--backend", "simulated", "--scenario", "demo", "--node", "h100-0")
    backend = assemble(parse_options((*arguments, *flags), {})).backend
    backend.open()
    device = next(one for one in backend.devices() if not one.mig_enabled)
    return backend.read(device, 1.0)


#: What the simulated node has of each collector.
SIMULATED = {
    "clocks": ("clocks_hertz", "clocks_max_hertz"),
    "temperature": ("temperatures_celsius",),
    "pcie": ("pcie_bytes", "pcie_link"),
    "throttle": ("throttle_reasons",),
}


@pytest.mark.parametrize("name", SIMULATED)
def test_the_simulated_node_honours_what_is_off(name):
    usual, without = simulated(), simulated(f"--collect.{name}=false")
    for field in SIMULATED[name]:
        assert getattr(usual, field) not in (None, {})
        assert not getattr(without, field)
    rest = {field for names in SIMULATED.values() for field in names} - set(SIMULATED[name])
    assert all(getattr(without, field) not in (None, {}) for field in rest)


def test_the_simulated_node_has_no_gpm_signals_where_gpm_is_off():
    usual, without = simulated(), simulated("--collect.gpm=false")
    assert usual.signals.keys() & PROFILED
    assert without.signals.keys() == usual.signals.keys() & BASIC
    assert not PROFILED & without.unavailable.keys()


@pytest.mark.parametrize("backend", ["amd", "drm", "auto"])
def test_the_other_back_ends_are_held_to_it_too(backend):
    assert isinstance(assemble(parse_options(("--backend", backend), {})).backend, Collected)
