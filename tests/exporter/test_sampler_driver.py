"""The running sampler and a driver that is away, hangs as a whole, or was replaced."""

from gputailor_exporter import metrics as m
from gputailor_exporter.devices.base import DeviceError, Reason
from tests.exporter.machines import GPU, OTHER, samples
from tests.exporter.running_sampler import BEAT, errors, observed, running, value
from tests.exporter.stubs import Gate, StubAllocations, StubBackend, eventually, half_busy


def away(**more):
    return DeviceError(Reason.DRIVER_ERROR, "no library", **more)


def raising(errors_left):
    def fail():
        if errors_left:
            raise errors_left[0]

    return fail


def test_it_waits_for_its_driver_and_says_so():
    failing = [away()]
    with running(StubBackend(starting=raising(failing))) as sampler:
        eventually(lambda: errors(sampler, "driver", "driver_error") >= 2)
        assert sampler.trouble == "cannot read devices: no library"
        assert sampler.devices_listed is None
        assert not sampler.ready
        assert sampler.healthy
        assert value(sampler, m.EXPORTER_DEVICES, state="expected") == 1.0
        assert value(sampler, m.EXPORTER_DEVICES, state="present") == 0.0
        failing.clear()
        eventually(lambda: sampler.ready)
        assert sampler.trouble == ""
        assert sampler.devices_listed == 1


def test_a_driver_that_was_never_opened_is_not_closed():
    backend = StubBackend(starting=raising([away()]))
    with running(backend) as sampler:
        eventually(lambda: errors(sampler, "driver", "driver_error") >= 1)
    assert not backend.closed


def test_a_first_call_that_hangs_is_told_by_its_age():
    gate = Gate()
    with running(StubBackend(starting=gate.wait), loop_hang_seconds=0.2) as sampler:
        eventually(lambda: sampler.trouble == "the driver has not answered for 0 s")
        eventually(lambda: errors(sampler, "discovery", "timeout") == 1.0)
        assert not sampler.ready
        gate.open()
        eventually(lambda: sampler.ready)
        assert errors(sampler, "discovery", "timeout") == 1.0


def test_a_driver_that_was_replaced_is_told_once_to_who_can_start_a_new_process():
    failing, told = [], []
    backend = StubBackend(discover=raising(failing))
    with running(backend, renew=told.append, unhealthy_seconds=0.3) as sampler:
        eventually(lambda: sampler.ready)
        failing.append(away(driver_replaced=True))
        backend.answer = lambda *_: raising(failing)()
        eventually(lambda: told)
        assert sampler.healthy
        eventually(lambda: not sampler.healthy)  # nothing came of it: a supervisor may do better
        failing.clear()
        backend.answer = half_busy
        eventually(lambda: sampler.healthy)
    assert told == ["the driver was replaced under this process"]


def test_each_device_has_its_age_and_the_reason_why_it_does_not_answer():
    failing = []

    def answer(device, at):
        if device is GPU:
            raising(failing)()
        return half_busy(device, at)

    def last(uuid):
        return value(sampler, m.EXPORTER_DEVICE_LAST_SUCCESS, gpu_uuid=uuid)

    with running(StubBackend((GPU, OTHER), answer)) as sampler:
        eventually(lambda: last("GPU-a") and last("GPU-b"))
        assert samples(sampler.snapshot(), m.EXPORTER_DEVICE_FAILURE) == {}
        failing.append(DeviceError(Reason.NO_PERMISSION, "nvmlX"))
        eventually(lambda: value(sampler, m.DEVICE_UP, gpu_uuid="GPU-a") == 0.0)
        standing, going = last("GPU-a"), last("GPU-b")
        eventually(lambda: last("GPU-b") > going + 3 * BEAT)
        assert last("GPU-a") == standing
        failed = samples(sampler.snapshot(), m.EXPORTER_DEVICE_FAILURE)
        assert failed == {("GPU-a", "no_permission"): 1.0}
        failing.clear()
        eventually(lambda: last("GPU-a") > standing)
        assert samples(sampler.snapshot(), m.EXPORTER_DEVICE_FAILURE) == {}


def test_a_gpu_that_comes_back_while_its_old_call_hangs_gets_no_second_thread():
    gate, hanging = Gate(), []
    backend = StubBackend((GPU, OTHER))

    def hang(device, at):
        if device is GPU:
            hanging.append(at)
            gate.wait()
        return half_busy(device, at)

    def listed():
        return value(sampler, m.EXPORTER_LAST_SUCCESS, source="discovery")

    with running(backend) as sampler:
        eventually(lambda: sampler.ready)
        backend.answer = hang
        eventually(lambda: value(sampler, m.DEVICE_UP, gpu_uuid="GPU-a") == 0.0)
        for present in ((OTHER,), (GPU, OTHER)) * 3:
            backend.identities, before = present, listed()
            eventually(lambda before=before: listed() > before + 0.05)
        assert len(hanging) == 1
        assert value(sampler, m.DEVICE_UP, gpu_uuid="GPU-a") == 0.0
        gate.open()
        eventually(lambda: value(sampler, m.DEVICE_UP, gpu_uuid="GPU-a") == 1.0)


def test_errors_counted_elsewhere_are_published():
    source = StubAllocations(problems={"pod_unknown": 3})
    with running(StubBackend(), source, counters=lambda: {("log", "dropped"): 7}) as sampler:
        eventually(lambda: errors(sampler, "log", "dropped") == 7.0)
        eventually(lambda: errors(sampler, "kubelet", "pod_unknown") == 3.0)


def test_a_release_of_the_driver_that_hangs_does_not_keep_the_process():
    gate = Gate()
    backend = StubBackend()
    backend.close = gate.wait
    with running(backend) as sampler:
        eventually(lambda: observed(sampler) > 0.0)
    assert gate.entered.is_set()
    gate.open()


class Deaf(StubBackend):
    """A back end whose driver refuses to tell events; counts how often it is asked."""

    asked = 0

    def wait_events(self, timeout_seconds):
        self.asked += 1
        raise away()


def test_events_that_are_refused_are_counted_and_not_asked_for_at_once_again():
    backend = Deaf()
    with running(backend) as sampler:
        eventually(lambda: errors(sampler, "events", "driver_error") >= 1)
        eventually(lambda: observed(sampler) > 10 * BEAT)
        assert backend.asked == 1


def test_events_that_were_refused_are_asked_for_again_later(monkeypatch):
    monkeypatch.setattr("gputailor_exporter.sampler.EVENTS_RETRY_SECONDS", 0.05)
    with running(Deaf()) as sampler:
        eventually(lambda: errors(sampler, "events", "driver_error") >= 2)
