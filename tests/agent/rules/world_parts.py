"""Small worlds of the rules: what happened on the GPUs, who was told, what is known beside it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from gputailor_agent.model.containers import EngineUse, HostUse
from gputailor_agent.model.inventory import (
    Inventory,
    Outcome,
    Pod,
    TaskClass,
    Workload,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.model.usage import UsageRow
from tests.agent.factories import (
    DAY,
    GIB,
    HOUR,
    NOW,
    device,
    node,
    pod,
    profile,
    row,
    rows,
    workload,
)
from tests.agent.rules.advice_parts import host, job, seconds_told
from tests.agent.rules.service_parts import commanded, service, web
from tests.agent.rules.test_environment_drift import NEW, OLD, imaged
from tests.agent.rules.test_excess_cpu_memory import NODE, asking, used
from tests.agent.rules.test_mig_slice import sliced
from tests.agent.rules.test_other_vendor import ASCEND, MI, catalogue
from tests.agent.rules.test_share import small
from tests.agent.rules.test_spot import SpotCatalogue
from tests.agent.rules.test_time_limit import LIMIT

TRAINING: Final = workload(framework="pytorch")
WEB: Final = web()
FED: Final = {"zero_inside_active_minute": 0.0, "link_saturated": 0.0}
CALM: Final = {"cpu_of_limit": 0.3, "throttled_ratio": 0.1, "pressure": {"io/some": 0.1}}


@dataclass(frozen=True)
class World:
    """What happened, who was told, and what is known beside it."""

    usage: list[UsageRow]
    pods: list[Pod]
    work: Workload = TRAINING
    host: HostUse | None = None
    engine: EngineUse | None = None
    catalogue: Any = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def made(self) -> tuple[Profile, Inventory]:
        """The profile and the inventory."""
        built, world = profile(self.usage, self.pods, self.work, **self.options)
        return msgspec.structs.replace(built, host=self.host, engine=self.engine), world

    def but(self, **changes: Any) -> "World":
        """The same with other ``usage``, ``pods``, ..."""
        told = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return World(**{**told, **changes})


def plain(
    hours: float = 6, conditions: Mapping[str, float] = FED, **levels: Any
) -> tuple[list[UsageRow], list[Pod]]:
    """One GPU that ran alike, its seconds counted."""
    return job(hours, conditions, **levels)


def idle_since(
    hours: float, *, work: Workload = TRAINING, worked: bool = False, **more: Any
) -> World:
    """One GPU without work for so many hours, after some work or since its start."""
    start = NOW - (24 * HOUR if worked else int(hours * HOUR))
    last = NOW - int(hours * HOUR)
    usage = [
        row(hour, kernel=0.5 if hour < last else 0.0,
            last_active=last if hour < last else None, **more)
        for hour in range(start, NOW, HOUR)
    ]  # fmt: skip
    return World(usage, [pod(start=start)], work)


def loaded(hours: float = 12, **more: Any) -> World:
    """A server that has worked this morning and keeps its model in memory."""
    return idle_since(
        hours, work=workload("web", "Deployment", TaskClass.INFERENCE), worked=True,
        **{"memory_gib": 8.0, **more},
    )  # fmt: skip


def linked(world: World, told: float) -> World:
    usage = [
        msgspec.structs.replace(one, link_bytes={"pcie/rx": told * one.allocated_seconds})
        for one in world.usage
    ]
    return world.but(usage=usage)


def oom_killed(usage: list[UsageRow], pods: list[Pod]) -> tuple[list[UsageRow], list[Pod], Any]:
    """The same and an earlier run that was killed for memory with as much of it."""
    start = NOW - 20 * DAY // 2
    dead = pod("dead", start=start, finished=start + 2 * HOUR, oom=True)
    peak = (usage[0].memory_peak_bytes or 0) / GIB
    more = rows(start, start + 2 * HOUR, pod="dead", gpu="GPU-dead", kernel=0.1, sm=0.05,
                memory_gib=peak)  # fmt: skip
    return [*usage, *more], [*pods, dead], {"runs": {"run-1": pods, "dead": [dead]}}


def failed_full(
    usage: list[UsageRow], pods: list[Pod], gib: float
) -> tuple[list[UsageRow], list[Pod], Any]:
    """The same and an earlier run that failed with the card as full as said."""
    start = NOW - 10 * DAY
    dead = pod("dead", start=start, finished=start + 2 * HOUR, phase="Failed")
    more = rows(start, start + 2 * HOUR, pod="dead", gpu="GPU-dead", kernel=0.1, sm=0.05,
                memory_gib=gib)  # fmt: skip
    runs = {"run-1": pods, "dead": [dead]}
    ends = {"run-1": Outcome.RUNNING, "dead": Outcome.FAILED}
    return [*usage, *more], [*pods, dead], {"runs": runs, "outcomes": ends}


CARDS: Final = [node("node-a", model="A100"), node("node-l", model="L4")]
LIGHT: Final = {"kernel": 0.2, "sm": 0.1, "tensor": 0.02, "dram": 0.02}


def smaller(**levels: Any) -> World:
    """A light job on an A100 beside L4s."""
    return World(*plain(6, **{**LIGHT, **levels}), options={"nodes": CARDS})


def smaller_service(**levels: Any) -> World:
    """A light service likewise."""
    usage, pods = service(days=8, **{**LIGHT, **levels})
    return World(usage, pods, WEB, options={"nodes": CARDS})


def with_past(world: World, past: Callable[..., Any], *more: Any) -> World:
    """The world with an earlier run that ``oom_killed`` or ``failed_full`` adds."""
    usage, pods, options = past(world.usage, world.pods, *more)
    return world.but(usage=usage, pods=pods, options={**world.options, **options})


def slices(**shape: Any) -> World:
    """A small job of which each second is known, on an A100 beside one that is cut in slices."""
    usage, pods = small(**{"width": 0.05, "dram": 0.05, "kernel": 0.05, **shape})
    return World(usage, pods, options={"nodes": [node(model="A100"), sliced()]})


def input_bound(told: Mapping[str, Any] | None = None, **levels: Any) -> World:
    told = {**CALM, "cpu_of_limit": 0.95, **(told or {})}
    usage, pods = plain(6, {"zero_inside_active_minute": 0.0}, kernel=0.5, sm=0.3, **levels)
    return World(usage, pods, host=host(**told))


def waits(rule_levels: Mapping[str, float], conditions: Mapping[str, float], **told: Any) -> World:
    """A job with the levels of another rule's finding that may wait for its input."""
    usage, pods = plain(6, {**FED, **conditions}, **rule_levels)
    return World(usage, pods, host=host(**{**CALM, **told}))


