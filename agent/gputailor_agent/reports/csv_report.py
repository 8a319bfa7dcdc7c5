"""Format ``csv``: one row per workload, threshold number or GPU; raw numbers in base units.

Rows about the cluster and about pods that wait come last, with the columns that they have.

An empty cell is unknown; 0 is 0; column ``use`` says ``measured``, ``unknown`` or
``not_measured_yet``. Columns are named in English in every language, sentences are not. Cells that
a spreadsheet would run as a formula are defused with a leading apostrophe, since names come from
the cluster's users.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

from gputailor_agent.model.judgement import Finding, Money, Plan, Waiting
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.beside import Beside
from gputailor_agent.reports.cluster import waiting_text
from gputailor_agent.reports.explain import Explanation
from gputailor_agent.reports.formats import Format, Look
from gputailor_agent.reports.runs import LogJudgement
from gputailor_agent.reports.safe_text import shown
from gputailor_agent.reports.wording import say, sentence

Cell = str | float | int | None

#: What a spreadsheet takes for the beginning of a formula, full-width forms too (OWASP).
_FORMULA: Final = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
_BREAKS: Final = frozenset("\t\r\n")

PLAN_COLUMNS: Final = (
    "cluster",
    "window_start",
    "window_end",
    "namespace",
    "workload",
    "state",
    "rule",
    "confidence",
    "team",
    "queue",
    "tracked",
    "use",
    "gpus_now",
    "device_models",
    "gpu_hours",
    "mean_kernel_ratio",
    "mean_sm_ratio",
    "coverage_ratio",
    "memory_peak_bytes",
    "memory_total_bytes",
    "cost",
    "currency",
    "saving_per_month",
    "saving_gpu_hours_per_month",
    "slowdown_low",
    "slowdown_high",
    "why",
)
LOG_COLUMNS: Final = (
    "log",
    "gpu",
    "model",
    "samples",
    "held_seconds",
    "observed_seconds",
    "kernel_mean_ratio",
    "kernel_p50_ratio",
    "kernel_p95_ratio",
    "kernel_max_ratio",
    "kernel_zero_share_ratio",
    "memory_peak_bytes",
    "memory_total_bytes",
    "memory_needed_bytes",
    "energy_joules",
    "cost",
    "currency",
    "would_do",
    "would_do_price_per_hour",
    "slowdown_at_most",
    "verdict",
)
EXPLANATION_COLUMNS: Final = (
    "workload",
    "rule",
    "standing",
    "number",
    "value",
    "held_against",
    "passed",
    "samples",
    "coverage",
    "window",
    "formula",
    "text",
)


def write(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Rows as RFC 4180 CSV with a header."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_safe(cell) for cell in row] for row in rows)
    return out.getvalue()


def _safe(cell: Cell) -> Cell:
    if not isinstance(cell, str):
        return cell
    text = shown(cell)
    return f"'{text}" if text.lstrip()[:1] in _FORMULA or text[:1] in _BREAKS else text


def _amount(value: Money | None) -> Cell:
    return None if value is None else round(value.amount, 4)


def of_lines(plan: Plan, lines: Iterable[overview.Line]) -> str:
    """Some workloads of a plan, in the order given."""
    return write(PLAN_COLUMNS, [_plan_row(plan, line) for line in lines])


def _plan(plan: Plan, _look: Look, _beside: Beside) -> str:
    rows = [_plan_row(plan, line) for line in overview.lines(plan)]
    rows += [_cluster_row(plan, finding) for finding in plan.cluster_findings]
    rows += [_waiting_row(plan, one) for one in plan.waiting]
    return write(PLAN_COLUMNS, rows)


def _plan_row(plan: Plan, line: overview.Line) -> tuple[Cell, ...]:
    verdict, finding = line.verdict, line.verdict.primary
    saving = finding.saving if finding else None
    slowdown = finding.slowdown if finding else None
    money = saving.money_per_month if saving else None
    currency = money or verdict.cost
    return (
        plan.cluster,
        units.iso(plan.window.start),
        units.iso(plan.window.end),
        verdict.workload.namespace,
        verdict.workload.id,
        line.state,
        finding.rule if finding else None,
        finding.confidence.value if finding else None,
        verdict.workload.team or None,
        verdict.workload.queue or None,
        overview.tracked_text(verdict.workload) or None,
        overview.use_of(verdict),
        verdict.gpus_now,
        ";".join(verdict.device_models),
        verdict.gpu_hours,
        verdict.mean_kernel,
        verdict.mean_sm,
        verdict.coverage,
        verdict.memory_peak_bytes,
        verdict.memory_total_bytes,
        _amount(verdict.cost),
        currency.currency if currency else None,
        _amount(money),
        saving.gpu_hours_per_month if saving else None,
        slowdown.low if slowdown else None,
        slowdown.high if slowdown else None,
        line.headline,
    )


def _row(plan: Plan, cells: dict[str, Cell]) -> tuple[Cell, ...]:
    """A row about no workload: the cells that it has, by the name of their column."""
    window = {
        "cluster": plan.cluster,
        "window_start": units.iso(plan.window.start),
        "window_end": units.iso(plan.window.end),
    }
    return tuple((window | cells).get(column) for column in PLAN_COLUMNS)


def _cluster_row(plan: Plan, finding: Finding) -> tuple[Cell, ...]:
    money = finding.saving.money_per_month
    cells: dict[str, Cell] = {
        "workload": finding.id,
        "state": "finding",
        "rule": finding.rule,
        "confidence": finding.confidence.value,
        "currency": money.currency if money else None,
        "saving_per_month": _amount(money),
        "saving_gpu_hours_per_month": finding.saving.gpu_hours_per_month,
        "why": sentence(say(finding.message)),
    }
    return _row(plan, cells)


def _waiting_row(plan: Plan, one: Waiting) -> tuple[Cell, ...]:
    cells: dict[str, Cell] = {
        "namespace": one.namespace,
        "workload": f"{one.namespace}/{one.owner}",
        "state": "waiting",
        "why": waiting_text(one, plan.window.end),
    }
    return _row(plan, cells)


def _explanation(explanation: Explanation, _look: Look) -> str:
    rows: list[tuple[Cell, ...]] = []
    workload = explanation.subject
    for section in explanation.sections:
        head = (workload, section.rule, section.standing)
        rows += [
            (
                *head,
                number.name,
                number.value,
                number.held_against,
                number.passed,
                number.samples,
                number.coverage,
                number.window,
                number.formula,
                section.text,
            )
            for number in section.numbers
        ]
        if not section.numbers:
            rows.append((*head, *[None] * 8, section.text))
    return write(EXPLANATION_COLUMNS, rows)


def _log(judgements: tuple[LogJudgement, ...], _look: Look) -> str:
    rows: list[tuple[Cell, ...]] = []
    for judgement in judgements:
        for gpu in judgement.gpus:
            best = gpu.candidates[0] if gpu.candidates else None
            rows.append(
                (
                    judgement.path,
                    gpu.gpu,
                    gpu.device or gpu.model or None,
                    gpu.samples,
                    gpu.held_seconds,
                    gpu.observed_seconds,
                    gpu.kernel_mean,
                    gpu.kernel_p50,
                    gpu.kernel_p95,
                    gpu.kernel_max,
                    gpu.kernel_zero_share,
                    gpu.memory_peak_bytes,
                    gpu.memory_total_bytes,
                    gpu.memory_needed_bytes,
                    gpu.energy_joules,
                    _amount(gpu.run_cost),
                    gpu.run_cost.currency if gpu.run_cost else None,
                    best.device if best else None,
                    _amount(best.price_per_hour) if best else None,
                    best.slowdown_at_most if best else None,
                    say(gpu.verdict),
                )
            )
    return write(LOG_COLUMNS, rows)


FORMAT: Final = Format(
    name="csv",
    summary="one row per workload, raw numbers, empty where unknown",
    media_type="text/csv; charset=utf-8",
    plan_beside=_plan,
    explanation=_explanation,
    log=_log,
)
