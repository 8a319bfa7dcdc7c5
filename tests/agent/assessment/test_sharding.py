"""A cluster that is judged in shards gets the same plan as one that is judged as a whole."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.assessment import AssessmentSettings, assess, assess_store
from gputailor_agent.inventory.identity import resolve
from gputailor_agent.ledger.setups import Member, setup_of
from gputailor_agent.model.inventory import Resolution
from gputailor_agent.model.judgement import Verdict
from gputailor_agent.model.profile import Window
from gputailor_agent.profiles import build_profiles
from gputailor_agent.profiles.outlining import outline
from gputailor_agent.profiles.sharding import shards
from gputailor_agent.store import Store
from gputailor_agent.store.compacting import compact
from tests.agent.factories import (
    CLUSTER,
    DAY,
    HOUR,
    NOW,
    FakeCatalogue,
    device,
    inventory,
    node,
    pod,
    row,
    rows,
)
from tests.agent.test_planner import clusters

WINDOW = Window(start=NOW - 2 * DAY, end=float(NOW))


@st.composite
def judged_clusters(draw):
    """Usage, pods, nodes and devices; workloads across pods, pods nobody knows, use of no pod."""
    usage, pods, nodes, devices = draw(clusters())
    names = st.sampled_from(["", "", "one", "other"])
    told = [
        msgspec.structs.replace(one, annotations={"gputailor.io/workload": name} if name else {})
        for one in pods
        if (name := draw(names)) or draw(st.integers(0, 3))
    ]
    usage += [row(NOW - HOUR * draw(st.integers(1, 9)), pod="gone", gpu=f"L{i}") for i in range(2)]
    for name in draw(st.sets(st.sampled_from("xyz"))):  # one card, one pod: its use can be told
        nodes.append(node(f"bare-{name}", gpus=1, model="L4"))
        told.append(pod(f"bare-{name}", node=f"bare-{name}", start=NOW - 5 * HOUR))
        devices.append(device(f"B{name}", "L4", f"bare-{name}"))
        usage += [
            row(NOW - HOUR * back, pod="", namespace="", container="", uid="", gpu=f"B{name}")
            for back in range(1, draw(st.integers(2, 5)))
        ]
    return usage, told, nodes, devices


def judged(store, world, size):
    made = AssessmentSettings(shard_pods=size)
    return assess_store(
        store,
        CLUSTER,
        world,
        WINDOW,
        now=float(NOW),
        catalogue=FakeCatalogue(),
        settings=made,
    )


@given(judged_clusters(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_the_plan_is_the_same_whatever_the_size_of_a_shard(cluster, summed_up):
    usage, pods, nodes, devices = cluster
    unique = {one.key: one for one in usage}
    world = inventory(pods, nodes)
    with Store.open() as store:
        with store.transaction() as tx:
            tx.put_usage(unique.values())
        if summed_up:
            compact(store, CLUSTER, NOW + DAY)
        with store.transaction() as tx:
            tx.put_devices(devices)  # after that: it forgets devices that were never seen
        whole, *parts = (judged(store, world, size) for size in (10_000, 1, 3))
    assert all(part.plan == whole.plan for part in parts)
    assert all(part.profiles == whole.profiles for part in parts)
    plain = assess(
        unique.values(),
        devices,
        world,
        window=WINDOW,
        now=float(NOW),
        catalogue=FakeCatalogue(),
    )
    assert whole.plan == plain.plan


@given(judged_clusters(), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_every_workload_lies_in_one_shard_with_all_its_pods(cluster, size):
    usage, pods, nodes, _ = cluster
    world = inventory(pods, nodes)
    resolution = resolve(world)
    used = {(one.key.namespace, one.key.pod) for one in usage}
    made = list(shards(world, resolution, used, size))
    names = [name for shard in made for name in shard.names]
    assert len(names) == len(set(names))
    assert set(names) >= used - {("", "")}
    assert sorted(one.uid for shard in made for one in shard.pods) == sorted(
        one.uid for one in pods
    )
    for shard in made:
        inside = {one.workload_id for one in shard.assignments}
        assert inside == {one.id for one in shard.workloads}
    everything = Resolution(
        workloads=tuple(one for shard in made for one in shard.workloads),
        runs=tuple(one for shard in made for one in shard.runs),
        assignments=tuple(one for shard in made for one in shard.assignments),
    )
    for name in ("workloads", "runs", "assignments"):
        assert set(map(repr, getattr(everything, name))) == set(
            map(repr, getattr(resolution, name))
        )


def test_without_strangers_pods_that_the_inventory_does_not_know_are_left_out():
    world = inventory([pod("known", start=NOW - 3 * HOUR)], [node()])
    with Store.open() as store:
        with store.transaction() as tx:
            tx.put_usage(rows(NOW - 3 * HOUR, NOW, pod="known"))
            tx.put_usage(rows(NOW - 3 * HOUR, NOW, pod="gone", gpu="GPU-1"))
        made = [
            assess_store(
                store,
                CLUSTER,
                world,
                WINDOW,
                now=float(NOW),
                catalogue=FakeCatalogue(),
                strangers=strangers,
            )
            for strangers in (True, False)
        ]
    assert [sorted(one.workload.name for one in part.plan.verdicts) for part in made] == [
        ["gone", "known"],
        ["known"],
    ]


@pytest.mark.parametrize("models", [("A100",), ("A100", "L4")])
def test_an_outline_tells_the_ledger_what_the_profile_told(models):
    usage = [
        row(NOW - HOUR * back, gpu=f"{model}-{back}") for model in models for back in (1, 2, 3)
    ]
    devices = [device(one.key.gpu_uuid, one.key.gpu_uuid[:-2]) for one in usage]
    (profile,) = build_profiles(
        usage, devices, inventory([pod(gpus=6)], [node()]), Resolution(), WINDOW
    )
    bare = outline(profile)
    verdict = Verdict(
        workload=profile.workload,
        primary=None,
        alternatives=(),
        silences=(),
        gpu_hours=1.0,
        cost=None,
        gpus_now=6.0,
    )
    assert setup_of(Member(bare, verdict)) == setup_of(Member(profile, verdict))
    assert (bare.runs, bare.pods_now) == (profile.runs, profile.pods_now)
    assert len(bare.gpus) == len(models)
    assert all(not use.signals and not use.hours for use in bare.gpus)
