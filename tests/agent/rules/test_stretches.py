"""Quiet stretches, commitments and runs by their environment, with figures worked out by hand."""

import msgspec
import pytest

from gputailor_agent.model.inventory import Outcome
from gputailor_agent.model.profile import RunUse
from gputailor_agent.rules.commitments import Steadiness, commitments, steadiness
from gputailor_agent.rules.comparing import RunGroup, grew_before, run_groups
from gputailor_agent.rules.environments import Environment
from gputailor_agent.rules.stretches import Quiet, quiet_time, video_worked
from tests.agent.factories import (
    DAY,
    HOUR,
    NOW,
    FakeCatalogue,
    context,
    device,
    inventory,
    node,
    pod,
    profile,
    row,
    rows,
)


def group(*active, start=NOW - 14 * DAY, observed=HOUR, gpu="GPU-0"):
    """One device whose hours were active like this; None: not seen."""
    usage = [
        row(start + place * HOUR, gpu=gpu, kernel=share, observed=observed)
        for place, share in enumerate(active)
        if share is not None
    ]
    made, _ = profile(usage, [pod(start=start)], devices=[device(gpu)])
    return list(made.gpus)


@pytest.mark.parametrize(
    ("hours", "stop", "told"),
    [
        ((0.5, 0, 0, 0, 0.5), 1.0, (3, 2.0, 3, 1)),
        ((0.5, 0, 0, 0, 0.5), 1.5, (3, 1.5, 3, 1)),
        ((0.5, 0, 0, 0, 0.5), 3.0, (3, 0.0, 3, 0)),  # as long as the wait: nothing is stopped
        ((0.5, 0, 0, 0, 0.5), 2.9, (3, 0.1, 3, 1)),
        ((0, 0, 0.5, 0, 0, 0), 1.0, (5, 3.0, 3, 2)),
        ((0, 0, None, 0, 0, 0), 1.0, (5, 3.0, 3, 2)),  # what is unknown ends a stretch
        ((0.5, 0.5), 1.0, (0, 0.0, 0, 0)),
        ((), 1.0, (0, 0.0, 0, 0)),
    ],
)  # fmt: skip
def test_what_a_stop_after_some_hours_would_free(hours, stop, told):
    """``told``: device-hours that are quiet and freed, hours of the longest stretch, stretches."""
    quiet, freed, longest, stretches = told
    uses = group(*hours) if hours else []
    found = quiet_time([uses], stop * HOUR)
    assert found.quiet == quiet * HOUR
    assert found.freed == pytest.approx(freed * HOUR)
    assert found.longest == longest * HOUR
    assert found.stretches == stretches
    assert found.held == sum(use.allocated_seconds for use in uses)


@pytest.mark.parametrize(("observed", "quiet"), [(0.9 * HOUR, 2), (0.9 * HOUR - 1, 0)])
def test_an_hour_seen_in_part_is_not_quiet(observed, quiet):
    assert quiet_time([group(0, 0, observed=observed)], 0.0).quiet == quiet * HOUR


def test_a_group_is_quiet_where_all_that_was_held_in_the_hour_was():
    same = [*group(0, 0, 0.5, gpu="A"), *group(0, 0.5, 0.5, gpu="B")]
    assert quiet_time([same], 0.0).quiet == 2 * HOUR  # of two devices in one hour
    apart = [*group(0, 0, 0, gpu="A"), *group(0, start=NOW - 14 * DAY + HOUR, gpu="B")]
    assert quiet_time([apart], 0.0).quiet == (1 + 2 + 1) * HOUR
    busy = [*group(0, 0, 0, gpu="A"), *group(0.5, start=NOW - 14 * DAY + HOUR, gpu="B")]
    assert quiet_time([busy], 0.0).quiet == 2 * HOUR
    assert quiet_time([busy], 0.0).longest == HOUR
    assert quiet_time([group(0, 0), group(0)], 0.0).quiet == 3 * HOUR


def test_what_is_freed_at_weekends_lies_on_saturdays_and_sundays_utc():
    friday = NOW - 4 * DAY  # NOW is a Wednesday, 0:00 UTC: this is a Saturday
    found = quiet_time([group(0, 0, 0, 0, start=friday - 2 * HOUR)], HOUR)
    assert found.freed == 3 * HOUR
    assert found.freed_at_weekends == 2 * HOUR
    assert found.weekend_share == pytest.approx(2 / 3)


