"""Serving: a model server answers requests and leaves its card mostly empty, or computes dearly.

Looked at in this order; the first that holds is said, others that hold are named beside it:

- tiny load: kernels run for at most 1 % of the time and there are few requests: a CPU would do;
- requests wait while the SMs are busy for less than 0.25 of the time they run: larger batches, or,
  where the KV cache is full, more room in it;
- memory is the wall while tokens are written (DRAM >= 0.5, SM < 0.5): fewer bytes per weight;
- tensor cores do nothing (< 0.05) while the SMs work: FP16, BF16, INT8 or FP8, as the card has;
- SMs mostly empty and nothing waits: one replica fewer, where the others could take its load.

A queue that nobody tells of is unknown, not empty. No saving is counted: what a batch or a format
brings is known only after a trial. 0.25 is the share below which Job Defense Shield calls a job of
low efficiency; the shares of a tiny load are this project's own.
"""

from dataclasses import dataclass
from typing import Final

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Evidence,
    Finding,
    Interval,
    Message,
    Saving,
    Severity,
    Silence,
    SilenceKind,
)
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules import changes
from gputailor_agent.rules.advising import Advice, Case, opened
from gputailor_agent.rules.base import (
    Context,
    Rule,
    Threshold,
    held_against,
    message,
    noted,
)
from gputailor_agent.rules.environments import capability_of
from gputailor_agent.rules.gates import SIZING_THRESHOLDS, steady_mean
from gputailor_agent.rules.pricing import spec_of
from gputailor_agent.rules.requesting import request_evidence
from gputailor_agent.rules.running import RUNNING, held_while_running, while_running
from gputailor_agent.rules.serving_lines import formats_of, serving_lines
from gputailor_agent.rules.serving_words import MESSAGES, NAMES

_ID: Final = "serving"
_GIB: Final = 1024**3
_HOUR: Final = 3600.0
_FORMULA: Final = "[1 - G + G SM, 1], G: share of time active; SM: mean while it runs"
_FULL_PRECISION: Final = frozenset({"", "fp32", "tf32"})
_EIGHT_BITS: Final = frozenset({"fp8", "int8", "int4", "fp4", "nf4"})

_THRESHOLDS: Final = (
    *SIZING_THRESHOLDS,
    Threshold("sm_below", 0.25, "ratio", "mean SM activity while it runs: mostly empty"),
    Threshold("queue_least", 1, "count", "mean number of requests that wait, per process"),
    Threshold("cache_full", 0.9, "ratio", "highest use of the KV cache from which it is full"),
    Threshold("dram_least", 0.5, "ratio", "mean DRAM activity while it runs: the wall"),
    Threshold("dram_sm_below", 0.5, "ratio", "mean SM activity while it runs, beside that"),
    Threshold("tensor_below", 0.05, "ratio", "mean tensor activity while it runs: not in use"),
    Threshold("fewer_busy", 0.5, "ratio", "kernel activity that remaining replicas may reach"),
    Threshold("tiny_busy", 0.01, "ratio", "kernel activity of a tiny load; own default"),
    Threshold("tiny_requests", 360, "count", "requests per hour of a tiny load; own default"),
    Threshold("tiny_memory_gib", 8, "GiB", "memory that a model for a CPU may take; own default"),
)


@dataclass(frozen=True, slots=True)
class _Load:
    """What was seen of the load and of the card; None: not told."""

    busy: Evidence
    sm: Evidence
    tensor: Evidence
    dram: Evidence
    waiting: Evidence
    requests_per_hour: Evidence
    cache: float | None
    replicas: int
    formats: tuple[str, ...]
    tensor_cores: bool

    def number(self, name: str) -> float:
        """A measured value; 0 where there is none (only for words, once it was held against)."""
        value = getattr(self, name).value
        return float(value) if isinstance(value, int | float) else 0.0


def evaluate(profile: Profile, context: Context) -> Finding | Silence:
    """Say whether a service could answer with less of its card."""
    case = opened(RULE, profile, context)
    if isinstance(case, Silence):
        return case
    basis = case.basis
    if profile.workload.task_class != TaskClass.INFERENCE:
        return case.silent(SilenceKind.NOT_APPLICABLE, message("serving.not_service"))
    if basis.use(basis.busy).active_seconds == 0:
        return case.silent(SilenceKind.NOT_APPLICABLE, message("serving.nothing_ran"))
    load = _load(case)
    ways = _ways(case, load)
    if ways:
        return _finding(case, load, ways)
    return _nothing(case, load)


