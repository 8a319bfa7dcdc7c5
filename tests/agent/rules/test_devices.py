"""What devices did while kernels ran, which never worked, and how sure that is."""

from dataclasses import replace

import msgspec
import pytest

from gputailor_agent.model.usage import SignalUse
from gputailor_agent.profiles import merge_uses
from gputailor_agent.rules.advising import Case, running_seconds
from gputailor_agent.rules.feeding import ZEROS, zero_share
from gputailor_agent.rules.idle_notebook import _unread
from gputailor_agent.rules.jointly import highest
from gputailor_agent.rules.members import by_pod, members_of, never_worked, sure_of_zero
from gputailor_agent.rules.running import while_running
from gputailor_agent.rules.too_many_gpus import _fewer
from tests.agent.factories import (
    HOUR,
    NOW,
    context,
    histogram,
    pod,
    profile,
    rows,
    use,
)
from tests.agent.rules.card_parts import LIMITS, USED, made_of

# --- quantiles while kernels run ----------------------------------------------------------------


def ran(kernel, own, signal="dram"):
    made, _ = profile(rows(NOW - HOUR, NOW), [pod()])
    signals = {"kernel": kernel, **({} if own is None else {signal: own})}
    return msgspec.structs.replace(made.gpus[0], signals=signals)


def seconds_at(parts, **fields):
    told = histogram(parts)
    active = sum(value * part for value, part in parts.items())
    return SignalUse(observed_seconds=told.total_seconds, active_seconds=active, histogram=told,
                     **fields)  # fmt: skip


BUSY_HALF = seconds_at({0.0: 50, 1.0: 50})


def test_zeros_while_no_kernel_ran_do_not_count():
    """Fifty seconds with kernels: forty at 0.2, ten at 0.6."""
    one = ran(BUSY_HALF, seconds_at({0.0: 50, 0.2: 40, 0.6: 10}))
    assert highest([one], "dram", 0.8) == 0.2
    assert highest([one], "dram", 0.81) == 0.6
    rests = ran(BUSY_HALF, seconds_at({0.0: 60, 0.2: 30, 0.6: 10}))  # ten zeros while kernels ran
    assert highest([rests], "dram", 0.2) == 0.0
    assert highest([rests], "dram", 0.21) == 0.2


def test_seconds_that_are_not_told_count_as_full():
    one = ran(BUSY_HALF, seconds_at({0.0: 50, 0.2: 40}))
    assert highest([one], "dram", 0.8) == 0.2
    assert highest([one], "dram", 0.81) == 1.0
    late = ran(seconds_at({0.0: 50, 1.0: 50}, awaited_seconds=10.0), seconds_at({0.0: 50, 0.2: 40}))
    assert highest([late], "dram", 1.0) == 0.2  # those are read later


def test_width_has_values_only_while_kernels_run():
    one = ran(BUSY_HALF, seconds_at({0.0: 10, 0.2: 40}), "width")
    assert highest([one], "width", 0.2) == 0.0
    assert highest([one], "width", 0.21) == 0.2


def test_the_busiest_device_counts_and_one_without_a_histogram_makes_it_unknown():
    low = ran(BUSY_HALF, seconds_at({0.0: 50, 0.2: 50}))
    high = ran(BUSY_HALF, seconds_at({0.0: 50, 0.6: 50}))
    never = ran(seconds_at({0.0: 100}), None)
    assert highest([low, high, never], "dram", 0.5) == 0.6
    assert highest([never], "dram", 0.5) == 0.0
    assert highest([low, ran(BUSY_HALF, None)], "dram", 0.5) is None
    flat = ran(msgspec.structs.replace(BUSY_HALF, histogram=None), seconds_at({0.2: 50}))
    assert highest([flat], "dram", 0.5) is None


# --- pods ---------------------------------------------------------------------------------------


def gpu(allocated=100.0, **levels):
    made, _ = profile(rows(NOW - HOUR, NOW), [pod()])
    signals = {
        name: SignalUse(observed_seconds=seen, active_seconds=busy)
        for name, (seen, busy) in levels.items()
    }
    return msgspec.structs.replace(made.gpus[0], allocated_seconds=allocated, signals=signals)


