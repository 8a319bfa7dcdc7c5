"""``gputailor check MANIFEST``: what history and arithmetic say before it is applied."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from gputailor_agent.assessment import Assessment
from gputailor_agent.catalog import Catalogue, load_catalogue
from gputailor_agent.cli import options, showing
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.cli.errors import THRESHOLD_EXCEEDED
from gputailor_agent.cli.inputs import Inputs, assess_inputs
from gputailor_agent.cli.judged import judging
from gputailor_agent.cli.manifests import (
    Applied,
    Manifests,
    manifest_files,
    read_manifests,
    selected_cards,
)
from gputailor_agent.cli.terminal import tell
from gputailor_agent.estimating.holding import holding
from gputailor_agent.inventory.distribution import gpus_used
from gputailor_agent.inventory.identity import shape
from gputailor_agent.inventory.resources import device_count
from gputailor_agent.model.inventory import Inventory, TaskClass
from gputailor_agent.model.judgement import Message, Verdict
from gputailor_agent.planner.applied import Standing, standing
from gputailor_agent.reports import overview
from gputailor_agent.reports.catalogues import ENGLISH, speaking
from gputailor_agent.reports.check_page import (
    Check,
    Checked,
    Past,
    State,
    Taken,
    outcome,
    page,
)
from gputailor_agent.rules.base import Context
from gputailor_agent.rules.opting_out import opted_out

_EPILOG: Final = """Examples:

  gputailor check deployment.yaml --store sqlite:///gputailor.db

  kubectl kustomize overlays/prod | gputailor check - --prometheus-url http://localhost:9090

  gputailor check manifests/ --namespace team-a --store "$DB" --output markdown

  gputailor check job.yaml --archive run.csv      # the log of an earlier run of this job

  gputailor check vllm.yaml                       # no history: mistakes and the model's memory

