"""Histograms that are told every few hours only: nothing is lost, added or made up."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.packed import hour_of
from gputailor_agent.model.sums import sum_of_hours
from gputailor_agent.model.usage import Histogram, SignalUse
from gputailor_agent.profiles import merge_rows
from gputailor_agent.rollup import CounterRollup
from gputailor_agent.rollup.owing import MOST_HOURS, completed, shared_out, with_histograms
from gputailor_agent.rollup.state import decode_state, encode_state
from gputailor_agent.rules.jointly import highest
from tests.agent.rollup.exporter_model import Exporter, Job, run_pages, without_histograms

HOUR = 3600
T0 = 1_800_000_000 // 21_600 * 21_600
GRID = 1 / 1024

levels = st.lists(st.sampled_from([0.0, 0.0, 0.03, 0.3, 0.6, 1.0]), min_size=1, max_size=8)


def hourly(loads, hours, *, start=T0, end=10**12, step=450):
    """A page at each hour's end; the load changes every ``step`` seconds."""
    job = Job(lambda t: loads[(t - T0) // step % len(loads)], start, end)
    return run_pages(Exporter([job], T0), T0 + hours * HOUR, HOUR)


class Kept:
    """What a reader of hours keeps: rows by key, completed where histograms came late."""

    def __init__(self):
        self.rollup, self.rows = CounterRollup("c1"), {}

    def add(self, page):
        self.rollup.add(page)
        self.take()

    def take(self):
        self.rows |= {row.key: row for row in self.rollup.take_rows()}
        late = self.rollup.take_histograms()
        self.rows |= {row.key: row for row in completed(self.rows, late, "gputailor")}

    def restart(self):
        state = decode_state(encode_state(self.rollup.state()))
        self.rollup = CounterRollup("c1", state=state)

    def kernel(self):
        """Use of kernels hour by hour."""
        ordered = sorted(self.rows.values(), key=lambda row: row.key.hour)
        return [row.signals["kernel"] for row in ordered]


def kept(pages, told):
    """Rows of pages of which only some (by place) have their histograms."""
    reader = Kept()
    for place, page in enumerate(pages):
        reader.add(page if place in told else without_histograms(page))
    return reader


def summed(uses):
    total = Histogram(seconds=(0.0,) * 21)
    for use in uses:
        total = total if use.histogram is None else total.merge(use.histogram)
    return total


@settings(max_examples=30, deadline=None)
@given(levels, st.sets(st.integers(1, 5)))
def test_parts_add_up_to_what_was_counted_and_fill_each_hour(loads, told):
    pages = hourly(loads, 6)
    late, at_once = kept(pages, {0, 6} | told), kept(pages, set(range(7)))
    assert summed(late.kernel()).seconds == pytest.approx(
        summed(at_once.kernel()).seconds, abs=8 * GRID
    )
    for use, true in zip(late.kernel(), at_once.kernel(), strict=True):
        assert (use.observed_seconds, use.active_seconds) == (
            true.observed_seconds, true.active_seconds,
        )  # fmt: skip
        assert use.histogram.total_seconds == pytest.approx(use.observed_seconds, abs=8 * GRID)
        assert use.awaited_seconds == 0


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.6]), min_size=3, max_size=30))
def test_a_load_that_is_on_or_off_is_told_of_each_hour_as_it_was(loads):
    pages = hourly(loads, 4, step=700)
    late, at_once = kept(pages, {0, 4}), kept(pages, set(range(5)))
    for use, true in zip(late.kernel(), at_once.kernel(), strict=True):
        assert use.histogram.seconds == pytest.approx(true.histogram.seconds, abs=8 * GRID)
        assert use.maximum == true.maximum


amounts = st.floats(0, 7200)
hours_of = st.lists(st.tuples(amounts, st.floats(0, 1)), min_size=1, max_size=8)


@given(st.lists(amounts, min_size=8, max_size=8), hours_of)
def test_parts_are_the_whole_bucket_by_bucket_and_none_is_negative(buckets, hours):
    told = np.array([(observed, observed * mean) for observed, mean in hours])
    parts = shared_out(np.array(buckets), told, zeros=True)
    assert sum(parts) == pytest.approx(np.array(buckets), abs=1e-5)
    assert min(part.min() for part in parts) >= 0
    if told[:, 0].sum() > 1:
        held = told[:, 0] * sum(buckets) / told[:, 0].sum()
        assert [part.sum() for part in parts] == pytest.approx(held, abs=1e-5)


@settings(max_examples=20, deadline=None)
@given(levels, st.sets(st.integers(1, 5)), st.sets(st.integers(0, 5)))
def test_a_restart_at_any_time_changes_nothing(loads, told, restarts):
    pages = hourly(loads, 6)
    reader = Kept()
    for place, page in enumerate(pages):
        reader.add(page if place in {0, 6} | told else without_histograms(page))
        if place in restarts:
            reader.restart()
    assert reader.rows == kept(pages, {0, 6} | told).rows