FP32: Final = {"kernel": 0.95, "sm": 0.45, "tensor": 0.02, "fp32": 0.3, "fp64": 0.0, "dram": 0.2}
CANDIDATE: Final = {"amp_candidate": 0.5, "zero_inside_active_minute": 0.1}
EMPTY: Final = {"kernel": 0.8, "sm": 0.1, "dram": 0.1, "tensor": 0.1}


def ranks(levels: tuple[float, ...], *, runs: int = 1, slow_runs: int | None = None,
          conditions: Mapping[str, float] | None = None) -> World:  # fmt: skip
    """Runs of one pod with a GPU per level; the last is the slow rank's in ``slow_runs`` of them."""
    usage, by_run = [], {}
    for place in range(runs):
        start = NOW - (runs - place) * DAY
        name = f"train-{place}"
        slow = slow_runs is None or place < slow_runs
        own = levels if slow else (levels[0],) * len(levels)
        for rank, level in enumerate(own):
            made = rows(start, start + 6 * HOUR, pod=name, gpu=f"G{rank}", kernel=1.0, sm=level)
            usage += seconds_told(made, conditions or {} if rank == len(own) - 1 else {})
        by_run[name] = [pod(name, gpus=len(levels), start=start, finished=start + 6 * HOUR)]
    pods = [one for members in by_run.values() for one in members]
    return World(usage, pods, options={"runs": by_run})


