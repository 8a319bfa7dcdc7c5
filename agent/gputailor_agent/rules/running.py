"""Means over the time in which anything ran: how full the card is while it works."""

from typing import Final

from gputailor_agent.model.judgement import Evidence
from gputailor_agent.rules.advising import Case
from gputailor_agent.rules.base import held_against
from gputailor_agent.rules.gates import steady_mean

#: Signals that say how long anything ran; SM activity says how full it was, too.
RUNNING: Final = ("kernel", "graphics")


def while_running(case: Case, signal: str) -> float | None:
    """Mean of a signal over the time in which anything ran, 0..1; None where it is not known.

    mean signal / mean of what tells that something ran, both without warm-up.
    """
    running = steady_mean(case.basis.uses, case.basis.busy)
    mean = steady_mean(case.basis.uses, signal) if case.covered(signal) else None
    return min(1.0, mean / running) if mean is not None and running else None


def held_while_running(case: Case, signal: str, comparison: str, limit: str) -> Evidence:
    """``while_running`` held against the case's threshold ``limit``."""
    return held_against(
        f"mean {signal} while it runs",
        while_running(case, signal),
        comparison,
        case.limits[limit],
        unit="ratio",
        profile=case.profile,
        signal=signal,
        formula=f"mean {signal} / mean {case.basis.busy}, both without warm-up",
    )
