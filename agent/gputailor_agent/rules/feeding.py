"""Whether a program waits for its input: what the GPU, the CPU and the disks say of it.

The SMs are busy for less than half of the time, and at least one sign says why: the CPU at its
limit, the CPU throttled, tasks stalled on I/O, or one-second samples at zero inside active minutes.
Where SM activity cannot be read, kernel activity stands in, which is never lower: what is low by it
is low by SM. A service waits for requests, so samples at zero are no sign there.
"""

from dataclasses import dataclass
from typing import Final

from gputailor_agent.model.judgement import Evidence
from gputailor_agent.rules.advising import Case, running_seconds
from gputailor_agent.rules.base import Threshold, held_against
from gputailor_agent.rules.gates import steady_mean
from gputailor_agent.rules.pricing import is_service

ZEROS: Final = "zero_inside_active_minute"

FEEDING_THRESHOLDS: Final = (
    Threshold("input_sm", 0.5, "ratio", "mean SM activity below which a job may wait for input"),
    Threshold("input_cpu", 0.9, "ratio", "CPU used, of the limit: a sign of waiting for input"),
    Threshold("input_throttled", 0.25, "ratio", "throttled CPU periods: a sign of it"),
    Threshold("input_io_pressure", 0.2, "ratio", "time stalled on I/O: a sign of it"),
    Threshold(
        "input_zeros", 0.2, "ratio", "one-second samples at zero inside active minutes: a sign"
    ),
)


@dataclass(frozen=True, slots=True)
class Feeding:
    """What was found. A sign without a value is unknown; ``signal``: SM, or what stands in."""

    signal: str
    low: Evidence
    signs: dict[str, Evidence]

    @property
    def bound(self) -> bool:
        """Whether the program is known to wait for its input."""
        return bool(self.low.passed) and any(sign.passed for sign in self.signs.values())

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of the signs that nobody told of."""
        return tuple(sign.name for sign in self.signs.values() if sign.value is None)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Every number that was looked at."""
        return (self.low, *self.signs.values())


def feeding(case: Case) -> Feeding:
    """Look at every sign."""
    signal = "sm" if case.covered("sm") else case.basis.busy
    low = held_against(
        f"mean {signal}",
        steady_mean(case.basis.uses, signal) if case.covered(signal) else None,
        "<",
        case.limits["input_sm"],
        unit="ratio",
        profile=case.profile,
        signal=signal,
        formula="active / observed seconds without warm-up",
    )
    return Feeding(signal, low, _signs(case))


def _signs(case: Case) -> dict[str, Evidence]:
    host = case.profile.host
    told: dict[str, tuple[str, float | None, str]] = {
        "cpu": (
            "CPU used of its limit",
            None if host is None else host.cpu_of_limit,
            "CPU seconds used / CPU limit x seconds, of the containers that have a limit",
        ),
        "throttled": (
            "CPU throttled",
            None if host is None else host.throttled_ratio,
            "throttled periods / periods of the CPU quota",
        ),
        "io_pressure": (
            "stalled on I/O",
            None if host is None else host.pressure.get("io/some"),
            "seconds in which some task waited for I/O / seconds (PSI of the containers)",
        ),
    }
    if not is_service(case.profile):
        told["zeros"] = (
            "samples at zero inside active minutes",
            zero_share(case),
            "seconds at zero in minutes with activity / (those + seconds in which anything ran)",
        )
    return {
        key: held_against(
            name,
            value,
            ">=",
            case.limits[f"input_{key}"],
            unit="ratio",
            profile=case.profile,
            formula=formula,
        )
        for key, (name, value, formula) in told.items()
    }


def zero_share(case: Case) -> float | None:
    """Least share of one-second samples at zero inside active minutes; None where not told."""
    zeros = case.basis.total.conditions.get(ZEROS)
    running = running_seconds(case.basis)
    if zeros is None or running is None:
        return None
    whole = zeros + running
    return zeros / whole if whole > 0 else 0.0
