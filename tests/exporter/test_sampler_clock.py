"""The running sampler while its clocks are set and its machine sleeps."""

import time

import pytest

from gputailor_exporter import metrics as m
from gputailor_exporter.devices.base import XidEvent
from gputailor_exporter.sampling.timekeeping import Clock, since_boot
from tests.exporter.machines import holds
from tests.exporter.running_sampler import errors, observed, running, value
from tests.exporter.stubs import Gate, StubAllocations, StubBackend, eventually, half_busy

HOUR = 3600.0


class Shifted:
    """The machine's clocks, moved by a test."""

    def __init__(self):
        self.wall = self.boot = 0.0
        self.clock = Clock(lambda: since_boot() + self.boot, lambda: time.time() + self.wall)


@pytest.fixture
def shifted():
    return Shifted()


def ages(sampler, shifted):
    """How long ago things happened, for who reads the page with the clock as it is now."""
    now = time.time() + shifted.wall
    found = {
        "source": value(sampler, m.EXPORTER_LAST_SUCCESS, source="discovery"),
        "device": value(sampler, m.EXPORTER_DEVICE_LAST_SUCCESS, gpu_uuid="GPU-a"),
        "active": value(sampler, m.CONTAINER_LAST_ACTIVE, pod="a"),
        "xid": value(sampler, m.DEVICE_XID_LAST, xid="79"),
    }
    return {name: now - at for name, at in found.items()}


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_past_events_keep_their_age_when_the_wall_clock_is_set(shifted, step):
    backend, source = StubBackend(), StubAllocations((holds("a"),))
    with running(backend, source, clock=shifted.clock) as sampler:
        eventually(lambda: value(sampler, m.CONTAINER_LAST_ACTIVE, pod="a"))
        backend.events = [XidEvent("GPU-a", 79, time.time())]
        eventually(lambda: value(sampler, m.DEVICE_XID_LAST, xid="79"))
        began = value(sampler, m.PROCESS_START_TIME)
        gate = Gate()
        backend.answer = lambda device, at: gate.wait() or half_busy(device, at)
        eventually(lambda: value(sampler, m.DEVICE_UP) == 0.0)
        before = ages(sampler, shifted)
        assert all(0.0 <= age < 5.0 for age in before.values())
        shifted.wall = step
        after = ages(sampler, shifted)
        assert after == pytest.approx(before, abs=2.0)
        assert value(sampler, m.PROCESS_START_TIME) == began
        assert errors(sampler, "watchdog", "stood_still") == 0.0
        gate.open()


def test_an_xid_that_is_told_after_the_clock_was_set_has_the_new_clocks_time(shifted):
    backend = StubBackend()
    with running(backend, clock=shifted.clock) as sampler:
        eventually(lambda: sampler.ready)
        shifted.wall = HOUR
        backend.events = [XidEvent("GPU-a", 79, time.time() + HOUR)]
        eventually(lambda: value(sampler, m.DEVICE_XID_LAST, xid="79"))
        told = value(sampler, m.DEVICE_XID_LAST, xid="79")
        assert told == pytest.approx(time.time() + HOUR, abs=5.0)


def test_a_machine_that_slept_judges_nobody_by_the_time_it_missed(shifted):
    backend, source = StubBackend(), StubAllocations((holds("a"),))
    gate = Gate()
    with running(backend, source, clock=shifted.clock) as sampler:
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED, pod="a") == 1.0)
        source.before = gate.wait  # so that only the watchdog can judge the allocations
        gate.entered.wait(5)
        before = observed(sampler)
        shifted.boot = shifted.wall = HOUR
        eventually(lambda: errors(sampler, "watchdog", "stood_still") == 1.0)
        assert value(sampler, m.CONTAINER_ALLOCATED, pod="a") == 1.0
        assert errors(sampler, "kubelet", "stale_dropped") == 0.0
        eventually(lambda: observed(sampler) > before + 0.1)
        assert observed(sampler) < before + 60.0
        assert value(sampler, m.DEVICE_UP) == 1.0
        gate.open()