@pytest.mark.parametrize(
    ("levels", "allocated", "never"),
    [
        ({"kernel": (90, 0)}, 100.0, True),
        ({"kernel": (89.9, 0)}, 100.0, False),
        ({"kernel": (100, 0.001)}, 100.0, False),
        ({"kernel": (0, 0)}, 0.0, False),
        ({"kernel": (0.5, 0)}, 0.5, True),
        ({"kernel": (90, 0), "decoder": (90, 1)}, 100.0, False),
        ({"kernel": (90, 0), "graphics": (90, 1)}, 100.0, False),
        ({"kernel": (90, 0), "tensor": (90, 1)}, 100.0, False),
        ({"sm": (90, 0)}, 100.0, True),
        ({}, 100.0, False),
    ],
)
def test_a_gpu_never_worked_where_it_was_watched_and_all_stayed_at_zero(levels, allocated, never):
    assert never_worked(gpu(allocated, **levels), 0.9) is never


def test_pods_stand_by_name_with_their_devices():
    start = NOW - HOUR
    usage = [*rows(start, NOW, pod="b", gpu="B1"), *rows(start, NOW, pod="b", gpu="B2", kernel=0.5),
             *rows(start, NOW, pod="a", gpu="A1", kernel=0.5)]  # fmt: skip
    over = pod("b", gpus=2, start=start, finished=NOW - 60)
    made, world = profile(usage, [pod("a", start=start), over])
    assert [[one.gpu_uuid for one in part] for part in by_pod(made.gpus)] == [["A1"], ["B1", "B2"]]
    around = context(world)
    one, other = members_of(made, around, 0.9)
    assert (one.idle, one.needed, one.live) == (0, 1, True)
    assert (other.idle, other.needed, other.live) == (1, 1, False)
    assert one.held_seconds == HOUR
    assert members_of(made, around, 0.9) is members_of(made, around, 0.9)


def test_zeros_are_sure_only_where_encoders_and_decoders_can_be_read():
    _, _, seen = made_of(rows(NOW - 6 * HOUR, NOW, **USED))
    assert sure_of_zero(seen, "GPUs")[0] == "high"
    short = {name: use(0.0, 0.5, with_histogram=False) for name in seen.signals}
    assert sure_of_zero(replace(seen, signals=short), "GPUs")[0] == "high"
    for lost in ("encoder", "decoder"):
        signals = {name: told for name, told in seen.signals.items() if name != lost}
        assert sure_of_zero(replace(seen, signals=signals), "GPUs")[0] == "medium"


# --- time in which anything ran -----------------------------------------------------------------


def case_of(**signals):
    made, around, basis = made_of(rows(NOW - 6 * HOUR, NOW, **USED))
    uses = tuple(msgspec.structs.replace(one, signals=signals) for one in basis.uses)
    return Case("smaller_gpu", made, around, replace(basis, uses=uses, signals=signals), LIMITS)


def test_a_mean_while_it_runs_is_of_the_time_in_which_anything_ran_and_never_above_one():
    held = 6.0 * HOUR
    kernel, sm = use(0.5, held, with_histogram=False), use(0.25, held, with_histogram=False)
    assert while_running(case_of(kernel=kernel, sm=sm), "sm") == pytest.approx(0.5)
    assert while_running(case_of(kernel=sm, sm=kernel), "sm") == 1.0
    assert while_running(case_of(kernel=use(0.0, held), sm=sm), "sm") is None
    assert while_running(case_of(kernel=kernel), "sm") is None
    part = use(0.25, 0.9 * held, with_histogram=False)
    assert while_running(case_of(kernel=kernel, sm=part), "sm") == pytest.approx(0.5)
    less = use(0.25, 0.89 * held, with_histogram=False)
    assert while_running(case_of(kernel=kernel, sm=less), "sm") is None


