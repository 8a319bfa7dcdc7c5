"""The judgement of recorded logs as a page: a part per log."""

from typing import Final

import msgspec

from gputailor_agent.model.judgement import Message
from gputailor_agent.reports import units
from gputailor_agent.reports.cards import Candidate
from gputailor_agent.reports.document import (
    Block,
    Bullets,
    Column,
    Document,
    Facts,
    Heading,
    Paragraph,
    Table,
)
from gputailor_agent.reports.plurals import agreed
from gputailor_agent.reports.runs import GpuRun, LogJudgement
from gputailor_agent.reports.wording import say

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
    *(
        Column(title=title, numeric=True)
        for title in (
            "kernel mean",
            "p50",
            "p95",
            "max",
            "at zero",
            "memory peak",
            "of",
            "power",
            "energy",
            "cost of the run",
        )
    ),
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
    blocks: list[Block] = [Heading(text="GPU Tailor: recorded runs", level=1)]
    for judgement in judgements:
        blocks += _log(judgement)
    return Document(title="GPU Tailor: recorded runs", blocks=tuple(blocks))


def _log(judgement: LogJudgement) -> list[Block]:
    blocks: list[Block] = [
        Heading(text=judgement.path),
        Paragraph(text=say(judgement.verdict)),
        Facts(pairs=_facts(judgement)),
    ]
    if judgement.gpus:
        rows = tuple(_gpu_row(gpu) for gpu in judgement.gpus)
        blocks += [
            Heading(text="What it used", level=3),
            Table(columns=_GPU_COLUMNS, rows=rows),
            Heading(text="Which GPU would do", level=3),
            *_advice(judgement.gpus),
        ]
    blocks += [
        Heading(text="What this log cannot tell", level=3),
        Bullets(lines=tuple(say(message) for message in judgement.unknowable)),
        *_skipped(judgement),
    ]
    return blocks


def _facts(judgement: LogJudgement) -> tuple[tuple[str, str], ...]:
    spans = units.UNKNOWN
    if judgement.started is not None and judgement.ended is not None:
        length = units.duration(judgement.ended - judgement.started)
        spans = f"{units.utc(judgement.started)} to {units.utc(judgement.ended)} ({length})"
    pairs = [
        ("recorded", spans),
        ("samples every", units.duration(judgement.interval_seconds)),
        ("GPU-hours", units.count(judgement.gpu_hours)),
        ("energy", units.energy(judgement.energy_joules)),
        ("cost of the run", units.money(judgement.run_cost)),
        (
            "rows",
            (
                f"{judgement.rows_read:,} read, {judgement.rows_skipped:,} skipped "
                f"of {judgement.rows_present:,}"
            ),
        ),
    ]
    share = judgement.observed_share
    if share is not None and share < _ALL_OBSERVED:
        pairs.insert(
            2, ("observed", f"{units.ratio(share)} of that time; the rest are gaps between samples")
        )
    pairs += [("note", note) for note in judgement.notes]
    return tuple(pairs)


def _gpu_row(gpu: GpuRun) -> tuple[str, ...]:
    model = gpu.device or gpu.model or units.UNKNOWN
    if gpu.model_from == "option":
        model += " (as told)"
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
        return f"{units.size(gpu.card_memory_bytes)} (catalogue)"
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
    columns: tuple[Column, ...] = _CANDIDATE_COLUMNS
    rows = [_candidate(one) for one in shown]
    caption = [f"They hold {units.size(gpu.memory_needed_bytes)}."]
    if len(sources) == 1:
        caption.append(f"Prices: {sources[0]}.")
    else:
        columns = (*columns, _PRICE_FROM)
        rows = [(*row, one.price_source) for row, one in zip(rows, shown, strict=True)]
    if rest := len(gpu.candidates) - len(shown):
        more = agreed(f"{rest} more cards hold it")
        caption.append(f"{more} (--output json lists all).")
    return Table(columns=columns, rows=tuple(rows), caption=" ".join(caption))


def _candidate(one: Candidate) -> tuple[str, ...]:
    return (
        f"{one.device} (the one used)" if one.is_current else one.device,
        units.size(one.usable_memory_bytes),
        units.money(one.price_per_hour),
        units.factor(one.slowdown_at_most),
        units.money(one.run_cost_at_most),
    )


def _skipped(judgement: LogJudgement) -> list[Block]:
    if not judgement.skipped:
        return []
    lines = [
        f"{judgement.path}:{line}: {why}: {_short(text)}"
        for line, text, why in judgement.skipped[:_SHOWN_SKIPS]
    ]
    if judgement.rows_skipped > len(lines):
        lines.append(f"… and {judgement.rows_skipped - len(lines):,} more")
    return [Heading(text="Skipped", level=3), Bullets(lines=tuple(lines), tone="warn")]


def _short(text: str) -> str:
    shown = text.strip()
    return repr(shown if len(shown) <= _SHOWN_TEXT else f"{shown[:_SHOWN_TEXT]}…")
