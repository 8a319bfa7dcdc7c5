"""Whether the change that a finding asked for was really made, seen in the requests themselves.

Nobody has to report anything: what a workload asks for before and after is compared. A service that
is scaled to zero, or a notebook that is stopped, while nobody needs it is seen by its having no pod
at the time of a plan; who or what stopped it is not told. Changes inside a container (mixed
precision, a data loader, arguments), of an image, of a node label that is asked for, and of what
was bought cannot be seen so; they end as expired when the finding is not made any more.
"""

import math
from collections.abc import Callable
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gputailor_agent.model.ledger import Prediction, Setup

_GIB: Final = 2**30
#: Changes after which nothing is held, for good or for the time being.
GIVING_BACK: Final = frozenset({"release", "scale_to_zero", "cull_notebook"})
#: Changes that hold from when they are made, not from the next run on.
AT_ONCE: Final = GIVING_BACK | {"repair_node"}
#: Changes that free no GPU by themselves: what they saved is not told by GPUs held.
FREEING_NOTHING: Final = frozenset({"set_requests", "set_time_limit", "repair_node"})


class Made(StrEnum):
    """How much of a change was made."""

    NO = "no"
    PART = "part"
    FULL = "full"


def made(prediction: Prediction, before: Setup, now: Setup) -> Made:
    """How much of the foretold change lies between two set-ups of a workload."""
    seen = _SEEN.get(prediction.change)
    return Made.NO if seen is None else seen(prediction, before, now)


def can_be_seen(change: str) -> bool:
    """Whether a change of that kind shows in the inventory."""
    return change in _SEEN


def _given_back(_: Prediction, before: Setup, now: Setup) -> Made:
    return Made.FULL if before.pods > 0 and now.pods == 0 else Made.NO


def _replicas(prediction: Prediction, before: Setup, now: Setup) -> Made:
    if now.pods == 0:  # nobody asked for that: it stopped, which is another thing
        return Made.NO
    return _fewer(before.pods, now.pods, prediction.params.get("replicas"))


def _gpus(prediction: Prediction, before: Setup, now: Setup) -> Made:
    return _fewer(before.gpus_per_pod, now.gpus_per_pod, prediction.params.get("gpus"))


def _requests(prediction: Prediction, before: Setup, now: Setup) -> Made:
    """CPUs and memory: each that was to be smaller is, or one of them is at least."""
    gib = prediction.params.get("memory_gib")
    memory = gib * _GIB if isinstance(gib, int | float) else None
    wanted = (
        (before.cpus, now.cpus, prediction.params.get("cpus")),
        (before.memory_bytes, now.memory_bytes, memory),
    )
    found = [_less(was, then, goal) for was, then, goal in wanted if goal is not None]
    if found and all(one == Made.FULL for one in found):
        return Made.FULL
    return Made.PART if any(one != Made.NO for one in found) else Made.NO


def _less(was: float | None, now: float | None, wanted: object) -> Made:
    if was is None or now is None:
        return Made.NO
    return _fewer(was, now, wanted)


def _time_limit(prediction: Prediction, before: Setup, now: Setup) -> Made:
    """The limit went the way it should, up or down; no limit at all is another thing."""
    was, then, wanted = before.deadline_seconds, now.deadline_seconds, prediction.params["seconds"]
    if was is None or then is None or not isinstance(wanted, int | float):
        return Made.NO
    if wanted < was:
        return _fewer(was, then, wanted)
    return _fewer(-was, -then, -wanted, above=-math.inf)  # more is fewer the other way round


def _node_out(prediction: Prediction, before: Setup, now: Setup) -> Made:
    """Nodes that were open then are cordoned or gone."""
    out = set(now.out_nodes) - set(before.out_nodes)
    if not out:
        return Made.NO
    named = str(prediction.params.get("nodes") or "").split(", ")
    return Made.FULL if set(named) <= set(now.out_nodes) else Made.PART


def _fewer(before: float, now: float, wanted: object, *, above: float = 0) -> Made:
    if now <= above or now >= before:
        return Made.NO
    if isinstance(wanted, int | float) and now > wanted:
        return Made.PART
    return Made.FULL


def _other_type(prediction: Prediction, before: Setup, now: Setup) -> Made:
    profile = prediction.params.get("mig_profile")
    if profile:
        wanted = f"mig-{profile}"
        return Made.FULL if wanted in now.shape and wanted not in before.shape else Made.NO
    model = str(prediction.params.get("model") or "")
    if not model or not now.models or set(now.models) == set(before.models):
        return Made.NO
    named = all(model.lower() in one.lower() or one.lower() in model.lower() for one in now.models)
    return Made.FULL if named else Made.PART


_SEEN: Final[MappingProxyType[str, Callable[[Prediction, Setup, Setup], Made]]] = MappingProxyType(
    {
        **dict.fromkeys(sorted(GIVING_BACK), _given_back),
        "set_replicas": _replicas,
        "set_gpus": _gpus,
        "set_gpu_type": _other_type,
        "set_requests": _requests,
        "set_time_limit": _time_limit,
        "repair_node": _node_out,
    }
)
