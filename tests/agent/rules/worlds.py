"""For each rule, worlds in which it speaks: what the tests that go through the registry use.

``WORLDS[rule]["fires"]`` makes the rule's finding; further worlds are those in which a threshold
decides that the first one does not touch. A rule that is registered and is not here fails
``test_every_rule``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from gputailor_agent.model.cpu_levels import CpuLevel
from gputailor_agent.model.inventory import (
    Inventory,
    Outcome,
    TaskClass,
)
from gputailor_agent.model.judgement import Finding, Silence
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules import Context, registry
from tests.agent.factories import (
    HOUR,
    context,
    device,
    node,
    workload,
)
from tests.agent.rules.advice_parts import check_words
from tests.agent.rules.further_worlds import FURTHER
from tests.agent.rules.service_parts import engine, service
from tests.agent.rules.test_health import COOL, gpus
from tests.agent.rules.test_idle_notebook import LAB, notebook
from tests.agent.rules.test_other_vendor import ASCEND
from tests.agent.rules.test_reserve import NODE as RESERVED_NODE
from tests.agent.rules.test_reserve import WINDOW as RESERVED_WINDOW
from tests.agent.rules.test_reserve import Committed, steady
from tests.agent.rules.test_share import small
from tests.agent.rules.test_standby import service as standing_by
from tests.agent.rules.test_too_many_gpus import job as ranked
from tests.agent.rules.test_too_many_replicas import service as replicas
from tests.agent.rules.world_parts import (
    CANDIDATE,
    EMPTY,
    FP32,
    SLOWER,
    WEB,
    World,
    drifting,
    excessive,
    failed_full,
    idle_since,
    input_bound,
    limited,
    linked,
    loaded,
    oom_killed,
    other,
    plain,
    ranks,
    serves,
    slices,
    smaller,
    smaller_service,
    spot,
    two_drivers,
    waits,
    with_past,
)


@dataclass(frozen=True)
class Built:
    """A world whose profile is made; asked many times."""

    world: World
    profile: Profile
    inventory: Inventory

    def context(self, rule: str, thresholds: Mapping[str, float]) -> Context:
        own = {**self.world.thresholds, **thresholds}
        told = {rule: {name: float(value) for name, value in own.items()}} if own else {}
        return context(self.inventory, self.world.catalogue, **told)

    def answer(self, rule: str, **thresholds: float) -> Finding | Silence:
        """What the rule says, after a look at whether every word of it can be said."""
        answer = RULES[rule].evaluate(self.profile, self.context(rule, thresholds))
        check_words(answer)
        return answer


RULES: Final = {rule.id: rule for rule in registry()}


@cache
def built(rule: str, name: str = "fires") -> Built:
    """The named world of a rule, made once."""
    world = WORLDS[rule][name]()
    return Built(world, *world.made())


DECODES: Final = {"kernel": 1.0, "sm": 0.4, "tensor": 0.2, "dram": 0.7}
TINY: Final = {"kernel": 0.005, "sm": 0.004, "tensor": 0.002, "dram": 0.001, "memory_gib": 4}
Maker = Callable[[], World]

FIRST: Final[Mapping[str, Mapping[str, Maker]]] = {
    "idle": {
        "fires": lambda: idle_since(7),
        "told": lambda: idle_since(2),
        "worked": lambda: idle_since(18, worked=True),
        "worked a little": lambda: idle_since(6, worked=True),
        "notebook": lambda: idle_since(2, work=LAB),
        "loaded": loaded,
        "linked": lambda: linked(idle_since(7), 5e5),
        "powered": lambda: idle_since(7, watts=120.0),
        "small card": lambda: idle_since(7, watts=40.0).but(
            options={"devices": [device(model="T4")]}
        ),
        "gaps": lambda: idle_since(7, observed=0.99 * HOUR),
    },
    "idle_notebook": {"fires": lambda: World(*notebook(), LAB)},
    "standby": {
        "fires": lambda: World(*standing_by(), workload("web", "Deployment", TaskClass.INFERENCE)),
        "pauses": lambda: World(
            *standing_by(lambda hour: hour // HOUR % 4 == 0),
            workload("web", "Deployment", TaskClass.INFERENCE),
        ),
        "short pauses": lambda: World(
            *standing_by(lambda hour: hour // HOUR % 8 == 0),
            workload("web", "Deployment", TaskClass.INFERENCE), thresholds={"freed_share": 0.99},
        ),
    },
    "health": {
        "fires": lambda: World(*gpus(COOL, {**COOL, "throttled/hw_slowdown": 0.3})),
        "errors": lambda: World(*gpus({**COOL, "xid/79": 2.0})),
        "half told": lambda: World(*gpus(COOL, {})),
    },
    "too_many_gpus": {
        "fires": lambda: World(*ranked([0.9] * 7 + [0.0])),
        "low": lambda: World(*ranked([0.1] * 8)),
    },
    "too_many_replicas": {
        "fires": lambda: World(*replicas([0.3] * 9 + [0.0]), WEB),
    },
    "smaller_gpu": {
        "fires": smaller,
        "oom": lambda: with_past(smaller(memory_gib=18.0), oom_killed),
        "filled": lambda: with_past(smaller(memory_gib=20.0), failed_full, 19.6),
        "slower": lambda: smaller(kernel=0.5),
        "service": lambda: smaller_service(kernel=0.1, sm=0.1),
    },
    "mig_slice": {
        "fires": slices,
        "oom": lambda: with_past(slices(memory_gib=7.8), oom_killed),
        "filled": lambda: with_past(slices(memory_gib=8.0), failed_full, 7.84),
        "bursts": lambda: slices(width=0.1, dram=0.1),
        "slower": lambda: slices(kernel=0.3),
        "service": lambda: slices(names=("web-0",), days=8).but(work=WEB),
    },
    "share": {
        "fires": lambda: World(*small()),
        "oom": lambda: with_past(World(*small(memory_gib=7.0)), oom_killed),
        "filled": lambda: with_past(World(*small(memory_gib=34.0)), failed_full, 19.6),
        "mps": lambda: World(
            *small(("a", "b", "c")), workload("web", "Deployment", TaskClass.INFERENCE),
            options={"nodes": [node(model="A40")],
                     "devices": [device(f"GPU-{name}", "A40") for name in "abc"]},
        ),
        "by kernels": lambda: World(
            *service(("a", "b"), kernel=0.1), workload("web", "Deployment", TaskClass.INFERENCE),
            options={"nodes": [node(model="A40")],
                     "devices": [device(f"G-{name}", "A40") for name in "ab"]},
        ),
        "notebooks": lambda: World(*service(("lab-0", "lab-1"), kernel=0.1), LAB),
    },
    "memory_bound": {
        "fires": lambda: World(
            *plain(6, kernel=0.9, sm=0.8, memory_gib=76.0), workload(framework="mindspore")
        ),
        "failed": lambda: with_past(World(*plain(6, kernel=0.9, sm=0.8)), failed_full, 77.0),
    },
    "input_bound": {
        "fires": input_bound,
        "throttled": lambda: input_bound({"cpu_of_limit": 0.3, "throttled_ratio": 0.4}),
        "stalled": lambda: input_bound({"cpu_of_limit": 0.3, "pressure": {"io/some": 0.4}}),
        "zeros": lambda: World(
            *plain(6, {"zero_inside_active_minute": 0.4}, kernel=0.5, sm=0.3)
        ),
    },
    "straggler": {
        "fires": lambda: ranks((0.5, 0.5, 0.5, 0.9), runs=3),
        "often": lambda: ranks((0.5, 0.5, 0.5, 0.9), runs=3, slow_runs=2),
        "throttled": lambda: ranks((0.5, 0.5, 0.5, 0.9),
                                   conditions={"throttled/hw_slowdown": 0.3}),
    },
    "link_bound": {
        "fires": lambda: World(*plain(6, {"link_saturated": 0.4}, kernel=0.9, sm=0.4)),
    },
    "mixed_precision": {
        "fires": lambda: waits(FP32, CANDIDATE),
        "waits": lambda: waits(FP32, CANDIDATE, cpu_of_limit=0.95),
    },
    "bandwidth_bound": {
        "fires": lambda: World(*plain(6, kernel=1.0, sm=0.3, dram=0.8)),
    },
    "compile": {
        "fires": lambda: waits(EMPTY, {"zero_inside_active_minute": 0.1, "link_saturated": 0.1}),
        "waits": lambda: waits(EMPTY, {}, cpu_of_limit=0.95),
    },
    "serving": {
        "fires": lambda: serves(EMPTY, engine(requests=1e5, waiting=2.5, cache=0.3),
                                framework="vllm"),
        "decodes": lambda: serves(DECODES, engine(waiting=0.0)),
        "fp32": lambda: serves({"kernel": 1.0, "sm": 0.6, "tensor": 0.02, "dram": 0.2},
                               engine(waiting=0.0)),
        "fewer": lambda: serves(EMPTY | {"kernel": 0.2, "sm": 0.04, "dram": 0.04},
                                engine(requests=1e5, waiting=0.0), ("web-0", "web-1", "web-2")),
        "tiny": lambda: serves(TINY, engine(requests=10.0, waiting=0.0)),
    },
    "spot": {"fires": spot},
    "environment_drift": {
        "fires": lambda: drifting(*SLOWER),
        "drivers": two_drivers,
    },
    "reserve": {
        "fires": lambda: World(
            *steady(), WEB, catalogue=Committed(),
            options={"nodes": (RESERVED_NODE,), "window": RESERVED_WINDOW},
        ),
    },
    "time_limit": {
        "fires": lambda: limited((3, 3, 3), limit=24 * HOUR),
        "ended": lambda: limited((3, 3, 3, 3), limit=3.02 * HOUR,
                                 outcomes=[Outcome.FAILED] * 2 + [Outcome.SUCCEEDED] * 2),
    },
    "excess_cpu_memory": {
        "fires": excessive,
        "memory": lambda: excessive(8.0, 400, memory_gib=100),
        "percentile": lambda: excessive(
            cpus_p95=CpuLevel(q=0.95, low=13.45, high=16.0, seconds=6.0 * HOUR)
        ),
        "throttled": lambda: excessive(throttled_ratio=0.03),
    },
    "other_vendor": {
        "fires": other,
        "oom": lambda: with_past(other(98.0, (ASCEND,)), oom_killed),
        "filled": lambda: with_past(other(108.0, (ASCEND,)), failed_full, 60.0),
    },
}  # fmt: skip
WORLDS: Final[Mapping[str, Mapping[str, Maker]]] = {
    rule: {**named, **FURTHER.get(rule, {})} for rule, named in FIRST.items()
}
