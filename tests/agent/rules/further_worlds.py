"""More worlds of the rules: in each a rule says something that it says in none of the first ones.

Silences as well as findings, and findings at the edge of a grave one. ``worlds`` adds them to its
own, so that all that is asked of each world is asked of these.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from gputailor_agent.model.inventory import Outcome
from gputailor_agent.model.profile import Window
from tests.agent.factories import (
    DAY,
    HOUR,
    NOW,
    PRICES,
    device,
    node,
    row,
    workload,
)
from tests.agent.factories import spec as card
from tests.agent.rules.advice_parts import host
from tests.agent.rules.circumstances import asking, finished, on, with_pods, with_rows, without
from tests.agent.rules.further_idle import IDLE
from tests.agent.rules.further_parts import (
    SERVED,
    GuessedSpot,
    Odd,
    beside,
    busy_ranks,
    of_card,
    of_two,
    reserved,
    spot_on,
    spread,
    with_nodes,
)
from tests.agent.rules.service_parts import engine, service, web
from tests.agent.rules.test_environment_drift import NEW, OLD
from tests.agent.rules.test_health import COOL, gpus
from tests.agent.rules.test_idle_notebook import LAB
from tests.agent.rules.test_mig_slice import sliced
from tests.agent.rules.test_other_vendor import ASCEND, MI
from tests.agent.rules.test_reserve import NODE as RESERVED_NODE
from tests.agent.rules.test_reserve import Committed, steady
from tests.agent.rules.test_share import small
from tests.agent.rules.test_spot import SpotCatalogue
from tests.agent.rules.test_too_many_gpus import job as ranked
from tests.agent.rules.test_too_many_replicas import service as replicas
from tests.agent.rules.world_parts import (
    CANDIDATE,
    CARDS,
    EMPTY,
    FP32,
    LIGHT,
    WEB,
    World,
    drifting,
    excessive,
    failed_full,
    input_bound,
    limited,
    other,
    plain,
    ranks,
    serves,
    slices,
    smaller,
    smaller_service,
    spot,
    waits,
    with_past,
)

#: Roomier and faster than any other card of ``test_other_vendor``.
FAST: Final = msgspec.structs.replace(
    ASCEND, bandwidth_bytes_per_second=9e12, fp16_tensor_flops=5e15, fp32_flops=5e14
)
Maker = Callable[[], World]

FURTHER: Final[Mapping[str, Mapping[str, Maker]]] = {
    **IDLE,
    "health": {
        "cool": lambda: World(*gpus(COOL, COOL)),
        "hot": lambda: World(*gpus(COOL, {**COOL, "throttled/hw_slowdown": 0.25})),
    },
    "too_many_gpus": {
        "none": lambda: World(*ranked([0.0] * 4)),
        "half": lambda: World(*ranked([0.5, 0.0])),
        "six of eight": lambda: World(*ranked([0.5] * 5 + [0.0] * 3)),
        "kernel only": lambda: without("sm")(World(*ranked([0.9] * 3 + [0.0]))),
        "low by kernels": lambda: without("sm")(World(*ranked([0.1] * 8))),
        "a little more": lambda: World(*ranked([0.2] * 8)),
        "a service": lambda: World(*replicas([0.1], gpus=8), WEB),
        "no video": lambda: without("encoder", "decoder")(World(*ranked([0.5, 0.0]))),
    },
    "too_many_replicas": {
        "half": lambda: World(*replicas([0.3, 0.0]), WEB),
        "none": lambda: World(*replicas([0.0, 0.0]), WEB),
        "a daemon": lambda: World(
            *replicas([0.3, 0.0]), msgspec.structs.replace(WEB, kind="DaemonSet")
        ),
        "no video": lambda: without("encoder")(World(*replicas([0.3, 0.3, 0.0]), WEB)),
    },
    "smaller_gpu": {
        "no price": lambda: beside("L4", prices={"A100": 4.0}),
        "euros": lambda: beside("L4", euros=("L4",)),
        "an estimate": lambda: beside("L4", estimate=True),
        "of another maker": lambda: with_nodes(
            smaller(), *CARDS, node("node-m", model="MI")
        ).but(catalogue=Odd(MI, prices={**PRICES, "MI": 0.1})),
        "no figure": lambda: of_card("X", fp32_flops=None),
        "no tensor cores": lambda: of_card("X", tensor_cores=False, fp16_tensor_flops=None),
        "no memory told": lambda: beside("L4").but(
            catalogue=Odd(msgspec.structs.replace(card("L4", 24), usable_memory_bytes=None))
        ),
        "half the price": lambda: of_card("X", price=2.0),
        "nearly the price": lambda: of_card("X", price=3.3, compute_capability="8.6"),
        "older": lambda: of_card("X", price=1.0, compute_capability="7.5"),
        "dear": lambda: of_card("X", price=3.5),
        "two that do": lambda: with_nodes(
            smaller(), *CARDS, node("node-x", model="X")
        ).but(catalogue=Odd(card("X", 40), prices={**PRICES, "X": 0.9})),
        "linked": lambda: with_nodes(
            of_two({**LIGHT, "memory_gib": 8}, {**LIGHT, "memory_gib": 8}), *CARDS
        ),
        "by kernels": lambda: with_nodes(
            World(*plain(6, kernel=0.2)), node("node-a", model="H100"), node("node-b", model="A100")
        ).but(options={"nodes": [node("node-a", model="H100"), node("node-b", model="A40")],
                       "devices": [device(model="H100")]}),
        "a busy service": lambda: smaller_service(kernel=0.5, sm=0.5),
        "a service by means": lambda: with_rows(
            smaller_service(kernel=0.1, sm=0.1),
            lambda one: msgspec.structs.replace(one, signals={
                name: msgspec.structs.replace(told, histogram=None)
                for name, told in one.signals.items()
            }),
        ),
        "nothing else": lambda: with_nodes(smaller(), node()),
        "slices too": lambda: with_nodes(
            World(*small(width=0.05, dram=0.05, kernel=0.05)), node(model="A100"), sliced()
        ),
        "a notebook": lambda: smaller_service().but(work=LAB),
        "a start unseen": lambda: with_pods(
            smaller(), lambda one: msgspec.structs.replace(one, scheduled=NOW - 6.5 * HOUR,
                                                           started=NOW - 6.5 * HOUR)
        ),
    },
    "mig_slice": {
        "two GPUs": lambda: with_nodes(
            of_two({**LIGHT, "memory_gib": 2}, {**LIGHT, "memory_gib": 2}),
            node(model="A100"), sliced(),
        ),
        "a larger one": lambda: with_nodes(
            slices(memory_gib=20), node(model="A100"), sliced("3g.40gb", 2)
        ),
        "by means": lambda: with_nodes(
            World(*plain(6, **LIGHT)), node(model="A100"), sliced()
        ),
        "cheaper card": lambda: with_nodes(slices(), *CARDS, sliced()),
        "of another card": lambda: with_nodes(
            slices(), node("node-a", model="H100"), sliced()
        ).but(options={"nodes": [node(model="H100"), sliced()], "devices": [device(
            "GPU-train-0", "H100")]}),
        "wide": lambda: slices(width=0.2),
    },
    "share": {
        "several": lambda: with_nodes(
            of_two({**LIGHT, "memory_gib": 2}, {**LIGHT, "memory_gib": 2}), node()
        ),
        "slices here": lambda: with_nodes(World(*small()), node(), sliced()),
        "much bandwidth": lambda: World(*small(dram=0.3)),
        "wide": lambda: World(*small(width=0.3)),
        "too wide": lambda: World(*small(width=0.9)),
        "much memory": lambda: World(*small(memory_gib=60)),
        "slow": lambda: World(*small(kernel=0.9, width=0.1)),
        "tolerant": lambda: World(
            *service(("a", "b"), kernel=0.1), SERVED, thresholds={"tolerated_slowdown": 1.9},
            options={"nodes": [node(model="A40")],
                     "devices": [device(f"G-{name}", "A40") for name in "ab"]},
        ),
        "busy notebook": lambda: World(*service(("lab-0", "lab-1"), kernel=0.5), LAB),
        "large notebook": lambda: World(
            *service(("lab-0", "lab-1"), kernel=0.1, memory_gib=60), LAB
        ),
        "one notebook": lambda: World(*service(("lab-0",), kernel=0.25), LAB),
        "two busy": lambda: World(
            *service(("a", "b"), kernel=0.6), SERVED,
            options={"nodes": [node(model="A40")],
                     "devices": [device(f"G-{name}", "A40") for name in "ab"]},
        ),
        "no video": lambda: World(*small(), SERVED),
    },
    "memory_bound": {
        "fine": lambda: World(*plain(6, kernel=0.9, sm=0.8)),
        "cached": lambda: World(*plain(6, kernel=0.9, sm=0.8, memory_gib=76.0)),
        "a service": lambda: World(
            *service(days=8, kernel=0.9, sm=0.8, memory_gib=76.0), web(framework="triton")
        ),
        "a service that failed": lambda: with_past(
            World(*service(days=8, kernel=0.9, sm=0.8), web(framework="triton")), failed_full, 77.0
        ),
        "sharded": lambda: with_past(
            World(*plain(6, kernel=0.9, sm=0.8), spread(sharding="zero3")), failed_full, 77.0
        ),
        "sampled": lambda: with_past(
            with_rows(World(*plain(6, kernel=0.9, sm=0.8)),
                      lambda one: msgspec.structs.replace(one, memory_peak_kind="sampled")),
            failed_full, 77.0,
        ),
    },
    "input_bound": {
        "no sign": lambda: input_bound({"cpu_of_limit": 0.3}),
        "untold": lambda: World(*plain(6, {}, kernel=0.5, sm=0.3)),
        "several signs": lambda: input_bound(
            {"throttled_ratio": 0.4, "pressure": {"io/some": 0.4}}
        ),
        "by kernels": lambda: without("sm")(
            World(*plain(6, {"zero_inside_active_minute": 0.0}, kernel=0.3),
                  host=host(cpu_of_limit=0.95))
        ),
        "node": lambda: input_bound({"node_pressure": {"io/some": 0.6}}),
        "a notebook": lambda: World(
            *service(("lab-0",), kernel=0.4, sm=0.3), LAB, host=host(cpu_of_limit=0.95)
        ),
    },
    "straggler": {
        "one run": lambda: ranks((0.5, 0.5, 0.5, 0.9)),
        "by a little": lambda: ranks((0.5, 0.5, 0.5, 0.7), runs=2),
        "far apart": lambda: ranks((0.5, 0.5, 0.5, 0.8), runs=2),
        "seldom": lambda: ranks((0.5, 0.5, 0.5, 0.9), runs=3, slow_runs=1),
        "half of them": lambda: ranks((0.5, 0.5, 0.5, 0.9), runs=2, slow_runs=1),
        "waits": lambda: ranks((0.5, 0.5, 0.5, 0.1)),
        "three": lambda: ranks((0.5, 0.5, 0.9)),
        "stages": lambda: ranks((0.5, 0.5, 0.5, 0.9)).but(work=spread(pipeline=2)),
        "experts": lambda: ranks((0.5, 0.5, 0.5, 0.9)).but(work=spread(expert=2)),
        "one stage": lambda: ranks((0.5, 0.5, 0.5, 0.9)).but(work=spread(pipeline=1, expert=1)),
        "hardly throttled": lambda: ranks((0.5, 0.5, 0.5, 0.9),
                                          conditions={"throttled/hw_slowdown": 0.05}),
    },
    "link_bound": {
        "fine": lambda: World(*plain(6, {"link_saturated": 0.1}, kernel=0.9, sm=0.4)),
        "half": lambda: World(*plain(6, {"link_saturated": 0.5}, kernel=0.9, sm=0.4)),
        "pcie": lambda: with_rows(
            World(*plain(6, {"link_saturated": 0.4}, kernel=0.9, sm=0.4)),
            lambda one: msgspec.structs.replace(one, link_bytes={"pcie/rx": 2e12, "nvlink/tx": 1e9}),
        ),
        "two GPUs": lambda: with_rows(
            of_two({"kernel": 0.9}, {"kernel": 0.9}),
            lambda one: msgspec.structs.replace(one, conditions={"link_saturated": 1800.0}),
        ),
    },
    "mixed_precision": {
        "few seconds": lambda: waits(FP32, {**CANDIDATE, "amp_candidate": 0.05}),
        "most of the time": lambda: waits(FP32, {**CANDIDATE, "amp_candidate": 0.8}),
        "no tensor cores": lambda: waits(FP32, CANDIDATE).but(
            catalogue=Odd(card("A100", 80, tensor_cores=False))
        ),
        "of a T4": lambda: waits(FP32, CANDIDATE).but(options={"devices": [device(model="T4")]}),
        "nobody tells of its host": lambda: World(*plain(6, {"amp_candidate": 0.5}, **FP32)),
        "framework unknown": lambda: waits(FP32, CANDIDATE).but(work=workload()),
    },
    "bandwidth_bound": {
        "a little": lambda: World(*plain(6, kernel=1.0, sm=0.3, dram=0.6)),
        "much": lambda: World(*plain(6, kernel=1.0, sm=0.3, dram=0.7)),
        "narrower cards": lambda: with_nodes(
            World(*plain(6, kernel=1.0, sm=0.3, dram=0.8)), *CARDS, sliced(),
            node("node-h", model="H100"),
        ),
        "half of the time": lambda: World(*plain(6, kernel=0.5, sm=0.2, dram=0.4)),
        "framework unknown": lambda: World(*plain(6, kernel=1.0, sm=0.3, dram=0.8), workload()),
    },
    "compile": {
        "bandwidth": lambda: waits({**EMPTY, "sm": 0.1, "dram": 0.6}, {}),
        "a full link": lambda: waits(EMPTY, {"link_saturated": 0.5}),
        "a straggler": lambda: busy_ranks(0.1, 0.1, 0.1, 0.6),
        "ranks": lambda: busy_ranks(0.1, 0.1, 0.1, 0.1),
        "kept from graphs": lambda: asking(args=("--enforce-eager",))(
            World(*service(days=8, **EMPTY), web(framework="vllm"))
        ),
        "untold": lambda: World(*plain(6, {}, **EMPTY)),
        "a notebook": lambda: World(*service(("lab-0",), **EMPTY), LAB),
    },
    "serving": {
        "cache": lambda: serves(EMPTY, engine(requests=1e5, waiting=4.0, cache=0.95),
                                framework="vllm"),
        "unseen": lambda: serves(EMPTY, None),
        "no queue": lambda: serves(EMPTY, engine(requests=1e5, waiting=0.0)),
        "asked": lambda: serves({"kernel": 1.0, "sm": 0.4, "tensor": 0.2, "dram": 0.7},
                                engine(waiting=0.0), precision="fp8"),
        "decodes and waits": lambda: serves(
            {"kernel": 1.0, "sm": 0.15, "tensor": 0.02, "dram": 0.7}, engine(waiting=3.0)
        ),
        "full": lambda: serves({"kernel": 1.0, "sm": 0.9, "tensor": 0.5, "dram": 0.3},
                               engine(waiting=0.0)),
        "two": lambda: serves(EMPTY | {"kernel": 0.2, "sm": 0.04, "dram": 0.04}, None,
                              ("web-0", "web-1")),
    },
    "spot": {
        "no rate": lambda: spot().but(thresholds={}),
        "no spot price": lambda: spot().but(catalogue=SpotCatalogue(None)),
        "dear": lambda: spot(share=0.75),
        "nearly dear": lambda: spot(share=0.69),
        "small": lambda: spot(hours=1).but(usage=[row(NOW - HOUR, seconds=HOUR / 2)]),
        "reserved": lambda: spot_on("reserved-1y"),
        "capacity unknown": lambda: spot_on(""),
        "free checkpoints": lambda: spot().but(thresholds={
            "hours_between_interruptions": 24.0, "checkpoint_seconds": 0.0}),
        "no restarts": lambda: spot().but(thresholds={
            "hours_between_interruptions": 1.0, "restart_seconds": 0.0}),
        "an estimate": lambda: spot().but(catalogue=GuessedSpot()),
    },
    "environment_drift": {
        "dropped": lambda: drifting(
            ("repo/train:cuda13.0", 2.0), devices=[msgspec.structs.replace(
                device(), driver_version="580.1", compute_capability="7.0")]
        ),
        "new driver": lambda: drifting(
            ("repo/train:cuda12.4", 2.0), devices=[msgspec.structs.replace(
                device(), driver_version="590.1", compute_capability="7.0")]
        ),
        "old driver": lambda: drifting(
            ("repo/train:cuda12.4", 2.0), devices=[msgspec.structs.replace(
                device(), driver_version="520.1")]
        ),
        "few runs": lambda: drifting((OLD, 2.0), (OLD, 2.0), (NEW, 3.0)),
        "same speed": lambda: drifting(*[(OLD, 2.0)] * 3, *[(NEW, 2.1)] * 3),
        "grows": lambda: drifting((OLD, 1.0), (OLD, 1.5), (OLD, 2.0), *[(NEW, 3.0)] * 3),
        "fifteen hundredths": lambda: drifting(*[(OLD, 2.0)] * 3, *[(NEW, 2.5)] * 3),
        "faster": lambda: drifting(*[(OLD, 3.0)] * 3, *[(NEW, 2.0)] * 3),
    },
    "reserve": {
        "little": lambda: reserved(Committed(3.9)),
        "sold by eight": lambda: reserved(Committed(whole=8)),
        "longer": lambda: reserved(Committed(three=1.6)),
        "no price": lambda: reserved(Committed(None)),
        "free and unused": lambda: reserved(Committed(0.0), works=lambda _: False),
        "a short window": lambda: World(
            *steady(), WEB, catalogue=Committed(),
            options={"nodes": (RESERVED_NODE,),
                     "window": Window(start=NOW - 10 * DAY, end=NOW)},
        ),
    },
    "time_limit": {
        "fine": lambda: limited((3, 3, 3), limit=6 * HOUR),
        "a fifth": lambda: limited((3, 3, 3), limit=15 * HOUR),
        "ten runs": lambda: limited((1,) * 10, limit=24 * HOUR),
        "nine runs": lambda: limited((1,) * 9, limit=24 * HOUR),
        "two runs": lambda: limited((3, 3), limit=24 * HOUR),
        "half of the time": lambda: limited((3, 3), limit=3.02 * HOUR,
                                            outcomes=[Outcome.FAILED, Outcome.SUCCEEDED]),
        "a third of the time": lambda: limited(
            (3, 3, 3), limit=3.02 * HOUR,
            outcomes=[Outcome.FAILED, Outcome.SUCCEEDED, Outcome.SUCCEEDED],
        ),
        "no limit": lambda: limited((3, 3, 3), limit=24 * HOUR).but(work=workload(kind="CronJob")),
        "saves": lambda: asking(args=("--resume",))(
            limited((3, 3, 3), limit=3.02 * HOUR, outcomes=[Outcome.FAILED] * 3)
        ),
    },
    "excess_cpu_memory": {
        "within": lambda: excessive(8.0, 64),
        "unused": lambda: World(*plain(6)),
        "ended": lambda: finished(Outcome.SUCCEEDED)(excessive()),
    },
    "other_vendor": {
        "not allowed": lambda: other().but(thresholds={}),
        "one": lambda: other(98.0, (MI,)),
        "from another vendor": lambda: other(98.0, (MI, FAST)).but(
            options={"devices": [device(model="MI")], "nodes": [node(model="MI")]}
        ),
        "none": lambda: other(130.0, ()),
        "on demand": lambda: on(capacity_type="on-demand")(other()),
    },
}  # fmt: skip
