"""Where a rule's arithmetic is written to be quick, it says what the plain way of it would say."""

from collections import defaultdict
from functools import reduce

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import (
    HISTOGRAM_EDGES,
    NO_USE,
    Histogram,
    Quantile,
    SignalUse,
    quantise,
)
from gputailor_agent.profiles import merge_uses
from gputailor_agent.profiles.courses import hour_of_week
from gputailor_agent.rules import evaluate_all, idleness, registry
from gputailor_agent.rules.candidates import candidate
from gputailor_agent.rules.changes import as_yaml
from gputailor_agent.rules.fitting import Need, Resource, fit, may_fit
from gputailor_agent.rules.slowdown import at_least, least_mean, raised, smaller_gpu
from gputailor_agent.rules.smaller_gpu import RULE as SMALLER_GPU
from gputailor_agent.rules.stretches import Quiet, quiet_time
from tests.agent.factories import (
    A40,
    A100,
    DAY,
    H100,
    HOUR,
    L4,
    NOW,
    PRICES,
    T4,
    FakeCatalogue,
    context,
    histogram,
    pod,
    profile,
    row,
    rows,
    workload,
)

FIRST = NOW - DAY
seconds = st.floats(0, 3700).map(quantise) | st.sampled_from([0.0, 3240.0, 3600.0])
moments = st.floats(FIRST - HOUR, NOW).map(quantise)


@pytest.fixture(scope="module")
def a_use():
    made, _ = profile([row(NOW - HOUR)], [pod(start=NOW - DAY)])
    return made.gpus[0]


@st.composite
def hours(draw):
    """Hours of one day in their order, some of them missing, many at zero."""
    places = sorted(draw(st.sets(st.integers(0, 23), max_size=24)))
    return tuple(
        (FIRST + place * HOUR, draw(seconds), draw(st.sampled_from([0.0, 0.0, 0.0, 5.0])))
        for place in places
    )


def plainly_idle_since(use, held, window):
    since = held if held >= window.start or use.last_active is not None else window.start
    if use.last_active is not None:
        since = max(since, use.last_active)
    for hour, _, active in use.hours:
        told = use.last_active is not None and hour <= use.last_active
        if active > 0 and not told:
            since = max(since, min(window.end, float(hour + HOUR)))
    return since, since <= held and held >= window.start


def plainly_observed_since(use, since, held, end):
    total = 0.0
    for hour, observed, _ in use.hours:
        stop = min(end, float(hour + HOUR))
        if stop <= since:
            continue
        before = max(0.0, since - max(float(hour), held))
        total += max(0.0, min(observed - before, stop - max(float(hour), since)))
    return total


def plainly_coverage_since(use, since, held, end):
    if end <= since:
        return 0.0
    return min(1.0, plainly_observed_since(use, since, held, end) / (end - since))


def plainly_covered_since(use, since, held, end, coverage):
    starts = sorted(float(hour) for hour, _, _ in use.hours if since < hour < end)
    enough = (at for at in starts if plainly_coverage_since(use, at, held, end) >= coverage)
    return next(enough, None)


@given(
    hours(),
    st.none() | moments,
    st.tuples(moments, moments),
    st.sampled_from([0.0, 600.0, 1800.5]).map(lambda cut: NOW - cut),
)
@settings(max_examples=300, deadline=None)
def test_since_when_a_device_is_idle_and_how_well_that_was_observed(a_use, told, last, times, end):
    held, since = times
    use = msgspec.structs.replace(a_use, hours=told, last_active=last)
    window = Window(start=float(FIRST), end=end)
    assert idleness._idle_since(use, held, window) == plainly_idle_since(use, held, window)
    assert idleness._coverage_since(use, since, held, end) == pytest.approx(
        plainly_coverage_since(use, since, held, end), abs=1e-12
    )
    for coverage in (0.3, 0.98):
        assert idleness._covered_since(use, since, end, coverage) == plainly_covered_since(
            use, since, held, end, coverage
        )


@given(hours())
def test_seconds_of_busy_and_of_idle_hours(a_use, told):
    use = msgspec.structs.replace(a_use, hours=told)
    assert idleness._busy_and_idle(use) == (
        sum(observed for _, observed, active in told if active > 0),
        sum(observed for _, observed, active in told if active == 0),
    )


