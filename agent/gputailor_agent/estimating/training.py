"""Memory of training on one GPU: states, activations, buffers, framework.

States follow Rajbhandari et al. 2020, ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models, section 3.1 and figure 1: mixed precision with Adam takes 2 + 2 + 12 bytes per parameter,
and on N GPUs stage 1 takes 4P + 12P/N, stage 2 2P + 14P/N, stage 3 16P/N.
"""

from typing import Final, Literal

import msgspec

from gputailor_agent.estimating.activations import (
    Attention,
    Checkpointing,
    Numbers,
    kept,
    logits,
)
from gputailor_agent.estimating.amounts import (
    GIB,
    NOTHING,
    Amount,
    Estimate,
    Part,
    exactly,
    total,
)
from gputailor_agent.estimating.shapes import ModelError, ModelShape

Precision = Literal["fp32", "amp", "mixed", "bf16"]
Optimizer = Literal["adamw", "adamw8bit", "adafactor", "lion", "momentum", "sgd"]

ZERO_STAGES: Final = (0, 1, 2, 3)
#: Targets of LoRA: Hu et al. 2021, LoRA, section 4.2 adapt attention; QLoRA adapts all products.
LORA_TARGETS: Final = ("attention", "all")

#: A CUDA context with the kernels of a framework. Hugging Face's guide measures 1.3 GiB (V100,
#: PyTorch 1.10), Lucid's profiles 2.0 GiB; modules loaded on demand (CUDA 11.7 on) take less.
_FRAMEWORK: Final = Amount(0.3 * GIB, 0.8 * GIB, 2.0 * GIB)
#: Buffers of NCCL's channels.
_COMMUNICATION: Final = Amount(0.2 * GIB, 0.5 * GIB, 1.5 * GIB)
#: Elements of DeepSpeed's buckets (reduce_bucket_size), and of stage 3's live parameters.
_BUCKET_ELEMENTS: Final = 5e8
_LIVE_ELEMENTS: Final = 1e9
#: Blocks of 64 weights with a scale that is quantised again: 0.127 bits (QLoRA, section 3).
_NF4_BITS: Final = 4.127


class _Bytes(msgspec.Struct, frozen=True):
    """Bytes per parameter of one precision. ``copy``: a second, lower-precision copy."""

    weight: float
    gradient: float
    state: float  # of one optimizer state
    master: float
    copy: float
    numbers: Numbers


