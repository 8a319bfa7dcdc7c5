"""Idle notebooks: GPUs that a notebook keeps at night and at weekends; let a culler stop it.

``idle`` speaks of the notebook that does nothing now; this rule of the habit, over at least a whole
week: the part of the held time that a culler would have freed, had it stopped the notebook after
``cull_minutes`` without work. Only whole hours without any work on any of the pod's GPUs count, and
of each stretch only what comes after those minutes. A person's kernel and files in memory are lost
when it is stopped, so the words are soft; weekends are those of UTC.
"""

from typing import Final

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Evidence,
    Finding,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, Case, opened
from gputailor_agent.rules.base import (
    Context,
    Rule,
    Threshold,
    held_against,
    message,
    noted,
    silence,
)
from gputailor_agent.rules.gates import GATE_MESSAGES, SIZING_THRESHOLDS, never_held
from gputailor_agent.rules.idleness import VIDEO_SIGNALS
from gputailor_agent.rules.members import by_pod
from gputailor_agent.rules.pricing import MONEY_MESSAGES, monthly
from gputailor_agent.rules.stretches import Quiet, quiet_time, video_worked

_ID: Final = "idle_notebook"
_MINUTE: Final = 60.0
_GRAVE: Final = 0.75
_SURE_DAYS: Final = 14
_KUBEFLOW: Final = """\
# Kubeflow: environment of the notebook controller (deployment notebook-controller-deployment)
ENABLE_CULLING: "true"
CULL_IDLE_TIME: "{minutes:.0f}"      # minutes
IDLENESS_CHECK_PERIOD: "5"   # minutes
"""
_HUB: Final = """\
# JupyterHub (Zero to JupyterHub): values of the chart
cull:
  enabled: true
  timeout: {seconds:.0f}   # seconds
  every: 300
# without a hub: options of the Jupyter server, which ends the pod's program
# --MappingKernelManager.cull_idle_timeout={seconds:.0f}
# --ServerApp.shutdown_no_activity_timeout={seconds:.0f}
"""
_LINKS: Final = {
    "Notebook": ("https://www.kubeflow.org/docs/components/notebooks/",),
    "": (
        "https://z2jh.jupyter.org/en/stable/jupyterhub/customizing/user-management.html",
        "https://jupyter-server.readthedocs.io/en/latest/other/full-config.html",
    ),
}

_THRESHOLDS: Final = (
    *SIZING_THRESHOLDS,
    Threshold("cull_minutes", 60, "minutes", "without work before a culler stops a notebook"),
    Threshold(
        "freed_share",
        0.3,
        "ratio",
        "held time that a culler would free, at or above which one is worth it; this project's own "
        "default",
    ),
)

