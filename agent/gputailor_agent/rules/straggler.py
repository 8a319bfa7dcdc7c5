"""Straggler: one rank works for longer in each step, and the others of its run wait for it.

Where ranks wait for each other, the one that is busier than all is the slow one (see
``profiles.courses.stragglers``: runs of four devices or more, further from the median of the others
than three deviations and than 0.15). Waiting ranks spin in kernels of the communication library, so
kernel activity alone cannot tell work from waiting: it takes SM activity. A GPU that did nothing at
all is no rank (see ``too_many_gpus``). Ranks of different roles (pipeline stages, a head among
workers) differ by their work, and are left alone. If the slow rank were as quick as the others, the
time would fall by at most the difference of their activities; how much it does is known after one
run, so no saving is counted.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Evidence,
    Finding,
    Interval,
    Saving,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import GpuUse, Profile
from gputailor_agent.profiles.courses import (
    LEAST_APART,
    LEAST_RANKS,
    Straggler,
    ranks_by_run,
    stragglers,
)
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, Case, edit_code, opened
from gputailor_agent.rules.base import Context, Rule, Threshold, held_against, message, noted
from gputailor_agent.rules.gates import GATE_MESSAGES, SIZING_THRESHOLDS
from gputailor_agent.rules.pricing import is_service, node_of
from gputailor_agent.rules.snippets import snippet

_ID: Final = "straggler"
_HOUR: Final = 3600.0
_TWICE: Final = 2
_GRAVE: Final = 0.3
_THROTTLED: Final = ("throttled/hw_slowdown", "throttled/sw_thermal_slowdown")
_FORMULA: Final = "[1 - (slow rank's activity - median of the others), 1]"
_LOOK: Final = """\
# clocks, links and errors of the slow GPU beside another one, while the job runs
nvidia-smi -i GPU_UUID -q -d CLOCK,PERFORMANCE,TEMPERATURE,ECC,PCIE
"""

_MESSAGES: Final = {
    **GATE_MESSAGES,
    "straggler.device": "the others wait for one rank: GPU {gpu} on {node} is busy {mean:ratio} "
    "of the time, the others {others:ratio}, in {runs:count} of {of:count} runs: look at that "
    "GPU and its node",
    "straggler.rank": "the others wait for one rank: pod {pod} is busy {mean:ratio} of the time, "
    "the others {others:ratio}, in {runs:count} of {of:count} runs: see what it does more",
    "straggler.unquantified": "how much faster it gets is known only after one run",
    "straggler.service": "its pods answer requests or people: they do not wait for each other",
    "straggler.few_ranks": "no run has {needed:count} GPUs or more that work: one that differs "
    "from fewer others differs by chance",
    "straggler.roles": "its ranks do different work ({roles}), so they differ for that reason",
    "straggler.unknown": "unknown: without SM activity a rank that waits looks like one that works",
    "straggler.nothing_ran": "nothing ran: see idle",
    "straggler.seldom": "one rank stood out in {runs:count} of {of:count} runs: too seldom to call "
    "it more than chance",
    "straggler.waits": "a rank is less busy than the others: it waits, and nobody waits for it",
    "straggler.fine": "its ranks are equally busy",
    "straggler.risk_data": "an uneven split of the data looks the same: a sound GPU may be blamed",
    "straggler.risk_node": "the node's other GPUs are out of use meanwhile",
    "straggler.not_fewer": "fewer GPUs: the slow one would hold up those, too",
    "straggler.not_all": "a faster card for all ranks: the slow one would stay the slowest",
}


@dataclass(frozen=True, slots=True)
class _Found:
    """The slow ranks of all runs, the worst of them, and what they have in common."""

    slow: tuple[Straggler, ...]
    worst: Straggler
    runs: int  # with a slow rank
    judged: int  # runs with enough ranks
    use: GpuUse
    repeated: bool  # the same device in several runs
    throttled: float  # share of the time held


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether one rank holds up the others."""
    case = opened(RULE, profile, context)
    if isinstance(case, Silence):
        return case
    basis = case.basis
    limits = case.limits
    judged = _runs(basis.uses)
    silent = _not_about(case, judged)
    if silent is not None:
        return silent
    told = stragglers(msgspec.structs.replace(profile, gpus=basis.uses))
    slow = tuple(
        one for one in told
        if one.slow and one.signal == "sm" and one.mean - one.others >= limits["apart"]
    )  # fmt: skip
    if not slow:
        waits = any(not one.slow and one.signal == "sm" for one in told)
        why = message("straggler.waits" if waits else "straggler.fine")
        return case.silent(SilenceKind.FINE, why, _numbers(case, None, judged))
    return _judged(case, slow, judged)


def _runs(uses: tuple[GpuUse, ...]) -> dict[str, list[GpuUse]]:
    """Runs with enough ranks to tell one apart."""
    return {run: ranks for run, ranks in ranks_by_run(uses).items() if len(ranks) >= LEAST_RANKS}


def _not_about(case: Case, judged: dict[str, list[GpuUse]]) -> Silence | None:
    roles = _roles(case.profile)
    if is_service(case.profile):
        return case.silent(SilenceKind.NOT_APPLICABLE, message("straggler.service"))
    if case.basis.use(case.basis.busy).active_seconds == 0:
        return case.silent(SilenceKind.NOT_APPLICABLE, message("straggler.nothing_ran"))
    if not judged:
        why = message("straggler.few_ranks", needed=LEAST_RANKS)
        return case.silent(SilenceKind.NOT_APPLICABLE, why)
    if roles:
        return case.silent(SilenceKind.NOT_APPLICABLE, message("straggler.roles", roles=roles))
    if case.missing("sm"):
        return case.silent(SilenceKind.UNKNOWN, message("straggler.unknown"), missing=("sm",))
    return None


