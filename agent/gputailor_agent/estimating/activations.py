"""Activations that training keeps from the forward pass for the backward pass, and the logits.

Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models, section 4:
a layer in 16 bits keeps ``s b h (34 + 5 a s / h)`` bytes (s sequence, b batch, h width, a heads).
The same list of tensors is counted here for any width of the MLP, gated MLPs, grouped keys and
values, models without dropout, and other number types; for GPT it gives exactly that figure.
"""

from typing import Final, Literal

import msgspec

from gputailor_agent.estimating.amounts import Amount
from gputailor_agent.estimating.shapes import ModelShape

Attention = Literal["flash", "eager"]
Checkpointing = Literal["none", "selective", "full"]

#: What PyTorch holds over what the tensors add up to. Up: rounding and gaps of the caching
#: allocator, workspaces, tensors that a model keeps twice; peaks in Hugging Face's BERT guide lie
#: 15 to 45 % above the sum. Down: torch.compile computes elementwise steps again.
_HELD: Final = (0.75, 1.15, 1.5)
#: The input of a product with frozen weights (LoRA) need not be kept.
_FROZEN_LOW: Final = 0.5
#: Low end of the one layer that full checkpointing computes again: trained, frozen.
_LAYER_LOW: Final = (0.5, 0.1)
#: A convolution's output and that of its normalisation are kept; a ReLU works in place.
_KEPT_PER_OUTPUT: Final = 2.0
_MASK: Final = 1.0  # bytes of a dropout mask's element
_FULL: Final = 4.0


class Numbers(msgspec.Struct, frozen=True):
    """Bytes of what is kept: ``operand`` of matrix products, ``wide`` of norms and softmax.

    ``casts``: whether each product casts its input anew (torch.autocast does).
    """

    operand: float
    wide: float
    casts: bool = False


def layer_bytes(shape: ModelShape, sequence: int, numbers: Numbers, attention: Attention) -> float:
    """Bytes that one layer keeps per token, scores of attention included.

    Attention: input of the norm, input of the product (three casts under autocast), queries, keys
    and values, input of the output product, one dropout mask; with ``eager`` attention, scores
    after the softmax and after dropout with their mask for each head and position (5 a s / h).
    MLP: input of norm and product, then per inner element 2 tensors, 4 if gated.
    """
    operand, wide, h = numbers.operand, numbers.wide, shape.hidden
    queries, pairs = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    inputs = (3 if numbers.casts else 1) * h * operand
    attended = h * wide + inputs + (2 * queries + 2 * pairs) * operand
    if attention == "eager":
        attended += shape.heads * sequence * _score_bytes(shape, numbers)
    inner = 4 if shape.gated else 2
    casts = 2 if numbers.casts and shape.gated else 1
    worked = h * wide + casts * h * operand + inner * shape.intermediate * operand
    masks = 2 * h * _MASK if shape.dropout else 0.0
    return attended + worked + masks


def _score_bytes(shape: ModelShape, numbers: Numbers) -> float:
    """Bytes per attention score: after softmax; the mask; what the next product reads."""
    if shape.dropout:
        return numbers.wide + _MASK + numbers.operand
    return numbers.wide + (numbers.operand if numbers.casts else 0.0)


def kept(
    shape: ModelShape,
    batch: int,
    sequence: int,
    numbers: Numbers,
    *,
    attention: Attention,
    checkpointing: Checkpointing,
    frozen: bool = False,
) -> Amount:
    """Bytes of activations of one batch.

    ``full`` checkpointing keeps each layer's input and what one layer needs while it is computed
    again (2 s b h per layer in Korthikanti's section 5); ``selective`` computes the scores of
    attention again. Images through convolutions: twice their output elements. Layer sizes that
    were guessed may be half or twice as large.
    """
    if shape.kind == "convolutional":
        outputs = shape.activations_per_image or 0.0
        whole = _KEPT_PER_OUTPUT * outputs * numbers.operand * batch
        return _spread(whole / 3 if checkpointing == "full" else whole, shape)
    tokens = float(batch * sequence)
    effective: Attention = "flash" if checkpointing == "selective" else attention
    layer = layer_bytes(shape, sequence, numbers, effective) * tokens
    whole = shape.layers * layer
    if checkpointing == "full":
        inputs = shape.layers * shape.hidden * numbers.wide * tokens
        found = _spread(inputs + layer, shape)
        low = inputs + _LAYER_LOW[frozen] * layer
        return Amount(low / 2 if shape.guessed else low, found.expected, found.high)
    found = _spread(whole, shape)
    low = min(found.low, _FROZEN_LOW * whole) if frozen else found.low
    return Amount(low, found.expected, found.high)


def _spread(whole: float, shape: ModelShape) -> Amount:
    low, middle, high = _HELD
    if shape.guessed:
        low, high = low / 2, high * 2
    return Amount(whole, whole, whole).spread(low, middle, high)


def logits(shape: ModelShape, tokens: float, numbers: Numbers, *, fused: bool) -> Amount:
    """Bytes of a language model's output and loss at the peak, when the backward pass begins.

    Logits in the model's number type; in FP32 the log-softmax and its gradient. Low: the logits and
    one FP32 tensor (4 s b v in Korthikanti's section 4.3 is less: it counts no logits). High: an
    FP32 copy of the logits and their gradient as well. A ``fused`` or chunked loss holds a part of
    them: from an eighth to a quarter of the logits, or nothing.
    """
    elements = tokens * shape.logits
    operand = numbers.operand
    if fused:
        return Amount(0.0, elements * operand / 8, elements * operand / 4)
    return Amount(operand + _FULL, operand + 2 * _FULL, 2 * operand + 3 * _FULL).times(elements)
