"""The report on a cluster: totals, what to do first, what is missing, then every workload.

Then what is said of the cluster itself, and the sums.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from gputailor_agent.model.judgement import Message, OtherMoney, Plan
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.beside import NOTHING, Beside
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.change_words import change_text
from gputailor_agent.reports.changes_page import (
    advice_blocks,
    changes_blocks,
    headline,
    trend_blocks,
)
from gputailor_agent.reports.cluster import cluster_blocks, demand_text
from gputailor_agent.reports.coverage_page import coverage_blocks
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
    headed,
)
from gputailor_agent.reports.groups_page import groups_blocks
from gputailor_agent.reports.methods_page import methods_blocks
from gputailor_agent.reports.overview import Line
from gputailor_agent.reports.plurals import agreed, counted
from gputailor_agent.reports.translating import translated
from gputailor_agent.reports.wording import joined, say, sentence

#: Entries of the first screen; the table below holds all of them.
TOP: Final = 7
_RISKS: Final = 2

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


_BELONGS: Final = Column(title="belongs to", least=12)
_MODEL_COLUMNS: Final = (
    Column(title="model", least=24),
    Column(title="capacity", numeric=True),
    Column(title="allocated", numeric=True),
    Column(title="free", numeric=True),
    Column(title="unavailable", numeric=True),
    Column(title="unknown", numeric=True),
    Column(title="price", numeric=True),
)


def compose(plan: Plan, beside: Beside = NOTHING, *, details: bool = True) -> Document:
    """The whole report of a plan; with ``details`` what to do first has course, patch and risks."""
    title = _("GPU Tailor report: {name}", name=plan.cluster)
    if beside.scope:
        title = _("GPU Tailor report: {name}, {scope}", name=plan.cluster, scope=beside.scope)
    return Document(
        title=title,
        blocks=(
            Heading(text=title, level=1),
            Paragraph(
                text=joined(sentence(overview.window_text(plan.window)), _sources(plan)),
                tone="muted",
            ),
            *_headline(plan, details=details),
            Facts(pairs=(*overview.totals_text(overview.totals(plan)), *_demand(plan))),
            *_to_do(plan, beside, details=details),
            Paragraph(text=_states(plan)),
            *changes_blocks(plan, beside),
            *advice_blocks(beside),
            *_missing(plan),
            *(coverage_blocks(plan) if details else ()),
            *(groups_blocks(plan) if details else ()),
            *trend_blocks(plan, beside),
            Heading(text=_("All workloads")),
            *_workloads(plan),
            *cluster_blocks(plan),
            *_capacity(plan),
            *_checks(plan),
            *(methods_blocks(plan, beside) if details else ()),
        ),
    )


def left_out(rows: int) -> str:
    """What a table says of the rows that are not in it."""
    return _("{rows} are in the JSON and CSV reports.", rows=counted(rows, "more row"))


def _headline(plan: Plan, *, details: bool) -> tuple[Block, ...]:
    told = headline(plan) if details else ""
    return (Paragraph(text=told, tone="good"),) if told else ()


def _sources(plan: Plan) -> str:
    named = _(", ").join(map(translated, plan.sources))
    return _("Measured by: {sources}.", sources=named) if named else _("No source of measurements.")


def _demand(plan: Plan) -> tuple[tuple[str, str], ...]:
    told = demand_text(plan)
    return ((_("pods that wait"), told),) if told else ()


def _to_do(plan: Plan, beside: Beside, *, details: bool) -> tuple[Block, ...]:
    found = overview.to_do(plan)
    heading = Heading(text=_("What to do first"))
    if not found:
        key = "report.nothing_to_do" if overview.judged(plan) else "report.not_judged"
        return (heading, Paragraph(text=say(Message(key=key))))
    shown = [_item(line) for line in found[:TOP]]
    if details:
        shown = [
            _detailed(item, line, beside) for item, line in zip(shown, found[:TOP], strict=True)
        ]
    blocks: list[Block] = [heading, Listing(items=tuple(shown))]
    if len(found) > len(shown):
        more = _("{number} more in the table.", number=len(found) - len(shown))
        blocks.append(Paragraph(text=more, tone="muted"))
    return tuple(blocks)


def _item(line: Line) -> Item:
    parts = [line.headline]
    if line.slowdown == units.factor(1.0):
        parts.append(_("No slowdown expected."))
    elif line.slowdown and line.slowdown not in line.headline:
        parts.append(_("Slowdown: {factor}.", factor=line.slowdown))
    if line.verdict.primary is not None:
        level = _(line.verdict.primary.confidence.value)
        parts.append(_("Confidence: {level}.", level=level))
    text = joined(*parts)
    identity = line.verdict.workload.id
    return Item(name=identity, figure=line.saving, text=text, link=identity)


def _detailed(item: Item, line: Line, beside: Beside) -> Item:
    """The entry with whose it is, its risks, the course of its use, and what to apply."""
    finding = line.verdict.primary
    if finding is None:
        return item
    belongs = overview.belongs_text(line.verdict.workload)
    facts = [(_("belongs to"), belongs)] if belongs else []
    facts.append((_("change"), change_text(finding.change)))
    facts += [(_("risk"), sentence(say(risk))) for risk in finding.risks[:_RISKS]]
    code, language = finding.change.patch, "yaml"
    if not code:
        code, language = finding.change.command or finding.change.code, "sh"
    return msgspec.structs.replace(
        item,
        facts=tuple(facts),
        course=beside.courses.get(line.verdict.workload.id, ()),
        code=code,
        language=language,
    )


def _states(plan: Plan) -> str:
    states = overview.totals(plan).states
    words = [f"{states[state]} {overview.state_word(state)}" for state in overview.STATES]
    workloads = counted(len(plan.verdicts), "workload")
    return _("{workloads}: {states}.", workloads=workloads, states=_(", ").join(words))


def _missing(plan: Plan) -> tuple[Block, ...]:
    lines = overview.problems(plan)
    if not lines:
        return ()
    return (
        Heading(text=_("Assumptions, problems and missing data")),
        Bullets(lines=lines, tone="warn"),
    )


def _workloads(plan: Plan) -> tuple[Block, ...]:
    lines = overview.lines(plan)
    if not lines:
        return (Paragraph(text=say(Message(key="report.no_workloads"))),)
    return (workloads_table(lines),)


def workloads_table(lines: Sequence[Line]) -> Table:
    """Workloads with their figures and what is said of each, in the order given."""
    owned = any(overview.belongs_text(line.verdict.workload) for line in lines)
    return Table(
        columns=headed((*_COLUMNS[:-1], _BELONGS, _COLUMNS[-1]) if owned else _COLUMNS),
        rows=tuple(row(line, owned=owned) for line in lines),
        links=tuple(line.verdict.workload.id for line in lines),
        caption=_("Mean kernel activity is of the observed time; cost is of the window."),
    )


def row(line: Line, *, owned: bool = False) -> tuple[str, ...]:
    """A workload's cells in the order of the table's columns; ``owned``: with whose it is."""
    verdict = line.verdict
    yet = overview.use_of(verdict) == overview.NOT_YET and verdict.memory_peak_bytes is None
    return (
        verdict.workload.id,
        overview.state_word(line.state),
        units.count(verdict.gpus_now),
        _short_models(verdict.device_models),
        overview.measured_ratio(verdict, verdict.mean_kernel),
        _("not measured yet") if yet else units.size(verdict.memory_peak_bytes),
        overview.measured_ratio(verdict, verdict.coverage),
        units.money(verdict.cost),
        "" if verdict.primary is None else overview.saving_text(verdict.primary, per=""),
        *((overview.belongs_text(verdict.workload) or "-",) if owned else ()),
        line.headline,
    )


def _short_models(models: tuple[str, ...]) -> str:
    short = (model.removeprefix("NVIDIA ").removeprefix("NVIDIA-") for model in models)
    return _(", ").join(short) or units.unknown()


def _capacity(plan: Plan) -> tuple[Block, ...]:
    table = capacity_table(plan)
    return () if table is None else (Heading(text=_("GPUs by model")), table)


def capacity_table(plan: Plan) -> Table | None:
    """GPUs by model: what is held, free and out of order; None where no node is known."""
    if not plan.capacity:
        return None
    rows = tuple(
        (
            line.model or units.unknown(),
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
            units.money(line.price_per_gpu_hour, per="GPU-hour"),
        )
        for line in plan.capacity
    )
    return Table(columns=headed(_MODEL_COLUMNS), rows=rows)


def _checks(plan: Plan) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if plan.cost is not None:
        cost = plan.cost
        blocks += [
            Heading(text=_("Where the money went")),
            Facts(
                pairs=tuple(
                    (label, units.amount(value, cost.currency))
                    for label, value in (
                        (_("nodes"), cost.nodes),
                        (_("workloads"), cost.workloads),
                        (_("free"), cost.free),
                        (_("unavailable"), cost.unavailable),
                        (_("unknown"), cost.unknown),
                    )
                )
            ),
        ]
        blocks += [Paragraph(text=_apart(one, cost.currency)) for one in plan.other_money]
    if plan.checks:
        held = sum(1 for check in plan.checks if check.holds)
        text = _(
            "{part} of {whole} conservation checks hold.",
            part=units.count(held),
            whole=units.count(len(plan.checks)),
        )
        blocks.append(
            Paragraph(text=agreed(text), tone="muted" if held == len(plan.checks) else "warn")
        )
    return tuple(blocks)


def _apart(other: OtherMoney, currency: str) -> str:
    """Why there is money in none of the sums, and what would bring it there."""
    told = {
        "other": other.currency,
        "workloads": units.amount(other.workloads, other.currency),
        "saving": units.amount(other.saving_per_month, other.currency, per="month"),
        "currency": currency,
    }
    if not other.gpus:
        return _(
            "In none of these sums, as nothing converts currencies: workloads took {workloads} of "
            "nodes priced in {other}, and {saving} can be saved.",
            **told,
        )
    return _(
        "In none of these sums, as nothing converts currencies: {gpus} priced in {other} "
        "({models}). They cost {nodes} in the window, workloads took {workloads} of that, and "
        "{saving} can be saved. Give own prices in {currency} for them to have one sum.",
        gpus=counted(round(other.gpus), "GPU"),
        models=_(", ").join(other.models),
        nodes=units.amount(other.nodes, other.currency),
        **told,
    )