@pytest.mark.parametrize(
    ("signals", "seconds"),
    [
        ({}, None),
        ({"kernel": use(0.5, 100, with_histogram=False)}, 100.0),
        ({"kernel": use(0.5, 100)}, 100.0),
        ({"kernel": SignalUse(observed_seconds=100.0, active_seconds=10.0,
                              histogram=histogram({0.0: 70, 1.0: 10}))}, 30.0),
        ({"kernel": SignalUse(observed_seconds=100.0, active_seconds=50.0,
                              histogram=histogram({0.0: 70, 1.0: 10}))}, 50.0),
        ({"kernel": SignalUse(observed_seconds=0.0, active_seconds=0.0),
          "sm": use(0.5, 60, with_histogram=False)}, 60.0),
        ({"kernel": use(0.5, 0.5, with_histogram=False)}, 0.5),
    ],
)  # fmt: skip
def test_seconds_in_which_anything_ran_are_at_most_so_many(signals, seconds):
    told = case_of(**signals)
    assert running_seconds(told.basis) == seconds


@pytest.mark.parametrize(
    ("observed", "covered"), [(0.9, True), (0.8999, False), (0.0, False), (2.0, True)]
)
def test_a_signal_is_covered_from_nine_tenths_of_the_time_held(observed, covered):
    told = case_of(sm=use(0.5, observed * 6 * HOUR, with_histogram=False))
    assert told.covered("sm") is covered
    assert told.coverage("sm") == pytest.approx(min(1.0, observed), abs=1e-4)
    assert told.missing("sm", "dram") == (("dram",) if covered else ("sm", "dram"))


def test_of_time_that_was_never_held_nothing_is_covered():
    told = case_of(sm=use(0.5, HOUR))
    never = msgspec.structs.replace(told.profile, gpus=())
    around = replace(told, basis=replace(told.basis, total=merge_uses(never.gpus)))
    assert around.coverage("sm") == 0.0
    assert not around.covered("sm")


@pytest.mark.parametrize(
    ("zeros", "kernel", "share"),
    [
        (0.25, use(1.0, 0.25, with_histogram=False), 0.5),  # of half a second
        (30.0, use(1.0, 90, with_histogram=False), 0.25),
        (0.0, SignalUse(observed_seconds=100.0, active_seconds=0.0,
                        histogram=histogram({0.0: 100})), 0.0),
        (None, use(1.0, 90), None),
        (30.0, None, None),
    ],
)  # fmt: skip
def test_samples_at_zero_are_a_share_of_those_and_of_the_time_that_anything_ran(
    zeros, kernel, share
):
    told = case_of(**({} if kernel is None else {"kernel": kernel}))
    conditions = {} if zeros is None else {ZEROS: zeros}
    total = merge_uses([msgspec.structs.replace(told.profile.gpus[0], conditions=conditions)])
    assert zero_share(replace(told, basis=replace(told.basis, total=total))) == share


@pytest.mark.parametrize(
    ("now", "sum_p95", "fewer"),
    [(8, 0.4, 1), (8, 0.5, 1), (8, 0.51, 2), (8, 1.0, 2), (8, 1.1, 4), (7, 1.1, 3), (4, 2.1, 5),
     (6, 1.5, 3), (8, 0.0, 1)],
)  # fmt: skip
def test_fewer_gpus_are_twice_what_is_busy_rounded_up_to_a_divisor(now, sum_p95, fewer):
    assert _fewer(now, sum_p95) == fewer


@pytest.mark.parametrize(
    ("encoder", "joules", "unread"),
    [
        (0.5, 60.0, ()),
        (0.0, 60.0, ("video engines",)),
        (None, 60.0, ("video engines",)),
        (0.5, None, ("power",)),
        (0.5, 0.0, ()),  # a card that drew nothing was read
    ],
)
def test_what_could_not_be_read_is_named(encoder, joules, unread):
    seen = {"decoder": use(0.0, 0.5), **({} if encoder is None else {"encoder": use(0.0, encoder)})}
    told = case_of(kernel=use(0.5, 60), **seen)
    uses = tuple(msgspec.structs.replace(one, energy_joules=joules) for one in told.basis.uses)
    assert _unread(replace(told, basis=replace(told.basis, uses=uses))) == unread