Exit code 3 when a change is recommended, a model does not fit, or the manifest has a problem.
"""

#: A namespace's name; ``--namespace`` takes patterns, too, and those name no place.
_NAME: Final = re.compile(r"[a-z0-9-]+")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(judging(check))


def check(
    manifests: Annotated[
        list[Path],
        typer.Argument(
            metavar="MANIFEST...",
            help="Files or folders of YAML or JSON; - reads standard input.",
            show_default=False,
        ),
    ],
    *,
    inputs: Inputs,
    output: showing.Output = "table",
    language: options.Language = ENGLISH,
) -> None:
    """Judge manifests before they are applied, from history and a model's memory arithmetic.

    For each workload that asks for accelerators: what the history of the same workload recommends,
    unless the manifest has it already; whether the model that its arguments name fits the card or
    slice it asks for; whether its commands use as many GPUs as it asks for; and what is wrong with
    the request itself. History is optional. With one
    --namespace, objects that name none are in that one.
    """
    with speaking(options.spoken_language(language)):
        catalogue = load_catalogue(inputs.prices)
        found = _checked(manifests, inputs, catalogue)
        showing.show(output, page(found, inputs.rules), found)
        if not found.clean:
            tell(f"gputailor: {outcome(found)}")
            raise typer.Exit(THRESHOLD_EXCEEDED)


@dataclass(frozen=True, slots=True)
class _History:
    """What was judged of the past, and what is needed to judge by it."""

    assessed: Assessment
    context: Context


def _checked(paths: Sequence[Path], inputs: Inputs, catalogue: Catalogue) -> Check:
    inputs, namespace = _in_namespace(inputs)
    with manifest_files(paths) as files:
        given = read_manifests(
            files, inputs.cluster, namespace, time.time(), inputs.judging.identity
        )
        past = _history(inputs, files, catalogue)
    workloads = tuple(_one(applied, past, catalogue) for applied in given.applied)
    return _summed(given, workloads)


def _summed(given: Manifests, workloads: tuple[Checked, ...]) -> Check:
    return Check(
        workloads=workloads,
        mistakes=given.mistakes,
        problems=given.inventory.problems,
        changes=sum(one.past.state == "open" for one in workloads),
        misfits=sum(one.fits is False for one in workloads),
        refused=sum(one.refused for one in given.mistakes),
        unlike=sum(one.taken is not None for one in workloads),
    )


def _in_namespace(inputs: Inputs) -> tuple[Inputs, str]:
    """A single ``--namespace`` places manifests; alone it asks for no live cluster."""
    names = inputs.live.namespaces
    if inputs.live == ClusterAccess(namespaces=names):
        inputs = replace(inputs, live=ClusterAccess())
    named = len(names) == 1 and _NAME.fullmatch(names[0])
    return inputs, names[0] if named else ""


def _history(inputs: Inputs, files: Sequence[Path], catalogue: Catalogue) -> _History | None:
    """What the past is judged to be; None where none was given.

    A recorded log without an inventory is one of the manifests'.
    """
    if not (inputs.archive or inputs.prometheus.asked or inputs.live.asked or inputs.store):
        return None
    if inputs.archive and not inputs.inventory and not inputs.live.asked:
        inputs = replace(inputs, inventory=tuple(files))
    assessed = assess_inputs(inputs)
    context = Context(
        now=assessed.plan.made_at,
        catalogue=catalogue,
        inventory=Inventory(cluster=inputs.cluster, at=assessed.plan.made_at),
        settings=inputs.rules,
    )
    return _History(assessed, context)


def _one(applied: Applied, history: _History | None, catalogue: Catalogue) -> Checked:
    workload = applied.workload
    per_pod = device_count(workload.gpu_requests)
    verdict, past = (None, Past(state="none")) if history is None else _past(applied, history)
    cards = selected_cards(applied.manifests)
    if not cards and verdict is not None:
        cards = list(verdict.device_models)
    if not cards and history is not None:
        cards = [line.model for line in history.assessed.plan.capacity]
    memory = holding(applied.container, workload.distribution, cards, catalogue)
    return Checked(
        workload=workload.id,
        where=tuple(one.where for one in applied.manifests),
        asked=workload.gpu_requests,
        per_pod=per_pod,
        pods=applied.pods,
        devices=None if applied.pods is None else per_pod * applied.pods,
        past=past,
        fits=memory.fits,
        memory=memory,
        taken=_taken(applied, per_pod),
    )


def _taken(applied: Applied, per_pod: float) -> Taken | None:
    """What the commands use where that is not what is asked for; whole GPUs of pods alone.

    Parallel sizes are an engine's whole number of GPUs; in training the launcher adds ranks that
    the manifest need not name, so there they can only be too many. A group of pods may hold what is
    too much for one of them.
    """
    used = gpus_used(applied.workload.distribution)
    whole_gpus = all(one.kind == "gpu" for one in applied.workload.gpu_requests)
    if used is None or not whole_gpus or applied.pods is None:
        return None
    gpus, evidence, whole = used
    total = per_pod * applied.pods
    asked = total if whole else per_pod
    serves = applied.workload.task_class == TaskClass.INFERENCE
    possible = whole or (serves and gpus < asked)
    if gpus == asked or not (possible or gpus > total):
        return None
    return Taken(used=gpus, asked=asked, whole=whole, evidence=evidence)


def _past(applied: Applied, history: _History) -> tuple[Verdict | None, Past]:
    """The verdict that counts for the manifest, and what it says."""
    wanted = _base(applied.workload.id)
    used = [
        one
        for one in history.assessed.plan.verdicts
        if _base(one.workload.id) == wanted and one.gpu_hours > 0
    ]
    if not used:
        return None, Past(state="unknown", workload=wanted)
    used.sort(key=lambda one: (one.gpus_now > 0, one.gpu_hours), reverse=True)
    same = [one for one in used if _shape(one) == shape(applied.workload.gpu_requests)]
    own = same[0] if same else None
    if own is not None and own.primary is not None:
        return own, _told(own, _standing(own, applied), applied, history)
    for one in used:
        now = _standing(one, applied)
        if now in {"done", "less"} or (own is None and now is not None):
            return own or one, _told(one, now, applied, history)
    found = own or used[0]
    return found, _told(found, None, applied, history)


def _base(workload_id: str) -> str:
    """An id without the shape that tells two requests of one workload apart."""
    return workload_id.partition("#")[0]


def _shape(verdict: Verdict) -> str:
    return shape(verdict.workload.gpu_requests)


def _standing(verdict: Verdict, applied: Applied) -> Standing | None:
    """How the manifest stands to the recommendation; None where there is none.

    Of several objects the one that has not followed it counts.
    """
    if verdict.primary is None:
        return None
    per_pod = device_count(applied.workload.gpu_requests)
    bodies = [one.body for one in applied.manifests] or [{}]
    all_of = {
        standing(verdict.primary.change, body, per_pod=per_pod, pods=applied.pods)
        for body in bodies
    }
    order: tuple[Standing, ...] = ("open", "elsewhere", "done", "less")
    return next(one for one in order if one in all_of)


def _told(verdict: Verdict, now: Standing | None, applied: Applied, history: _History) -> Past:
    known = Past(
        state=now or "fine",
        workload=verdict.workload.id,
        window=history.assessed.plan.window,
        asked=verdict.workload.gpu_requests,
        gpu_hours=verdict.gpu_hours,
        finding=verdict.primary,
    )
    if verdict.primary is None:
        state: State = "fine" if verdict.state == "ok" else "undecided"
        return msgspec.structs.replace(known, state=state, text=overview.reason(verdict))
    why = _opted_out(verdict, applied, history)
    if why is not None:
        return msgspec.structs.replace(known, state="opted_out", finding=None, why=why)
    if now in {"done", "less"}:
        return msgspec.structs.replace(known, why=verdict.primary.message)
    return known


def _opted_out(verdict: Verdict, applied: Applied, history: _History) -> Message | None:
    """Why the manifest's own annotations ask the rule to say nothing; None where they do not."""
    if verdict.primary is None:
        return None
    for profile in history.assessed.profiles:
        if profile.workload.id == verdict.workload.id:
            asked = msgspec.structs.replace(profile, workload=applied.workload)
            found = opted_out(asked, history.context, verdict.primary.rule)
            return None if found is None else found.message
    return None
