"""Profiles of what containers did beside their devices: sums that conserve, kept by the store."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model import cpu_levels
from gputailor_agent.model.containers import (
    CONTAINER_ITSELF,
    Amount,
    EngineUse,
    HostUse,
    Peak,
    observed,
    pressure,
)
from gputailor_agent.model.sums import UseSums
from gputailor_agent.model.usage import UsageKey, UsageRow, quantise
from gputailor_agent.profiles.containers import container_use
from gputailor_agent.profiles.tally import DeviceTally, merge_rows
from gputailor_agent.store import Store
from gputailor_agent.store.compacting import compact
from tests.agent.factories import DAY, HOUR, NOW, device, pod, profile, row

AMOUNTS = [*Amount, *(observed(a) for a in (Amount.RUNNING, Amount.WAITING, Amount.CACHE))]
AMOUNTS += [pressure("host", "io", "some"), pressure("node", "memory", "full")]
AMOUNTS += [cpu_levels.level(0.0), cpu_levels.level(1.5)]


LAST = NOW - HOUR


def itself(hour=LAST, *, name="train-0", dialect="cadvisor+vllm", amounts=None, peaks=None, **more):
    key = UsageKey(
        cluster="test", namespace="team-a", pod=name, pod_uid=f"uid-{name}", container="main",
        gpu_uuid=CONTAINER_ITSELF, hour=int(hour),
    )  # fmt: skip
    return UsageRow(
        key=key, dialect=dialect, allocated_seconds=0.0, amounts=amounts or {}, peaks=peaks or {},
        **more,
    )  # fmt: skip


BUSY = {
    "amounts": {
        Amount.ENGINE_OBSERVED: 3600.0, Amount.REQUESTS: 720.0,
        Amount.LATENCY: 1440.0, Amount.LATENCY_REQUESTS: 720.0,
        Amount.CACHE: 900.0, observed(Amount.CACHE): 3600.0,
        Amount.HOST_OBSERVED: 3600.0, Amount.CPU_USED_OF_LIMIT: 1800.0,
        Amount.CPU_PERIODS: 36_000.0, Amount.CPU_THROTTLED_PERIODS: 9_000.0,
        Amount.PRESSURE_OBSERVED: 3600.0, pressure("host", "io", "some"): 720.0,
    },
    "peaks": {Peak.CACHE: 0.75, Peak.LAST_REQUEST: float(NOW), Peak.MEMORY: 2.0**31},
    "cpu_used_seconds": 1800.0, "cpu_limit_seconds": 3600.0, "restarts": 1, "oom_kills": 0,
}  # fmt: skip


def built(rows):
    found, _ = profile(rows, [pod("train-0", gpus=2)], devices=[device(), device("GPU-1")])
    return found


def test_a_profile_says_what_its_containers_did_once_whatever_devices_they_hold():
    devices = [row(LAST, gpu="GPU-0", kernel=0.5), row(LAST, gpu="GPU-1", kernel=0.5)]
    found, without = built([*devices, itself(**BUSY)]), built(devices)
    assert found.host.cpu_used_seconds == 1800.0
    assert found.host.cpu_of_limit == 0.5
    assert found.host.throttled_ratio == 0.25
    assert found.host.pressure == {"io/some": 0.2}
    assert (found.host.restarts, found.host.oom_kills) == (1, 0)
    assert found.host.sources == ("cadvisor",)
    assert found.engine.engines == ("vllm",)
    assert (found.engine.requests, found.engine.latency_seconds) == (720.0, 2.0)
    assert (found.engine.cache.mean, found.engine.cache.maximum) == (0.25, 0.75)
    assert found.engine.prompt_tokens is None
    assert found.engine.running is None
    assert msgspec.structs.replace(found, host=None, engine=None) == without
    assert (without.host, without.engine) == (None, None)


def test_a_kill_that_only_kube_state_metrics_saw_marks_the_run():
    devices = [row(LAST, gpu=gpu) for gpu in ("GPU-0", "GPU-1")]
    killed = built([*devices, itself(dialect="kube_state_metrics", oom_kills=1)])
    assert killed.oom_seen
    assert killed.engine is None
    assert not built(devices).oom_seen


def test_a_container_without_a_limit_does_not_change_the_ratio_of_those_with_one():
    limited = {"cpu_used_seconds": 50.0, "cpu_limit_seconds": 100.0}
    rows = [
        itself(amounts={Amount.CPU_USED_OF_LIMIT: 50.0}, **limited),
        itself(NOW + HOUR, cpu_used_seconds=1000.0),
    ]
    host, _ = container_use([sums_of(rows)])
    assert host.cpu_used_seconds == 1050.0
    assert host.cpu_of_limit == 0.5


def sums_of(rows) -> UseSums:
    tally = DeviceTally()
    for one in rows:
        tally.add_row(one)
    return tally


figure = st.floats(0, 1e9).map(quantise)
told = st.fixed_dictionaries({}, optional=dict.fromkeys(AMOUNTS, figure))
highest = st.dictionaries(st.sampled_from(list(Peak)), st.floats(0, 1e12), max_size=5)
count = st.none() | st.integers(0, 5)
generated = st.lists(
    st.builds(
        itself, st.integers(0, 60).map(lambda n: NOW + n * HOUR),
        dialect=st.sampled_from(["cadvisor", "cadvisor+vllm", "triton", "kube_state_metrics"]),
        amounts=told, peaks=highest, cpu_used_seconds=st.none() | figure,
        cpu_limit_seconds=st.none() | figure, restarts=count, oom_kills=count,
    ),
    min_size=1, max_size=8, unique_by=lambda one: one.key.hour,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(generated, st.randoms(use_true_random=False), st.integers(1, 7))
def test_any_order_and_grouping_of_rows_gives_the_same_use_and_loses_nothing(rows, random, cut):
    whole = container_use([sums_of(rows)])
    mixed = list(rows)
    random.shuffle(mixed)
    parts = [part for part in (mixed[:cut], mixed[cut:]) if part]
    assert container_use([sums_of(part) for part in parts]) == whole
    assert container_use([sums_of([merge_rows(part) for part in parts])]) == whole
    host, engine = whole
    known = [one.cpu_used_seconds for one in rows if one.cpu_used_seconds is not None]
    if known:
        assert host.cpu_used_seconds == sum(known)
    requests = [one.amounts[Amount.REQUESTS] for one in rows if Amount.REQUESTS in one.amounts]
    if engine is not None:
        assert engine.requests == (sum(requests) if requests else None)


@settings(max_examples=20, deadline=None)
@given(generated)
def test_the_store_gives_back_what_it_was_given_also_after_days_are_summed_up(rows):
    whole = container_use([sums_of(rows)])
    with Store.open() as store:
        with store.transaction() as tx:
            tx.put_usage(rows)
        assert sorted(store.usage("test", NOW, NOW + 9 * DAY), key=lambda one: one.key) == sorted(
            rows, key=lambda one: one.key
        )
        compact(store, "test", NOW + 9 * DAY)
        assert len(list(store.usage("test", NOW, NOW + 9 * DAY))) == len(rows)
        tally = DeviceTally()
        for _, part in store.usage_parts("test", NOW, NOW + 9 * DAY):
            tally.add_part(part)
    assert container_use([tally]) == whole


def test_nothing_told_is_nothing_known():
    assert EngineUse.of((), {}, {}) is None
    assert HostUse.of((), {}, {}, {}) is None


@pytest.mark.parametrize("amounts", [{Amount.ENGINE_OBSERVED: 10.0}])
def test_an_engine_that_tells_nothing_has_no_zeros(amounts):
    use = EngineUse.of({"ray"}, amounts, {})
    assert (use.requests, use.running, use.cache, use.latency_seconds) == (None,) * 4
