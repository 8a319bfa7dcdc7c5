"""The judgement of recorded logs as a page: a part per log."""

from typing import Final

import msgspec

from gputailor_agent.model.judgement import Message
from gputailor_agent.model.profile import Window
from gputailor_agent.reports import units
from gputailor_agent.reports.cards import Candidate
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.document import (
    Block,
    Bullets,
    Column,
    Document,
    Facts,
    Heading,
    Paragraph,
    Table,
    headed,
)
from gputailor_agent.reports.overview import window_text
from gputailor_agent.reports.plurals import counted
from gputailor_agent.reports.runs import GpuRun, LogJudgement
from gputailor_agent.reports.translating import translated
from gputailor_agent.reports.wording import say
from gputailor_agent.rules.margins import smaller_gpu_margins

_SHOWN_CANDIDATES: Final = 6
_SHOWN_SKIPS: Final = 10
_SHOWN_TEXT: Final = 60
#: Verdicts that need no other card.
_WITHOUT_CARDS: Final = frozenset(
    {"log.idle", "log.nothing_loaded", "log.no_memory", "log.nothing_fits"}
)
_ALL_OBSERVED: Final = 0.98

_GPU_COLUMNS: Final = (
    Column(title="GPU"),
    Column(title="model"),
    Column(title="kernel mean", numeric=True),
    Column(title="p50", numeric=True),
    Column(title="p95", numeric=True),
    Column(title="max", numeric=True),
    Column(title="at zero", numeric=True),
    Column(title="memory peak", numeric=True),
    Column(title="of", numeric=True),
    Column(title="power", numeric=True),
    Column(title="energy", numeric=True),
    Column(title="cost of the run", numeric=True),
)
_CANDIDATE_COLUMNS: Final = (
    Column(title="GPU that would do", least=24),
    Column(title="usable memory", numeric=True),
    Column(title="price per hour", numeric=True),
    Column(title="run time at most", numeric=True),
    Column(title="run costs at most", numeric=True),
)
_PRICE_FROM: Final = Column(title="price from", least=24)


def compose(judgements: tuple[LogJudgement, ...]) -> Document:
    """One page for all logs."""
    title = _("GPU Tailor: recorded runs")
    blocks: list[Block] = [Heading(text=title, level=1)]
    for judgement in judgements:
        blocks += _log(judgement)
    return Document(title=title, blocks=tuple(blocks))


def _log(judgement: LogJudgement) -> list[Block]:
    blocks: list[Block] = [
        Heading(text=judgement.path),
        Paragraph(text=say(judgement.verdict)),
        Facts(pairs=_facts(judgement)),
    ]
    if judgement.gpus:
        rows = tuple(_gpu_row(gpu) for gpu in judgement.gpus)
        blocks += [
            Heading(text=_("What it used"), level=3),
            Table(columns=headed(_GPU_COLUMNS), rows=rows),
            Heading(text=_("Which GPU would do"), level=3),
            *_advice(judgement.gpus),
        ]
    blocks += [
        Heading(text=_("What this log cannot tell"), level=3),
        Bullets(lines=tuple(say(message) for message in judgement.unknowable)),
        *_skipped(judgement),
    ]
    return blocks


def _facts(judgement: LogJudgement) -> tuple[tuple[str, str], ...]:
    spans = units.unknown()
    if judgement.started is not None and judgement.ended is not None:
        spans = window_text(Window(start=judgement.started, end=judgement.ended))
    pairs = [
        (_("recorded"), spans),
        (_("samples every"), units.duration(judgement.interval_seconds)),
        (_("GPU-hours"), units.count(judgement.gpu_hours)),
        (_("energy"), units.energy(judgement.energy_joules)),
        (_("cost of the run"), units.money(judgement.run_cost)),
        (
            _("rows"),
            _(
                "{read} read, {skipped} skipped of {present}",
                read=units.count(judgement.rows_read),
                skipped=units.count(judgement.rows_skipped),
                present=units.count(judgement.rows_present),
            ),
        ),
    ]
    share = judgement.observed_share
    if share is not None and share < _ALL_OBSERVED:
        told = _(
            "{share} of that time; the rest are gaps between samples", share=units.ratio(share)
        )
        pairs.insert(2, (_("observed"), told))
    pairs += [(_("note"), translated(note)) for note in judgement.notes]
    return tuple(pairs)


def _gpu_row(gpu: GpuRun) -> tuple[str, ...]:
    model = gpu.device or gpu.model or units.unknown()
    if gpu.model_from == "option":
        model = _("{model} (as told)", model=model)
    return (
        gpu.gpu,
        model,
        units.ratio(gpu.kernel_mean),
        units.ratio(gpu.kernel_p50),
        units.ratio(gpu.kernel_p95),
        units.ratio(gpu.kernel_max),
        units.ratio(gpu.kernel_zero_share),
        units.size(gpu.memory_peak_bytes),
        _total(gpu),
        units.watts(gpu.power_mean_watts),
        units.energy(gpu.energy_joules),
        units.money(gpu.run_cost),
    )


