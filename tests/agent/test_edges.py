"""Windows over old days: their edges move to midnight, and that is said."""

import gc

from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.assessment import assess_store
from gputailor_agent.model.collecting import rare_collections
from gputailor_agent.model.profile import Window
from gputailor_agent.profiles.edges import moved, snapped
from gputailor_agent.store import Store
from gputailor_agent.store.compacting import compact
from tests.agent.factories import CLUSTER, DAY, HOUR, NOW, FakeCatalogue, inventory, rows

times = st.floats(NOW - 30 * DAY, NOW)


def test_edges_of_the_last_eight_days_stay_and_older_ones_move_out_to_midnight():
    asked = Window(start=NOW - 10 * DAY + HOUR, end=NOW - 9 * DAY + HOUR)
    assert snapped(asked, NOW) == Window(start=NOW - 10 * DAY, end=NOW - 8 * DAY)
    recent = Window(start=NOW - 7 * DAY + HOUR, end=NOW - HOUR)
    assert snapped(recent, NOW) == recent
    assert snapped(recent, NOW, hourly_days=2).start == NOW - 7 * DAY


@given(times, times, st.floats(1, 20))
def test_what_was_asked_for_is_always_inside(one, other, hourly_days):
    asked = Window(start=min(one, other), end=max(one, other))
    read = snapped(asked, NOW, hourly_days)
    assert read.start <= asked.start <= asked.end <= read.end
    assert max(asked.start - read.start, read.end - asked.end) < DAY
    assert snapped(read, NOW, hourly_days) == read


def test_which_edges_moved_is_said_and_nothing_where_none_did():
    asked = Window(start=NOW - 10 * DAY + HOUR, end=float(NOW))
    assert moved(asked, asked) == ()
    (said,) = moved(asked, snapped(asked, NOW))
    assert said == (
        "the window begins 2023-11-05 00:00 UTC instead of 2023-11-05 01:00 UTC: "
        "days older than 8 days are read whole"
    )


def test_a_plan_over_old_days_tells_its_real_window():
    with Store.open() as store:
        with store.transaction() as tx:
            tx.put_usage(rows(NOW - 12 * DAY, NOW, kernel=0.5))
        compact(store, CLUSTER, NOW + DAY)
        asked = Window(start=NOW - 10 * DAY + 5 * HOUR, end=float(NOW))
        made = assess_store(
            store, CLUSTER, inventory(), asked, now=float(NOW), catalogue=FakeCatalogue()
        )
    assert made.plan.window == Window(start=NOW - 10 * DAY, end=NOW)
    assert made.profiles[0].allocated_seconds == 10 * DAY
    assert "days older than 8 days are read whole" in " ".join(made.plan.problems)


def test_garbage_is_collected_as_before_once_the_plan_is_made():
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold() > before
    assert gc.get_threshold() == before


def test_of_two_that_overlap_the_last_one_puts_the_collector_back():
    before = gc.get_threshold()
    first, second = rare_collections(), rare_collections()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() > before
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_an_edge_exactly_at_the_oldest_hour_that_can_be_read_stays():
    now = NOW + 5 * HOUR
    oldest = now - 8 * DAY
    asked = Window(start=oldest, end=oldest + HOUR)
    assert snapped(asked, now) == asked
    earlier = Window(start=oldest - 1, end=oldest)
    assert snapped(earlier, now) == Window(start=NOW - 8 * DAY, end=oldest)
