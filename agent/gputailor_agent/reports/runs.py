"""What was found out about a recorded run, as values: one ``GpuRun`` per device of the log.

Ratios are 0..1, times Unix seconds. None: the log does not say.
"""

import msgspec

from gputailor_agent.model.judgement import Message, Money
from gputailor_agent.reports.cards import Candidate


class GpuRun(msgspec.Struct, frozen=True, kw_only=True):
    """What one GPU of the log did.

    ``held_seconds``: from its first sample to the end of the last; ``observed_seconds``: what of
    it samples with a utilisation stand for. ``work_max``: the highest of kernel, encoder, decoder.
    ``memory_reserved``: its memory hardly moved at the card's size, so may be taken in advance.
    """

    gpu: str
    model: str
    model_from: str  # "log", "option" or ''
    device: str  # the catalogue's name, '' where it is not in it
    samples: int
    held_seconds: float
    observed_seconds: float | None
    kernel_mean: float | None
    kernel_p50: float | None
    kernel_p95: float | None
    kernel_max: float | None
    kernel_zero_share: float | None
    work_max: float | None
    memory_peak_bytes: int | None
    memory_total_bytes: int | None  # as the log tells it
    card_memory_bytes: int | None  # as the catalogue knows the card
    memory_needed_bytes: int | None
    memory_reserved: bool
    power_mean_watts: float | None
    board_watts: float | None
    energy_joules: float | None
    price_per_hour: Money | None
    run_cost: Money | None
    verdict: Message
    candidates: tuple[Candidate, ...]


class LogJudgement(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of a whole log file, with what was skipped and what cannot be known."""

    path: str
    rows_present: int
    rows_read: int
    rows_skipped: int
    skipped: tuple[tuple[int, str, str], ...]  # line, text, why
    notes: tuple[str, ...]
    started: float | None
    ended: float | None
    interval_seconds: float | None  # median distance of samples of one GPU
    gpus: tuple[GpuRun, ...]
    gpu_hours: float
    observed_share: float | None  # of the held time
    energy_joules: float | None
    run_cost: Money | None
    verdict: Message
    unknowable: tuple[Message, ...]
