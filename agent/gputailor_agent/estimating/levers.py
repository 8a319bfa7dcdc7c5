"""What would make an estimate fit a smaller card: one change at a time, else several in order.

Changes come in the order of what they cost the user: first those that change nothing but time, then
those that may change the result, then more GPUs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from gputailor_agent.estimating.amounts import Estimate
from gputailor_agent.estimating.serving import Serving, estimate_serving
from gputailor_agent.estimating.shapes import ModelError, ModelShape
from gputailor_agent.estimating.training import ZERO_STAGES, Training, estimate_training

Settings = TypeVar("Settings", Training, Serving)

_LORA_RANK: Final = 16
_NF4_BITS: Final = 4.127  # 4 bits and 0.127 for doubly quantised scales (QLoRA 2023, section 3)
_MORE_GPUS: Final = (2, 4, 8, 16)
_SHORTEST: Final = 1024


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One or several changes that make it fit: what to do, what it costs, the estimate then."""

    names: tuple[str, ...]
    costs: tuple[str, ...]
    gpus: int
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class _Step(Generic[Settings]):
    """One change. Of one ``key`` the weakest comes first, and only one is in a combination."""

    key: str
    name: str
    cost: str
    settings: Settings


def training_changes(
    shape: ModelShape, settings: Training, usable_bytes: float
) -> tuple[Change, ...]:
    """Changes to training that make it fit into so many bytes, each by itself, else combined."""
    return _changes(
        settings, usable_bytes, _training_steps, lambda now: estimate_training(shape, now)
    )


def serving_changes(
    shape: ModelShape, settings: Serving, usable_bytes: float
) -> tuple[Change, ...]:
    """Changes to serving that make it fit into so many bytes, each by itself, else combined."""
    return _changes(
        settings, usable_bytes, _serving_steps, lambda now: estimate_serving(shape, now)
    )


def _changes(
    settings: Settings,
    usable_bytes: float,
    steps: Callable[[Settings], Iterator[_Step[Settings]]],
    estimate: Callable[[Settings], Estimate],
) -> tuple[Change, ...]:
    """All single changes that are enough (the weakest of each kind), else one combination."""

    def tried(taken: list[_Step[Settings]]) -> Change | None:
        last = taken[-1].settings
        try:
            found = estimate(last)
        except ModelError:
            return None
        if found.total.high > usable_bytes:
            return None
        return Change(
            names=tuple(step.name for step in taken),
            costs=tuple(step.cost for step in taken),
            gpus=last.gpus,
            estimate=found,
        )

    enough: dict[str, Change] = {}
    for step in steps(settings):
        change = tried([step]) if step.key not in enough else None
        if change is not None:
            enough[step.key] = change
    if enough:
        return tuple(enough.values())
    return _combined(settings, steps, tried)


def _combined(
    settings: Settings,
    steps: Callable[[Settings], Iterator[_Step[Settings]]],
    tried: Callable[[list[_Step[Settings]]], Change | None],
) -> tuple[Change, ...]:
    """Kinds of change one after the other, each as strong as need be, until it fits."""
    taken: list[_Step[Settings]] = []
    for key in dict.fromkeys(step.key for step in steps(settings)):
        now = taken[-1].settings if taken else settings
        options = [step for step in steps(now) if step.key == key]
        for option in options:
            with_it = list(taken)
            with_it.append(option)
            change = tried(with_it)
            if change is not None:
                return (change,)
        taken += options[-1:]
    return ()


def _training_steps(now: Training) -> Iterator[_Step[Training]]:
    change = msgspec.structs.replace
    if now.checkpointing != "full":
        yield _Step(
            "checkpointing",
            "checkpointing of all layers",
            "about a third slower: one more forward pass",
            change(now, checkpointing="full"),
        )
    if now.batch > 1:
        yield _Step(
            "batch",
            f"batch 1, gradients accumulated over {now.batch} steps",
            "slower steps, the same result",
            change(now, batch=1),
        )
    if not now.fused_loss:
        yield _Step(
            "loss",
            "loss in chunks (fused cross-entropy)",
            "none known",
            change(now, fused_loss=True),
        )
    if now.gpus > 1:
        for stage in ZERO_STAGES[now.zero + 1 :]:
            told = f"ZeRO stage {stage}"
            yield _Step("zero", told, "more traffic between GPUs", change(now, zero=stage))
    if now.optimizer == "adamw":
        eight = change(now, optimizer="adamw8bit")
        yield _Step("optimizer", "8-bit AdamW", "quantised states: watch the loss", eight)
    yield from _adapters(now)
    for gpus in _MORE_GPUS:
        if gpus > now.gpus:
            many = change(now, gpus=gpus, zero=3)
            yield _Step("gpus", f"{gpus} GPUs with ZeRO stage 3", "more GPUs to pay", many)


def _adapters(now: Training) -> Iterator[_Step[Training]]:
    lora = now
    if now.lora_rank is None:
        lora = msgspec.structs.replace(now, lora_rank=_LORA_RANK)
        yield _Step(
            "lora", f"LoRA of rank {_LORA_RANK}", "trains adapters alone: another result", lora
        )
    if now.base_bits is None:
        quantised = msgspec.structs.replace(lora, base_bits=_NF4_BITS)
        told = "LoRA over 4-bit weights (QLoRA)" if now.lora_rank is None else "4-bit base (QLoRA)"
        yield _Step("lora", told, "adapters alone over a quantised base", quantised)


def _serving_steps(now: Serving) -> Iterator[_Step[Serving]]:
    change = msgspec.structs.replace
    if now.cache in {"fp16", "bf16"}:
        told = "check accuracy; Ada, Hopper or later"
        yield _Step("cache", "KV cache in FP8", told, change(now, cache="fp8"))
    batch = now.batch // 2
    while batch >= 1:
        told = f"{batch} sequence{'' if batch == 1 else 's'} at once"
        yield _Step("batch", told, "lower throughput", change(now, batch=batch))
        batch //= 2
    length = now.sequence // 2
    while length >= _SHORTEST:
        told = f"sequences of {length} tokens"
        yield _Step("length", told, "longer requests are refused", change(now, sequence=length))
        length //= 2
    if now.weights in {"fp32", "fp16", "bf16"}:
        eight = change(now, weights="fp8")
        yield _Step("weights", "weights in FP8", "check accuracy; Ada, Hopper or later", eight)
    if now.weights != "int4":
        four = change(now, weights="int4")
        yield _Step("weights", "weights in 4 bits (AWQ, GPTQ)", "check accuracy", four)
    for gpus in _MORE_GPUS:
        if gpus > now.gpus:
            many = change(now, gpus=gpus)
            yield _Step("gpus", f"tensor parallelism over {gpus} GPUs", "more GPUs to pay", many)
