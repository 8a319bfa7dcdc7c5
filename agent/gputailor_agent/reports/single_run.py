"""The judgement of one recorded log: what the run used, which GPU would do, what it would cost.

A log knows devices, not pods, prices or SM activity. What it cannot tell is named with the reason;
nothing is guessed. Figures:

* mean, zero share and maximum come from the same hourly rows as every other source; quantiles are
  nearest-rank over the samples themselves, since a log still has them;
* held = from the first sample to the end of the last; observed = what of it samples stand for,
  without the gaps; cost and GPU-hours are of the held time;
* memory needed = highest sample x the headroom of rule ``smaller_gpu``; a card does when that is
  at most its usable memory; slowdown on another card: see ``cards``.

What is concluded from the figures is in ``run_verdict``.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from gputailor_agent.catalog import Catalogue, DeviceSpec
from gputailor_agent.model.judgement import Message, Money
from gputailor_agent.model.usage import GaugeSample, SignalUse, UsageRow
from gputailor_agent.reports import units
from gputailor_agent.reports.cards import NO_GUESS, Guess, candidates, cost, hourly
from gputailor_agent.reports.run_verdict import MEMORY_HEADROOM, of_all, of_gpu, unknowable
from gputailor_agent.reports.runs import GpuRun, LogJudgement
from gputailor_agent.rollup.gauges import Holder, median_period_seconds, rows_from_samples
from gputailor_agent.sources.logs import Log

_HOUR: Final = 3600.0
#: Memory that never moves, this close to the card's size, may have been taken in advance.
_RESERVED_SHARE: Final = 0.7
_RESERVED_RANGE: Final = 0.95
_FEW_SAMPLES: Final = 10
_LIKE: Final = 0.1  # how far memory.total may be from the size of the card that was told


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
    interval = _interval(by_gpu)
    return LogJudgement(
        path=str(log.path),
        rows_present=log.rows_present,
        rows_read=log.rows_read,
        rows_skipped=log.rows_skipped,
        skipped=tuple((skip.line, skip.text, skip.why) for skip in log.skipped),
        notes=(*log.notes, *_overruled(log, catalogue, guess), *_doubts(gpus, catalogue, guess)),
        started=min(times, default=None),
        ended=max(times, default=None),
        interval_seconds=interval,
        gpus=gpus,
        gpu_hours=sum(gpu.held_seconds for gpu in gpus) / _HOUR,
        observed_share=_observed_share(gpus),
        energy_joules=_sum_known(gpu.energy_joules for gpu in gpus),
        run_cost=_sum_money([gpu.run_cost for gpu in gpus]),
        verdict=of_all(gpus),
        unknowable=tuple(
            unknowable(gpus, name=Path(log.path).name, interval=interval, header=bool(log.headers))
        ),
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
    total = _highest_bytes(samples, "memory_total_bytes")
    model, spec = _card(logged, total, catalogue, guess)
    kernel = _merged(rows, "kernel")
    peak = _highest_bytes(samples, "memory_used_bytes")
    need = None if peak is None else math.ceil(peak * MEMORY_HEADROOM)
    seconds = sum(row.allocated_seconds for row in rows)
    price = catalogue.price(spec, instance_type=guess.instance_type) if spec else None
    seen = _seen(samples, "kernel")
    fitting = candidates(
        need=need,
        spec=spec,
        mean=kernel.mean,
        hours=seconds / _HOUR,
        catalogue=catalogue,
        guess=guess,
    )
    power = _seen(samples, "power_watts")
    run = GpuRun(
        gpu=gpu,
        model=model,
        model_from="log" if logged and not guess.model else ("option" if model else ""),
        device=spec.key if spec else "",
        samples=len(samples),
        held_seconds=seconds,
        observed_seconds=kernel.observed_seconds if seen else None,
        kernel_mean=kernel.mean,
        kernel_p50=quantile(seen, 0.5),
        kernel_p95=quantile(seen, 0.95),
        kernel_max=max(seen, default=None),
        kernel_zero_share=_zero_share(kernel, seen),
        work_max=max(seen + _seen(samples, "encoder") + _seen(samples, "decoder"), default=None),
        memory_peak_bytes=peak,
        memory_total_bytes=total,
        card_memory_bytes=spec.memory_bytes if spec else None,
        memory_needed_bytes=need,
        memory_reserved=_reserved(samples, total),
        power_mean_watts=sum(power) / len(power) if power else None,
        board_watts=(spec.tdp_watts if spec else None) or _highest(samples, "power_limit_watts"),
        energy_joules=_sum_known(row.energy_joules for row in rows),
        price_per_hour=hourly(price),
        run_cost=cost(price, seconds / _HOUR),
        verdict=Message(key="log.no_samples"),
        candidates=fitting,
    )
    return msgspec.structs.replace(run, verdict=of_gpu(run))


def _card(
    logged: str, total: int | None, catalogue: Catalogue, guess: Guess
) -> tuple[str, DeviceSpec | None]:
    """The card's name and what is known of it: as told, as logged, or as the instance has."""
    if guess.model:
        return guess.model, catalogue.find(guess.model)
    if logged:
        return logged, catalogue.find(logged, total)
    rented = catalogue.of_instance(guess.instance_type) if guess.instance_type else None
    return (rented.key, rented) if rented is not None else ("", None)


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


