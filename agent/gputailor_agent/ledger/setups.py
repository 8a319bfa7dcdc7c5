"""What a workload asks for now, and how its runs go, out of its profiles.

A change of the GPU count or of a slice gives new pods another shape, and with it another id of the
workload (``…#4xgpu``): profiles that differ in that ending only are one family here.
"""

from collections.abc import Iterable, Mapping
from statistics import median
from types import MappingProxyType
from typing import Final, NamedTuple

from gputailor_agent.ledger.asking import NOTHING_ASKED, Asked, newest_use
from gputailor_agent.model.inventory import Outcome
from gputailor_agent.model.judgement import Money, Scalar, Verdict
from gputailor_agent.model.ledger import RunFigures, Setup
from gputailor_agent.model.profile import Profile, RunUse

HOURS_PER_MONTH: Final = 730.0
_HOUR: Final = 3600.0
_NO_PARAMS: Final[Mapping[str, Scalar]] = MappingProxyType({})


class Member(NamedTuple):
    """A workload as the newest plan has it."""

    profile: Profile
    verdict: Verdict


def family_name(workload_id: str) -> str:
    """The id without the ending that tells shapes and parts of a stem apart."""
    return workload_id.partition("#")[0]


def families(profiles: Iterable[Profile], verdicts: Iterable[Verdict]) -> dict[str, list[Member]]:
    """Members of each family, by its name; the newest run's last."""
    by_id = {profile.workload.id: profile for profile in profiles}
    found: dict[str, list[Member]] = {}
    for verdict in verdicts:
        profile = by_id.get(verdict.workload.id)
        if profile is not None:
            member = Member(profile, verdict)
            found.setdefault(family_name(verdict.workload.id), []).append(member)
    for members in found.values():
        members.sort(key=_newness)
    return found


def _newness(member: Member) -> tuple[bool, float, str]:
    starts = [run.started for run in member.profile.runs if run.started is not None]
    live = member.profile.pods_now > 0
    return (live, max(starts, default=0.0), member.profile.workload.id)


def setup_of(
    member: Member, asked: Asked = NOTHING_ASKED, params: Mapping[str, Scalar] = _NO_PARAMS
) -> Setup:
    """What the workload asks for as of the plan; ``params``: of the change that is looked for."""
    request = asked.of(member.profile.workload.id)
    profile = member.profile
    requests = profile.workload.gpu_requests
    return Setup(
        gpus_per_pod=profile.gpus_per_pod,
        pods=profile.pods_now,
        gpus=member.verdict.gpus_now,
        models=_newest_models(profile),
        shape="+".join(f"{one.count:g}x{one.resource.rpartition('/')[2]}" for one in requests),
        cpus=request.cpus,
        memory_bytes=request.memory_bytes,
        deadline_seconds=request.deadline_seconds,
        out_nodes=asked.out(nodes_of(params)),
    )


def nodes_of(params: Mapping[str, Scalar]) -> tuple[str, ...]:
    """Names of the nodes that a change is about."""
    named = str(params.get("nodes") or "")
    return tuple(name for name in named.split(", ") if name)


def _newest_models(profile: Profile) -> tuple[str, ...]:
    """Models that the newest run used."""
    newest = newest_use(profile)
    if newest is None:
        return profile.device_models
    models = {
        use.device.model
        for use in profile.gpus
        if use.run_id == newest.run_id and use.device is not None
    }
    return tuple(sorted(models)) or profile.device_models


def runs_of(members: Iterable[Member], *, since: float, until: float) -> RunFigures:
    """Figures of the runs that began in [since, until); those that the window cuts are left out."""
    runs: list[RunUse] = []
    for member in members:
        begin = max(since, member.profile.window.start)
        runs += [run for run in member.profile.runs if _began(run, begin, until)]
    done = [run for run in runs if run.outcome == Outcome.SUCCEEDED]
    failed = [run for run in runs if run.outcome == Outcome.FAILED or run.oom]
    lengths = [
        run.finished - run.started
        for run in done
        if run.finished is not None and run.started is not None
    ]
    return RunFigures(
        completed=len(done),
        failed=len(failed),
        gpu_hours=median(run.gpu_seconds for run in done) / _HOUR if done else None,
        seconds=median(lengths) if lengths else None,
        per_month=_rate(done, until),
    )


def _began(run: RunUse, since: float, until: float) -> bool:
    return run.started is not None and since <= run.started < until


def _rate(done: list[RunUse], until: float) -> float | None:
    """Completed runs per month, from the first start on; one run alone has no rate."""
    starts = sorted(run.started for run in done if run.started is not None)
    if len(starts) < 2 or until <= starts[0]:  # noqa: PLR2004 - two make a rate
        return None
    return len(starts) / ((until - starts[0]) / _HOUR) * HOURS_PER_MONTH


def price_of(verdict: Verdict) -> Money | None:
    """What a GPU hour of the workload costs; None where no price is known."""
    if verdict.cost is None or verdict.gpu_hours <= 0:
        return None
    return Money(amount=verdict.cost.amount / verdict.gpu_hours, currency=verdict.cost.currency)


def known_families(found: Mapping[str, list[Member]], workload_id: str) -> list[Member]:
    """Members of the family that a workload belongs to; [] when it is gone."""
    return list(found.get(family_name(workload_id), ()))
