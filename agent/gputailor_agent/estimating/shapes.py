"""What memory arithmetic needs to know of a model: its parameters and the sizes of its layers."""

from typing import Final, Literal

import msgspec

Kind = Literal["decoder", "encoder", "convolutional"]

#: Layers and width of a plain transformer with so many parameters (``guessed_shape``).
_ASPECT: Final = 128
_BLOCK: Final = 12
_GUESSED: Final = (
    "only the parameter count is known: layers and width are those of a plain transformer of that "
    "size, so activations and KV cache may be half or twice as much; give a config.json to know "
    "better"
)


class ModelError(ValueError):
    """A model's description cannot be used; the text says where, why and what to do."""


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """A model. Sizes are numbers of elements, unknown ones None.

    ``parameters_error``: the count may be off by this share. ``kv_elements``: elements that the KV
    cache holds per token and layer. ``windowed_layers`` of them look back ``window`` tokens only.
    ``activations_per_image``: output elements of all convolutions for one image.
    ``stored_bits``: bits per weight as the checkpoint stores them.
    """

    name: str
    kind: Kind
    parameters: float
    parameters_error: float = 0.0
    active_parameters: float | None = None  # of one token, where experts are chosen
    layers: int = 0
    hidden: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_size: int = 0
    intermediate: float = 0.0  # of all MLPs that one token goes through in a layer, on average
    gated: bool = False
    dropout: bool = False
    vocabulary: int = 0
    tables: float = 0.0  # parameters of embeddings and output, which often stay in 16 bits
    logits: int = 0  # outputs per token (a language model's vocabulary) or 0
    kv_elements: float = 0.0
    window: int | None = None
    windowed_layers: int = 0
    tokens: int | None = None  # per example, where it is fixed (patches of an image)
    positions: int | None = None  # longest sequence
    activations_per_image: float | None = None
    stored_bits: float | None = None
    guessed: bool = False  # layer sizes were guessed from the parameter count
    notes: tuple[str, ...] = ()


def guessed_shape(parameters: float, name: str) -> ModelShape:
    """A plain decoder with that many parameters, where nothing else is known.

    A transformer block has ``12 x hidden^2`` parameters (Kaplan et al. 2020, Scaling Laws for
    Neural Language Models, table 1); width over depth is taken as 128, near what GPT-3 6.7B, Llama
    7B and Llama 70B have (128, 128, 102). So ``hidden = (128 P / 12)^(1/3)``: 4,211 for 7e9.
    """
    hidden = round((parameters * _ASPECT / _BLOCK) ** (1 / 3))
    layers = max(1, round(hidden / _ASPECT))
    heads = max(1, hidden // _ASPECT)
    return ModelShape(
        name=name,
        kind="decoder",
        parameters=parameters,
        parameters_error=0.02,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_size=_ASPECT,
        intermediate=8 * hidden / 3,
        gated=True,
        vocabulary=32_000,
        tables=2.0 * 32_000 * hidden,
        logits=32_000,
        kv_elements=2.0 * hidden,
        guessed=True,
        notes=(_GUESSED,),
    )