def plainly_quiet(groups, stop_after):
    """Hour by hour, as the words of ``Quiet`` say it."""
    held = quiet = freed = weekend = longest = 0.0
    stretches = 0
    for uses in groups:
        held += sum(use.allocated_seconds for use in uses)
        told = defaultdict(list)
        for use in uses:
            for hour, observed, active in use.hours:
                told[hour].append(active == 0 and observed >= 0.9 * HOUR)
        length, before = 0, None
        lengths = []
        for hour in sorted(told):
            if not all(told[hour]):
                length = 0
                continue
            length = length + 1 if before == hour - HOUR and length else 1
            before = hour
            devices = len(told[hour])
            quiet += HOUR * devices
            over = max(0.0, min(float(HOUR), length * HOUR - stop_after))
            freed += over * devices
            weekend += over * devices * (hour_of_week(hour) >= 120)
            if length == 1:
                lengths.append(1)
            lengths[-1] = length
        longest = max([longest, *(float(one * HOUR) for one in lengths)])
        stretches += sum(one * HOUR > stop_after for one in lengths)
    return Quiet(held, quiet, freed, weekend, longest, stretches)


@given(
    st.lists(st.lists(hours(), min_size=1, max_size=3), max_size=2),
    st.booleans(),
    st.sampled_from([0.0, 1800.0, 3600.0, 5400.0]),
)
@settings(max_examples=200, deadline=None)
def test_quiet_time_of_groups_of_devices(a_use, told, alike, stop_after):
    if alike:  # devices of one pod are mostly seen in the same hours
        told = [
            [tuple((hour, *some[1:]) for (hour, *_), some in zip(one, own, strict=False))
             for own in group for one in group[:1]]
            for group in told
        ]  # fmt: skip
    groups = [[msgspec.structs.replace(a_use, hours=one) for one in group] for group in told]
    assert quiet_time(groups, stop_after) == plainly_quiet(groups, stop_after)


parts = st.dictionaries(st.sampled_from(HISTOGRAM_EDGES), st.integers(1, 3600), max_size=6)
histograms = st.builds(histogram, parts, st.sampled_from([0.05, 0.25]))


@given(histograms, st.sampled_from([0.0, 0.5, 0.95, 0.99, 1.0]))
def test_a_quantile_of_a_histogram(told, q):
    def plainly():
        total = sum(told.seconds)
        if total <= 0:
            return None
        seen = 0.0
        for edge, length in zip(HISTOGRAM_EDGES, told.seconds, strict=True):
            seen += length
            if length > 0 and seen >= q * total:
                low = 0.0 if edge == 0.0 else max(0.0, edge - told.resolution)
                return Quantile(q=q, low=low, high=edge)
        return Quantile(q=q, low=max(0.0, 1.0 - told.resolution), high=1.0)

    assert told.quantile(q) == plainly()


def low_edge(index: int, told: Histogram) -> float:
    return 0.0 if index == 0 else max(0.0, HISTOGRAM_EDGES[index] - told.resolution)


@st.composite
def uses(draw):
    """A signal's use with a histogram that may lack some of the observed time, or without one."""
    told = draw(st.none() | histograms)
    observed = draw(st.floats(1, 50_000).map(quantise))
    if told is not None:
        observed = max(observed, told.total_seconds)
    return SignalUse(
        observed_seconds=observed,
        active_seconds=quantise(observed * draw(st.floats(0, 1))),
        maximum=draw(st.none() | st.floats(0, 1)),
        histogram=told,
    )


@given(uses(), st.floats(0.5, 8.0))
def test_the_least_slowdown_by_a_histogram(use, rho):
    mean, excess = 0.0, 0.0
    if use.histogram is not None:
        for place, length in enumerate(use.histogram.seconds):
            mean += length * low_edge(place, use.histogram)
            excess += length * max(0.0, low_edge(place, use.histogram) * rho - 1.0)
    assert least_mean(use) == pytest.approx(mean / use.observed_seconds)
    wanted = max(1.0, min(1.0, use.mean) * rho, 1.0 + excess / use.observed_seconds)
    assert at_least(use, rho) == pytest.approx(wanted if rho > 1 else 1.0)


