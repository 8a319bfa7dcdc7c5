"""The simulated back end keeps a driver's counters and tells what the scenario says."""

from pathlib import Path

import pytest

from gputailor_exporter.devices.base import DeviceError
from gputailor_exporter.devices.simulated import (
    ScenarioAllocations,
    ScenarioAttribution,
    SimulatedBackend,
)
from gputailor_exporter.metrics import Signal
from gputailor_exporter.scenarios.scenario import load

SMALL = Path(__file__).resolve().parents[2] / "fakes" / "scenarios" / "small.yaml"
NOW = 1_764_590_400.0


@pytest.fixture(scope="module")
def scenario():
    return load(SMALL, NOW)


class Clock:
    def __init__(self, at):
        self.at = at

    def __call__(self):
        return self.at


@pytest.fixture
def clock():
    return Clock(NOW - 6000)


@pytest.fixture
def backend(scenario, clock):
    made = SimulatedBackend(scenario, "node-a", clock)
    made.open()
    yield made
    made.close()


def test_an_unknown_node_is_refused_with_those_there_are(scenario):
    with pytest.raises(DeviceError, match=r"node-x.*node-a, node-b"):
        SimulatedBackend(scenario, "node-x", Clock(NOW))


def test_the_devices_are_the_nodes_with_instances_after_their_parent(backend):
    devices = backend.devices()
    assert backend.expected() == 4
    assert [one.mig_profile for one in devices] == ["", "", "", "3g.40gb", "1g.10gb", ""]
    assert devices[3].parent_uuid == devices[2].uuid
    assert devices[2].mig_enabled


def test_a_reading_carries_the_callers_monotonic_time(backend):
    assert backend.read(backend.devices()[0], 12.5).at == 12.5


def test_a_reading_is_the_mean_since_the_previous_one(backend, clock):
    device = backend.devices()[0]
    assert backend.read(device, 0.0).signals[Signal.SM].covers_seconds == 1.0
    clock.at += 5
    second = backend.read(device, 5.0)
    assert second.signals[Signal.SM].covers_seconds == 5.0
    assert second.signals[Signal.SM].value == pytest.approx(0.5)


def test_energy_and_bytes_rise_with_time_as_a_drivers_counters(backend, clock):
    device = backend.devices()[0]
    first = backend.read(device, 0.0)
    clock.at += 100
    second = backend.read(device, 100.0)
    assert second.energy_joules - first.energy_joules == pytest.approx(second.power_watts * 100)
    assert second.pcie_bytes["rx"] - first.pcie_bytes["rx"] == pytest.approx(100 * 100e6, rel=1e-6)
    assert second.nvlink_bytes["tx"] - first.nvlink_bytes["tx"] == pytest.approx(1e11, rel=1e-6)


def test_a_clock_that_stands_still_or_falls_back_breaks_nothing(backend, clock):
    device = backend.devices()[0]
    backend.read(device, 0.0)
    again = backend.read(device, 0.0)
    clock.at -= 50
    assert backend.read(device, 1.0).energy_joules >= again.energy_joules


def test_a_lost_device_raises_and_comes_back(backend, clock):
    device = backend.devices()[1]
    clock.at = NOW - 60
    with pytest.raises(DeviceError):
        backend.read(device, 0.0)
    clock.at = NOW + 60
    assert backend.read(device, 120.0).signals


def test_there_are_no_xid_events(backend):
    assert backend.wait_events(0.0) == ()


def test_allocations_are_those_of_the_devices_asked_for(scenario, backend, clock):
    source = ScenarioAllocations(scenario, "node-a", clock)
    assert source.allocations((), 0.0) == ()
    assert {one.gpu_uuid for one in source.allocations(backend.devices()[:2], 0.0)} == {
        one.uuid for one in backend.devices()[:2]
    }
    source.close()


def test_processes_lead_to_their_containers(scenario, backend):
    attribution = ScenarioAttribution(scenario, "node-a")
    reading = backend.read(backend.devices()[5], 0.0)
    owners = [attribution.owner(process.pid) for process in reading.processes]
    assert {owner.pod.rpartition("-")[0].partition("-")[0] for owner in owners if owner} == {
        "sharer"
    }
    assert owners.count(None) == 1
    assert attribution.owner(1) is None
