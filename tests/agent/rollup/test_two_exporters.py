"""Two exporters of one node: each second counts once, whoever is read and whoever dies."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.rollup import CounterRollup, decode_state, encode_state
from tests.agent.rollup.exporter_model import Exporter, Job

T0 = 1_800_000_000 // 3600 * 3600
JOB = Job(lambda second: 0.5, T0 - 10**6)


def pages(exporter, first, last, every):
    """Pages of an exporter from ``first`` to ``last`` (seconds of the clock)."""
    found = []
    for at in range(first, last + 1, every):
        exporter.advance(at)
        found.append(exporter.page())
    return found


def counted(*lives):
    """Seconds allocated, observed and active that the rollup makes of all pages."""
    rollup = CounterRollup("c1")
    for page in sorted((page for life in lives for page in life), key=lambda page: page.at):
        rollup.add(page)
        rollup = CounterRollup("c1", state=decode_state(encode_state(rollup.state())))
    rows = rollup.take_rows()
    kernels = [row.signals["kernel"] for row in rows]
    return (
        sum(row.allocated_seconds for row in rows),
        sum(kernel.observed_seconds for kernel in kernels),
        sum(kernel.active_seconds for kernel in kernels),
        rollup.problems["second_exporter"],
    )


def test_two_young_exporters_that_are_first_seen_together_count_once():
    """Both began seconds before the agent came: the time both have counted is one and the same."""
    old = pages(Exporter([JOB], T0, "old"), T0 + 10, T0 + 16, 1)
    new = pages(Exporter([JOB], T0 + 8, "new"), T0 + 12, T0 + 30, 1)
    allocated, observed, active, problems = counted(old, new)
    assert allocated == observed == pytest.approx(20, abs=0.01)
    assert active == pytest.approx(10, abs=0.01)
    assert problems >= 1


def test_a_late_look_at_a_newer_exporter_adds_nothing_twice():
    """The newer one began between two looks at the older; its first page comes much later."""
    old = pages(Exporter([JOB], T0 - 1000, "old"), T0, T0 + 90, 30)
    new = pages(Exporter([JOB], T0 + 31, "new"), T0 + 65, T0 + 85, 20)
    allocated, _, active, _ = counted(old, new)
    assert allocated == pytest.approx(90, abs=0.01)
    assert active == pytest.approx(45, abs=0.01)


def test_a_release_that_takes_over_goes_on_where_the_other_ended():
    old = pages(Exporter([JOB], T0 - 1000, "old"), T0, T0 + 300, 15)
    new = pages(Exporter([JOB], T0 + 310, "new"), T0 + 320, T0 + 600, 15)
    allocated, _, _, problems = counted(old, new)
    assert allocated == (300) + (new[-1].at - T0 - 310)
    assert problems == 0


def test_two_that_are_read_at_the_very_same_time_lose_nothing_when_one_dies():
    old = pages(Exporter([JOB], T0 - 1000, "old"), T0, T0 + 60, 15)
    new = pages(Exporter([JOB], T0 - 900, "new"), T0, T0 + 120, 15)
    assert counted(old, new)[0] == pytest.approx(120, abs=0.01)


def test_a_second_exporter_that_restarts_again_and_again_costs_at_most_its_absence():
    old = pages(Exporter([JOB], T0 - 1000, "old"), T0, T0 + 600, 15)
    began = range(T0 + 5, T0 + 600, 40)
    restarting = [pages(Exporter([JOB], at, "new"), at + 3, at + 35, 8) for at in began]
    allocated, _, active, _ = counted(old, *restarting)
    assert 600 - 5 * len(began) <= allocated <= 600
    assert active == pytest.approx(allocated / 2, abs=0.05)


@settings(max_examples=60, deadline=None)
@given(
    began=st.lists(st.integers(-100, 100), min_size=2, max_size=3, unique=True),
    lives=st.lists(st.integers(200, 500), min_size=3, max_size=3),
    every=st.lists(st.integers(1, 30), min_size=3, max_size=3),
)
def test_whatever_exporters_come_and_go_no_second_counts_twice(began, lives, every):
    """Together they count the time that any of them was seen over, and no more."""
    told = []
    for place, start in enumerate(began):
        first = max(T0, T0 + start) + every[place]
        exporter = Exporter([JOB], T0 + start, f"exporter-{place}")
        told.append(pages(exporter, first, first + lives[place], every[place]))
    spans = [(life[0].at, life[-1].at) for life in told]
    allocated, observed, active, _ = counted(*told)
    first, last = min(begin for begin, _ in spans), max(end for _, end in spans)
    gaps = sum(
        1
        for at in range(int(first), int(last))
        if not any(begin <= at < end for begin, end in spans)
    )
    # what an exporter counted before the first look at it, while another one was watched, is due
    assert last - first - gaps - 0.05 - sum(every) <= allocated <= last - first + 0.05
    assert observed == pytest.approx(allocated, abs=0.01)
    assert active == pytest.approx(allocated / 2, abs=0.05)
