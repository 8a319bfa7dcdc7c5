"""Memory of serving on one GPU: weights, KV cache, working memory, framework.

Kwon et al. 2023, Efficient Memory Management for Large Language Model Serving with PagedAttention,
section 3: the KV cache of one token takes 2 (key and value) x hidden size x layers x bytes, 800 KB
for OPT-13B in FP16. With grouped queries hidden size is that of the key-value heads.
"""

from typing import Final

import msgspec

from gputailor_agent.estimating.amounts import GIB, NOTHING, Amount, Estimate, Part
from gputailor_agent.estimating.shapes import ModelError, ModelShape

#: Bits per weight: a scale and a zero of 16 bits for each group of 64 or so in 4-bit formats.
WEIGHT_BITS: Final = {
    "fp32": 32.0,
    "fp16": 16.0,
    "bf16": 16.0,
    "fp8": 8.0,
    "int8": 8.0,
    "int4": 4.5,
}
CACHE_BITS: Final = {"fp32": 32.0, "fp16": 16.0, "bf16": 16.0, "fp8": 8.0, "int8": 8.0}

_FRAMEWORK: Final = Amount(0.3 * GIB, 0.7 * GIB, 1.5 * GIB)
#: CUDA graphs and NCCL; engines capture dozens of batch sizes.
_GRAPHS: Final = Amount(0.0, 0.5 * GIB, 1.5 * GIB)
#: Blocks of the paged cache: 16 tokens, the last one of a sequence half empty on average.
_BLOCK_TOKENS: Final = 16
#: Working memory over weights: at most 20 % of the weights (Anthony, Biderman and Schoelkopf 2023,
#: Transformer Math 101, EleutherAI).
_WORKING: Final = (0.02, 0.08, 0.2)

#: A vocabulary is padded, and norms stand on every GPU: 1.4 % for a 14B model on two.
_DIVIDED: Final = (1.0, 1.01, 1.03)
_WHOLE: Final = (1.0, 1.0, 1.01)


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is served. ``batch`` sequences of ``sequence`` tokens are held at once.

    ``gpus`` share it by tensor parallelism; ``prefill`` tokens go through it in one step.
    """

    weights: str = "bf16"
    cache: str = "bf16"
    batch: int = 1
    sequence: int = 4096
    gpus: int = 1
    prefill: int = 2048


def cache_bytes_per_token(shape: ModelShape, bits: float) -> float:
    """Bytes of one token's keys and values over all layers (see the module)."""
    return shape.layers * shape.kv_elements * bits / 8


def cache_bytes(shape: ModelShape, batch: int, sequence: int, bits: float) -> float:
    """Bytes of the KV cache of ``batch`` sequences; windowed layers hold their window only."""
    per_layer = shape.kv_elements * bits / 8
    short = min(sequence, shape.window or sequence)
    tokens = (shape.layers - shape.windowed_layers) * sequence + shape.windowed_layers * short
    return batch * tokens * per_layer


def estimate_serving(shape: ModelShape, settings: Serving) -> Estimate:
    """Memory of one GPU by part: ``weights``, ``KV cache``, ``working memory``, ``framework``.

    An engine that pre-allocates (vLLM takes 90 % of the card by default) holds more: what is left
    becomes cache. Raises ``ModelError`` for settings that mean nothing.
    """
    for name in ("batch", "sequence", "gpus"):
        if getattr(settings, name) < 1:
            raise ModelError(f"--{name}: expected a whole number above 0")
    n = settings.gpus
    count, error = shape.parameters, shape.parameters_error
    counted = Amount(count * (1 - error), count, count * (1 + error))
    bits = WEIGHT_BITS[settings.weights]
    weights = counted.times(bits / 8)
    if bits < WEIGHT_BITS["bf16"]:  # embeddings and output mostly stay in 16 bits
        more = shape.tables * (WEIGHT_BITS["bf16"] - bits) / 8
        weights = weights + Amount(0.0, more, more)
    weights = weights.spread(*(_DIVIDED if n > 1 else _WHOLE))
    cache = _cache(shape, settings)
    working = weights.spread(*_WORKING) + _prefill(shape, settings)
    parts = [
        Part("weights", weights.times(1 / n), f"P x {bits:g} bits / {n}"),
        Part(
            "KV cache", cache.times(1 / _shared(shape, n)), "2 x layers x KV width x tokens x bytes"
        ),
        Part("working memory", working.times(1 / n), "2 to 20 % of the weights, one prefill step"),
        Part(
            "framework",
            _FRAMEWORK + (_GRAPHS if shape.kind == "decoder" else NOTHING),
            "CUDA context, graphs",
        ),
    ]
    return Estimate(
        parts=tuple(part for part in parts if part.bytes != NOTHING), notes=_notes(shape, settings)
    )


def _shared(shape: ModelShape, gpus: int) -> int:
    """GPUs over which the cache is divided: no key-value head is split, a latent one is copied."""
    return min(gpus, max(1, shape.kv_heads)) if shape.kv_elements else 1


def _cache(shape: ModelShape, settings: Serving) -> Amount:
    if not shape.kv_elements:
        return NOTHING
    held = cache_bytes(shape, settings.batch, settings.sequence, CACHE_BITS[settings.cache])
    block = 1 + _BLOCK_TOKENS / 2 / settings.sequence
    if shape.guessed:  # grouped queries need an eighth or so
        return Amount(held / 8, held / 2, held * 2)
    return Amount(held, held * block, held * 1.05 * block)


def _prefill(shape: ModelShape, settings: Serving) -> Amount:
    """Inner activations and logits of the tokens that go through in one step."""
    if shape.kind == "convolutional":
        outputs = (shape.activations_per_image or 0.0) * settings.batch * 4
        return Amount(outputs * 0.1, outputs * 0.3, outputs)
    tokens = float(
        max(1, min(settings.prefill, settings.batch * (shape.tokens or settings.sequence)))
    )
    inner = tokens * (4 * shape.hidden + 2 * shape.intermediate) * 2
    sampled = float(min(settings.batch, tokens)) * shape.logits * 4
    return Amount(0.5 * inner, inner + sampled, 2 * inner + 3 * sampled + tokens * shape.logits * 2)


def _notes(shape: ModelShape, settings: Serving) -> tuple[str, ...]:
    notes = list(shape.notes)
    if shape.kind == "decoder" and shape.positions and settings.sequence > shape.positions:
        notes.append(f"the model's longest sequence is {shape.positions}")
    if shape.kv_elements and settings.gpus > max(1, shape.kv_heads):
        notes.append(
            f"{shape.kv_heads} key-value heads on {settings.gpus} GPUs: some hold the same part"
        )
    return tuple(notes)
