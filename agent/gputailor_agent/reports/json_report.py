"""Format ``json``: the whole plan as values, with the sentences beside it.

``schema_version`` follows semantic versioning over the shape: a new field is a minor step, a
changed or removed one a major step. ``report.schema.json`` beside this module is generated from the
structures (``python -m gputailor_agent.reports.json_report``) and compared with them by a test.
Unknown is ``null``.
"""

import sys
from typing import Final

import msgspec

from gputailor_agent.model.judgement import Plan
from gputailor_agent.reports import overview
from gputailor_agent.reports.cluster import ClusterText, cluster_text
from gputailor_agent.reports.explain import Explanation
from gputailor_agent.reports.formats import Format, Look
from gputailor_agent.reports.overview import Totals
from gputailor_agent.reports.runs import LogJudgement
from gputailor_agent.reports.wording import say

SCHEMA_VERSION: Final = "1.1"


class WorkloadText(msgspec.Struct, frozen=True, kw_only=True):
    """What is said about one workload, in English."""

    id: str
    state: str
    headline: str
    saving: str
    slowdown: str
    alternatives: tuple[str, ...]
    silences: dict[str, str]  # rule -> reason


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="report"):
    """The report on a cluster."""

    totals: Totals
    workloads: tuple[WorkloadText, ...]  # in the report's order
    plan: Plan
    cluster: ClusterText = ClusterText()
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


def plan_document(plan: Plan) -> PlanDocument:
    """A plan with its totals and sentences."""
    return PlanDocument(
        totals=overview.totals(plan),
        workloads=tuple(workload_text(line) for line in overview.lines(plan)),
        plan=plan,
        cluster=cluster_text(plan),
    )


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
    """A document as indented JSON, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def encode_list(texts: tuple[WorkloadText, ...]) -> str:
    """The workloads of a report as JSON, in the report's order."""
    body = {"schema_version": SCHEMA_VERSION, "workloads": texts}
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode() + "\n"


def schema() -> str:
    """The JSON schema (2020-12) of everything this format writes."""
    described = msgspec.json.schema(PlanDocument | ExplanationDocument | LogsDocument)
    return msgspec.json.format(msgspec.json.encode(described), indent=2).decode() + "\n"


def _plan(plan: Plan, _look: Look) -> str:
    return encode(plan_document(plan))


def _explanation(explanation: Explanation, _look: Look) -> str:
    return encode(ExplanationDocument(explanation=explanation))


def _log(judgements: tuple[LogJudgement, ...], _look: Look) -> str:
    return encode(logs_document(judgements))


FORMAT: Final = Format(
    name="json",
    summary="everything, schema versioned, for machines",
    media_type="application/json",
    plan=_plan,
    explanation=_explanation,
    log=_log,
)


if __name__ == "__main__":
    sys.stdout.write(schema())