def _load(case: Case) -> _Load:
    profile, uses = case.profile, case.basis.uses
    engine = profile.engine
    told = engine is not None and engine.requests is not None
    hours = profile.window.seconds / _HOUR
    capabilities = [capability_of(use, case.context) for use in uses]
    known = [one for one in capabilities if one is not None]
    cards = [spec_of(case.context, use) for use in uses]
    level = engine.waiting if engine is not None else None
    return _Load(
        busy=held_against("mean activity", steady_mean(uses, case.basis.busy), "<=",
                          case.limits["tiny_busy"], unit="ratio", profile=profile,
                          signal=case.basis.busy,
                          formula=f"active / observed seconds of {case.basis.busy}"),
        sm=held_while_running(case, "sm", "<", "sm_below"),
        tensor=held_while_running(case, "tensor", "<", "tensor_below"),
        dram=held_while_running(case, "dram", ">=", "dram_least"),
        waiting=held_against("requests that wait", None if level is None else level.mean, ">=",
                             case.limits["queue_least"], unit="count", profile=profile,
                             formula="mean of the engines' queues, per process"),
        requests_per_hour=held_against(
            "requests per hour", (engine.requests or 0.0) / hours if engine and told else None,
            "<=", case.limits["tiny_requests"], unit="count", profile=profile,
            formula="rise of the counters of finished requests / hours of the window"),
        cache=engine.cache.maximum if engine is not None and engine.cache is not None else None,
        replicas=profile.pods_now,
        formats=formats_of(min(known) if len(known) == len(capabilities) and known else None),
        tensor_cores=all(card is not None and card.tensor_cores is True for card in cards),
    )  # fmt: skip


def _ways(case: Case, load: _Load) -> list[str]:
    """Everything that holds, in the order of the module's text.

    Where nothing tells for how long anything ran, nothing is held against that time.
    """
    if case.basis.busy not in RUNNING:
        return []
    held = {
        "tiny": _is_tiny(case, load),
        "cache": _queue(load) and (load.cache or 0.0) >= case.limits["cache_full"],
        "batch": _queue(load),
        "decode": _decodes(case, load)
        and case.profile.workload.precision not in _EIGHT_BITS
        and bool({"FP8", "INT8"} & set(load.formats)),
        "precision": _unused_cores(case, load),
        "fewer": _spare(case, load),
        "unseen": bool(load.sm.passed) and load.waiting.value is None,
    }
    found = [name for name, holds in held.items() if holds]
    if "cache" in found:
        found.remove("batch")
    if "fewer" in found and "unseen" in found:
        found.remove("unseen")
    return found


def _queue(load: _Load) -> bool:
    return bool(load.sm.passed) and bool(load.waiting.passed)


def _is_tiny(case: Case, load: _Load) -> bool:
    """Few requests, known as such, to a model that a CPU could hold."""
    workload, engine = case.profile.workload, case.profile.engine
    memory: float | None = case.profile.memory_peak_bytes
    if workload.preallocates:
        memory = engine.memory_peak_bytes if engine is not None else None
    small = memory is not None and memory <= case.limits["tiny_memory_gib"] * _GIB
    asked = load.number("requests_per_hour") > 0
    return bool(load.busy.passed) and bool(load.requests_per_hour.passed) and asked and small


def _decodes(case: Case, load: _Load) -> bool:
    sm = while_running(case, "sm")
    return bool(load.dram.passed) and sm is not None and sm < case.limits["dram_sm_below"]


def _unused_cores(case: Case, load: _Load) -> bool:
    works = load.sm.value is not None and not load.sm.passed
    asked = case.profile.workload.precision not in _FULL_PRECISION
    return works and bool(load.tensor.passed) and load.tensor_cores and not asked


def _spare(case: Case, load: _Load) -> bool:
    """Whether one replica fewer would keep the others below the limit."""
    if load.replicas <= 1 or case.profile.workload.kind == "DaemonSet":
        return False
    after = load.number("busy") * load.replicas / (load.replicas - 1)
    waits = load.waiting.passed
    return bool(load.sm.passed) and not waits and after <= case.limits["fewer_busy"]


def _numbers(case: Case, load: _Load) -> tuple[Evidence, ...]:
    profile = case.profile
    return (
        load.busy, load.sm, load.tensor, load.dram, load.waiting, load.requests_per_hour,
        *request_evidence(profile),
        noted("highest use of the KV cache", load.cache, unit="ratio", profile=profile,
              formula="of any one process, as the engine says"),
        noted("number formats of the card", ", ".join(load.formats) or None, profile=profile,
              formula="by compute capability, least of all GPUs"),
        noted("replicas now", load.replicas, unit="count", profile=profile,
              formula="pods that hold devices at the window's end"),
    )  # fmt: skip


def _nothing(case: Case, load: _Load) -> Silence:
    numbers = _numbers(case, load)
    unread = case.missing("sm", "tensor", "dram")
    if case.basis.busy not in RUNNING:
        unread += ("kernel",)
    if unread:
        least = case.limits["coverage"]
        why = message("serving.no_signal", signals=", ".join(unread), threshold=least)
        return case.silent(SilenceKind.UNKNOWN, why, numbers, missing=unread)
    sm = load.sm.value
    if _decodes(case, load) and case.profile.workload.precision in _EIGHT_BITS:
        why = message("serving.asked", precision=case.profile.workload.precision)
    elif load.sm.passed:
        why = message("serving.no_queue", sm=sm)
    else:
        why = message("serving.fine", sm=sm)
    return case.silent(SilenceKind.FINE, why, numbers)