_PRECISIONS: Final = {
    "fp32": _Bytes(4, 4, 4, 0, 0, Numbers(4, 4)),
    "amp": _Bytes(4, 4, 4, 0, 2, Numbers(2, 4, casts=True)),
    "mixed": _Bytes(2, 2, 4, 4, 0, Numbers(2, 2)),
    "bf16": _Bytes(2, 2, 2, 0, 0, Numbers(2, 2)),
}
#: States per parameter. Adafactor keeps sums of rows and columns (Shazeer and Stern 2018).
_STATES: Final = {"adamw": 2, "lion": 1, "momentum": 1, "sgd": 0, "adafactor": 0, "adamw8bit": 2}


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is trained. ``batch`` is that of one GPU and one step, accumulation apart.

    ``precision``: fp32; amp (torch.autocast over FP32 weights); mixed (16-bit weights and gradients
    with an FP32 master copy: DeepSpeed, Megatron, FSDP); bf16 (everything in 16 bits).
    ``lora_rank`` None trains all parameters; ``base_bits`` are those of the frozen weights.
    """

    precision: Precision = "mixed"
    optimizer: Optimizer = "adamw"
    batch: int = 1
    sequence: int = 2048
    gpus: int = 1
    zero: int = 0
    lora_rank: int | None = None
    lora_targets: str = "all"
    base_bits: float | None = None
    checkpointing: Checkpointing = "none"
    attention: Attention = "flash"
    fused_loss: bool = False


def lora_parameters(shape: ModelShape, rank: int, targets: str) -> float:
    """Trained parameters: ``rank (inputs + outputs)`` for each adapted product (LoRA, section 4.1).

    With experts, those that one token goes through; raises ``ModelError`` for convolutions.
    """
    if shape.kind == "convolutional":
        raise ModelError(
            "--lora: the products of a convolutional model are not known; leave it out"
        )
    queries, pairs = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    widths: float = (shape.hidden + queries) * 2 + (shape.hidden + pairs) * 2
    if targets == "all":
        widths += (3 if shape.gated else 2) * (shape.hidden + shape.intermediate)
    return rank * widths * shape.layers


def estimate_training(shape: ModelShape, settings: Training) -> Estimate:
    """Memory of one GPU by part: ``parameters``, ``gradients``, ``optimizer`` and so on.

    The optimizer's step comes after the activations are gone, so its temporaries count only where
    they are larger. Raises ``ModelError`` for settings that mean nothing together.
    """
    check(settings)
    size = _PRECISIONS[settings.precision]
    sequence = shape.tokens or settings.sequence
    states = _states(shape, settings, size)
    held = kept(
        shape,
        settings.batch,
        sequence,
        size.numbers,
        attention=settings.attention,
        checkpointing=settings.checkpointing,
        frozen=settings.lora_rank is not None,
    )
    tokens = float(settings.batch * sequence)
    loss = logits(shape, tokens, size.numbers, fused=settings.fused_loss)
    parts = [
        *states,
        Part("activations", held, _activation_formula(settings)),
        Part("logits and loss", loss, "tokens x vocabulary x bytes of logits and loss"),
        Part(
            "temporary", _temporary(shape, settings, size, held + loss), "buckets, gathered layers"
        ),
        Part("framework", _framework(settings), "CUDA context, kernels, NCCL"),
    ]
    return Estimate(
        parts=tuple(part for part in parts if part.bytes != NOTHING), notes=_notes(shape, settings)
    )


def check(settings: Training) -> None:
    """Raise ``ModelError`` for settings out of range."""
    if settings.zero and settings.gpus == 1:
        raise ModelError(f"--zero {settings.zero}: there is nothing to divide on 1 GPU; add --gpus")
    for name in ("batch", "sequence", "gpus"):
        if getattr(settings, name) < 1:
            raise ModelError(f"--{name}: expected a whole number above 0")
    if settings.base_bits is not None and settings.lora_rank is None:
        raise ModelError("--quantise: quantised weights cannot be trained; add --lora RANK")


def _states(shape: ModelShape, settings: Training, size: _Bytes) -> list[Part]:
    """Weights, gradients and optimizer states, each over the GPUs that share it."""
    n, stage = settings.gpus, settings.zero
    everything = _uncertain(shape, shape.parameters)
    trained, frozen = everything, NOTHING
    if settings.lora_rank is not None:
        count = lora_parameters(shape, settings.lora_rank, settings.lora_targets)
        trained, frozen = exactly(count), everything
    of_weights = n if stage == 3 else 1  # noqa: PLR2004 - stage 3
    of_gradients = n if stage >= 2 else 1  # noqa: PLR2004 - stage 2
    of_states = n if stage >= 1 else 1
    base = size.weight if settings.base_bits is None else settings.base_bits / 8
    unpacked = shape.tables * max(0.0, 2 - base) if frozen != NOTHING and base < 2 else 0.0  # noqa: PLR2004
    weights = trained.times(size.weight) + frozen.times(base) + Amount(0.0, unpacked, unpacked)
    weights = weights.times(1 / of_weights)
    copied = (trained + frozen).times(size.copy).spread(0.5, 1.0, 1.0)
    gradients = trained.times(size.gradient)
    if settings.precision == "mixed":  # Megatron and others accumulate them in FP32
        gradients = gradients.spread(1.0, 1.0, 2.0)
    optimizer = trained.times(size.master) + _optimizer(trained, settings, size)
    return [
        Part("parameters", weights, f"P x {base:g} bytes / {of_weights}"),
        Part("16-bit copy", copied, "P x 2 bytes, cast by autocast"),
        Part(
            "gradients",
            gradients.times(1 / of_gradients),
            f"P x {size.gradient:g} bytes / {of_gradients}",
        ),
        Part("optimizer", optimizer.times(1 / of_states), f"P x (master + states) / {of_states}"),
    ]


def _uncertain(shape: ModelShape, count: float) -> Amount:
    error = shape.parameters_error
    return Amount(count * (1 - error), count, count * (1 + error))


def _optimizer(trained: Amount, settings: Training, size: _Bytes) -> Amount:
    if settings.optimizer == "adamw8bit":
        return trained.times(2.0).spread(1.0, 1.0, 1.1)
    if settings.optimizer == "adafactor":  # with momentum it keeps one full state
        return trained.times(size.state).spread(0.0, 0.02, 1.0)
    return trained.times(size.state * _STATES[settings.optimizer])


def _temporary(shape: ModelShape, settings: Training, size: _Bytes, dynamic: Amount) -> Amount:
    """Buffers of data parallelism, and of the optimizer's step where it is the peak.

    Plain data parallelism copies gradients into buckets unless they are views of them
    (torch DistributedDataParallel, ``gradient_as_bucket_view``). Stage 3 gathers the layer at work
    and the next one; DeepSpeed keeps up to ``stage3_max_live_parameters``. The step: PyTorch's
    ``foreach`` optimizers hold one more tensor per parameter.
    """
    count = shape.parameters
    if settings.lora_rank is not None:
        count = lora_parameters(shape, settings.lora_rank, settings.lora_targets)
    stepping = count * size.state / (settings.gpus if settings.zero else 1)
    late = Amount(0.0, 0.0, max(0.0, stepping - dynamic.low))
    if settings.gpus == 1:
        return late
    if settings.zero == 0:
        gradients = count * size.gradient
        return late + Amount(0.0, gradients, gradients)
    bucket = min(_BUCKET_ELEMENTS, count) * size.numbers.operand
    if settings.zero < 3:  # noqa: PLR2004 - stage 3
        return late + Amount(0.0, bucket, 2 * bucket)
    layer = shape.parameters / max(1, shape.layers) * size.numbers.operand
    table = shape.vocabulary * shape.hidden * size.numbers.operand
    live = min(_LIVE_ELEMENTS, shape.parameters) * size.numbers.operand
    return late + Amount(layer, 2 * layer + table, max(3 * layer + 2 * table, live + bucket))


def _framework(settings: Training) -> Amount:
    return total([_FRAMEWORK, *([_COMMUNICATION] if settings.gpus > 1 else [])])


def _activation_formula(settings: Training) -> str:
    if settings.checkpointing == "full":
        return "layers x s b h + one layer (Korthikanti et al. 2022, section 5)"
    return "layers x s b h (34 + 5 a s / h), adapted (Korthikanti et al. 2022, section 4)"


def _notes(shape: ModelShape, settings: Training) -> tuple[str, ...]:
    notes = list(shape.notes)
    if shape.kind == "convolutional":
        notes.append("images: activations are twice the outputs of the convolutions")
    if shape.active_parameters is not None and settings.lora_rank is not None:
        notes.append("LoRA is taken to adapt the experts that one token goes through")
    if shape.positions and settings.sequence > shape.positions and shape.tokens is None:
        notes.append(f"the model's longest sequence is {shape.positions}")
    return tuple(notes)
