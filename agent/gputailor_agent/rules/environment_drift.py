"""Environment drift: images and drivers that do not go together, or runs slower since a change.

Will fail: CUDA 13 or a driver above R580 on cards older than Turing, where nothing of the workload
has run there. Slower: completed runs of the same number and kind of GPUs, at least three in the
latest environment (image and driver) and three in another one, whose middle halves lie apart and
whose medians differ by 15 % or more; runs that had grown longer before say nothing of the change.
Degraded: a driver older than CUDA's own (13: 580, 12: 525, 11: 450), which works with the
compatibility package only. Drift: more than one driver generation. Whether a framework was built
for the card's architecture no source tells.
"""

from typing import Final

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
from gputailor_agent.model.profile import Profile
from gputailor_agent.profiles import busy_signal
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, found
from gputailor_agent.rules.base import (
    Context,
    Limits,
    Rule,
    Threshold,
    held_against,
    message,
    noted,
    silence,
)
from gputailor_agent.rules.comparing import RunGroup, grew_before, run_groups
from gputailor_agent.rules.environments import (
    LEAST_DRIVER,
    OLD_DRIVER,
    Clash,
    Environment,
    clashes,
    driver_of,
    environments,
    major,
)
from gputailor_agent.rules.gates import GATE_MESSAGES, never_held
from gputailor_agent.rules.pricing import MONEY_MESSAGES, is_service, monthly, not_counted

_ID: Final = "environment_drift"
_LINKS: Final = (
    "https://docs.nvidia.com/deploy/cuda-compatibility/",
    "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html",
)
_OPERATOR: Final = (
    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-driver-upgrades.html"
)
_LOOK: Final = """\
# what each side is built for, inside the container
nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv
python -c "import torch; print(torch.version.cuda, torch.cuda.get_arch_list())"
"""
_DRIVERS: Final = """\
kubectl get nodes -L nvidia.com/cuda.driver-version.full,nvidia.com/cuda.driver.major
# one version for the pool, by the GPU Operator: spec.driver.version of its ClusterPolicy
"""
_FORMULA: Final = "GPU time of the slower runs x (1 - longest fast / shortest slow, middle halves)"

_THRESHOLDS: Final = (
    Threshold("runs_each", 3, "count", "completed runs of each environment"),
    Threshold("slower", 1.15, "factor", "median run time, of that in the faster environment"),
    Threshold("driver_majors", 2, "count", "driver generations from which on they drift apart"),
)

_MESSAGES: Final = {
    **GATE_MESSAGES,
    **MONEY_MESSAGES,
    "environment_drift.dropped_cuda": "it will not run: CUDA {cuda} has no kernels for "
    "{gpus:count} of its GPU(s) ({model}); use an image with CUDA 12, or newer cards",
    "environment_drift.dropped_driver": "it will not run: driver {driver} does not support "
    "{gpus:count} of its GPU(s) ({model}); use driver R580 there",
    "environment_drift.slower": "its runs take {ratio:factor} the time since {what} changed from "
    "{fast} to {slow} ({slow_runs:count} and {fast_runs:count} runs): go back, or see what changed",
    "environment_drift.old_driver": "driver {driver} is older than CUDA {cuda} asks for "
    "({needed}): it works with the compatibility package only, and some functions are "
    "missing",
    "environment_drift.drift": "it runs on nodes with {majors:count} driver generations "
    "({drivers}): runs may differ by where they land",
    "environment_drift.unquantified": "what a run that fails costs is not known",
    "environment_drift.no_price": "what the difference costs is not known",
    "environment_drift.unknown": "unknown: neither images nor driver versions of its runs are "
    "known; the inventory tells images, exporters or node labels tell drivers",
    "environment_drift.one": "all that is known of its runs had one image and one driver "
    "generation",
    "environment_drift.few_runs": "watching: too few completed runs in two environments to "
    "compare ({runs:count} in the latest, {others:count} in another; {needed:count} of each are "
    "needed)",
    "environment_drift.same_speed": "its runs are as fast in the environments seen "
    "({ratio:factor} the time in the latest)",
    "environment_drift.grows": "its runs had grown longer before the change, at the same rate",
    "environment_drift.risk_work": "that all runs did the same work is taken for granted",
    "environment_drift.risk_driver_now": "drivers are known as they are now, not as they were",
    "environment_drift.risk_image": "what else the older image lacks (fixes, features) comes back",
    "environment_drift.risk_upgrade": "a driver is changed on an empty node: drain it first",
    "environment_drift.not_gpu": "a faster GPU: the time lost would be lost there, too",
    "environment_drift.not_wait": "waiting: the next run starts in the same environment",
}


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether the environments of a workload's runs drift apart, and what that does."""
    limits = RULE.limits(context)
    silent = never_held(_ID, profile)
    if silent is not None:
        return silent
    known = environments(profile, context)
    drivers = sorted({d for use in profile.gpus if (d := driver_of(use, context))})
    majors = {number for driver in drivers if (number := major(driver)) is not None}
    seen = _seen(profile, known, majors, limits)
    if not known:
        why = message("environment_drift.unknown")
        missing = ("image", "driver_version")
        return silence(_ID, profile, SilenceKind.UNKNOWN, why, seen, missing_signals=missing)
    wrong = clashes(profile.gpus, context)
    slower = None if is_service(profile) else _slower(profile, context, known, limits, seen)
    answer = _will_fail(profile, wrong, seen)
    if answer is None and isinstance(slower, Finding):
        answer = slower
    answer = answer or _degraded(profile, wrong, seen)
    if answer is None and len(majors) >= limits["driver_majors"]:
        answer = _drift(profile, drivers, majors, seen)
    fine = message("environment_drift.one")
    return answer or slower or silence(_ID, profile, SilenceKind.FINE, fine, seen)


