"""Time by level of CPU use: what merges, what is never understated, and what old rows leave open."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_agent.model import cpu_levels
from gputailor_agent.model.cpu_levels import RATIO

levels = st.floats(0, 4096, allow_nan=False)
spans = st.lists(st.tuples(levels, st.integers(1, 12).map(lambda n: n * 300)), min_size=1)


def amounts(steps):
    found = Counter()
    for cpus, seconds in steps:
        found[cpu_levels.level(cpus)] += seconds
    return found


def ranked(steps, q):
    """The nearest-rank quantile of the values themselves."""
    total, seen = sum(seconds for _, seconds in steps), 0
    for cpus, seconds in sorted(steps):
        seen += seconds
        if seen >= q * total:
            return cpus
    raise AssertionError("the last rank is the whole")


@given(spans, st.sampled_from([0.5, 0.9, 0.95, 1.0]))
def test_the_true_quantile_lies_between_the_edges(steps, q):
    found = cpu_levels.quantile(amounts(steps), q)
    true = ranked(steps, q)
    assert true <= found.high * (1 + 1e-6)
    if true > 1 / 64:
        assert found.low * (1 - 1e-6) <= true
    assert found.low == pytest.approx(found.high / RATIO)
    assert found.seconds == sum(seconds for _, seconds in steps)


@given(spans, spans)
def test_rows_merge_in_any_grouping(one, other):
    merged = amounts(one) + amounts(other)
    assert cpu_levels.quantile(merged, 0.95) == cpu_levels.quantile(amounts(one + other), 0.95)


@given(spans, levels)
def test_more_use_never_lowers_the_quantile(steps, more):
    before = cpu_levels.quantile(amounts(steps), 0.95)
    busier = [(cpus + more, seconds) for cpus, seconds in steps]
    assert cpu_levels.quantile(amounts(busier), 0.95).high >= before.high


@pytest.mark.parametrize(
    ("cpus", "edge"),
    [(0, "0"), (-0.0, "0"), (1e-9, "0.015625"), (1, "1"), (1.0001, "1.18921"), (2, "2"),
     (8, "8"), (8.001, "9.51366"), (1024, "1024")],
)  # fmt: skip
def test_a_value_on_an_edge_belongs_to_it(cpus, edge):
    assert cpu_levels.level(cpus) == f"host/cpus_at/{edge}"


@given(levels)
def test_a_level_is_named_by_its_edge_and_its_edge_by_its_level(cpus):
    edge = float(cpu_levels.level(cpus).removeprefix(cpu_levels.PREFIX))
    assert cpu_levels.level(edge * (1 - 1e-4)) == cpu_levels.level(cpus)
    assert edge == 0 or math.isclose(math.log2(edge) * 4, round(math.log2(edge) * 4), abs_tol=1e-3)


def test_an_idle_container_uses_none_and_that_is_known():
    found = cpu_levels.quantile({cpu_levels.level(0.0): 3600.0}, 0.95)
    assert (found.low, found.high, found.seconds) == (0.0, 0.0, 3600.0)


def test_rows_of_before_have_no_levels_and_no_quantile():
    assert cpu_levels.quantile({"host/observed_seconds": 3600.0}, 0.95) is None
