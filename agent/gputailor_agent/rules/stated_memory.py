"""Memory that the model named in a workload's own arguments needs by arithmetic, as evidence.

Only where the arguments or the environment name a model whose sizes are known (``estimating``).
It stands beside the measured peak and never in its place: a peak tells of the runs that were seen,
the arithmetic of what was asked for, and a program that takes memory in advance hides the first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gputailor_agent.estimating.amounts import Amount
from gputailor_agent.estimating.stated import Stated, stated_estimate, stated_model
from gputailor_agent.model.inventory import ContainerSpec
from gputailor_agent.model.judgement import Evidence
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules.advising import containers_of
from gputailor_agent.rules.base import Context, noted

_FORMULA: Final = "weights, states, activations and cache by the sizes of the model ({said})"


@dataclass(frozen=True, slots=True)
class StatedMemory:
    """Memory (bytes) that one GPU needs for the model that the arguments name."""

    model: str
    bytes: Amount
    said: tuple[str, ...]  # the arguments that said it


def stated_memory(profile: Profile, context: Context) -> StatedMemory | None:
    """Return the largest need of the workload's containers; None where none names a known model."""
    known = (_of(context, container) for _, container in containers_of(profile, context))
    found = [one for one in known if one is not None]
    return max(found, key=lambda one: one.bytes.expected, default=None)


def _of(context: Context, container: ContainerSpec) -> StatedMemory | None:
    """What one container needs; remembered, for the pods of a workload are alike."""
    arguments = (*container.command, *container.args)
    key = ("stated", container.image, arguments, tuple(sorted(container.env.items())))
    if key not in context.remembered:
        stated = stated_model(arguments, container.env, container.image)
        context.remembered[key] = None if stated is None else _estimated(stated)
    found: StatedMemory | None = context.remembered[key]
    return found


def _estimated(stated: Stated) -> StatedMemory | None:
    estimate = stated_estimate(stated)
    return None if estimate is None else StatedMemory(stated.model, estimate.total, stated.evidence)


def stated_evidence(profile: Profile, need: StatedMemory | None) -> tuple[Evidence, ...]:
    """Return the need by arithmetic with its ends; nothing where no model is named."""
    return () if need is None else tuple(_numbers(profile, need))


def _numbers(profile: Profile, need: StatedMemory) -> Iterator[Evidence]:
    formula = _FORMULA.format(said=", ".join(need.said))
    ends = (("", need.bytes.expected), (", least", need.bytes.low), (", most", need.bytes.high))
    for end, value in ends:
        name = f"{need.model} by arithmetic{end}"
        yield noted(name, round(value), unit="bytes", profile=profile, formula=formula)
