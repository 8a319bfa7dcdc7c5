"""What the further worlds of the rules are made of."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gputailor_agent.model.inventory import Distribution, TaskClass
from tests.agent.factories import (
    HOUR,
    NOW,
    PRICES,
    FakeCatalogue,
    node,
    pod,
    row,
    rows,
    workload,
)
from tests.agent.factories import spec as card
from tests.agent.rules.circumstances import with_rows
from tests.agent.rules.test_reserve import NODE as RESERVED_NODE
from tests.agent.rules.test_reserve import WINDOW as RESERVED_WINDOW
from tests.agent.rules.test_reserve import Committed, steady
from tests.agent.rules.test_spot import SpotCatalogue
from tests.agent.rules.world_parts import (
    FED,
    TRAINING,
    WEB,
    World,
    smaller,
    spot,
)

SERVED: Final = workload("web", "Deployment", TaskClass.INFERENCE)


def of_two(first: Mapping[str, float], second: Mapping[str, float], **more: Any) -> World:
    """One pod with two GPUs that did this and that."""
    start = NOW - 7 * HOUR
    usage = [*rows(start, NOW, gpu="G0", **first), *rows(start, NOW, gpu="G1", **second)]
    return World(usage, [pod(gpus=2, start=start)], TRAINING, **more)


def blind(world: World) -> World:
    """Nobody reads a signal."""
    return with_rows(world, lambda one: msgspec.structs.replace(one, signals={}))


def interrupted(world: World) -> World:
    """Every other hour is missing."""
    return world.but(usage=[one for one in world.usage if one.key.hour // HOUR % 2])


def with_nodes(world: World, *nodes: Any) -> World:
    return world.but(options={**world.options, "nodes": list(nodes)})


def spread(**fields: int) -> Any:
    """A workload that is spread so."""
    values = dict.fromkeys(Distribution.__struct_fields__)
    return workload(framework="pytorch", distribution=Distribution(**{**values, **fields}))


class Odd(FakeCatalogue):
    """The five cards and some of these."""

    def __init__(self, *cards: Any, prices: Mapping[str, float] = PRICES, estimate: bool = False,
                 euros: tuple[str, ...] = ()) -> None:  # fmt: skip
        super().__init__(prices)
        own = {one.key for one in cards}
        self.devices = (*(one for one in self.devices if one.key not in own), *cards)
        self.estimate, self.euros = estimate, euros

    def price(self, spec: Any, **where: Any) -> Any:
        told = super().price(spec, **where)
        if told is None:
            return None
        money = "EUR" if spec.key in self.euros else told.currency
        return msgspec.structs.replace(told, estimate=self.estimate, currency=money)


def beside(model: str, world: World | None = None, **catalogue: Any) -> World:
    """A light job on an A100 beside another card."""
    there = [node("node-a", model="A100"), node("node-b", model=model)]
    return with_nodes(world or smaller(), *there).but(catalogue=Odd(**catalogue))


def of_card(key: str, *, memory: float = 40, price: float = 0.5, **figures: Any) -> World:
    """A light job on an A100 beside a card with these figures."""
    made = card(key, memory, **figures)
    there = [node("node-a", model="A100"), node("node-b", model=key)]
    return with_nodes(smaller(), *there).but(catalogue=Odd(made, prices={**PRICES, key: price}))


def busy_ranks(*levels: float, dram: float = 0.1) -> World:
    start = NOW - 6 * HOUR
    usage = [
        msgspec.structs.replace(one, conditions=dict.fromkeys(FED, 0.0))
        for place, sm in enumerate(levels)
        for one in rows(start, NOW, gpu=f"G{place}", kernel=1.0, sm=sm, dram=dram)
    ]
    return World(usage, [pod(gpus=len(levels), start=start)])


def by_time(world: World, *hours: tuple[float, float]) -> World:
    """Rows of the last hours, each (seconds observed of it, kernel)."""
    begin = NOW - len(hours) * HOUR
    usage = [row(begin + place * HOUR, observed=seen * HOUR, kernel=level)
             for place, (seen, level) in enumerate(hours)]  # fmt: skip
    return world.but(usage=usage, pods=[pod(start=begin)])


def reserved(catalogue: Any = None, **more: Any) -> World:
    options = {"nodes": (RESERVED_NODE,), "window": RESERVED_WINDOW}
    return World(*steady(**more), WEB, catalogue=catalogue or Committed(), options=options)


def spot_on(capacity: str, world: World | None = None) -> World:
    labels = {"karpenter.sh/capacity-type": "on-demand"}
    return with_nodes(world or spot(), node(capacity_type=capacity, labels=labels))


class GuessedSpot(SpotCatalogue):
    """Spot prices that are estimates."""

    def price(self, spec: Any, **where: Any) -> Any:
        told = super().price(spec, **where)
        return None if told is None else msgspec.structs.replace(told, estimate=True)
