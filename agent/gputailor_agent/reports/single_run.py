"""The judgement of one recorded log: what the run used, which GPU would do, what it would cost.

A log knows devices, not pods, prices or SM activity. What it cannot tell is named with the reason;
nothing is guessed. Figures:

* mean, zero share and maximum come from the same hourly rows as every other source; quantiles are
  nearest-rank over the samples themselves, since a log still has them;
* memory needed = highest sample x 1.15 (as rule ``smaller_gpu``); a card does when that is at most
  its usable memory;
* slowdown on another card: see ``cards``.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from gputailor_agent.catalog import Catalogue
from gputailor_agent.model.judgement import Message, Money, Scalar
from gputailor_agent.model.usage import GaugeSample, SignalUse, UsageRow
from gputailor_agent.reports.cards import NO_GUESS, Candidate, Guess, candidates, cost, hourly
from gputailor_agent.rollup.gauges import Holder, median_period_seconds, rows_from_samples
from gputailor_agent.sources.logs import Log

MEMORY_HEADROOM: Final = 1.15
_HOUR: Final = 3600.0
_ONE_SECOND: Final = 1.5  # a log of every second drifts by milliseconds
#: Shorter silence is no idleness: rule ``idle`` warns after this long.
_IDLE_SECONDS: Final = 3600.0
#: A CUDA context alone takes some hundred MiB; below this no program computed.
_LEAST_CONTEXT_BYTES: Final = 64 * 1024**2
_NEVER_IN_A_LOG: Final = ("sm", "tensor", "dram")


class GpuRun(msgspec.Struct, frozen=True, kw_only=True):
    """What one GPU of the log did. Ratios are 0..1; None: the log does not say."""

    gpu: str
    model: str
    model_from: str  # "log", "option" or ''
    device: str  # the catalogue's name, '' where it is not in it
    samples: int
    observed_seconds: float
    kernel_mean: float | None
    kernel_p50: float | None
    kernel_p95: float | None
    kernel_max: float | None
    kernel_zero_share: float | None
    memory_peak_bytes: int | None
    memory_total_bytes: int | None
    memory_needed_bytes: int | None
    power_mean_watts: float | None
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
    energy_joules: float | None
    run_cost: Money | None
    verdict: Message
    unknowable: tuple[Message, ...]


def judge(log: Log, catalogue: Catalogue, guess: Guess = NO_GUESS) -> LogJudgement:
    """Judge one log against the catalogue."""
    by_gpu = _by_gpu(log.samples)
    nobody = Holder(namespace="", pod=Path(log.path).name)
    gpus = tuple(
        _judge_gpu(
            gpu, samples, rows_from_samples(samples, cluster="", pod=nobody)[0], catalogue, guess
        )
        for gpu, samples in by_gpu.items()
    )
    times = [sample.at for sample in log.samples]
    return LogJudgement(
        path=str(log.path),
        rows_present=log.rows_present,
        rows_read=log.rows_read,
        rows_skipped=log.rows_skipped,
        skipped=tuple((skip.line, skip.text, skip.why) for skip in log.skipped),
        notes=tuple(log.notes),
        started=min(times, default=None),
        ended=max(times, default=None),
        interval_seconds=_interval(by_gpu),
        gpus=gpus,
        gpu_hours=sum(gpu.observed_seconds for gpu in gpus) / _HOUR,
        energy_joules=_sum_known(gpu.energy_joules for gpu in gpus),
        run_cost=_sum_money([gpu.run_cost for gpu in gpus]),
        verdict=_together(gpus),
        unknowable=tuple(_unknowable(log, gpus, _interval(by_gpu))),
    )


def _by_gpu(samples: Iterable[GaugeSample]) -> dict[str, list[GaugeSample]]:
    by_gpu: dict[str, list[GaugeSample]] = {}
    for sample in samples:
        by_gpu.setdefault(sample.gpu, []).append(sample)
    for own in by_gpu.values():
        own.sort(key=lambda sample: sample.at)
    return by_gpu


def _judge_gpu(
    gpu: str,
    samples: list[GaugeSample],
    rows: Sequence[UsageRow],
    catalogue: Catalogue,
    guess: Guess,
) -> GpuRun:
    logged = next((sample.model for sample in samples if sample.model), "")
    model = guess.model or logged
    total = _highest(samples, lambda sample: sample.memory_total_bytes)
    spec = catalogue.find(model, total) if model else None
    kernel = _merged(rows, "kernel")
    peak = _highest(samples, lambda sample: sample.memory_used_bytes)
    need = None if peak is None else math.ceil(peak * MEMORY_HEADROOM)
    seconds = _observed_seconds(samples, rows)
    price = catalogue.price(spec, instance_type=guess.instance_type) if spec else None
    seen = [sample.kernel for sample in samples if sample.kernel is not None]
    fitting = candidates(
        need=need,
        spec=spec,
        mean=kernel.mean,
        hours=seconds / _HOUR,
        catalogue=catalogue,
        guess=guess,
    )
    power = [sample.power_watts for sample in samples if sample.power_watts is not None]
    run = GpuRun(
        gpu=gpu,
        model=model,
        model_from="option" if guess.model else ("log" if logged else ""),
        device=spec.key if spec else "",
        samples=len(samples),
        observed_seconds=seconds,
        kernel_mean=kernel.mean,
        kernel_p50=quantile(seen, 0.5),
        kernel_p95=quantile(seen, 0.95),
        kernel_max=max(seen, default=None),
        kernel_zero_share=_zero_share(kernel, seen),
        memory_peak_bytes=peak,
        memory_total_bytes=total,
        memory_needed_bytes=need,
        power_mean_watts=sum(power) / len(power) if power else None,
        energy_joules=_sum_known(row.energy_joules for row in rows),
        price_per_hour=hourly(price),
        run_cost=cost(price, seconds / _HOUR),
        verdict=Message(key="log.no_samples"),
        candidates=fitting,
    )
    return msgspec.structs.replace(run, verdict=_verdict(run))


def quantile(values: Sequence[float], q: float) -> float | None:
    """Nearest-rank quantile of values; None for none."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]


