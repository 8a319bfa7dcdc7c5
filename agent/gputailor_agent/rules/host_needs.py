"""What a container needs of its node beside its GPUs: CPUs by a percentile, memory by its peak.

CPU: the 95th percentile of five-minute means over all the time of the workload's containers, as KRR
takes it, and 15 % more, as VPA adds; of the level that holds it the upper edge, so that it is never
understated. It counts where it is known for as much of the time as the sizing rules ask for. Rows
of a time before levels were read have none: there the hour that used most stands in, and half as
much again, since its mean hides shorter bursts (this project's own factor). Memory: the highest
working set. A resource of which the container was short (throttled, or killed for memory) has no
known need: it took what it got.
"""

from dataclasses import dataclass
from typing import Final

from gputailor_agent.model.containers import HostUse
from gputailor_agent.model.cpu_levels import RATIO, CpuLevel
from gputailor_agent.model.judgement import Evidence
from gputailor_agent.rules.advising import Case
from gputailor_agent.rules.base import Threshold, noted
from gputailor_agent.rules.members import by_pod

THRESHOLDS: Final = (
    Threshold("cpu_p95_headroom", 1.15, "factor", "CPU needed, of the 95th percentile of use"),
    Threshold(
        "cpu_headroom", 1.5, "factor", "CPU needed, of the hour that used most, without percentile"
    ),
    Threshold("memory_headroom", 1.15, "factor", "memory needed, of the highest working set"),
    Threshold("throttled", 0.05, "ratio", "throttled periods from which on CPU is not taken away"),
)


@dataclass(frozen=True, slots=True)
class HostNeed:
    """What one pod needs: None leaves the request as it is. ``p95``: where CPU is known by it."""

    cpus: float | None
    memory: float | None
    p95: CpuLevel | None


def told_share(case: Case) -> float | None:
    """Observed container-seconds / held ones; None where nobody counts the first."""
    host, profile = case.profile.host, case.profile
    if host is None or host.observed_seconds is None:
        return None
    held = sum(max(use.allocated_seconds for use in uses) for uses in by_pod(profile.gpus))
    return min(1.0, host.observed_seconds / held) if held > 0 else None


def host_need(case: Case, host: HostUse) -> HostNeed:
    """What it needs of each resource; None for one that is not known or of which it was short."""
    limits, p95 = case.limits, _known_p95(case, host)
    cpus = None if host.cpus_peak is None else host.cpus_peak * limits["cpu_headroom"]
    if p95 is not None:
        cpus = p95.high * limits["cpu_p95_headroom"]
    memory = None
    if host.memory_peak_bytes is not None:
        memory = host.memory_peak_bytes * limits["memory_headroom"]
    if (host.throttled_ratio or 0.0) >= limits["throttled"]:
        cpus = None
    if case.profile.oom_seen or (host.oom_kills or 0) > 0:
        memory = None
    return HostNeed(cpus, memory, p95)


def _known_p95(case: Case, host: HostUse) -> CpuLevel | None:
    """The percentile, where it is of as much of the observed time as sizing asks for."""
    p95, observed = host.cpus_p95, host.observed_seconds
    if p95 is None or not observed or p95.seconds < case.limits["coverage"] * observed:
        return None
    return p95


def cpu_formula(case: Case, need: HostNeed) -> str:
    """How the CPU need was made."""
    limits = case.limits
    if need.p95 is not None:
        return f"request / ({limits['cpu_p95_headroom']:g} x 95th percentile of use)"
    return f"request / ({limits['cpu_headroom']:g} x mean of the hour that used most)"


def cpu_evidence(case: Case, host: HostUse) -> tuple[Evidence, ...]:
    """The numbers that the CPU need is made of, with how exact they are."""
    profile, p95 = case.profile, host.cpus_p95
    rows = [
        noted("CPUs used, hour that used most", host.cpus_peak, unit="count", profile=profile,
              formula="mean CPUs of one container in that hour"),
    ]  # fmt: skip
    if p95 is not None:
        share = p95.seconds / host.observed_seconds if host.observed_seconds else 0.0
        rows.insert(
            0,
            noted("CPUs used, 95th percentile", p95.high, unit="count", profile=profile,
                  formula="of five-minute means of any one container, upper edge of its level: "
                  f"it lies above {p95.low:.3g} (levels are {RATIO - 1:.0%} apart); known for "
                  f"{min(1.0, share):.0%} of the time observed"),
        )  # fmt: skip
    return tuple(rows)
