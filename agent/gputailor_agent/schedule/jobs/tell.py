"""Tell: objects of the cluster are told what is recommended for them."""

from collections.abc import Mapping
from functools import partial

from gputailor_agent.inventory.identity import resolve
from gputailor_agent.model.inventory import OwnerReference
from gputailor_agent.model.judgement import Plan
from gputailor_agent.reports.catalogues import speaking
from gputailor_agent.schedule.jobs.base import Job
from gputailor_agent.schedule.parts import Parts
from gputailor_agent.schedule.timing import every


def _tell(parts: Parts, now: float) -> None:
    """Follow the newest plan; rounds in which there was something to tell count by themselves."""
    telling, newest = parts.telling, parts.judging.newest
    plan = parts.judging.plan if newest is None else newest.plan
    if telling is None or plan is None:
        return
    roots = partial(_roots, parts, plan)
    with parts.telemetry.looking("tell", now) as looked:
        with speaking(parts.settings.report_language):
            telling.run(plan, roots, parts.delivery.settings.public_url, now)
        looked.trouble = telling.trouble


def _roots(parts: Parts, plan: Plan) -> Mapping[str, OwnerReference]:
    """The objects above a plan's workloads; of a former agent's plan they are resolved anew."""
    newest = parts.judging.newest
    if newest is not None and newest.plan is plan:
        return newest.resolution.roots
    settings = parts.settings
    known = parts.store.inventory(settings.cluster, plan.made_at, since=plan.window.start)
    return resolve(known, settings.assessment.identity).roots


JOB = Job(
    name="tell",
    meaning="writes Events about owners and the annotation with what is recommended for them",
    when="every 15 seconds; only with kubernetes_events or kubernetes_annotations",
    trigger=lambda settings: every(settings.deliver_seconds),
    tick=_tell,
    used=lambda parts: parts.telling is not None,
)