def _roles(profile: Profile) -> str:
    """What makes ranks differ by intent, '' where nothing is known to."""
    spread = profile.workload.distribution
    if spread is not None and (spread.pipeline or 1) > 1:
        return f"pipeline of {spread.pipeline} stages"
    if spread is not None and (spread.expert or 1) > 1:
        return f"{spread.expert} groups of experts"
    return "Ray's head and workers" if profile.workload.kind.startswith("Ray") else ""


def _judged(
    case: Case, slow: tuple[Straggler, ...], judged: dict[str, list[GpuUse]]
) -> Finding | Silence:
    worst = max(slow, key=lambda one: (one.mean - one.others, one.run_id, one.gpu_uuid))
    use = next(u for u in judged[worst.run_id] if u.gpu_uuid == worst.gpu_uuid)
    same = {one.run_id for one in slow if one.gpu_uuid == worst.gpu_uuid}
    held = use.allocated_seconds
    hot = max((use.conditions.get(name, 0.0) for name in _THROTTLED), default=0.0)
    found = _Found(
        slow,
        worst,
        runs=len({one.run_id for one in slow}),
        judged=len(judged),
        use=use,
        repeated=len(same) >= _TWICE,
        throttled=min(1.0, hot / held) if held > 0 else 0.0,
    )
    numbers = _numbers(case, found, judged)
    if found.runs < case.limits["runs_share"] * found.judged:
        why = message("straggler.seldom", runs=found.runs, of=found.judged)
        return case.silent(SilenceKind.FINE, why, numbers)
    return _finding(case, found, numbers)


def _numbers(
    case: Case, found: _Found | None, judged: dict[str, list[GpuUse]]
) -> tuple[Evidence, ...]:
    profile, limits = case.profile, case.limits
    apart = None if found is None else found.worst.mean - found.worst.others
    share = 0.0 if found is None else found.runs / len(judged)
    rows = [
        held_against("slow rank's activity above the others", apart, ">=", limits["apart"],
                     unit="ratio", profile=profile, signal="sm",
                     formula="mean SM activity of the rank - median of the others of its run"),
        held_against("runs with a slow rank", share, ">=", limits["runs_share"], unit="ratio",
                     profile=profile,
                     formula=f"of the runs in which {LEAST_RANKS} GPUs or more work"),
    ]  # fmt: skip
    if found is not None and apart is not None:
        waited = sum(
            (one.mean - one.others) * (len(judged[one.run_id]) - 1) * _held(judged, one)
            for one in found.slow
        )
        rows += [
            noted("GPU-hours that the others waited", waited / _HOUR, unit="count",
                  profile=profile, formula="difference of activities x the others' hours held"),
            noted("slow GPU's clocks held down", found.throttled, unit="ratio", profile=profile,
                  formula="throttled by hardware or heat / seconds held"),
        ]  # fmt: skip
    return tuple(rows)


def _held(judged: dict[str, list[GpuUse]], one: Straggler) -> float:
    return max(use.allocated_seconds for use in judged[one.run_id])


def _finding(case: Case, found: _Found, numbers: tuple[Evidence, ...]) -> Finding:
    worst, hot = found.worst, found.throttled >= case.limits["throttled_share"]
    node = node_of(case.context, found.use)
    device = found.use.device
    place = node.name if node is not None else device.node if device is not None else ""
    of_device = found.repeated or hot
    why = message(
        "straggler.device" if of_device else "straggler.rank",
        gpu=worst.gpu_uuid,
        pod=worst.pod,
        node=place or "a node that is not known",
        mean=worst.mean,
        others=worst.others,
        runs=found.runs,
        of=found.judged,
    )
    reason = "it is the busiest by far, and why was not measured"
    if hot:
        reason = "its clocks were held down by heat or power meanwhile"
    elif found.repeated:
        reason = "the same GPU was the slow one in several runs"
    apart = worst.mean - worst.others
    advice = Advice(
        severity=Severity.MEDIUM if apart >= _GRAVE else Severity.LOW,
        confidence=Confidence.MEDIUM if of_device else Confidence.LOW,
        reason=reason,
        change=_change(case, place, worst.gpu_uuid, of_device=of_device),
        saving=Saving(why=message("straggler.unquantified"), formula=_FORMULA),
        slowdown=Interval(low=max(0.0, 1.0 - apart), high=1.0),
        risks=(message("straggler.risk_data"),)
        + ((message("straggler.risk_node"),) if of_device else ()),
        not_chosen=(message("straggler.not_fewer"), message("straggler.not_all")),
    )
    return case.found(why, advice, numbers)


def _change(case: Case, node: str, gpu: str, *, of_device: bool) -> Change:
    lines = snippet("rank_profile", case.profile.workload)
    if of_device:
        links = ("https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/dcgm-diagnostics.html",)
        return changes.cordon((node,) if node else (), _LOOK.replace("GPU_UUID", gpu), links)
    return edit_code(case.profile, lines)


RULE: Final = Rule(
    id=_ID,
    title="Straggler",
    summary="One rank is slower than the others of its run, which wait for it.",
    signals=("sm", "kernel"),
    thresholds=(
        *SIZING_THRESHOLDS,
        Threshold("apart", LEAST_APART, "ratio", "least difference to the others' SM activity"),
        Threshold("runs_share", 0.5, "ratio", "least share of the runs in which a rank is slow"),
        Threshold("throttled_share", 0.05, "ratio", "held time with clocks held down: the cause"),
    ),
    messages=_MESSAGES,
    evaluate=evaluate,
    order=52,
)