def _merged(rows: Sequence[UsageRow], signal: str) -> SignalUse:
    use = SignalUse(observed_seconds=0.0, active_seconds=0.0)
    for row in rows:
        use = use.merge(
            row.signals.get(signal, SignalUse(observed_seconds=0.0, active_seconds=0.0))
        )
    return use


def _observed_seconds(samples: list[GaugeSample], rows: Sequence[UsageRow]) -> float:
    allocated = sum(row.allocated_seconds for row in rows)
    return allocated or samples[-1].at - samples[0].at


def _zero_share(kernel: SignalUse, seen: Sequence[float]) -> float | None:
    if kernel.histogram is not None and kernel.histogram.total_seconds > 0:
        return kernel.histogram.zero_seconds / kernel.histogram.total_seconds
    return sum(1 for value in seen if value == 0) / len(seen) if seen else None


def _highest(samples: list[GaugeSample], read: Callable[[GaugeSample], int | None]) -> int | None:
    return max((value for sample in samples if (value := read(sample)) is not None), default=None)


def _sum_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _sum_money(costs: list[Money | None]) -> Money | None:
    known = [cost for cost in costs if cost is not None]
    if not known or len(known) < len(costs) or len({cost.currency for cost in known}) > 1:
        return None  # a sum over some of the GPUs would pass for the cost of all
    return Money(amount=sum(cost.amount for cost in known), currency=known[0].currency)


def _interval(by_gpu: dict[str, list[GaugeSample]]) -> float | None:
    """Median of the GPUs' median sampling periods."""
    periods = [
        period
        for samples in by_gpu.values()
        if (period := median_period_seconds([sample.at for sample in samples])) is not None
    ]
    return quantile(periods, 0.5)