_MESSAGES: Final = {
    **GATE_MESSAGES,
    **MONEY_MESSAGES,
    "idle_notebook.cull": "the notebook did nothing for {quiet:ratio} of the time it held its "
    "{gpus:count} GPU(s), up to {longest:seconds} at a stretch: a culler that stops it after "
    "{after:seconds} would free {freed:ratio} of the time, {weekend:ratio} of that at weekends",
    "idle_notebook.not_one": "it is no notebook",
    "idle_notebook.fine": "a culler that stops it after {after:seconds} would free {freed:ratio} "
    "of the time only",
    "idle_notebook.video": "unknown: it uses the video engines, and it is not known in which hours",
    "idle_notebook.risk_state": "variables and unsaved work in the kernel are lost when it is "
    "stopped: tell its person first",
    "idle_notebook.risk_cpu": "work on CPUs alone looks idle here: some cullers see only the "
    "kernel's activity, and would let it run",
    "idle_notebook.risk_weekend": "weekends and hours are UTC's",
    "idle_notebook.risk_no_power": "power cannot be checked against the counters here",
    "idle_notebook.not_delete": "deleting it: its person may be back tomorrow",
    "idle_notebook.not_share": "taking turns on one GPU: see share",
    "idle_notebook.not_smaller": "a smaller GPU: it would be idle as long",
}


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether a notebook keeps its GPUs for long while nobody works in it."""
    silent = never_held(_ID, profile)
    if silent is not None:
        return silent
    if profile.workload.task_class != TaskClass.NOTEBOOK:
        return _other(profile)
    case = opened(RULE, profile, context)
    if isinstance(case, Silence):
        return case
    basis, limits = case.basis, case.limits
    if video_worked(basis.uses):
        return case.silent(
            SilenceKind.UNKNOWN, message("idle_notebook.video"), missing=("encoder", "decoder")
        )
    after = limits["cull_minutes"] * _MINUTE
    quiet = quiet_time(by_pod(basis.uses), after)
    numbers = _numbers(case, quiet)
    if quiet.freed_share < limits["freed_share"]:
        why = message("idle_notebook.fine", after=after, freed=quiet.freed_share)
        return case.silent(SilenceKind.FINE, why, numbers)
    return _finding(case, quiet, after, numbers)


def _other(profile: Profile) -> Silence:
    task = noted(
        "task",
        profile.workload.task_class.value,
        profile=profile,
        formula=profile.workload.task_evidence or "kind, image, ports and command",
    )
    why = message("idle_notebook.not_one")
    return silence(_ID, profile, SilenceKind.NOT_APPLICABLE, why, (task,))


def _numbers(case: Case, quiet: Quiet) -> tuple[Evidence, ...]:
    profile = case.profile
    return (
        noted("time without work", quiet.quiet_share, unit="ratio", profile=profile,
              signal=case.basis.busy,
              formula="whole hours at zero on every GPU of the pod / seconds held"),
        held_against("time that a culler would free", quiet.freed_share, ">=",
                     case.limits["freed_share"], unit="ratio", profile=profile,
                     formula="of each stretch what comes after the time to stop / seconds held"),
        noted("of that at weekends", quiet.weekend_share, unit="ratio", profile=profile,
              formula="Saturdays and Sundays, UTC"),
        noted("longest stretch", quiet.longest, unit="seconds", profile=profile,
              formula="hours at zero one after another"),
        noted("stretches", quiet.stretches, unit="count", profile=profile,
              formula="longer than the time to stop"),
    )  # fmt: skip


def _unread(case: Case) -> tuple[str, ...]:
    """What could contradict an idle GPU and cannot be read."""
    power = all(use.energy_joules is not None for use in case.basis.uses)
    video = all(case.basis.use(name).observed_seconds > 0 for name in VIDEO_SIGNALS)
    return tuple(name for name, read in (("power", power), ("video engines", video)) if not read)


def _finding(case: Case, quiet: Quiet, after: float, numbers: tuple[Evidence, ...]) -> Finding:
    profile = case.profile
    unread = _unread(case)
    sure = not unread and profile.full_days >= _SURE_DAYS
    why = message(
        "idle_notebook.cull",
        quiet=quiet.quiet_share,
        gpus=len({use.gpu_uuid for use in (*case.basis.uses, *case.basis.unused)}),
        longest=quiet.longest,
        after=after,
        freed=quiet.freed_share,
        weekend=quiet.weekend_share,
    )
    risks = [message(f"{_ID}.{name}") for name in ("risk_state", "risk_cpu", "risk_weekend")]
    if "power" in unread:
        risks.append(message("idle_notebook.risk_no_power"))
    advice = Advice(
        severity=Severity.MEDIUM if quiet.freed_share >= _GRAVE else Severity.LOW,
        confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
        reason="; ".join(
            (f"the same over {profile.full_days} full days", *(f"{n} not read" for n in unread))
        ),
        change=_change(profile, after),
        saving=monthly(profile, case.context).saving(quiet.freed_share),
        risks=tuple(risks),
        not_chosen=tuple(
            message(f"{_ID}.{name}") for name in ("not_delete", "not_share", "not_smaller")
        ),
    )
    return case.found(why, advice, numbers)


def _change(profile: Profile, after: float) -> Change:
    kind = profile.workload.kind if profile.workload.kind in _LINKS else ""
    code = _KUBEFLOW if kind else _HUB
    return Change(
        kind="cull_notebook",
        target=changes.target_of(profile.workload),
        params={"cull_seconds": after},
        code=code.format(minutes=after / _MINUTE, seconds=after),
        links=_LINKS[kind],
        undo="take the setting out again; a stopped notebook is started by its person",
    )


RULE: Final = Rule(
    id=_ID,
    title="Idle notebooks",
    summary="A notebook keeps its GPUs at night or at weekends; a culler would free them.",
    signals=("kernel", "encoder", "decoder"),
    thresholds=_THRESHOLDS,
    messages=_MESSAGES,
    evaluate=evaluate,
    order=11,
)