def _seen(
    profile: Profile, known: dict[str, Environment], majors: set[int], limits: Limits
) -> tuple[Evidence, ...]:
    images = {one.image for one in known.values() if one.image}
    return (
        noted("images", len(images), unit="count", profile=profile,
              formula="different images of its runs, as the inventory tells them"),
        held_against("driver generations", len(majors), ">=", limits["driver_majors"],
                     unit="count", profile=profile,
                     formula="different first numbers of the drivers of its GPUs, as they are now"),
    )  # fmt: skip


def _ran(clash: Clash) -> bool:
    """Whether the device worked for it all the same: then what should fail does not."""
    signals = clash.use.signals
    busy = signals.get(busy_signal(signals))
    return busy is not None and busy.active_seconds > 0


def _will_fail(profile: Profile, wrong: list[Clash], seen: tuple[Evidence, ...]) -> Finding | None:
    fails = [one for one in wrong if one.kind != OLD_DRIVER and not _ran(one)]
    if not fails:
        return None
    first = fails[0]
    device = first.use.device
    why = message(
        f"environment_drift.{first.kind}",
        cuda=str(first.cuda),
        driver=first.driver,
        gpus=len(fails),
        model=device.model if device is not None and device.model else "model not known",
    )
    advice = Advice(
        severity=Severity.HIGH,
        confidence=Confidence.HIGH,
        reason="the makers' release notes say so, and nothing ran there",
        change=_edit(profile, _LOOK),
        saving=Saving(why=message("environment_drift.unquantified"), formula="not counted"),
        risks=(message("environment_drift.risk_image"),),
        not_chosen=(message("environment_drift.not_wait"),),
    )
    return found(_ID, profile, why, advice, (*seen, *_clash_evidence(profile, first)))


def _clash_evidence(profile: Profile, one: Clash) -> tuple[Evidence, ...]:
    return (
        noted("CUDA of the image", one.cuda, unit="count", profile=profile,
              formula="by the image's name or tag, or CUDA_VERSION: major version"),
        noted("driver", one.driver or None, profile=profile,
              formula="as the device's source or the node says now"),
    )  # fmt: skip


def _edit(profile: Profile, code: str) -> Change:
    return Change(
        kind="change_environment",
        target=changes.target_of(profile.workload),
        code=code,
        links=_LINKS,
        undo="use the former image or driver again",
    )


def _degraded(profile: Profile, wrong: list[Clash], seen: tuple[Evidence, ...]) -> Finding | None:
    one = next((one for one in wrong if one.kind == OLD_DRIVER), None)
    if one is None:
        return None
    needed = LEAST_DRIVER[one.cuda or 0]
    why = message(
        "environment_drift.old_driver", driver=one.driver, cuda=str(one.cuda), needed=str(needed)
    )
    code = (
        f"{_LOOK}# in the image, until drivers are newer: apt-get install cuda-compat-{one.cuda}\n"
    )
    advice = Advice(
        severity=Severity.LOW,
        confidence=Confidence.MEDIUM,
        reason="versions are read from names; what the program misses by it was not measured",
        change=_edit(profile, code),
        saving=Saving(why=message("environment_drift.unquantified"), formula="not counted"),
        risks=(message("environment_drift.risk_upgrade"),),
        not_chosen=(message("environment_drift.not_gpu"),),
    )
    return found(_ID, profile, why, advice, (*seen, *_clash_evidence(profile, one)))


def _drift(
    profile: Profile, drivers: list[str], majors: set[int], seen: tuple[Evidence, ...]
) -> Finding:
    why = message("environment_drift.drift", majors=len(majors), drivers=", ".join(drivers))
    advice = Advice(
        severity=Severity.INFO,
        confidence=Confidence.MEDIUM,
        reason="drivers are told by their sources; a difference in speed was not found",
        change=Change(
            kind="align_drivers",
            target=changes.target_of(profile.workload),
            code=_DRIVERS,
            links=(_OPERATOR,),
            undo="set the former version again",
        ),
        saving=Saving(why=message("environment_drift.no_price"), formula="not counted"),
        risks=(message("environment_drift.risk_upgrade"),),
        not_chosen=(message("environment_drift.not_gpu"),),
    )
    return found(_ID, profile, why, advice, seen)


