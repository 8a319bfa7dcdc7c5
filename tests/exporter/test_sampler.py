"""The running sampler: beats, hangs, deaths, devices that come and go."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_exporter import metrics as m
from gputailor_exporter.devices.base import DeviceError, Reason, XidEvent
from gputailor_exporter.sampler import Sampler
from gputailor_exporter.sampling.timekeeping import Clock
from gputailor_exporter.sampling.worker import next_beat
from tests.exporter.machines import GPU, OTHER, SLICE
from tests.exporter.running_sampler import BEAT, errors, observed, running, settings, value
from tests.exporter.stubs import Gate, StubAllocations, StubBackend, eventually, half_busy


@given(
    due=st.floats(0, 1e6),
    late=st.floats(0, 100),
    interval=st.sampled_from([0.05, 1.0, 60.0]),
)
def test_the_next_beat_is_on_the_grid_after_now_and_never_further_than_one_interval(
    due, late, interval
):
    now = due + late
    following = next_beat(due, now, interval)
    assert now - 1e-6 <= following <= now + interval + 1e-6
    beats = (following - due) / interval
    assert beats == pytest.approx(round(beats), abs=1e-4)


def test_a_slow_read_is_followed_by_no_burst():
    backend, first = StubBackend(), []

    def slow_once(device, at):
        if len(backend.reads) == 3:
            time.sleep(BEAT * 5.5)
            first.append(at)
        return half_busy(device, at)

    backend.answer = slow_once
    with running(backend):
        eventually(lambda: len(backend.reads) >= 12)
    gaps = [after - before for before, after in pairwise(backend.reads)]
    assert first
    assert len([gap for gap in gaps if gap < BEAT * 0.2]) <= 1


def test_devices_are_read_on_and_counted():
    with running(StubBackend()) as sampler:
        eventually(lambda: observed(sampler) > 5 * BEAT)
        active = value(sampler, m.DEVICE_ACTIVE_SECONDS, signal="kernel")
        assert active == pytest.approx(0.5 * observed(sampler), rel=0.5)
        assert value(sampler, m.EXPORTER_LAST_SUCCESS, source="stub") == pytest.approx(
            time.time(), abs=5
        )
        assert value(sampler, m.EXPORTER_CYCLE_DURATION, gpu_uuid="GPU-a") is not None
        assert value(sampler, m.EXPORTER_BUILD_INFO) == 1.0
        assert value(sampler, m.PROCESS_START_TIME) == pytest.approx(time.time(), abs=60)


def test_a_snapshot_is_the_same_object_until_something_changes():
    sampler = Sampler(StubBackend(), None, None, settings())
    before = sampler.snapshot()
    assert sampler.snapshot() is before
    sampler.start()
    eventually(lambda: sampler.ready)
    sampler.close()
    assert sampler.snapshot() is not before


def test_a_hung_device_goes_down_with_reason_timeout_and_the_others_go_on():
    gate = Gate()

    def hang_first(device, at):
        if device is GPU and len(backend.reads) > 6:
            gate.wait()
        return half_busy(device, at)

    backend = StubBackend((GPU, OTHER), hang_first)
    with running(backend) as sampler:
        eventually(lambda: value(sampler, m.DEVICE_UP, gpu_uuid="GPU-a") == 0.0)
        standing, going = observed(sampler, gpu_uuid="GPU-a"), observed(sampler, gpu_uuid="GPU-b")
        age = value(sampler, m.EXPORTER_CYCLE_DURATION, gpu_uuid="GPU-a")
        eventually(lambda: observed(sampler, gpu_uuid="GPU-b") > going + 5 * BEAT)
        assert observed(sampler, gpu_uuid="GPU-a") == standing
        assert value(sampler, m.DEVICE_UP, gpu_uuid="GPU-b") == 1.0
        assert errors(sampler, "stub", "timeout") == 1.0
        assert value(sampler, m.EXPORTER_CYCLE_DURATION, gpu_uuid="GPU-a") > age >= 0.15
        assert sampler.down() == ("GPU-a",)
        assert sampler.ready
        assert sampler.healthy
        gate.open()
        eventually(lambda: value(sampler, m.DEVICE_UP, gpu_uuid="GPU-a") == 1.0)
        assert errors(sampler, "stub", "timeout") == 1.0


def test_a_read_that_came_back_too_late_is_no_reading():
    def late(device, at):
        time.sleep(0.1)
        return half_busy(device, at)

    with running(StubBackend(answer=late), hang_seconds=0.05, watchdog_seconds=10.0) as sampler:
        eventually(lambda: errors(sampler, "stub", "timeout") >= 2)
        assert observed(sampler) == 0.0


@pytest.mark.parametrize(
    ("error", "reason"),
    [(DeviceError(Reason.GPU_IS_LOST, "nvmlX"), "gpu_is_lost"), (ValueError(), "driver_error")],
)
def test_a_failing_device_is_down_counted_and_read_again(error, reason):
    failing = [True]

    def answer(device, at):
        if failing:
            raise error
        return half_busy(device, at)

    with running(StubBackend(answer=answer)) as sampler:
        eventually(lambda: errors(sampler, "stub", reason) >= 2)
        assert value(sampler, m.DEVICE_UP) == 0.0
        failing.clear()
        eventually(lambda: value(sampler, m.DEVICE_UP) == 1.0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_device_thread_that_dies_is_started_again_and_counted():
    deadly = [True]

    def answer(device, at):
        if deadly:
            deadly.clear()
            raise SystemExit
        return half_busy(device, at)

    with running(StubBackend(answer=answer)) as sampler:
        eventually(lambda: observed(sampler) > 0)
        assert errors(sampler, "stub", "thread_died") == 1.0


def test_a_late_answer_does_not_bring_back_a_slice_that_was_taken_apart():
    gate = Gate()

    def hang_slice(device, at):
        if device is SLICE:
            gate.wait()
        return half_busy(device, at)

    backend = StubBackend((GPU, SLICE), hang_slice)
    with running(backend, hang_seconds=30.0) as sampler:
        assert gate.entered.wait(5)
        backend.identities = (GPU,)
        eventually(lambda: value(sampler, m.DEVICE_INFO, gpu_uuid="MIG-1") is None)
        gate.open()
        going = observed(sampler, gpu_uuid="GPU-a")
        eventually(lambda: observed(sampler, gpu_uuid="GPU-a") > going + 3 * BEAT)
        assert value(sampler, m.DEVICE_INFO, gpu_uuid="MIG-1") is None
        assert value(sampler, m.EXPORTER_CYCLE_DURATION, gpu_uuid="MIG-1") is None


def test_it_is_ready_after_the_first_cycle_of_every_device_that_answers():
    gate = Gate()

    def hang_first(device, at):
        if device is GPU:
            gate.wait()
        return half_busy(device, at)

    with running(StubBackend((GPU, OTHER), hang_first), hang_seconds=0.3) as sampler:
        gate.entered.wait(5)
        assert not sampler.ready
        eventually(lambda: sampler.ready)
        assert value(sampler, m.DEVICE_UP, gpu_uuid="GPU-a") == 0.0
        gate.open()


def test_discovery_that_fails_is_counted_and_tried_again():
    failing = [True]

    def discover():
        if failing:
            failing.clear()
            raise DeviceError(Reason.DRIVER_ERROR, "nvmlDeviceGetCount")

    with running(StubBackend(discover=discover)) as sampler:
        eventually(lambda: sampler.ready)
        assert errors(sampler, "discovery", "driver_error") == 1.0


def test_a_device_that_vanished_is_read_no_more_and_a_slice_leaves():
    backend = StubBackend((GPU, SLICE))
    with running(backend) as sampler:
        eventually(lambda: value(sampler, m.DEVICE_UP, gpu_uuid="MIG-1") == 1.0)
        backend.identities = ()
        eventually(lambda: value(sampler, m.DEVICE_UP, gpu_uuid="GPU-a") == 0.0)
        time.sleep(BEAT)
        before = len(backend.reads)
        time.sleep(4 * BEAT)
        assert len(backend.reads) == before
        assert value(sampler, m.DEVICE_INFO, gpu_uuid="MIG-1") is None
        assert value(sampler, m.EXPORTER_CYCLE_DURATION) is None


def test_xid_events_are_counted_by_code():
    backend = StubBackend()
    with running(backend) as sampler:
        eventually(lambda: sampler.ready)
        backend.events = [XidEvent("GPU-a", 79, 1.0), XidEvent("GPU-a", 79, 2.0)]
        eventually(lambda: value(sampler, m.DEVICE_XID_ERRORS, xid="79") == 2.0)


def test_closing_releases_driver_and_socket():
    backend, source = StubBackend(), StubAllocations()
    with running(backend, source) as sampler:
        eventually(lambda: sampler.ready)
    assert backend.closed
    assert source.closed


def test_closing_leaves_a_driver_alone_that_a_thread_still_is_inside():
    gate = Gate()

    def hang(device, at):
        gate.wait()
        return half_busy(device, at)

    backend = StubBackend(answer=hang)
    sampler = Sampler(backend, None, None, settings())
    sampler.start()
    gate.entered.wait(5)
    before = time.monotonic()
    sampler.close(timeout=0.2)
    assert time.monotonic() - before < 2.0
    assert not backend.closed
    gate.open()


def test_a_watchdog_that_stands_still_is_unhealthy():
    now = [0.0]
    clock = Clock(monotonic=lambda: now[0], wall=lambda: 0.0)
    sampler = Sampler(StubBackend(), None, None, settings(), clock)
    assert sampler.healthy
    now[0] = 31.0
    assert not sampler.healthy


def test_a_node_without_devices_is_said_once_and_is_ready(caplog):
    with running(StubBackend(())) as sampler:
        eventually(lambda: sampler.ready)
        time.sleep(3 * BEAT)
    assert [r for r in caplog.messages if "lists no device" in r] == [
        "the stub back end lists no device on this node"
    ]
