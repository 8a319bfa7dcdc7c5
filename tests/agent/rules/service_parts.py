"""Small worlds for the rules that look at services: pods that ran alike, and what an engine says."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gputailor_agent.model.containers import EngineUse, Level
from gputailor_agent.model.inventory import ContainerSpec, Node, Pod, TaskClass, Workload
from gputailor_agent.model.judgement import Finding, Silence
from gputailor_agent.model.usage import UsageRow
from gputailor_agent.rules import Rule
from tests.agent.factories import DAY, NOW, context, pod, profile, rows, workload
from tests.agent.rules.advice_parts import check_words


def web(**fields: Any) -> Workload:
    """A server of a Deployment; PyTorch unless told otherwise."""
    return workload("web", "Deployment", TaskClass.INFERENCE, **{"framework": "pytorch", **fields})


def service(
    names: Iterable[str] = ("web-0",), *, days: float = 14, **levels: Any
) -> tuple[list[UsageRow], list[Pod]]:
    """Pods with a GPU each that ran alike for so many days up to now."""
    start = NOW - int(days * DAY)
    usage = [one for name in names for one in rows(start, NOW, pod=name, gpu=f"G-{name}", **levels)]
    return usage, [pod(name, start=start) for name in names]


def commanded(pods: Iterable[Pod], *args: str, env: Mapping[str, str] | None = None) -> list[Pod]:
    """The pods with arguments and variables of their containers."""
    return [
        msgspec.structs.replace(
            one,
            containers=tuple(
                ContainerSpec(name=c.name, gpus=c.gpus, args=args, env=dict(env or {}))
                for c in one.containers
            ),
        )
        for one in pods
    ]


def engine(*, waiting: float | None = None, cache: float | None = None, **told: Any) -> EngineUse:
    """What an engine says; not told unless given. ``waiting``: mean; ``cache``: highest."""
    values = dict.fromkeys(EngineUse.__struct_fields__)
    levels = {
        "waiting": None if waiting is None else Level(mean=waiting, maximum=waiting),
        "cache": None if cache is None else Level(mean=cache, maximum=cache),
    }
    return EngineUse(**{**values, "engines": ("vllm",), "observed_seconds": 1.0, **levels, **told})


def answered(
    rule: Rule,
    usage: Iterable[UsageRow],
    pods: Iterable[Pod],
    work: Workload | None = None,
    *,
    says: EngineUse | None = None,
    thresholds: Mapping[str, float] | None = None,
    catalogue: Any = None,
    nodes: Iterable[Node] | None = None,
    **options: Any,
) -> Finding | Silence:
    """What the rule says of a service, after a look at whether every word can be said."""
    made, world = profile(usage, pods, work or web(), nodes=nodes, **options)
    made = msgspec.structs.replace(made, engine=says)
    own = {rule.id: dict(thresholds)} if thresholds else {}
    answer = rule.evaluate(made, context(world, catalogue, **own))
    check_words(answer)
    return answer
