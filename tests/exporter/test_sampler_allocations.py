"""The running sampler and the kubelet that comes and goes, hangs and dies."""

import pytest

from gputailor_exporter import metrics as m
from gputailor_exporter.attribution.allocations import AllocationError
from gputailor_exporter.devices.base import ProcessReading
from gputailor_exporter.metrics import Signal
from tests.exporter.machines import GPU, OTHER, container, holds, one, reading, samples, sliced
from tests.exporter.running_sampler import errors, observed, running, value
from tests.exporter.stubs import (
    Gate,
    StubAllocations,
    StubAttribution,
    StubBackend,
    eventually,
    half_busy,
)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_allocation_thread_that_dies_is_started_again_and_counted():
    deadly = [True]

    def die():
        if deadly:
            deadly.clear()
            raise SystemExit

    source = StubAllocations((holds("a"),), before=die)
    with running(StubBackend(), source) as sampler:
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED) == 1.0)
        assert errors(sampler, "kubelet", "thread_died") == 1.0


def test_an_unexpected_error_of_a_source_is_counted_and_outlived():
    def fail():
        raise ZeroDivisionError

    source = StubAllocations((holds("a"),), before=fail)
    with running(StubBackend(), source) as sampler:
        eventually(lambda: errors(sampler, "kubelet", "internal_error") >= 2)
        source.before = lambda: None
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED) == 1.0)


def test_ids_that_name_no_present_device_are_counted_as_errors_of_the_source():
    source = StubAllocations((holds("a"),), unmatched={"nvidia.com/gpu": 2, "gpu.nvidia.com": 1})
    with running(StubBackend(), source) as sampler:
        eventually(lambda: errors(sampler, "kubelet", "unmatched_device_id") == 3.0)


def test_a_gpu_that_fell_off_the_bus_is_still_held():
    backend, source = StubBackend((GPU, OTHER)), StubAllocations((holds("a"), holds("b", OTHER)))
    with running(backend, source) as sampler:
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED, pod="a") == 1.0)
        backend.identities = (OTHER,)
        eventually(lambda: value(sampler, m.DEVICE_UP, gpu_uuid="GPU-a") == 0.0)
        source.asked = ()
        eventually(lambda: source.asked == (GPU, OTHER))
        before = value(sampler, m.CONTAINER_ALLOCATED_SECONDS, pod="a")
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED_SECONDS, pod="a") > before)
        assert value(sampler, m.CONTAINER_ALLOCATED, pod="a") == 1.0


def test_ended_containers_leave_after_their_linger_time():
    source = StubAllocations((holds("a"),))
    with running(StubBackend(), source) as sampler:
        eventually(lambda: value(sampler, m.CONTAINER_OBSERVED_SECONDS, signal="kernel"))
        source.held = ()
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED) is None)
        assert value(sampler, m.CONTAINER_ALLOCATED_SECONDS) is not None
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED_SECONDS) is None)


def test_the_last_good_allocations_are_kept_for_a_while_then_dropped_and_both_counted():
    def gone():
        raise AllocationError("unavailable", "no socket")

    source = StubAllocations((holds("a"),))
    with running(StubBackend(), source) as sampler:
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED) == 1.0)
        source.before = gone
        eventually(lambda: errors(sampler, "kubelet", "unavailable") >= 2)
        held = value(sampler, m.CONTAINER_ALLOCATED_SECONDS)
        assert value(sampler, m.CONTAINER_ALLOCATED) == 1.0
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED_SECONDS) > held)
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED) is None)
        assert errors(sampler, "kubelet", "stale_dropped") == 1.0


def test_allocations_are_dropped_in_time_though_the_kubelets_call_hangs():
    gate = Gate()
    source = StubAllocations((holds("a"),))
    with running(StubBackend(), source) as sampler:
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED) == 1.0)
        source.before = gate.wait
        eventually(lambda: errors(sampler, "kubelet", "stale_dropped") == 1.0)
        assert value(sampler, m.CONTAINER_ALLOCATED) is None
        going = observed(sampler)
        eventually(lambda: observed(sampler) > going)
        source.before = lambda: None
        gate.open()
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED) == 1.0)


def test_allocated_seconds_go_on_while_kubelet_and_device_both_hang():
    gate, kubelet = Gate(), Gate()
    backend, source = StubBackend(), StubAllocations((holds("a"),))
    with running(backend, source, keep_allocations_seconds=60.0) as sampler:
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED) == 1.0)
        source.before = kubelet.wait
        backend.answer = lambda device, at: gate.wait() or half_busy(device, at)
        eventually(lambda: value(sampler, m.DEVICE_UP) == 0.0)
        before = value(sampler, m.CONTAINER_ALLOCATED_SECONDS)
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED_SECONDS) > before + 0.1)
        gate.open()
        kubelet.open()


def test_processes_of_a_shared_device_are_led_to_their_container():
    group = (ProcessReading(1, 5, 0.25, 0.0, 0.0), ProcessReading(-1, 5, 0.25, 0.0, 0.0))

    def answer(_, at):
        return reading(at, {Signal.KERNEL: 0.5}, processes=group, process_utilization_known=True)

    source = StubAllocations((sliced("a"), sliced("b")))
    attribution = StubAttribution(container("a"))
    with running(StubBackend(answer=answer), source, attribution) as sampler:
        eventually(lambda: value(sampler, m.CONTAINER_ACTIVE_SECONDS, signal="kernel", pod="a"))
        whole = sampler.snapshot()
        active = one(whole, m.CONTAINER_ACTIVE_SECONDS, signal="kernel", pod="a")
        seconds = one(whole, m.CONTAINER_OBSERVED_SECONDS, signal="kernel", pod="a")
        assert active == pytest.approx(0.25 * seconds)
        assert errors(sampler, "attribution", "internal_error") >= 1.0


def test_without_attribution_a_shared_device_belongs_to_no_container():
    group = (ProcessReading(1, 5, 0.25, 0.0, 0.0),)

    def answer(_, at):
        return reading(at, {Signal.KERNEL: 0.5}, processes=group, process_utilization_known=True)

    source = StubAllocations((sliced("a"), sliced("b")))
    with running(StubBackend(answer=answer), source) as sampler:
        eventually(lambda: value(sampler, m.DEVICE_UNATTRIBUTED_ACTIVE_SECONDS, signal="kernel"))
        assert samples(sampler.snapshot(), m.CONTAINER_ACTIVE_SECONDS) == {}


class SparingBackend(StubBackend):
    """Notes whose processes are wanted, each time it is told."""

    def __init__(self, *about):
        super().__init__(*about)
        self.wanted = []

    def want_processes(self, gpu_uuids):
        self.wanted.append(gpu_uuids)


def test_processes_are_wanted_of_shared_devices_alone_and_that_is_said_once():
    backend = SparingBackend((GPU, OTHER))
    source = StubAllocations((holds("a"), holds("b", OTHER)))
    with running(backend, source) as sampler:
        eventually(lambda: backend.wanted == [frozenset()])
        source.held = (holds("a"), holds("c"), holds("b", OTHER))
        eventually(lambda: backend.wanted[1:] == [frozenset({GPU.uuid})])
        source.held = (holds("a"),)
        eventually(lambda: backend.wanted[2:] == [frozenset()])
        eventually(lambda: observed(sampler, gpu_uuid=GPU.uuid) > 0.2)
    assert len(backend.wanted) == 3


def test_without_anybody_to_ask_no_process_is_wanted():
    backend = SparingBackend()
    with running(backend):
        assert backend.wanted == [frozenset()]
