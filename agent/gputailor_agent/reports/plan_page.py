"""The report on a cluster: totals, what to do first, what is missing, then every workload.

Then what is said of the cluster itself, and the sums.
"""

from typing import Final

from gputailor_agent.model.judgement import Message, Plan
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.cluster import cluster_blocks, demand_text
from gputailor_agent.reports.document import (
    Block,
    Bullets,
    Column,
    Document,
    Facts,
    Heading,
    Item,
    Listing,
    Paragraph,
    Table,
)
from gputailor_agent.reports.overview import Line
from gputailor_agent.reports.plurals import agreed, counted
from gputailor_agent.reports.wording import say

#: Entries of the first screen; the table below holds all of them.
TOP: Final = 7

_COLUMNS: Final = (
    Column(title="workload", least=24),
    Column(title="state"),
    Column(title="GPUs", numeric=True),
    Column(title="model", least=14),
    Column(title="kernel", numeric=True),
    Column(title="memory peak", numeric=True),
    Column(title="observed", numeric=True),
    Column(title="cost", numeric=True),
    Column(title="saving per month", numeric=True),
    Column(title="why", least=24),
)


def compose(plan: Plan) -> Document:
    """The whole report of a plan."""
    title = f"GPU Tailor report: {plan.cluster}"
    return Document(
        title=title,
        blocks=(
            Heading(text=title, level=1),
            Paragraph(text=f"{overview.window_text(plan.window)}. {_sources(plan)}", tone="muted"),
            Facts(pairs=(*overview.totals_text(overview.totals(plan)), *_demand(plan))),
            *_to_do(plan),
            Paragraph(text=_states(plan)),
            *_missing(plan),
            Heading(text="All workloads"),
            *_workloads(plan),
            *cluster_blocks(plan),
            *_capacity(plan),
            *_checks(plan),
        ),
    )


def _sources(plan: Plan) -> str:
    named = ", ".join(plan.sources)
    return f"Measured by: {named}." if named else "No source of measurements."


def _demand(plan: Plan) -> tuple[tuple[str, str], ...]:
    told = demand_text(plan)
    return (("pods that wait", told),) if told else ()


def _to_do(plan: Plan) -> tuple[Block, ...]:
    found = overview.to_do(plan)
    heading = Heading(text="What to do first")
    if not found:
        key = "report.nothing_to_do" if overview.judged(plan) else "report.not_judged"
        return (heading, Paragraph(text=say(Message(key=key))))
    shown = found[:TOP]
    blocks: list[Block] = [heading, Listing(items=tuple(_item(line) for line in shown))]
    if len(found) > len(shown):
        blocks.append(Paragraph(text=f"{len(found) - len(shown)} more in the table.", tone="muted"))
    return tuple(blocks)


def _item(line: Line) -> Item:
    parts = [line.headline]
    if line.slowdown and line.slowdown not in line.headline:
        parts.append(f"Slowdown: {line.slowdown}.")
    if line.verdict.primary is not None:
        parts.append(f"Confidence: {line.verdict.primary.confidence.value}.")
    text = " ".join(parts)
    identity = line.verdict.workload.id
    return Item(name=identity, figure=line.saving, text=text, link=identity)


def _states(plan: Plan) -> str:
    states = overview.totals(plan).states
    words = [f"{states[state]} {overview.STATE_WORDS[state]}" for state in overview.STATES]
    return f"{counted(len(plan.verdicts), 'workload')}: {', '.join(words)}."


def _missing(plan: Plan) -> tuple[Block, ...]:
    lines = (*plan.problems, *overview.broken_checks(plan))
    if not lines:
        return ()
    return (
        Heading(text="Assumptions, problems and missing data"),
        Bullets(lines=lines, tone="warn"),
    )


def _workloads(plan: Plan) -> tuple[Block, ...]:
    lines = overview.lines(plan)
    if not lines:
        return (Paragraph(text=say(Message(key="report.no_workloads"))),)
    return (
        Table(
            columns=_COLUMNS,
            rows=tuple(row(line) for line in lines),
            links=tuple(line.verdict.workload.id for line in lines),
            caption="Mean kernel activity is of the observed time; cost is of the window.",
        ),
    )


def row(line: Line) -> tuple[str, ...]:
    """A workload's cells in the order of the table's columns."""
    verdict = line.verdict
    return (
        verdict.workload.id,
        overview.STATE_WORDS.get(line.state, line.state),
        units.count(verdict.gpus_now),
        _models(verdict.device_models),
        units.ratio(verdict.mean_kernel),
        units.size(verdict.memory_peak_bytes),
        units.ratio(verdict.coverage),
        units.money(verdict.cost),
        line.saving.removesuffix("/month"),
        line.headline,
    )


def _models(models: tuple[str, ...]) -> str:
    short = (model.removeprefix("NVIDIA ").removeprefix("NVIDIA-") for model in models)
    return ", ".join(short) or units.UNKNOWN


def _capacity(plan: Plan) -> tuple[Block, ...]:
    if not plan.capacity:
        return ()
    rows = tuple(
        (
            line.model or units.UNKNOWN,
            *(
                units.count(value)
                for value in (
                    line.capacity,
                    line.allocated,
                    line.free,
                    line.unavailable,
                    line.unknown,
                )
            ),
            units.amount(line.usd_per_gpu_hour, per="GPU-hour"),
        )
        for line in plan.capacity
    )
    columns = (
        Column(title="model", least=24),
        *(
            Column(title=title, numeric=True)
            for title in ("capacity", "allocated", "free", "unavailable", "unknown", "price")
        ),
    )
    return (Heading(text="GPUs by model"), Table(columns=columns, rows=rows))


def _checks(plan: Plan) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if plan.cost is not None:
        cost = plan.cost
        blocks += [
            Heading(text="Where the money went"),
            Facts(
                pairs=tuple(
                    (label, units.amount(value, cost.currency))
                    for label, value in (
                        ("nodes", cost.nodes),
                        ("workloads", cost.workloads),
                        ("free", cost.free),
                        ("unavailable", cost.unavailable),
                        ("unknown", cost.unknown),
                    )
                )
            ),
        ]
    if plan.checks:
        held = sum(1 for check in plan.checks if check.holds)
        text = agreed(f"{held} of {len(plan.checks)} conservation check(s) hold.")
        blocks.append(Paragraph(text=text, tone="muted" if held == len(plan.checks) else "warn"))
    return tuple(blocks)
