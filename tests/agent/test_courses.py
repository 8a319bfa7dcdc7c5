"""Week shape, trend between runs, scaling and stragglers: told where they can be, else not."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.model.inventory import Outcome
from gputailor_agent.model.profile import RunUse, Window
from gputailor_agent.profiles.courses import (
    hour_of_week,
    scaling,
    stragglers,
    trend,
    week_shape,
)
from gputailor_agent.store import Store
from gputailor_agent.store.compacting import compact
from tests.agent.factories import CLUSTER, DAY, HOUR, NOW, pod, profile, row, rows

MONDAY = NOW - 2 * DAY  # NOW is a Wednesday


def run(place, *, seconds=3600.0, gpus=1.0, outcome=Outcome.SUCCEEDED, **more):
    start = NOW + place * DAY
    values = {"memory_peak_bytes": None, "mean_sm": None, "mean_kernel": None, **more}
    return RunUse(
        id=f"run-{place}",
        started=start,
        finished=start + seconds,
        outcome=outcome,
        oom=False,
        gpus=gpus,
        pods=1,
        gpu_seconds=seconds * gpus,
        **values,
    )


def test_the_week_begins_on_monday_at_midnight_utc():
    assert hour_of_week(MONDAY) == 0
    assert hour_of_week(MONDAY + 7 * DAY - 1) == 167


def office_hours(start, end):
    """Busy from 8 to 18 on weekdays."""
    for hour in range(start, end, HOUR):
        place = hour_of_week(hour)
        yield row(hour, kernel=0.8 if place < 120 and 8 <= place % 24 < 18 else 0.0)


@pytest.fixture(params=["hours", "days"])
def two_weeks(request):
    """Rows of two weeks, and the same as days."""
    usage = list(office_hours(MONDAY - 14 * DAY, MONDAY))
    if request.param == "hours":
        return usage
    with Store.open() as store:
        with store.transaction() as tx:
            tx.put_usage(usage)
        compact(store, CLUSTER, MONDAY + DAY)
        return list(store.usage_parts(CLUSTER, MONDAY - 14 * DAY, MONDAY))


def test_a_service_of_office_hours_shows_them_whether_kept_as_hours_or_days(two_weeks):
    window = Window(start=MONDAY - 14 * DAY, end=MONDAY)
    made, _ = profile(two_weeks, [pod(start=window.start)], window=window, devices=[])
    shape = week_shape(made)
    busy = np.flatnonzero(shape.mean > 0.5)
    assert set(busy) == {day * 24 + hour for day in range(5) for hour in range(8, 18)}
    assert shape.busiest in busy
    assert set(shape.weeks) == {2}
    assert shape.gpus == pytest.approx(np.ones(168))


def test_an_hour_of_the_week_that_was_never_observed_is_unknown_not_idle():
    made, _ = profile(rows(NOW - HOUR, NOW, kernel=0.0), [pod(start=NOW - HOUR)])
    shape = week_shape(made)
    assert np.isnan(shape.mean).sum() == 167
    assert np.nanmax(shape.mean) == 0.0
    empty, _ = profile([], [pod(start=NOW - HOUR)])
    assert week_shape(empty).busiest is None


def test_runs_that_take_longer_each_time_have_a_trend():
    found = trend([run(place, seconds=1000.0 + 100 * place) for place in range(5)])
    assert found.runs == 5
    assert found.seconds == pytest.approx(0.1)
    assert found.gpu_seconds == pytest.approx(0.1)
    assert found.memory_peak is None


def test_one_odd_run_makes_no_trend():
    odd = [1000.0, 1000.0, 9000.0, 1000.0, 1000.0]
    found = trend([run(place, seconds=seconds) for place, seconds in enumerate(odd)])
    assert found.seconds == pytest.approx(0.0)


def test_a_trend_takes_three_completed_runs_of_one_size():
    assert trend([run(0), run(1)]) is None
    assert trend([run(0), run(1), run(2, outcome=Outcome.FAILED)]) is None
    assert trend([run(0), run(1, gpus=2.0), run(2, gpus=4.0)]) is None
    assert trend([]) is None


@given(st.permutations(range(6)))
def test_the_order_in_which_runs_are_told_does_not_matter(order):
    runs = [run(place, seconds=1000.0 + 7 * place**2) for place in range(6)]
    assert trend([runs[place] for place in order]) == trend(runs)


def test_twice_the_gpus_in_half_the_time_is_perfect_scaling():
    found = scaling([run(0, gpus=1.0), run(1, gpus=2.0, seconds=1800.0), run(2, seconds=3600.0)])
    assert found.seconds == ((1.0, 3600.0), (2.0, 1800.0))
    assert found.exponent == pytest.approx(1.0)
    assert found.efficiency == pytest.approx(1.0)


def test_gpus_that_do_not_help_show_as_no_scaling():
    found = scaling([run(0, gpus=1.0), run(1, gpus=4.0)])
    assert found.exponent == pytest.approx(0.0)
    assert found.efficiency == pytest.approx(0.25)


def test_scaling_takes_runs_of_two_sizes_that_ended_well():
    assert scaling([run(0), run(1)]) is None
    assert scaling([run(0), run(1, gpus=2.0, outcome=Outcome.FAILED)]) is None
    running = msgspec.structs.replace(run(1, gpus=2.0), finished=None)
    assert scaling([run(0), running]) is None


def ranks(*levels, signal="kernel"):
    """One hour of a job with a pod for each level."""
    names = [f"rank-{place}" for place in range(len(levels))]
    usage = [
        row(NOW - HOUR, pod=name, gpu=f"G{name}", **{signal: level})
        for name, level in zip(names, levels, strict=True)
    ]
    made, _ = profile(usage, [pod(name, start=NOW - HOUR) for name in names])
    return made


def test_the_rank_that_all_others_wait_for_is_the_one_that_is_busier():
    (slow,) = stragglers(ranks(0.5, 0.52, 0.95, 0.49, 0.51))
    assert (slow.pod, slow.signal, slow.slow) == ("rank-2", "kernel", True)
    assert slow.mean == pytest.approx(0.95, abs=1e-3)
    assert slow.others == pytest.approx(0.505, abs=1e-3)


def test_a_device_that_did_nothing_has_no_part_in_the_run():
    (slow,) = stragglers(ranks(0.5, 0.52, 0.95, 0.49, 0.0, 0.0))
    assert slow.pod == "rank-2"
    assert slow.others == pytest.approx(0.5, abs=1e-3)


def test_a_rank_that_does_less_than_the_others_is_told_as_such():
    (lazy,) = stragglers(ranks(0.9, 0.91, 0.1, 0.92))
    assert (lazy.pod, lazy.slow) == ("rank-2", False)


@pytest.mark.parametrize(
    "levels",
    [
        (0.5, 0.95),  # two: which of them is odd?
        (0.1, 0.4, 0.7, 1.0),  # all differ
        (0.9, 0.91, 0.92, 0.99),  # none does by much
        (0.67, 0.66, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),  # six of eight were never used
        (0.5, 0.51, 0.95, 0.0),  # nor was one of these: three are left
    ],
)
def test_ranks_that_differ_by_chance_are_no_stragglers(levels):
    assert stragglers(ranks(*levels)) == ()


def test_a_rank_that_was_not_measured_is_no_straggler():
    names = [f"rank-{place}" for place in range(5)]
    usage = [row(NOW - HOUR, pod=name, gpu=f"G{name}", kernel=0.9) for name in names[:4]]
    made, _ = profile(usage, [pod(name, start=NOW - HOUR) for name in names])
    assert stragglers(made) == ()