def _zero_share(kernel: SignalUse, seen: Sequence[float]) -> float | None:
    if kernel.histogram is not None and kernel.histogram.total_seconds > 0:
        return kernel.histogram.zero_seconds / kernel.histogram.total_seconds
    return sum(1 for value in seen if value == 0) / len(seen) if seen else None


def _seen(samples: Iterable[GaugeSample], field: str) -> list[float]:
    """What the samples know of a field."""
    values = (getattr(sample, field) for sample in samples)
    return [value for value in values if value is not None]


def _highest(samples: list[GaugeSample], field: str) -> float | None:
    return max(_seen(samples, field), default=None)


def _highest_bytes(samples: list[GaugeSample], field: str) -> int | None:
    highest = _highest(samples, field)
    return None if highest is None else round(highest)


def _reserved(samples: list[GaugeSample], total: int | None) -> bool:
    used = _seen(samples, "memory_used_bytes")
    if total is None or len(used) < _FEW_SAMPLES:
        return False
    return max(used) >= _RESERVED_SHARE * total and min(used) >= _RESERVED_RANGE * max(used)


def _observed_share(gpus: Iterable[GpuRun]) -> float | None:
    known = [gpu for gpu in gpus if gpu.observed_seconds is not None]
    held = sum(gpu.held_seconds for gpu in known)
    return sum(gpu.observed_seconds or 0.0 for gpu in known) / held if held > 0 else None


def _overruled(log: Log, catalogue: Catalogue, guess: Guess) -> list[str]:
    """Where a card was told although the log names another one."""
    if not guess.model:
        return []
    logged = sorted({sample.model for sample in log.samples if sample.model})
    told = catalogue.find(guess.model)
    others = [name for name in logged if name != guess.model and catalogue.find(name) != told]
    if not others:
        return []
    named = ", ".join(others)
    return [f"The log names {named}; it is judged as {guess.model}, because --gpu says so."]


def _doubts(gpus: Iterable[GpuRun], catalogue: Catalogue, guess: Guess) -> list[str]:
    """Where what was told of the card does not fit what the log says."""
    sizes = {spec.key: spec.memory_bytes for spec in catalogue.devices}
    rented = catalogue.of_instance(guess.instance_type) if guess.instance_type else None
    doubts = []
    for device, total, told in sorted(
        {(gpu.device, gpu.memory_total_bytes, gpu.model_from == "option") for gpu in gpus}, key=str
    ):
        size = sizes.get(device)
        if told and total and size and abs(total - size) > _LIKE * size:
            doubts.append(
                f"memory.total is {units.size(total)} in the log, while a {device} has "
                f"{units.size(size)}: is that card right?"
            )
        if rented is not None and device and rented.key != device:
            doubts.append(
                f"The price is that of a {guess.instance_type} with {rented.key}, while the log "
                f"is of a {device}: is --instance-type right?"
            )
    return doubts


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