def test_until_they_come_a_histogram_is_awaited_and_no_zero():
    pages = hourly([0.6], 3)
    for use in kept(pages, {0}).kernel():
        assert use == SignalUse(
            observed_seconds=3600.0, active_seconds=pytest.approx(2160.0, abs=0.01),
            awaited_seconds=3600.0,
        )  # fmt: skip


def test_an_hour_in_which_nothing_was_active_was_at_zero():
    idle, busy = [0.0] * 8, [0.3, 0.6] * 4
    uses = kept(hourly([*busy, *idle, *busy], 3), {0, 3}).kernel()
    assert uses[1].histogram.zero_seconds == uses[1].histogram.total_seconds == 3600
    assert uses[1].maximum == 0
    assert [use.histogram.zero_seconds for use in uses] == [0, 3600, 0]
    assert [use.maximum for use in uses] == [0.75, 0.0, 0.75]


def test_a_container_that_began_meanwhile_counts_from_zero():
    uses = kept(hourly([0.3], 4, start=T0 + HOUR + 600), {0, 4}).kernel()
    assert [use.histogram.total_seconds for use in uses] == pytest.approx([3000, 3600, 3600])


def test_a_container_that_was_older_when_it_was_first_seen_is_not_credited_its_past():
    reader = Kept()
    for page in hourly([0.3], 4)[2:]:
        reader.add(without_histograms(page) if page.at < T0 + 4 * HOUR else page)
    assert all(use.histogram is None and not use.awaited_seconds for use in reader.kernel())


def test_a_container_that_ended_is_told_whole():
    pages = hourly([0.3], 3, end=T0 + 2 * HOUR + 120)
    reader = Kept()
    for page in pages[:3]:
        reader.add(page if page.at == T0 else without_histograms(page))
    shown = Exporter([Job(lambda _: 0.3, T0, T0 + 2 * HOUR + 120)], T0)
    shown.advance(T0 + 2 * HOUR + 180)
    reader.add(shown.page())
    uses = reader.kernel()
    assert [use.histogram.total_seconds for use in uses] == pytest.approx([3600, 3600, 120], abs=1)


def test_histograms_before_a_restart_that_were_never_told_stay_unknown():
    exporter = Exporter([Job(lambda _: 0.3, T0)], T0)
    reader = Kept()
    for at in range(T0, T0 + 4 * HOUR + 1, HOUR):
        exporter.advance(at)
        if at == T0 + 2 * HOUR:
            exporter.restart(at + 60)
            exporter.advance(at + HOUR)
            continue
        page = exporter.page()
        reader.add(page if at in {T0, T0 + 4 * HOUR} else without_histograms(page))
    first, *_, last = reader.kernel()
    assert (first.histogram, first.awaited_seconds) == (None, 0)
    assert last.histogram.total_seconds == pytest.approx(3600)


def test_histograms_that_do_not_come_for_a_day_are_not_waited_for():
    pages = hourly([0.3], MOST_HOURS + 4, step=HOUR)
    uses = kept(pages, {0, MOST_HOURS + 4}).kernel()
    assert all(use.histogram is None and not use.awaited_seconds for use in uses)


def test_a_page_whose_exporter_has_no_histograms_ends_the_waiting():
    *pages, last = hourly([0.3], 3)
    reader = kept(pages, ())
    reader.add(msgspec.structs.replace(without_histograms(last), histograms_later=False))
    assert all(use.histogram is None and not use.awaited_seconds for use in reader.kernel())


def test_a_row_that_was_not_taken_yet_is_completed_where_it_is():
    pages = hourly([0.3], 3)
    rollup = CounterRollup("c1")
    for place, page in enumerate(pages):
        rollup.add(without_histograms(page) if 0 < place < 3 else page)
    assert rollup.take_histograms() == []
    uses = [row.signals["kernel"] for row in rollup.take_rows()]
    assert [use.histogram.total_seconds for use in uses] == pytest.approx([3600] * 3)


def test_what_another_exporter_measured_stays_as_it_is():
    (row,) = kept(hourly([0.3], 1), {0}).rows.values()
    other = msgspec.structs.replace(row, filled={"kernel": "dcgm"})
    late = {"kernel": Histogram(seconds=(1.0,) * 21)}
    assert with_histograms(other, late, "gputailor") == other
    assert with_histograms(row, late, "gputailor") != row


def test_time_that_is_awaited_adds_up_over_hours_and_days_and_does_not_count_as_unread():
    rows = kept(hourly([0.6], 5), {0, 3}).rows.values()
    use = merge_rows(rows).signals["kernel"]
    assert (use.observed_seconds, use.awaited_seconds) == (5 * HOUR, 2 * HOUR)
    assert use.told_seconds == pytest.approx(use.histogram.total_seconds, abs=1)
    day = sum_of_hours([hour_of(row) for row in rows])
    assert day.detail.signals["kernel"].awaited == 2 * HOUR
    assert highest([merge_rows(rows)], "kernel", 0.98) == 0.75