def _finding(case: Case, load: _Load, ways: list[str]) -> Finding:
    first, others = ways[0], ways[1:]
    confidence, reason = _confidence(case, first)
    sm, busy = load.number("sm"), load.number("busy")
    why = message(
        f"serving.{first}",
        sm=load.sm.value,
        busy=load.busy.value,
        dram=load.dram.value,
        waiting=load.waiting.value,
        requests=load.requests_per_hour.value,
        replicas=load.replicas,
        fewer=load.replicas - 1,
        format=_format(first, load),
    )
    also = tuple(message("serving.also", what=NAMES[name]) for name in others)
    advice = Advice(
        severity=Severity.LOW if confidence is Confidence.LOW else Severity.MEDIUM,
        confidence=confidence,
        reason=reason,
        change=_change(case, first, load),
        saving=Saving(why=message("serving.unquantified"), formula=_FORMULA),
        slowdown=_slowdown(first, load, sm=sm, busy=busy),
        risks=_risks(case, first),
        not_chosen=(*also, *_NOT_CHOSEN),
    )
    return case.found(why, advice, _numbers(case, load))


_NOT_CHOSEN: Final = (
    message("serving.not_faster_card"),
    message("serving.not_compile"),
    message("serving.not_release"),
)


def _slowdown(way: str, load: _Load, *, sm: float, busy: float) -> Interval | None:
    """Time per request, of the present; None where nothing bounds it (a CPU)."""
    if way == "tiny":
        return None
    if way == "fewer":
        return Interval(low=1.0, high=load.replicas / (load.replicas - 1))
    return Interval(low=1.0 - busy + busy * sm if load.sm.value is not None else 0.0, high=1.0)


def _confidence(case: Case, way: str) -> tuple[Confidence, str]:
    if way == "tiny":
        return Confidence.LOW, "the load was measured; how long a CPU takes for a request was not"
    if way == "unseen":
        return Confidence.LOW, "no engine tells whether requests wait"
    if way == "fewer":
        return Confidence.LOW, "means of hours do not show short peaks, and latency was not seen"
    if way in {"batch", "cache"}:
        return Confidence.MEDIUM, "the queue and the empty SMs were measured; what fits was not"
    known = bool(case.profile.workload.framework)
    reason = "activities were measured; speed and accuracy in fewer bits were not"
    return (Confidence.MEDIUM, reason) if known else (Confidence.LOW, f"{reason}; engine not known")


def _format(way: str, load: _Load) -> str:
    """Best number format that the card has for what is asked."""
    wanted = ("FP8", "INT8") if way == "decode" else ("BF16", "FP16")
    best = next((name for name in wanted if name in load.formats), "FP16")
    if way != "precision":
        return best
    small = next((name for name in ("FP8", "INT8") if name in load.formats), "")
    return f"{best} or, calibrated, {small}" if small else best


def _change(case: Case, way: str, load: _Load) -> Change:
    workload = case.profile.workload
    if way == "fewer":
        return changes.set_replicas(case.profile, load.replicas - 1)
    topic = {"tiny": "cpu", "unseen": "batching", "batch": "batching", "precision": "half"}
    name = topic.get(way, way)
    if way == "decode":
        name = "fp8" if "FP8" in load.formats else "int8"
    dtype = "bfloat16" if "BF16" in load.formats else "float16"
    lines = serving_lines(name, workload, dtype=dtype)
    return Change(
        kind="tune_serving",
        target=changes.target_of(workload),
        params={"topic": name, "framework": lines.framework},
        code=lines.code,
        links=lines.links,
        undo="take the options out again and start the former model",
    )


def _risks(case: Case, way: str) -> tuple[Message, ...]:
    by_way = {
        "tiny": ("risk_cpu", "risk_peak"),
        "batch": ("risk_latency", "risk_memory"),
        "cache": ("risk_accuracy",),
        "decode": ("risk_accuracy",),
        "precision": ("risk_accuracy",),
        "fewer": ("risk_peak", "risk_latency"),
        "unseen": ("risk_latency", "risk_memory"),
    }
    names = by_way[way]
    engine = case.profile.engine
    if engine is None or engine.requests is None:
        names += ("risk_unseen",)
    return tuple(message(f"serving.{name}") for name in names)


RULE: Final = Rule(
    id=_ID,
    title="Serving",
    summary="A model server could answer with less of its card: batches, formats, replicas.",
    signals=("sm", "kernel", "tensor", "dram"),
    thresholds=_THRESHOLDS,
    messages=MESSAGES,
    evaluate=evaluate,
    order=67,
)
