"""Format ``json``: the whole plan as values, with the sentences beside it.

``schema_version`` follows semantic versioning over the shape: a new field is a minor step, a
changed or removed one a major step. ``report.schema.json`` beside this module is generated from the
structures (``python -m gputailor_agent.reports.json_report``) and compared with them by a test.
Unknown is ``null``.

A plan of more than ``WHOLE`` workloads is ``shortened``: of the rules that say nothing about a
workload only the one that tells why is kept, and alternatives come without their numbers. The whole
of 20,000 workloads would be 1.3 GB; each one's explanation has everything.
"""

import sys
from typing import Final, TypeVar

import msgspec

from gputailor_agent.model.judgement import Finding, Plan, Silence, Verdict
from gputailor_agent.model.ledger import Entry, State
from gputailor_agent.reports import overview
from gputailor_agent.reports.beside import NOTHING, Beside, Week
from gputailor_agent.reports.catalogues import ENGLISH, spoken
from gputailor_agent.reports.changes_page import Changes, changes, headline
from gputailor_agent.reports.cluster import ClusterText, cluster_text
from gputailor_agent.reports.coverage_page import Observed, Unknown, observed, unknowns
from gputailor_agent.reports.explain import Explanation
from gputailor_agent.reports.formats import Format, Look
from gputailor_agent.reports.groups_page import Groups, groups
from gputailor_agent.reports.overview import Totals
from gputailor_agent.reports.runs import LogJudgement
from gputailor_agent.reports.wording import say

SCHEMA_VERSION: Final = "1.3"
#: Workloads up to which everything is written.
WHOLE: Final = 2_000


Said = TypeVar("Said", Finding, Silence)


class WorkloadText(msgspec.Struct, frozen=True, kw_only=True):
    """What is said about one workload, in the report's language.

    ``use``: "measured", "unknown" or "not_measured_yet"; ``tracked``: experiment and run.
    """

    id: str
    state: str
    headline: str
    saving: str
    slowdown: str
    alternatives: tuple[str, ...]
    silences: dict[str, str]  # rule -> reason
    use: str = ""
    team: str = ""
    queue: str = ""
    tracked: str = ""


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="report"):
    """The report on a cluster."""

    totals: Totals
    workloads: tuple[WorkloadText, ...]  # in the report's order
    plan: Plan
    cluster: ClusterText = ClusterText()
    shortened: bool = False
    language: str = ENGLISH
    headline: str = ""
    scope: str = ""  # of whom it is; '' for the whole cluster
    changes: Changes | None = None  # since the last report; None where there was none
    advice: tuple[Entry, ...] = ()  # changes that were made, from the ledger
    unknown: tuple[Unknown, ...] = ()  # why workloads are unknown
    observed: tuple[Observed, ...] = ()  # by namespace
    groups: Groups = Groups()
    weeks: tuple[Week, ...] = ()  # totals of the last reports, oldest first
    courses: dict[str, tuple[float | None, ...]] = {}
    schema_version: str = SCHEMA_VERSION


class ExplanationDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="explanation"
):
    """Why one workload got its verdict, or what is said of the cluster."""

    explanation: Explanation
    schema_version: str = SCHEMA_VERSION


class LogsDocument(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="logs"):
    """The judgement of recorded logs; ``sentences`` has one list per log."""

    logs: tuple[LogJudgement, ...]
    sentences: tuple[tuple[str, ...], ...]
    schema_version: str = SCHEMA_VERSION


def plan_document(plan: Plan, beside: Beside = NOTHING) -> PlanDocument:
    """A plan with its totals and sentences, in the language spoken."""
    made = [one for one in beside.entries or () if one.state == State.APPLIED]
    lines, long = overview.lines(plan), len(plan.verdicts) > WHOLE
    if long:
        lines = [msgspec.structs.replace(one, verdict=_short(one.verdict)) for one in lines]
    return PlanDocument(
        totals=overview.totals(plan),
        workloads=tuple(map(workload_text, lines)),
        plan=_shortened(plan) if long else plan,
        shortened=long,
        cluster=cluster_text(plan),
        language=spoken().name,
        headline=headline(plan),
        scope=beside.scope,
        changes=changes(plan, beside),
        advice=tuple(made),
        unknown=tuple(unknowns(plan)),
        observed=tuple(observed(plan)),
        groups=groups(plan),
        weeks=beside.weeks,
        courses=beside.courses,
    )


def _shortened(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, verdicts=tuple(map(_short, plan.verdicts)))


def _short(verdict: Verdict) -> Verdict:
    leading = None if verdict.primary else overview.leading_silence(verdict)
    told = () if leading is None else (_bare(leading),)
    others = tuple(map(_bare, verdict.alternatives))
    return msgspec.structs.replace(verdict, silences=told, alternatives=others)


def _bare(said: Said) -> Said:
    """A finding or silence without its numbers."""
    return msgspec.structs.replace(said, evidence=(), not_chosen=())


def workload_text(line: overview.Line) -> WorkloadText:
    """What is said about the workload of a line."""
    return WorkloadText(
        id=line.verdict.workload.id,
        state=line.state,
        headline=line.headline,
        saving=line.saving,
        slowdown=line.slowdown,
        alternatives=tuple(say(finding.message) for finding in line.verdict.alternatives),
        silences={silence.rule: say(silence.message) for silence in line.verdict.silences},
        use=overview.use_of(line.verdict),
        team=line.verdict.workload.team,
        queue=line.verdict.workload.queue,
        tracked=overview.tracked_text(line.verdict.workload),
    )


def logs_document(judgements: tuple[LogJudgement, ...]) -> LogsDocument:
    """Judgements with their sentences."""
    return LogsDocument(
        logs=judgements,
        sentences=tuple(
            tuple(
                say(message)
                for message in (
                    judgement.verdict,
                    *(gpu.verdict for gpu in judgement.gpus),
                    *judgement.unknowable,
                )
            )
            for judgement in judgements
        ),
    )


def encode(document: PlanDocument | ExplanationDocument | LogsDocument) -> str:
    """A document as JSON, ending in a newline; indented unless it is a shortened one."""
    encoded = msgspec.json.encode(document)
    if isinstance(document, PlanDocument) and document.shortened:
        return encoded.decode() + "\n"  # indented it would be half as long again
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def encode_list(texts: tuple[WorkloadText, ...]) -> str:
    """The workloads of a report as JSON, in the report's order."""
    body = {"schema_version": SCHEMA_VERSION, "workloads": texts}
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode() + "\n"


def schema() -> str:
    """The JSON schema (2020-12) of everything this format writes."""
    described = msgspec.json.schema(PlanDocument | ExplanationDocument | LogsDocument)
    return msgspec.json.format(msgspec.json.encode(described), indent=2).decode() + "\n"


def _plan(plan: Plan, _look: Look, beside: Beside) -> str:
    return encode(plan_document(plan, beside))


def _explanation(explanation: Explanation, _look: Look) -> str:
    return encode(ExplanationDocument(explanation=explanation))


def _log(judgements: tuple[LogJudgement, ...], _look: Look) -> str:
    return encode(logs_document(judgements))


FORMAT: Final = Format(
    name="json",
    summary="everything, schema versioned, for machines",
    media_type="application/json",
    plan_beside=_plan,
    explanation=_explanation,
    log=_log,
)


if __name__ == "__main__":
    sys.stdout.write(schema())
