"""Days summed up out of hours: what is read stays the same, bit for bit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import Resolution
from gputailor_agent.model.profile import Window
from gputailor_agent.profiles import build_profiles
from gputailor_agent.store import Store, compacting, tables
from gputailor_agent.store.compacting import compact
from tests.agent.factories import CLUSTER, DAY, HOUR, NOW, device, inventory, row, rows
from tests.agent.store.database_parts import count
from tests.agent.test_profiles import usage_rows

LATE = NOW + 30 * DAY


def put(store, usage):
    with store.transaction() as tx:
        tx.put_usage(usage)


def hours(store, start=0, end=LATE):
    return sorted(store.usage(CLUSTER, start, end), key=lambda one: one.key)


def profiles(usage, window):
    return build_profiles(
        usage, [device("G0"), device("G1")], inventory(at=window.end), Resolution(), window
    )


@settings(max_examples=25)
@given(
    st.lists(usage_rows(hours=range(-30, 30)), max_size=30, unique_by=lambda one: one.key),
    st.tuples(st.integers(-40, 20), st.integers(1, 60)),
)
def test_profiles_of_days_are_those_of_their_hours_whatever_the_window(usage, span):
    window = Window(start=NOW + span[0] * HOUR, end=NOW + sum(span) * HOUR - 1800.0)
    with Store.open() as store:
        put(store, usage)
        compact(store, CLUSTER, LATE)
        read = profiles(store.usage_parts(CLUSTER, window.start, window.end), window)
        assert hours(store) == sorted(usage, key=lambda one: one.key)
    assert read == profiles(usage, window)


def test_a_day_that_is_over_becomes_one_row_per_container_and_device(store):
    put(store, [one for pod in ("a", "b") for one in rows(NOW, NOW + DAY + 5 * HOUR, pod=pod)])
    done = compact(store, CLUSTER, NOW + DAY + 6 * HOUR)
    assert (done.days, done.hours) == (1, 48)
    assert count(store, tables.usage_daily) == 2
    assert count(store, tables.usage_hourly) == 10
    assert store.usage_span(CLUSTER) == (NOW, NOW + DAY + 4 * HOUR)


def test_a_day_stays_open_for_two_hours_after_its_end(store):
    put(store, rows(NOW, NOW + DAY))
    assert compact(store, CLUSTER, NOW + DAY + 2 * HOUR - 1).days == 0
    assert compact(store, CLUSTER, NOW + DAY + 2 * HOUR).days == 1
    assert compact(store, CLUSTER, NOW + DAY + 2 * HOUR).days == 0


def test_a_late_hour_replaces_the_one_of_its_day_before_and_after_it_is_folded_in(store):
    put(store, rows(NOW, NOW + DAY, kernel=0.5))
    compact(store, CLUSTER, LATE)
    put(store, [row(NOW + 3 * HOUR, kernel=1.0)])
    wanted = hours(store)
    window = Window(start=float(NOW), end=float(NOW + DAY))
    for _ in range(2):
        assert hours(store) == wanted
        (made,) = profiles(store.usage_parts(CLUSTER, NOW, NOW + DAY), window)
        assert made.use("kernel").observed_seconds == DAY
        assert made.use("kernel").active_seconds == 23 * 1800 + 3600
        compact(store, CLUSTER, LATE)
    assert count(store, tables.usage_hourly) == 0


def test_an_hour_that_the_day_lacked_is_added_once(store):
    put(store, rows(NOW, NOW + 5 * HOUR))
    compact(store, CLUSTER, LATE)
    for _ in range(2):
        put(store, [row(NOW + 7 * HOUR)])
        compact(store, CLUSTER, LATE)
    assert [one.key.hour for one in hours(store)] == [
        NOW + place * HOUR for place in (0, 1, 2, 3, 4, 7)
    ]


def test_a_container_that_came_late_to_its_day_is_read_before_it_is_folded_in(store):
    put(store, rows(NOW, NOW + DAY, pod="a"))
    compact(store, CLUSTER, LATE)
    put(store, rows(NOW, NOW + DAY, pod="b"))
    window = Window(start=float(NOW), end=float(NOW + DAY))
    made = profiles(store.usage_parts(CLUSTER, NOW, NOW + DAY), window)
    assert [one.allocated_seconds for one in made] == [DAY, DAY]


def test_use_without_a_pod_is_handed_on_hour_by_hour_since_its_holder_may_change(store):
    put(store, rows(NOW, NOW + DAY, namespace="", pod="", uid="", container=""))
    compact(store, CLUSTER, LATE)
    read = list(store.usage_parts(CLUSTER, NOW, NOW + DAY))
    assert sorted(one.key.hour for one in read) == list(range(NOW, NOW + DAY, HOUR))


def test_a_crash_in_the_middle_leaves_what_reads_the_same(store, monkeypatch):
    put(store, [one for pod in "abcd" for one in rows(NOW, NOW + DAY, pod=pod, kernel=0.3)])
    wanted = hours(store)
    monkeypatch.setattr(compacting, "_BATCH", 1)
    moved, summed = [], compacting._sum_up_places

    def fail_after_two(*given):
        if len(moved) == 2:
            raise KeyboardInterrupt
        moved.append(summed(*given))
        return moved[-1]

    monkeypatch.setattr(compacting, "_sum_up_places", fail_after_two)
    with pytest.raises(KeyboardInterrupt):
        compact(store, CLUSTER, LATE)
    assert (count(store, tables.usage_daily), count(store, tables.usage_hourly)) == (2, 48)
    assert hours(store) == wanted
    window = Window(start=float(NOW), end=float(NOW + DAY))
    read = profiles(store.usage_parts(CLUSTER, NOW, NOW + DAY), window)
    assert read == profiles(wanted, window)
    monkeypatch.undo()
    compact(store, CLUSTER, LATE)
    assert hours(store) == wanted


def test_clusters_are_summed_up_and_dropped_apart(store):
    put(store, rows(NOW, NOW + DAY))
    assert compact(store, "other", NOW + 900 * DAY).days == 0
    assert len(hours(store)) == 24
    assert store.clusters() == [CLUSTER]


def test_usage_is_kept_for_400_days_or_as_the_setting_says(store):
    put(store, [*rows(NOW, NOW + DAY), *rows(NOW + 100 * DAY, NOW + 101 * DAY)])
    compact(store, CLUSTER, NOW + 400 * DAY)
    assert store.usage_span(CLUSTER) == (NOW, NOW + 101 * DAY - HOUR)
    compact(store, CLUSTER, NOW + 401 * DAY)
    assert store.usage_span(CLUSTER) == (NOW + 100 * DAY, NOW + 101 * DAY - HOUR)
    compact(store, CLUSTER, NOW + 401 * DAY, keep_days=30)
    assert store.usage_span(CLUSTER) is None
    assert count(store, tables.usage_days) == 0


def test_what_was_asked_for_goes_with_the_usage(store):
    with store.transaction() as tx:
        tx.put_devices([device()])
        tx.mark_period(f"{CLUSTER}/rollup", "2023-11-15T00", at=NOW)
        tx.mark_period(f"{CLUSTER}/start", "first", at=NOW)
    assert compact(store, CLUSTER, NOW + 500 * DAY).dropped == 1
    assert store.devices(CLUSTER) == []
    assert store.period(f"{CLUSTER}/rollup", "2023-11-15T00") is None
    assert store.period(f"{CLUSTER}/start", "first") is not None
