"""Pools of nodes with GPUs that nobody holds, and what waits beside them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gputailor_agent.model.judgement import Finding, Silence, Waiting
from gputailor_agent.model.profile import Window
from gputailor_agent.rules.cluster_rules import ClusterView, NodeHours
from gputailor_agent.rules.unallocated import evaluate
from tests.agent.factories import DAY, NOW, context, inventory

WINDOW: Final = Window(start=NOW - 14 * DAY, end=NOW)
FULL_DAY: Final = (4.0,) * 24


def hours(name="node-a", free=FULL_DAY, *, gpus=4.0, now: float | None = None, **fields: Any):
    """One node of four GPUs; ``free`` by hour, the latest last."""
    values: dict[str, Any] = {
        "model": "A100",
        "pool": "train",
        "resources": {"nvidia.com/gpu": gpus},
        "price": 4.0,
        "currency": "USD",
        **fields,
    }
    latest = free[-1] if free else gpus
    return NodeHours(name=name, gpus=gpus, free=free, free_now=latest if now is None else now,
                     **values)  # fmt: skip


def queued(minutes=60, *, devices=2.0, pods=1, resource="nvidia.com/gpu"):
    return Waiting(namespace="team-b", owner="Job/wide", resource=resource, devices=devices,
                   pods=pods, since=NOW - minutes * 60.0)  # fmt: skip


_FALLING: Final = tuple(4.0 - place / 12 for place in range(24))
#: Each with how many pods wait for what, and whether the inventory is complete.
POOLS: Final[Mapping[str, tuple[tuple[NodeHours, ...], tuple[Waiting, ...], bool]]] = {
    "one stands empty": ((hours("a"), hours("b", (0.0,) * 24)), (), True),
    "beside others": ((hours("a", (2.0,) * 24), hours("b", _FALLING)), (), True),
    "pods wait": (
        (hours("a"), hours("b", (3.0,) * 24), hours("c", (), now=2.0)),
        (queued(), queued(90, devices=1.0, pods=3), queued(2), queued(70, devices=8.0)),
        True,
    ),
    "only now": ((hours("a", (), now=3.0), hours("b", (), now=1.0)), (queued(),), True),
    "too few hours": ((hours("a", (4.0,) * 9), hours("b", (2.0,) * 5)), (), True),
    "full": ((hours("a", (0.0,) * 24), hours("b", (0.0,) * 24)), (queued(),), True),
    "some unseen": ((hours("a"), hours("b", (), now=4.0)), (), True),
    "gaps": ((hours("a"), hours("b", _FALLING)), (), False),
    "no price": ((hours("a", price=None), hours("b", (1.0,) * 24, price=None)), (), True),
    "two pools": ((hours("a"), hours("b", pool="serve"), hours("c", model="T4")), (), True),
    "sizes": ((hours("a", (8.0,) * 24, gpus=8.0), hours("b", (1.5,) * 24, gpus=2.0)), (), True),
}


def in_pool(name: str) -> Iterable[Finding | Silence]:
    """What the rule says of one of them."""
    nodes, waiting, complete = POOLS[name]
    return evaluate(ClusterView(WINDOW, nodes, waiting, complete), context(inventory()))
