"""Parameters of text models out of the sizes in their ``config.json``.

The counts are those of the model's layers as Hugging Face's transformers builds them; they were
checked against the published counts of 20 models (``tests/agent/estimating``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Family:
    """What a model type has beside its sizes. ``norms``: per layer, each of ``hidden`` weights."""

    gated: bool = True
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    norm_bias: bool = False
    norms: int = 2
    head_norms: bool = False  # of queries and keys
    learned_positions: int | None = None  # extra rows of the position table; None: no table
    tied: bool = False
    dropout: bool = False


_PLAIN: Final = Family(
    gated=False, qkv_bias=True, output_bias=True, mlp_bias=True, norm_bias=True, dropout=True
)

LLAMA: Final = Family()

DECODERS: Final[Mapping[str, Family]] = {
    "llama": LLAMA,
    "mistral": LLAMA,
    "mixtral": LLAMA,
    "phi3": LLAMA,
    "deepseek_v2": LLAMA,
    "deepseek_v3": LLAMA,
    "qwen2": Family(qkv_bias=True),
    "qwen2_moe": Family(qkv_bias=True),
    "qwen3": Family(head_norms=True),
    "qwen3_moe": Family(head_norms=True),
    "gemma": Family(tied=True),
    "gemma2": Family(norms=4, tied=True),
    "gemma3_text": Family(norms=4, head_norms=True, tied=True),
    "gpt2": Family(
        gated=False,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        norm_bias=True,
        dropout=True,
        learned_positions=0,
        tied=True,
    ),
    "opt": Family(
        gated=False,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        norm_bias=True,
        dropout=True,
        learned_positions=2,
        tied=True,
    ),
    "gpt_neox": _PLAIN,
    "bloom": Family(
        gated=False,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        norm_bias=True,
        tied=True,
    ),
    "falcon": Family(gated=False, norm_bias=True, norms=1, tied=True),
    "starcoder2": Family(
        gated=False, qkv_bias=True, output_bias=True, mlp_bias=True, norm_bias=True, tied=True
    ),
}

ENCODERS: Final[Mapping[str, Family]] = {
    name: Family(
        gated=False,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        norm_bias=True,
        dropout=True,
        learned_positions=0,
        tied=True,
    )
    for name in ("bert", "roberta", "xlm-roberta", "distilbert", "electra", "vit")
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes that decide a transformer's parameters; ``latent`` has DeepSeek's ranks."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    positions: int
    token_types: int = 0
    dense_layers: int = 0  # of those with experts elsewhere
    experts: int = 0
    experts_per_token: int = 0
    expert_intermediate: int = 0
    shared_intermediate: int = 0
    shared_gate: bool = False
    tied: bool = False
    latent: Mapping[str, int] | None = None


def attention_parameters(sizes: Sizes, family: Family) -> int:
    """Weights and biases of one layer's attention."""
    if sizes.latent is not None:
        return _latent_attention(sizes, sizes.latent)
    queries, pairs = sizes.heads * sizes.head_size, sizes.kv_heads * sizes.head_size
    count = sizes.hidden * (queries + 2 * pairs) + queries * sizes.hidden
    count += (queries + 2 * pairs) * family.qkv_bias + sizes.hidden * family.output_bias
    return count + 2 * sizes.head_size * family.head_norms


def _latent_attention(sizes: Sizes, latent: Mapping[str, int]) -> int:
    """Multi-head latent attention (DeepSeek-V2, 2024, section 2.1)."""
    query, pair = latent["q_lora_rank"], latent["kv_lora_rank"]
    plain, rotary = latent["qk_nope_head_dim"], latent["qk_rope_head_dim"]
    value, width = latent["v_head_dim"], sizes.heads * (plain + rotary)
    queries = sizes.hidden * query + query + query * width if query else sizes.hidden * width
    pairs = sizes.hidden * (pair + rotary) + pair + pair * sizes.heads * (plain + value)
    return queries + pairs + sizes.heads * value * sizes.hidden


def mlp_parameters(hidden: int, intermediate: int, family: Family) -> int:
    """Weights and biases of one MLP."""
    matrices = 3 if family.gated else 2
    biases = (intermediate * (matrices - 1) + hidden) * family.mlp_bias
    return matrices * hidden * intermediate + biases


@dataclass(frozen=True, slots=True)
class Counted:
    """Parameters in all, and those that one token meets."""

    parameters: int
    active: int


def count(sizes: Sizes, family: Family, *, extra: int = 0) -> Counted:
    """Parameters of a model; ``extra`` are those outside embeddings and layers."""
    norm = sizes.hidden * (2 if family.norm_bias else 1)
    common = attention_parameters(sizes, family) + family.norms * norm
    sparse = sizes.layers - sizes.dense_layers if sizes.experts else 0
    dense = sizes.layers - sparse
    everything = sizes.layers * common + dense * mlp_parameters(
        sizes.hidden, sizes.intermediate, family
    )
    active = everything
    if sparse:
        one = mlp_parameters(sizes.hidden, sizes.expert_intermediate, family)
        beside = sizes.hidden * sizes.experts + sizes.hidden * sizes.shared_gate
        if sizes.shared_intermediate:
            beside += mlp_parameters(sizes.hidden, sizes.shared_intermediate, family)
        everything += sparse * (sizes.experts * one + beside)
        active += sparse * (sizes.experts_per_token * one + beside)
    outside = _embeddings(sizes, family) + extra
    return Counted(everything + outside, active + outside)


def _embeddings(sizes: Sizes, family: Family) -> int:
    tables = sizes.vocabulary * sizes.hidden * (1 if sizes.tied else 2)
    if family.learned_positions is not None:
        tables += (sizes.positions + family.learned_positions) * sizes.hidden
    return tables + sizes.token_types * sizes.hidden


def integer(config: Mapping[str, Any], *names: str, default: int | None = None) -> int | None:
    """The first of the names that holds a whole number; ``default`` where none does."""
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return default