@given(st.lists(uses(), min_size=1, max_size=4))
def test_devices_are_added_up_as_one_after_another(a_use, told):
    many = [msgspec.structs.replace(a_use, signals={"sm": one}) for one in told]
    assert merge_uses(many).signals()["sm"] == reduce(lambda a, b: a.merge(b), told)


@st.composite
def needs(draw):
    """What a workload on an A100 needs, its activities known or not."""
    resources = []
    for name, signal, figure in (
        ("compute", "sm", "fp32_flops"),
        ("tensor", "tensor", "tensor_flops"),
        ("memory bandwidth", "dram", "bandwidth"),
    ):
        now = candidate(A100, "", None)
        use = draw(st.none() | uses())
        resources.append(Resource(name, signal, use, 0.5, getattr(now, figure), figure))
    active = draw(st.floats(0, 1))
    known = [one.use for one in resources if one.use is not None]
    return Need(
        present=candidate(A100, "", FakeCatalogue().price(A100)),
        memory_bytes=draw(st.sampled_from([4, 12, 20, 60])) * 2**30,
        resources=tuple(resources[: draw(st.integers(0, 3))]),
        active_share=active,
        raised_share=raised(active, known),
        gpus_per_pod=1,
        latency=False,
        links=False,
        price=PRICES["A100"],
        currency="USD",
        activity=draw(st.booleans()),
    )


@given(needs(), st.sampled_from([H100, L4, T4, A40]), st.floats(0.05, 1.5))
@settings(max_examples=300, deadline=None)
def test_no_card_that_would_be_recommended_is_passed_over(need, card, price):
    _, world = profile([], [pod(phase="Pending", node=None)])
    limits = SMALLER_GPU.limits(context(world))
    one = candidate(card, "", FakeCatalogue({card.key: price * PRICES["A100"]}).price(card))
    if fit(need, one, limits).verdict == "recommend":
        assert may_fit(need, one, limits)


def test_the_share_of_time_active_is_raised_once_for_all_cards():
    use = SignalUse(observed_seconds=3600.0, active_seconds=2700.0)
    assert raised(0.1, [use, NO_USE]) == 0.75
    assert smaller_gpu([(use, 2.0)], 0.1) == smaller_gpu([(use, 2.0)], raised(0.1, [use]))


def worlds():
    """Workloads that differ in all that is remembered of one."""
    busy = {"kernel": 0.4, "sm": 0.2, "dram": 0.1, "tensor": 0.0, "fp32": 0.2}
    yield rows(NOW - 6 * HOUR, NOW, **busy), [pod(start=NOW - 6 * HOUR)], workload()
    two = [one for gpu in ("a", "b") for one in rows(NOW - DAY, NOW, gpu=gpu, kernel=gpu == "a")]
    yield two, [pod(gpus=2, start=NOW - DAY)], workload(framework="pytorch")
    start = NOW - 8 * DAY
    web = [pod(f"web-{n}", start=start) for n in range(2)]
    usage = [one for member in web for one in rows(start, NOW, pod=member.name,
                                                   gpu=f"G-{member.name}", kernel=0.1)]  # fmt: skip
    yield usage, web, workload("web", "Deployment", framework="pytorch")


def test_what_is_remembered_of_a_workload_is_said_of_no_other():
    """Asked in turns, in one context, each rule answers as it does when it is asked alone."""
    made = [profile(*world) for world in worlds()]
    shared = context(made[0][1])
    for one, _ in (*made, *made):
        alone = [rule.evaluate(one, context(made[0][1])) for rule in registry()]
        assert evaluate_all(one, shared) == alone
    for rule in registry():
        for one, _ in made:
            assert rule.evaluate(one, shared) == rule.evaluate(one, context(made[0][1]))


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"spec": {"replicas": 0}},
        {"spec": {"template": {"spec": {"containers": [{"name": "on", "resources": None}]}}}},
        {"metadata": {"annotations": {"a": "0"}}, "b": 1.5, "c": True},
    ],
)
def test_a_patch_that_was_written_before_is_the_same(document):
    for _ in range(2):
        text = as_yaml(document)
        assert (yaml.safe_load(text) or {}) == document
        assert list(yaml.safe_load(text) or {}) == list(document)