def spot(hours: float = 14 * 24, share: float = 0.4) -> World:
    start = NOW - int(hours * HOUR)
    usage = rows(start, NOW, kernel=0.9)
    pods = commanded([pod(start=start)], "--resume")
    return World(
        usage, pods, catalogue=SpotCatalogue(share),
        thresholds={"hours_between_interruptions": 24.0},
        options={"nodes": [node(capacity_type="on-demand",
                                labels={"karpenter.sh/capacity-type": "on-demand"})]},
    )  # fmt: skip


def drifting(*shapes: tuple[str, float], devices: Any = None, nodes: Any = None) -> World:
    """A run per (image, hours), one a day."""
    usage, by_run = [], {}
    for place, (image, hours) in enumerate(shapes):
        start = NOW - (len(shapes) - place) * DAY
        name = f"run-{place}"
        usage += rows(start, int(start + hours * HOUR), pod=name, kernel=0.9)
        by_run[name] = [imaged(name, image, start=start, hours=hours)]
    known = [msgspec.structs.replace(device(), driver_version="550.54.15")]
    pods = [one for members in by_run.values() for one in members]
    options = {"runs": by_run, "devices": known if devices is None else devices}
    options |= {} if nodes is None else {"nodes": nodes}
    return World(usage, pods, workload(kind="CronJob"), options=options)


SLOWER: Final = [(OLD, 2.0), (OLD, 2.0), (OLD, 2.0), (NEW, 3.0), (NEW, 3.0), (NEW, 3.0)]


def two_drivers() -> World:
    """One pod on two nodes of a pool whose drivers differ."""
    start = NOW - 6 * HOUR
    usage = [*rows(start, NOW, pod="a", gpu="G0", kernel=0.9),
             *rows(start, NOW, pod="b", gpu="G1", kernel=0.9)]  # fmt: skip
    pods = [pod("a", start=start), pod("b", start=start, node="node-b")]
    known = [
        msgspec.structs.replace(device("G0"), driver_version="550.54.15"),
        msgspec.structs.replace(device("G1", node="node-b"), driver_version="535.10.01"),
    ]
    nodes = [node("node-a"), node("node-b")]
    return World(usage, pods, options={"devices": known, "nodes": nodes})


def limited(hours: tuple[float, ...], *, limit: float, outcomes: Any = None) -> World:
    """Runs of so many hours each under a time limit in seconds."""
    usage, by_run, ends = [], {}, {}
    for place, length in enumerate(hours):
        start = NOW - (len(hours) - place) * DAY
        end = start + length * HOUR
        name = f"run-{place}"
        usage += rows(start, int(end), pod=name, kernel=0.9)
        by_run[name] = [pod(name, start=start, finished=end)]
        ends[name] = outcomes[place] if outcomes else Outcome.SUCCEEDED
    pods = [one for members in by_run.values() for one in members]
    work = workload(kind="CronJob", annotations={LIMIT: f"{limit:g}"})
    return World(usage, pods, work, options={"runs": by_run, "outcomes": ends})


def excessive(cpus: float = 48.0, asked_gib: int = 64, **told: Any) -> World:
    member = asking(cpus=cpus, memory_gib=asked_gib)
    usage = rows(NOW - 6 * HOUR, NOW, kernel=0.9)
    return World(usage, [member], host=used(**told), options={"nodes": [node(**NODE)]})


def other(memory_gib: float = 100.0, cards: tuple[Any, ...] = (MI, ASCEND)) -> World:
    levels = {"kernel": 0.8, "sm": 0.6, "dram": 0.5, "tensor": 0.3, "total_gib": 141}
    usage, pods = plain(6, memory_gib=memory_gib, **levels)
    return World(usage, pods, catalogue=catalogue(*cards), thresholds={"allowed": 1.0})


def serves(levels: Mapping[str, float], says: EngineUse | None, names: tuple[str, ...] = ("web-0",),
           **work: Any) -> World:  # fmt: skip
    usage, pods = service(names, **levels)
    known = [device(f"G-{name}", "A100") for name in names]
    return World(usage, pods, web(**work), engine=says, options={"devices": known})
