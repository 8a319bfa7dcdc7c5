"""What must hold whatever the workload does and whenever somebody looks."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.rollup import CounterRollup
from tests.agent.rollup.exporter_model import Exporter, Job, run_pages

T0 = 1_800_000_000 // 3600 * 3600
LENGTH = 1800
START = T0 + 2700  # so that every run crosses an hour's end
GRID = 1 / 1024

values = st.lists(
    st.one_of(st.none(), st.sampled_from([0.0, 0.05, 0.3, 1.0]), st.floats(0, 1)),
    min_size=1,
    max_size=20,
)


def pages_of(levels):
    exporter = Exporter([Job(lambda t: levels[t // 60 % len(levels)], START + 5)], START)
    return run_pages(exporter, START + LENGTH, 30)


def rollup_of(pages):
    rollup = CounterRollup("c1")
    for page in pages:
        rollup.add(page)
    return rollup


def figures(row):
    """Every additive figure of a row that placing over a gap does not touch."""
    found = {"allocated": row.allocated_seconds, "energy": row.energy_joules}
    for name, use in row.signals.items():
        found[name, "observed"] = use.observed_seconds
        found[name, "active"] = use.active_seconds
        for bucket, seconds in enumerate(use.histogram.seconds):
            found[name, bucket] = seconds
    return found | row.conditions


def totals(rows):
    total = {}
    for row in rows:
        for name, value in figures(row).items():
            total[name] = total.get(name, 0.0) + value
    return {name: value for name, value in total.items() if value}


def close(left, right, tolerance):
    return {
        name: (left.get(name, 0.0), right.get(name, 0.0))
        for name in left.keys() | right.keys()
        if abs(left.get(name, 0.0) - right.get(name, 0.0)) > tolerance
    } == {}


@settings(max_examples=40, deadline=None)
@given(values, st.sets(st.integers(1, 59)))
def test_dropping_pages_in_between_changes_no_total(levels, dropped):
    pages = pages_of(levels)
    thinned = [page for place, page in enumerate(pages) if place not in dropped]
    assert close(
        totals(rollup_of(pages).take_rows()), totals(rollup_of(thinned).take_rows()), 2 * GRID
    )


@settings(max_examples=40, deadline=None)
@given(values, st.sets(st.integers(1, 29)))
def test_dropping_pages_within_an_hour_changes_no_figure_of_it(levels, dropped):
    pages = pages_of(levels)
    thinned = [page for place, page in enumerate(pages) if place not in dropped]
    first, thin = rollup_of(pages).take_rows(T0 + 3600), rollup_of(thinned).take_rows(T0 + 3600)
    assert [figures(row) for row in first] == [figures(row) for row in thin]


@settings(max_examples=40, deadline=None)
@given(values)
def test_the_hours_add_up_to_the_counters_whole_rise(levels):
    pages = pages_of(levels)
    [last] = pages[-1].containers
    total = totals(rollup_of(pages).take_rows())
    assert abs(total["allocated"] - last.allocated_seconds) <= GRID
    assert abs(total.get(("kernel", "active"), 0.0) - last.active["kernel"]) <= GRID
    assert abs(total.get(("kernel", "observed"), 0.0) - last.observed["kernel"]) <= GRID
    buckets = sum(total.get(("kernel", bucket), 0.0) for bucket in range(21))
    assert abs(buckets - last.histogram["kernel"][-1]) <= 8 * GRID


@settings(max_examples=40, deadline=None)
@given(values, st.sets(st.integers(1, 59)), st.lists(st.integers(0, 60), max_size=10))
def test_taking_rows_at_any_time_and_writing_twice_changes_nothing(levels, dropped, takes):
    pages = [page for place, page in enumerate(pages_of(levels)) if place not in dropped]
    rollup, written = CounterRollup("c1"), {}
    for place, page in enumerate(pages):
        rollup.add(page)
        if place in takes:
            written |= {row.key: row for row in rollup.take_rows()}
    written |= {row.key: row for row in rollup.take_rows()}
    at_once = {row.key: row for row in rollup_of(pages).take_rows()}
    assert written == at_once


@settings(max_examples=40, deadline=None)
@given(values, st.lists(st.tuples(st.floats(-1e9, 1e9), st.integers(0, 60)), max_size=5))
def test_whatever_a_page_says_nothing_is_negative_or_above_its_time(levels, wild):
    pages = pages_of(levels)
    for value, place in wild:
        page = pages[place]
        mad = tuple(
            msgspec.structs.replace(
                c,
                active={"kernel": value},
                observed={"kernel": abs(value)},
                histogram={"kernel": (value,) * 8},
            )
            for c in page.containers
        )
        pages[place] = msgspec.structs.replace(page, containers=mad)
    for row in rollup_of(pages).take_rows():
        assert all(value >= 0 for value in figures(row).values())
        assert row.allocated_seconds <= HOUR_SECONDS
        for use in row.signals.values():
            assert use.active_seconds <= use.observed_seconds


@settings(max_examples=40, deadline=None)
@given(values, st.integers(2, 60), st.integers(0, 5))
def test_pages_of_other_exporters_in_between_change_nothing(levels, other_every, shift):
    pages = pages_of(levels)
    other = Exporter([Job(lambda _: 1.0, START + 9, pod="o", gpu_uuid="GPU-1")], START - 9, "b")
    mixed = sorted(
        [*pages, *run_pages(other, START + LENGTH + shift, other_every)], key=lambda page: page.at
    )
    alone = {row.key: row for row in rollup_of(pages).take_rows()}
    beside = {row.key: row for row in rollup_of(mixed).take_rows() if row.key.pod == "train-0"}
    # at START the other exporter may open the watch first, which changes no counter of this one
    assert beside == alone


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 80 * 2**30), min_size=2, max_size=30))
def test_a_later_page_never_lowers_the_peak(memories):
    exporter = Exporter(
        [Job(lambda _: 1.0, T0 + 1, memory=lambda t: memories[t // 30 % len(memories)])], T0
    )
    rollup, highest = CounterRollup("c1"), 0
    for page in run_pages(exporter, T0 + 900, 30):
        rollup.add(page)
        for row in rollup.take_rows():
            assert row.memory_peak_bytes >= highest
            highest = row.memory_peak_bytes


@pytest.mark.parametrize("restart", [T0 + 61, T0 + 1000, T0 + 3599])
def test_an_exporter_restart_loses_only_what_it_had_not_shown(restart):
    exporter = Exporter([Job(lambda _: 1.0, T0 + 1)], T0)
    pages = run_pages(exporter, restart, 30)
    seen = pages[-1].at
    exporter.restart(restart + 10)
    pages += run_pages(exporter, T0 + 7200, 30)
    total = totals(rollup_of(pages).take_rows())
    assert total["allocated"] == (seen - T0 - 1) + (pages[-1].at - restart - 10)
