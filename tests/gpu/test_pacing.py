"""Duty cycles on a card whose clock stands still until something passes time."""

import pytest

from tests.gpu.driver import Context, CudaError, Library
from tests.gpu.kernels import KERNELS, THREADS, Kind
from tests.gpu.load import COPY_BYTES, STREAM_BYTES, prepare, result
from tests.gpu.pacing import UNIT_SECONDS, Clock, Unit, calibrate, hold


@pytest.fixture
def clock(fake_cuda):
    return Clock(fake_cuda.now, fake_cuda.sleep)


@pytest.fixture
def card(fake_cuda):
    with Context(Library(str(fake_cuda.path))) as made:
        yield made
    assert fake_cuda.held() == {}


@pytest.mark.parametrize("duty", [0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 1.0])
@pytest.mark.parametrize("kind", list(Kind))
def test_the_duty_is_held(card, clock, fake_cuda, kind, duty):
    prepared = prepare(card, kind)
    busy, began = fake_cuda.get("busy_seconds"), clock.now()
    tally = hold(card, prepared.unit, duty=duty, seconds=20.0, clock=clock)
    truly_busy, passed = fake_cuda.get("busy_seconds") - busy, clock.now() - began
    assert truly_busy / passed == pytest.approx(duty, abs=0.01)
    assert tally.held == pytest.approx(duty, abs=0.01)
    assert tally.busy_seconds == pytest.approx(truly_busy, rel=1e-4)
    assert tally.wall_seconds == pytest.approx(20.0, abs=0.5)


def test_every_second_has_its_share(card, clock, fake_cuda):
    """No long work and long rest: a sampler that looks at one second sees the duty."""
    prepared = prepare(card, Kind.FP32)
    marks = []

    def sleep(seconds):
        fake_cuda.sleep(seconds)
        marks.append((fake_cuda.now(), fake_cuda.get("busy_seconds")))

    hold(card, prepared.unit, duty=0.25, seconds=10.0, clock=Clock(fake_cuda.now, sleep))
    for (then, busy), (later, busier) in zip(marks, marks[5:], strict=False):
        assert (busier - busy) / (later - then) == pytest.approx(0.25, abs=0.01)


def test_a_card_that_slows_down_keeps_its_duty(card, clock, fake_cuda):
    prepared = prepare(card, Kind.FP32)
    fake_cuda.set(seconds_per_turn=1.5e-5)
    tally = hold(card, prepared.unit, duty=0.5, seconds=20.0, clock=clock)
    assert tally.held == pytest.approx(0.5, abs=0.02)


def test_a_card_at_full_duty_never_waits_for_the_host(card, fake_cuda):
    """The host takes half a period for each burst, and the next one lies ready."""
    prepared = prepare(card, Kind.FP32)
    asked = []

    def now():
        asked.append(None)
        if len(asked) > 2:
            fake_cuda.sleep(0.1)
        return fake_cuda.now()

    began, busy = fake_cuda.now(), fake_cuda.get("busy_seconds")
    hold(card, prepared.unit, duty=1.0, seconds=10.0, clock=Clock(now, fake_cuda.sleep))
    gone = fake_cuda.now() - began
    assert (fake_cuda.get("busy_seconds") - busy) / gone > 0.97


@pytest.mark.parametrize("per_turn", [1e-7, 1e-5, 1e-3, 0.5])
def test_a_unit_is_short_whatever_the_cards_speed(card, fake_cuda, per_turn):
    fake_cuda.set(seconds_per_turn=per_turn)
    unit = prepare(card, Kind.TF32).unit
    assert unit.seconds == pytest.approx(max(UNIT_SECONDS, per_turn), rel=0.3)


def test_a_card_whose_clock_tells_nothing_ends_all_the_same(card, clock, fake_cuda):
    fake_cuda.set(seconds_per_turn=0.0)
    turns, seconds = calibrate(card, lambda turns: None)
    assert turns > 0
    assert seconds > 0.0


def test_what_was_done_is_counted_by_the_launches(card, clock, fake_cuda):
    prepared = prepare(card, Kind.FP32)
    before = fake_cuda.get("launches")
    tally = hold(card, prepared.unit, duty=0.5, seconds=5.0, clock=clock)
    assert tally.units == fake_cuda.get("launches") - before
    said = result(Kind.FP32, 0.5, prepared, tally)
    turns = round(said.busy_seconds / tally.units / 1e-5)
    threads = KERNELS[Kind.FP32].blocks_per_processor * 132 * THREADS
    assert prepared.unit.operations == KERNELS[Kind.FP32].operations_per_thread * threads * turns
    expected = prepared.unit.operations * tally.units / said.busy_seconds
    assert said.operations_per_busy_second == pytest.approx(expected)


def test_every_byte_that_was_copied_is_counted_the_trials_too(card, clock, fake_cuda):
    prepared = prepare(card, Kind.COPY)
    tally = hold(card, prepared.unit, duty=0.5, seconds=5.0, clock=clock)
    said = result(Kind.COPY, 0.5, prepared, tally)
    assert said.bytes_to_device + said.bytes_to_host == fake_cuda.get("bytes_copied")
    assert said.bytes_to_device % COPY_BYTES == 0
    assert said.bytes_per_busy_second == pytest.approx(25e9, rel=1e-3)


def test_a_memory_load_reads_and_writes_both_buffers(card):
    unit = prepare(card, Kind.MEMORY).unit
    assert unit.bytes_moved % (2 * STREAM_BYTES) == 0


def test_a_card_that_is_too_old_is_told(card, fake_cuda):
    fake_cuda.set(major=7, minor=5)
    with pytest.raises(CudaError, match=r"tf32 needs compute capability 8\.0, and .* has 7\.5"):
        prepare(card, Kind.TF32)


def test_a_load_of_nothing_calls_nothing(card, clock, fake_cuda):
    idle = Unit(lambda: pytest.fail("was called"), 0.002)
    assert hold(card, idle, duty=0.0, seconds=3.0, clock=clock).held == 0.0
    assert fake_cuda.now() == 3.0


@pytest.mark.parametrize("function", ["cuLaunchKernel", "cuEventSynchronize"])
def test_an_error_in_the_middle_ends_the_load(card, clock, fake_cuda, function):
    prepared = prepare(card, Kind.FP32)
    fake_cuda.fail(function, 719)
    with pytest.raises(CudaError, match=function):
        hold(card, prepared.unit, duty=0.5, seconds=5.0, clock=clock)
