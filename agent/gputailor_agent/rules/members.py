"""The pods of a workload, each with its GPUs, and which of those surely never worked.

A GPU that was not watched for long enough counts as needed.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from gputailor_agent.model.judgement import Confidence
from gputailor_agent.model.profile import GpuUse, Profile
from gputailor_agent.model.usage import NO_USE
from gputailor_agent.profiles import busy_signal
from gputailor_agent.rules.base import Context
from gputailor_agent.rules.gates import Basis
from gputailor_agent.rules.idleness import VIDEO_SIGNALS, works_elsewhere


@dataclass(frozen=True, slots=True)
class Member:
    """All GPUs of one pod; ``idle`` are those that surely never worked."""

    uses: tuple[GpuUse, ...]
    idle: int
    live: bool

    @property
    def needed(self) -> int:
        """GPUs that worked, or of which that is not known."""
        return len(self.uses) - self.idle

    @property
    def held_seconds(self) -> float:
        """Longest time that one of its GPUs was held."""
        return max(use.allocated_seconds for use in self.uses)


def by_pod(uses: Iterable[GpuUse]) -> list[tuple[GpuUse, ...]]:
    """Return the devices of each pod, by the pods' names."""
    found: dict[tuple[str, str, str], list[GpuUse]] = defaultdict(list)
    for use in uses:
        found[use.namespace, use.pod, use.pod_uid].append(use)
    return [tuple(parts) for _, parts in sorted(found.items())]


def members_of(profile: Profile, context: Context, coverage: float) -> list[Member]:
    """Return the pods, by name; ``coverage``: least observed share of a GPU that never worked."""
    known, key = context.about(profile), ("members", coverage)
    if key not in known:
        known[key] = _members_of(profile, context, coverage)
    members: list[Member] = known[key]
    return members


def _members_of(profile: Profile, context: Context, coverage: float) -> list[Member]:
    return [
        Member(
            uses=uses,
            idle=sum(1 for use in uses if never_worked(use, coverage)),
            live=context.holdings.holds_now(uses[0], profile.window),
        )
        for uses in by_pod(profile.gpus)
    ]


def never_worked(use: GpuUse, coverage: float) -> bool:
    """Whether the device was watched for long enough and every signal stayed at zero."""
    busy = use.signals.get(busy_signal(use.signals), NO_USE)
    if use.allocated_seconds <= 0 or busy.observed_seconds < coverage * use.allocated_seconds:
        return False
    names = ("kernel", "sm", "tensor", "graphics", *VIDEO_SIGNALS)
    still = all(use.signals.get(name, NO_USE).active_seconds == 0 for name in names)
    return still and not works_elsewhere(use)


def sure_of_zero(basis: Basis, whose: str) -> tuple[Confidence, str]:
    """How sure a zero of ``whose`` is, and why: an encoder that cannot be read may have worked."""
    if all(basis.use(name).observed_seconds > 0 for name in VIDEO_SIGNALS):
        return Confidence.HIGH, f"every signal of the unused {whose} stayed at zero"
    return Confidence.MEDIUM, f"encoder and decoder of the unused {whose} could not be read"