def _verdict(run: GpuRun) -> Message:
    if run.kernel_max == 0:
        return _idle(run)
    peak = run.memory_peak_bytes
    if peak is not None and peak < _LEAST_CONTEXT_BYTES and not run.kernel_max:
        return Message(key="log.nothing_loaded", params={"gpu": run.gpu, "peak": peak})
    if run.memory_needed_bytes is None:
        return Message(key="log.no_memory", params={"gpu": run.gpu})
    if not run.candidates:
        return Message(
            key="log.nothing_fits", params={"gpu": run.gpu, "need": run.memory_needed_bytes}
        )
    return _cheapest(run)


def _idle(run: GpuRun) -> Message:
    params: dict[str, Scalar] = {
        "gpu": run.gpu,
        "samples": run.samples,
        "observed": run.observed_seconds,
        "peak": run.memory_peak_bytes,
        "needed": _IDLE_SECONDS,
    }
    if run.observed_seconds < _IDLE_SECONDS:
        return Message(key="log.idle_short", params=params)
    loaded = (run.memory_peak_bytes or 0) >= _LEAST_CONTEXT_BYTES
    return Message(key="log.idle_loaded" if loaded else "log.idle", params=params)


def _cheapest(run: GpuRun) -> Message:
    best = run.candidates[0]
    params: dict[str, Scalar] = {
        "gpu": run.gpu,
        "peak": run.memory_peak_bytes,
        "need": run.memory_needed_bytes,
        "device": best.device,
        "price": best.price_per_hour.amount,
        "slowdown": best.slowdown_at_most,
        "now": run.device or run.model or "this card",
        "price_now": run.price_per_hour.amount if run.price_per_hour else None,
    }
    if best.is_current:
        return Message(key="log.already_cheapest", params=params)
    if run.price_per_hour is None:
        return Message(key="log.would_do", params=params)
    if run.price_per_hour.amount <= best.price_per_hour.amount:
        return Message(key="log.already_cheapest", params=params)
    return Message(key="log.cheaper" if best.slowdown_at_most else "log.try_cheaper", params=params)


def _together(gpus: tuple[GpuRun, ...]) -> Message:
    if not gpus:
        return Message(key="log.no_samples")
    known = [gpu for gpu in gpus if gpu.kernel_max is not None]
    idle = [gpu for gpu in known if gpu.kernel_max == 0]
    if not known:
        return Message(key="log.activity_unknown", params={"count": len(gpus)})
    if len(idle) == len(gpus):
        return Message(key="log.all_idle", params={"count": len(gpus)})
    if idle:
        return Message(
            key="log.some_idle",
            params={
                "idle": len(idle),
                "count": len(gpus),
                "names": ", ".join(gpu.gpu for gpu in idle),
                "needed": len(gpus) - len(idle),
            },
        )
    mean = sum(gpu.kernel_mean or 0.0 for gpu in known) / len(known)
    if len(gpus) == 1:
        return Message(key="log.one_used", params={"mean": mean})
    return Message(key="log.all_used", params={"count": len(gpus), "mean": mean})


def _unknowable(log: Log, gpus: tuple[GpuRun, ...], interval: float | None) -> Iterable[Message]:
    """What this log cannot tell, each with the reason and how to get it."""
    if all(gpu.kernel_max is None for gpu in gpus):
        yield Message(key="log.unknown_kernel")
    if all(gpu.memory_peak_bytes is None for gpu in gpus):
        yield Message(key="log.unknown_memory")
    else:
        yield Message(key="log.memory_sampled", params={"interval": interval})
    if all(gpu.energy_joules is None for gpu in gpus):
        yield Message(key="log.unknown_energy")
    if any(not gpu.model for gpu in gpus):
        yield Message(key="log.unknown_model")
    for model in sorted({gpu.model for gpu in gpus if gpu.model and not gpu.device}):
        yield Message(key="log.model_not_in_catalogue", params={"model": model})
    for device in sorted({gpu.device for gpu in gpus if gpu.device and not gpu.price_per_hour}):
        yield Message(key="log.no_price", params={"device": device})
    if interval is not None and interval > _ONE_SECOND:
        yield Message(key="log.bursts", params={"interval": interval})
    yield Message(key="log.unknown_activity", params={"signals": ", ".join(_NEVER_IN_A_LOG)})
    yield Message(key="log.unknown_owner", params={"path": Path(log.path).name})