def _total(gpu: GpuRun) -> str:
    """Memory of the card; what the log does not tell, the catalogue may."""
    if gpu.memory_total_bytes is None and gpu.card_memory_bytes is not None:
        return _("{size} (catalogue)", size=units.size(gpu.card_memory_bytes))
    return units.size(gpu.memory_total_bytes)


def _advice(gpus: tuple[GpuRun, ...]) -> list[Block]:
    """A sentence per GPU, equal ones once; the table of cards wherever it changes."""
    told: list[Block] = []
    shown: list[str] = []
    for gpu in _grouped(gpus):
        told.append(Paragraph(text=say(gpu.verdict)))
        cards = _names(gpu.candidates)
        if cards and cards != shown and gpu.verdict.key not in _WITHOUT_CARDS:
            told.append(_candidates(gpu))
            shown = cards
    return told


def _grouped(gpus: tuple[GpuRun, ...]) -> list[GpuRun]:
    """GPUs of which the same is said, as one that carries all their names."""
    groups: dict[str, list[GpuRun]] = {}
    for gpu in gpus:
        same = {name: value for name, value in gpu.verdict.params.items() if name != "gpu"}
        words = say(Message(key=gpu.verdict.key, params={**same, "gpu": ""}))
        groups.setdefault(words, []).append(gpu)
    return [_together(group) for group in groups.values()]


def _together(group: list[GpuRun]) -> GpuRun:
    """The one that needs most stands for all: what holds it holds the others."""
    first = max(group, key=lambda gpu: gpu.memory_needed_bytes or 0)
    names = ", ".join(gpu.gpu for gpu in group)
    verdict = Message(key=first.verdict.key, params={**first.verdict.params, "gpu": names})
    return msgspec.structs.replace(first, verdict=verdict)


def _names(candidates: tuple[Candidate, ...]) -> list[str]:
    return [candidate.device for candidate in candidates[:_SHOWN_CANDIDATES]]


def _candidates(gpu: GpuRun) -> Table:
    """The best cards, and in any case the one used."""
    shown = [
        one
        for place, one in enumerate(gpu.candidates)
        if place < _SHOWN_CANDIDATES or one.is_current
    ]
    sources = sorted({one.price_source for one in shown})
    columns: tuple[Column, ...] = headed(_CANDIDATE_COLUMNS)
    rows = [_candidate(one) for one in shown]
    caption = [_("They hold {size}.", size=units.size(gpu.memory_needed_bytes))]
    if len(sources) == 1:
        caption.append(_("Prices: {source}.", source=translated(sources[0])))
    else:
        columns = (*columns, *headed((_PRICE_FROM,)))
        rows = [(*row, translated(one.price_source)) for row, one in zip(rows, shown, strict=True)]
    if any(one.other_architecture and one.slowdown_at_most is not None for one in shown):
        caption.append(
            _(
                "On another architecture the run time is allowed {factor} of what arithmetic says, "
                "as far as measured ones strayed (docs/accuracy.md).",
                factor=units.factor(smaller_gpu_margins().high),
            )
        )
    if rest := len(gpu.candidates) - len(shown):
        more = counted(rest, "more card")
        caption.append(_("{cards} would hold it (--output json lists all).", cards=more))
    return Table(columns=columns, rows=tuple(rows), caption=" ".join(caption))


def _candidate(one: Candidate) -> tuple[str, ...]:
    return (
        _("{model} (the one used)", model=one.device) if one.is_current else one.device,
        units.size(one.usable_memory_bytes),
        units.money(one.price_per_hour),
        units.factor(one.slowdown_at_most),
        units.money(one.run_cost_at_most),
    )


def _skipped(judgement: LogJudgement) -> list[Block]:
    if not judgement.skipped:
        return []
    lines = [
        f"{judgement.path}:{line}: {translated(why)}: {_short(text)}"
        for line, text, why in judgement.skipped[:_SHOWN_SKIPS]
    ]
    if judgement.rows_skipped > len(lines):
        rest = units.count(judgement.rows_skipped - len(lines))
        lines.append(_("… and {number} more", number=rest))
    return [Heading(text=_("Skipped"), level=3), Bullets(lines=tuple(lines), tone="warn")]


def _short(text: str) -> str:
    shown = text.strip()
    return repr(shown if len(shown) <= _SHOWN_TEXT else f"{shown[:_SHOWN_TEXT]}…")
