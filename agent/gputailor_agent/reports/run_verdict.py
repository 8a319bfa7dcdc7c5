"""What follows from the figures of a recorded run, and what no such log can tell.

Thresholds are the defaults of the rules that judge clusters (``idle``, ``smaller_gpu``), so that a
log and a report of the same run say the same.
"""

from collections.abc import Iterable
from typing import Final

from gputailor_agent.model.judgement import Message, Scalar
from gputailor_agent.reports import units
from gputailor_agent.reports.cards import Candidate
from gputailor_agent.reports.runs import GpuRun
from gputailor_agent.rules.base import Limits, RuleSettings
from gputailor_agent.rules.idle import RULE as IDLE
from gputailor_agent.rules.smaller_gpu import RULE as SMALLER_GPU

_IDLE: Final = Limits(IDLE, RuleSettings())
_SMALLER: Final = Limits(SMALLER_GPU, RuleSettings())
MEMORY_HEADROOM: Final = _SMALLER["memory_headroom"]
_MINUTE: Final = 60.0
_ONE_SECOND: Final = 1.5  # a log of every second drifts by milliseconds
#: A CUDA context alone takes some hundred MiB; below this no program computed.
_LEAST_CONTEXT_BYTES: Final = 64 * 1024**2
_NEVER_IN_A_LOG: Final = ("sm", "tensor", "dram")


def of_gpu(run: GpuRun) -> Message:
    """The sentence on one GPU."""
    if run.work_max == 0:
        return _idle(run)
    peak = run.memory_peak_bytes
    if peak is None or run.memory_needed_bytes is None:
        return Message(key="log.no_memory", params={"gpu": run.gpu})
    if peak < _LEAST_CONTEXT_BYTES and not run.work_max:
        return Message(key="log.nothing_loaded", params={"gpu": run.gpu, "peak": peak})
    if run.memory_reserved:
        return Message(key="log.reserved", params=_need(run))
    if run.held_seconds < _SMALLER["least_run_seconds"]:
        needed = _SMALLER["least_run_seconds"]
        params = {**_need(run), "held": run.held_seconds, "needed": needed}
        return Message(key="log.too_short", params=params)
    return _card(run)


def _idle(run: GpuRun) -> Message:
    observed, needed = run.observed_seconds or 0.0, _IDLE["start_warn_minutes"] * _MINUTE
    share = observed / run.held_seconds if run.held_seconds > 0 else 0.0
    board = run.board_watts or 0.0
    most = max(_IDLE["power_share"] * board, _IDLE["power_floor_watts"])
    params: dict[str, Scalar] = {
        "gpu": run.gpu,
        "samples": run.samples,
        "observed": observed,
        "needed": needed,
        "share": share,
        "power": run.power_mean_watts,
    }
    if board and run.power_mean_watts is not None and run.power_mean_watts > most:
        return Message(key="log.idle_contradicted", params=params)
    if observed < needed:
        return Message(key="log.idle_short", params=params)
    if share < _IDLE["coverage"]:
        return Message(key="log.idle_gaps", params=params)
    loaded = (run.memory_peak_bytes or 0) >= _LEAST_CONTEXT_BYTES
    return Message(key="log.idle_loaded" if loaded else "log.idle", params=params)


def _need(run: GpuRun) -> dict[str, Scalar]:
    return {
        "gpu": run.gpu,
        "peak": run.memory_peak_bytes,
        "total": run.memory_total_bytes,
        "need": run.memory_needed_bytes,
        "headroom": MEMORY_HEADROOM,
        "now": run.device or run.model or "this card",
        "price_now": units.money(run.price_per_hour, per="hour"),
    }


def _named(key: str, run: GpuRun, card: Candidate) -> Message:
    params = {
        **_need(run),
        "device": card.device,
        "price": units.money(card.price_per_hour, per="hour"),
        "slowdown": card.slowdown_at_most,
    }
    return Message(key=key, params=params)


def _card(run: GpuRun) -> Message:
    """Whether another card would cost less, as rule ``smaller_gpu`` decides it."""
    if not run.candidates:
        return Message(key="log.nothing_fits", params=_need(run))
    best, now = run.candidates[0], run.price_per_hour
    if now is None:
        known = best.slowdown_at_most is not None
        return _named("log.would_do_slower" if known else "log.would_do", run, best)
    most = _SMALLER["cost_ratio"] * now.amount
    cheaper = [
        one
        for one in run.candidates
        if not one.is_current
        and one.price_per_hour.currency == now.currency
        and one.price_per_hour.amount <= most
    ]
    for one in cheaper:
        if one.most_per_hour is not None and one.most_per_hour <= most:
            return _named("log.cheaper", run, one)
    if cheaper:
        known = cheaper[0].slowdown_at_most is not None
        return _named("log.try_cheaper" if known else "log.try_unbounded", run, cheaper[0])
    return Message(key="log.none_cheaper", params=_need(run))


def of_all(gpus: tuple[GpuRun, ...]) -> Message:
    """The sentence on the whole log."""
    if not gpus:
        return Message(key="log.no_samples")
    known = [gpu for gpu in gpus if gpu.work_max is not None]
    idle = [gpu for gpu in known if gpu.work_max == 0]
    one = len(gpus) == 1
    if not known:
        key = "log.one_unknown" if one else "log.activity_unknown"
        return Message(key=key, params={"count": len(gpus)})
    if len(idle) == len(gpus):
        return Message(key="log.one_idle" if one else "log.all_idle", params={"count": len(gpus)})
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
    means = [gpu.kernel_mean for gpu in known if gpu.kernel_mean is not None]
    params: dict[str, Scalar] = {
        "count": len(gpus),
        "measured": len(means),
        "mean": sum(means) / len(means) if means else None,
    }
    if one:
        return Message(key="log.one_used", params=params)
    return Message(
        key="log.all_used" if len(means) == len(gpus) else "log.some_used", params=params
    )


def unknowable(
    gpus: tuple[GpuRun, ...], *, name: str, interval: float | None, header: bool
) -> Iterable[Message]:
    """What the log called ``name`` cannot tell, each with the reason and how to get it."""
    if not header:
        yield Message(key="log.no_header")
    if all(gpu.kernel_max is None for gpu in gpus):
        yield Message(key="log.unknown_kernel")
    if all(gpu.memory_peak_bytes is None for gpu in gpus):
        yield Message(key="log.unknown_memory")
    else:
        yield Message(key="log.memory_held")
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
    yield Message(key="log.unknown_run")
    yield Message(key="log.unknown_owner", params={"path": name})