def _slower(
    profile: Profile,
    context: Context,
    known: dict[str, Environment],
    limits: Limits,
    seen: tuple[Evidence, ...],
) -> Finding | Silence | None:
    """Compare the latest environment with the fastest other one; None where there is one only."""
    groups = run_groups(profile, known)
    if len(groups) < 2:  # noqa: PLR2004 - a comparison takes two
        return None
    latest = max(groups, key=lambda one: max(run.started or 0.0 for run in one.runs))
    others = [one for one in groups if one is not latest]
    least = limits["runs_each"]
    enough = [one for one in others if len(one.runs) >= least]
    if len(latest.runs) < least or not enough:
        why = message(
            "environment_drift.few_runs",
            runs=len(latest.runs),
            others=max(len(one.runs) for one in others),
            needed=least,
        )
        return silence(_ID, profile, SilenceKind.WATCHING, why, seen)
    fast = min(enough, key=lambda one: one.middle)
    numbers = (*seen, *_compared(profile, latest, fast, limits))
    ratio = latest.middle / fast.middle if fast.middle > 0 else 1.0
    if ratio < limits["slower"] or fast.half[1] >= latest.half[0]:
        why = message("environment_drift.same_speed", ratio=ratio)
        return silence(_ID, profile, SilenceKind.FINE, why, numbers)
    if grew_before(fast, latest, ratio):
        return silence(_ID, profile, SilenceKind.FINE, message("environment_drift.grows"), numbers)
    return _finding(profile, context, latest, fast, numbers)


def _compared(
    profile: Profile, latest: RunGroup, fast: RunGroup, limits: Limits
) -> tuple[Evidence, ...]:
    ratio = latest.middle / fast.middle if fast.middle > 0 else None
    return (
        held_against("run time in the latest environment", ratio, ">=", limits["slower"],
                     unit="factor", profile=profile,
                     formula="median seconds of its completed runs / of the faster environment's"),
        held_against("shortest of the latest environment's middle half", latest.half[0], ">",
                     fast.half[1], unit="seconds", profile=profile,
                     formula="lower quartile, against the upper quartile of the other"),
        held_against("runs in the latest environment", len(latest.runs), ">=",
                     limits["runs_each"], unit="count", profile=profile,
                     formula="completed runs of the same number and kind of GPUs"),
        held_against("runs in the other environment", len(fast.runs), ">=", limits["runs_each"],
                     unit="count", profile=profile, formula="likewise"),
    )  # fmt: skip


def _finding(
    profile: Profile,
    context: Context,
    slow: RunGroup,
    fast: RunGroup,
    numbers: tuple[Evidence, ...],
) -> Finding:
    by_image = slow.environment.image != fast.environment.image
    what = "the image" if by_image else "the driver"
    why = message(
        "environment_drift.slower",
        ratio=slow.middle / fast.middle,
        what=what,
        fast=(fast.environment.image if by_image else fast.environment.driver) or "unknown",
        slow=(slow.environment.image if by_image else slow.environment.driver) or "unknown",
        slow_runs=len(slow.runs),
        fast_runs=len(fast.runs),
    )
    least = fast.half[1] / slow.half[0]
    whole = sum(run.gpu_seconds for run in profile.runs)
    part = sum(run.gpu_seconds for run in slow.runs) / whole if whole > 0 else 0.0
    both = by_image and slow.environment.driver != fast.environment.driver
    sure, reason = _sure(by_image=by_image, both=both)
    risk = message(f"environment_drift.risk_{'image' if by_image else 'driver_now'}")
    counted = monthly(profile, context).saving(part * (1.0 - least))
    advice = Advice(
        severity=Severity.MEDIUM,
        confidence=sure,
        reason=reason,
        change=_back(profile, fast.environment, by_image=by_image),
        saving=counted if sure != Confidence.LOW else not_counted(_FORMULA),
        slowdown=Interval(low=fast.half[0] / slow.half[1], high=least),
        risks=(message("environment_drift.risk_work"), risk),
        not_chosen=(
            message("environment_drift.not_gpu"),
            message("environment_drift.not_wait"),
        ),
    )
    return found(_ID, profile, why, advice, numbers)


def _sure(*, by_image: bool, both: bool) -> tuple[Confidence, str]:
    if both:
        return Confidence.LOW, "image and driver both changed: which of them it was is not known"
    if not by_image:
        return Confidence.LOW, "drivers are known as they are now, not as they were in each run"
    return Confidence.MEDIUM, "the middle halves of the run times lie apart"


def _back(profile: Profile, fast: Environment, *, by_image: bool) -> Change:
    if not by_image or ", " in fast.image:
        return _edit(profile, _LOOK + _DRIVERS)
    container = {"name": profile.workload.container, "image": fast.image}
    return changes.template_change(
        profile.workload, "change_environment", {"containers": [container]}, {"image": fast.image}
    )


RULE: Final = Rule(
    id=_ID,
    title="Environment drift",
    summary="Images, CUDA and drivers do not go together, or runs are slower since one changed.",
    signals=(),
    thresholds=_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=80,
)
