"""Quantiles out of histograms against exact ones: never further off than their resolution says."""

import math
import random
import statistics
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.usage import GaugeSample, Histogram, UsageKey, UsageRow
from gputailor_agent.profiles import merge_rows
from gputailor_agent.rollup import CounterRollup, Holder, rows_from_samples
from gputailor_agent.rollup.owing import completed
from gputailor_agent.sources.logs import read_log
from gputailor_agent.store import Store
from gputailor_agent.store.compacting import compact
from tests.agent.rollup.exporter_model import Exporter, Job, run_pages, without_histograms

T0 = 1_800_000_000 // 86400 * 86400
QUANTILES = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 1.0)


def exact(values: Sequence[tuple[float, float]], q: float) -> float:
    """Least value that so much of the time does not exceed; values come with their seconds."""
    ordered = sorted(values)
    rank, seen = q * math.fsum(seconds for _, seconds in ordered), 0.0
    for value, seconds in ordered:
        seen += seconds
        if seconds > 0 and seen >= rank - 1e-9:
            return value
    return ordered[-1][0]


def errors(histogram: Histogram, values: Sequence[tuple[float, float]]) -> list[float]:
    """How far the stated value lies above the exact one, by quantile; checks the interval."""
    found = []
    for q in QUANTILES:
        quantile, truth = histogram.quantile(q), exact(values, q)
        assert quantile is not None
        assert quantile.low - 1e-9 <= truth <= quantile.high + 1e-9, (q, truth, quantile)
        assert quantile.high - quantile.low <= histogram.resolution + 1e-9
        found.append(quantile.high - truth)
    return found


def counted(series: Sequence[float], every: int = 30, told: int = 1) -> Histogram:
    """What our exporter and the rollup make of one value a second, days summed up or not.

    ``told``: only every so manieth page has its histograms, and the last.
    """
    exporter = Exporter([Job(lambda t: series[t - T0] if t < T0 + len(series) else 0.0, T0)], T0)
    exporter.jobs[0].end = T0 + len(series)
    rollup = CounterRollup("c1")
    pages = run_pages(exporter, T0 + len(series) + every, every)
    written: dict[UsageKey, UsageRow] = {}
    for place, page in enumerate(pages):
        rollup.add(page if place % told == 0 or page is pages[-1] else without_histograms(page))
        written |= {row.key: row for row in rollup.take_rows()}
        late = completed(written, rollup.take_histograms(), "gputailor")
        written |= {row.key: row for row in late}
    with Store.open() as store:
        with store.transaction() as tx:
            tx.put_usage(written.values())
        compact(store, "c1", T0 + 10 * 86400)
        rows = list(store.usage("c1", T0, T0 + 86400))
    histogram = merge_rows(rows).signals["kernel"].histogram
    assert histogram is not None
    return histogram


shares = st.sampled_from((0.0, 1.0)) | st.floats(0, 1)


@settings(max_examples=40)
@given(st.lists(shares, min_size=1, max_size=120))
def test_any_series_of_seconds_keeps_its_quantiles_within_the_resolution(series):
    errors(counted(series), [(value, 1.0) for value in series])


@settings(max_examples=10, deadline=None)
@given(st.lists(shares, min_size=1, max_size=20), st.integers(2, 40))
def test_histograms_that_are_told_late_keep_them_as_well(series, told):
    seconds = [value for value in series for _ in range(500)]  # up to three hours
    errors(counted(seconds, 100, told), [(value, 500.0) for value in series])


def generated(kind: str) -> list[float]:
    """Two hours of one kind of load, a value a second."""
    chance = random.Random(kind)
    clip = lambda value: min(1.0, max(0.0, value))  # noqa: E731
    return {
        "steady": [clip(chance.gauss(0.93, 0.02)) for _ in range(7200)],
        "idle": [0.0] * 7200,
        "bursts": [float(second % 2) for second in range(7200)],
        "requests": [
            clip(chance.expovariate(8)) if chance.random() < 0.4 else 0.0 for _ in range(7200)
        ],
        "day": [clip(0.5 + 0.5 * math.sin(second / 1146)) for second in range(7200)],
    }[kind]


@pytest.mark.parametrize("kind", ["steady", "idle", "bursts", "requests", "day"])
def test_generated_loads_keep_their_quantiles_within_the_resolution(kind):
    series = generated(kind)
    found = errors(counted(series), [(value, 1.0) for value in series])
    assert max(found) <= 0.25
    assert min(found) >= -1e-9  # a quantile that sizes something is never understated


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 100)), min_size=3, max_size=80),
)
def test_any_log_keeps_its_quantiles_within_a_twentieth(steps):
    at, samples = float(T0), []
    for seconds, percent in steps:
        samples.append(GaugeSample(at=at, gpu="0", kernel=percent / 100))
        at += seconds
    check_log(samples)


def check_log(samples: Sequence[GaugeSample]) -> float:
    """Check one device's log; returns the largest error."""
    rows, _ = rows_from_samples(samples, cluster="c1", pod=Holder(namespace="n", pod="p"))
    histogram = merge_rows(rows).signals["kernel"].histogram
    assert histogram is not None
    assert histogram.resolution == 0.05
    return max(errors(histogram, weighed(samples)))


def weighed(samples: Sequence[GaugeSample]) -> list[tuple[float, float]]:
    """Values with the seconds for which they stand: until the next, at most three periods."""
    times = [sample.at for sample in samples]
    steps = [b - a for a, b in pairwise(times)]
    usual = statistics.median(step for step in steps if step > 0)
    gap = max(5.0, 3 * usual)
    lengths = [*(min(step, gap) for step in steps), min(usual, gap)]
    return [
        (sample.kernel, seconds)
        for sample, seconds in zip(samples, lengths, strict=True)
        if sample.kernel is not None
    ]


@pytest.mark.restricted
@pytest.mark.parametrize(
    "name",
    ["rtx4090_vlm_eval_1s.csv", "bom_llm_bench_15s.csv", "rtx4060_doubled_timestamp_column.csv"],
)
def test_recorded_loads_keep_their_quantiles_within_a_twentieth(shared_data, name):
    samples = read_log(shared_data / "logs" / name).samples
    first = samples[0].gpu
    assert check_log([sample for sample in samples if sample.gpu == first]) <= 0.05