def test_shares_are_of_the_time_held_and_none_of_none():
    nothing = Quiet(0.0, 0.0, 0.0, 0.0, 0.0, 0)
    assert (nothing.quiet_share, nothing.freed_share, nothing.weekend_share) == (0.0, 0.0, 0.0)
    some = Quiet(0.5, 0.25, 0.125, 0.0625, 0.0, 0)
    assert (some.quiet_share, some.freed_share, some.weekend_share) == (0.5, 0.25, 0.5)
    more = Quiet(1.0, 2.0, 3.0, 3.0, 0.0, 0)
    assert (more.quiet_share, more.freed_share) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("levels", "worked"), [({}, False), ({"encoder": 0.0001}, True), ({"decoder": 0.1}, True)]
)
def test_video_worked_where_an_encoder_or_decoder_did(levels, worked):
    made, _ = profile(rows(NOW - HOUR, NOW, **levels), [pod()])
    assert video_worked(made.gpus) is worked


@pytest.mark.parametrize(
    ("hours", "week", "least", "most", "gpus"),
    [
        ((2, 2, 2, 1), (2, 2), 0.75, 8, 2),
        ((2, 2, 2, 1), (2, 2), 0.76, 8, 1),
        ((2, 2, 2, 1), (2, 1), 0.75, 8, 1),  # the lower of both shares counts
        ((2, 2, 2, 1), (2, 2), 0.75, 1, 1),
        ((1.9, 0.9), (0.9,), 1.0, 8, 1),  # nine tenths of an hour seen are a whole one
        ((0.89, 0.9), (0.9,), 1.0, 8, 0),
        ((), (), 0.5, 8, 0),
    ],
)
def test_so_many_gpus_work_round_the_clock(hours, week, least, most, gpus):
    assert Steadiness(hours, week).round_the_clock(least, most) == gpus


def test_the_mean_counts_no_more_than_are_committed():
    assert Steadiness((3.0, 1.0), (1.0,)).mean_of(2) == 1.5
    assert Steadiness((), ()).mean_of(2) == 0.0


def test_a_device_that_was_not_observed_is_not_at_work():
    start = NOW - 2 * HOUR
    made, world = profile(
        [row(start, kernel=0.5, observed=HOUR / 2), row(start + HOUR, kernel=0.0)],
        [pod(start=start)],
    )
    found = steadiness(made, context(world), made.gpus)
    assert len(found.hours) == 14 * 24
    assert found.hours[-2:] == (0.5, 0.0)
    assert sum(found.hours) == 0.5
    assert len(found.week) == 168
    assert sum(found.week) == pytest.approx(0.25)  # one of two such hours of the week


def test_hours_of_the_week_that_the_window_does_not_hold_count_as_none():
    made, world = profile(rows(NOW - HOUR, NOW, kernel=0.5), [pod(start=NOW - HOUR)])
    short = msgspec.structs.replace(
        made, window=msgspec.structs.replace(made.window, start=NOW - HOUR - 1.0, end=NOW + 1.0)
    )
    found = steadiness(short, context(world), made.gpus)
    assert found.hours == (1.0,)
    assert sum(found.week) == 1.0


class Terms(FakeCatalogue):
    """Reserved at these shares of the price, each of a currency."""

    def __init__(self, present=4.0, currency="USD", **shares):
        super().__init__({"A100": present})
        self.shares = shares
        self.other = currency

    def price(self, spec, *, capacity_type="on-demand", **where):
        told = super().price(spec, **where)
        share = self.shares.get(capacity_type.replace("-", "_"))
        if told is None or share is None:
            return told
        amount = told.amount_per_gpu_hour * share
        kind = capacity_type.replace("-", "_")
        return msgspec.structs.replace(
            told, amount_per_gpu_hour=amount, kind=kind, currency=self.other
        )


@pytest.mark.parametrize(
    ("catalogue", "found"),
    [
        (Terms(reserved_1y=0.6, reserved_3y=0.4), [(1, 0.6), (3, 0.4)]),
        (Terms(reserved_3y=0.4), [(3, 0.4)]),
        (Terms(), []),  # the list price stands in for one, and has no discount
        (Terms(0.5, reserved_1y=0.6), [(1, 0.6)]),
        (Terms(0.0, reserved_1y=0.6), []),
        (Terms(currency="EUR", reserved_1y=0.6), []),
        (FakeCatalogue({}), []),
    ],
)
def test_commitments_are_those_with_a_price_of_their_own(catalogue, found):
    one = node(capacity_type="on-demand")
    terms = commitments(context(inventory(nodes=[one]), catalogue), one)
    assert [(term.years, pytest.approx(term.ratio)) for term in terms] == found


def test_a_node_whose_card_nobody_knows_has_no_commitment():
    one = node(model="Foo")
    assert commitments(context(inventory(nodes=[one]), Terms(reserved_1y=0.5)), one) == ()


OLD, NEW = Environment("a:1", ""), Environment("a:2", "")


def run(place, seconds, outcome=Outcome.SUCCEEDED, **fields):
    values = {"oom": False, "gpus": 1.0, "pods": 1, "gpu_seconds": float(seconds or 0),
              "memory_peak_bytes": None, "mean_sm": None, "mean_kernel": None}  # fmt: skip
    start = NOW - 20 * DAY + place * DAY
    end = None if seconds is None else start + seconds
    return RunUse(id=f"r{place}", started=float(start), finished=end, outcome=outcome,
                  **{**values, **fields})  # fmt: skip


def grouped(*runs, new=()):
    made, _ = profile(rows(NOW - HOUR, NOW), [pod()])
    gpus = [msgspec.structs.replace(made.gpus[0], run_id=one.id) for one in runs]
    made = msgspec.structs.replace(made, runs=runs, gpus=tuple(gpus))
    known = {one.id: NEW if one.id in new else OLD for one in runs}
    return run_groups(made, known)


@pytest.mark.parametrize(
    ("left_out", "fields"),
    [
        ("failed", {"outcome": Outcome.FAILED}),
        ("killed for memory", {"oom": True}),
        ("not begun", {"started": None}),
        ("still running", {"finished": None}),
        ("of no length", {"finished": float(NOW - 20 * DAY + 3 * DAY)}),
        ("of two GPUs", {"gpus": 2.0}),
    ],
)
def test_only_completed_runs_of_the_usual_size_are_compared(left_out, fields):
    odd = msgspec.structs.replace(run(3, 999.0), **fields)
    (found,) = grouped(run(0, 100.0), run(1, 300.0), odd)
    assert found.seconds == (100.0, 300.0), left_out


def test_a_run_of_half_a_second_is_one():
    (found,) = grouped(run(0, 0.5))
    assert found.seconds == (0.5,)
    assert found.half == (0.5, 0.5)
    assert grouped() == []


def test_of_two_sizes_as_common_the_larger_is_compared():
    (found,) = grouped(run(0, 100.0), run(1, 50.0, gpus=2.0))
    assert found.seconds == (50.0,)


def test_groups_have_their_median_and_their_middle_half_and_stand_by_their_environment():
    many = [run(place, seconds) for place, seconds in enumerate((10.0, 20.0, 30.0, 40.0, 90.0))]
    late = [run(place, 5.0) for place in (8, 9)]
    old, new = grouped(*late, *many, new=("r8", "r9"))
    assert (old.environment, new.environment) == (OLD, NEW)
    assert (old.middle, old.half) == (30.0, (20.0, 40.0))
    assert new.half == (5.0, 5.0)


@pytest.mark.parametrize(
    ("seconds", "ratio", "grew"),
    [
        ((100.0, 110.0, 120.0), 1.3, True),  # 0.1 a run, three runs apart
        ((100.0, 110.0, 120.0), 1.31, False),
        ((100.0, 100.0, 100.0), 1.01, False),
        ((100.0, 110.0), 1.01, False),  # two points always lie on a line
    ],
)
def test_runs_that_grew_before_the_change_explain_the_difference(seconds, ratio, grew):
    fast = RunGroup(OLD, tuple(run(at, long) for at, long in enumerate(seconds)), seconds)
    slow = RunGroup(NEW, tuple(run(9 + at, 1.0) for at in range(3)), (1.0,) * 3)
    assert grew_before(fast, slow, ratio) is grew
