"""A Hugging Face ``config.json`` as a ``ModelShape``: decoders, encoders, experts, ViT.

A type that is not known but has the sizes of one is counted as if it were like Llama, and says so;
a type without them is refused.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from gputailor_agent.estimating.counting import (
    DECODERS,
    ENCODERS,
    LLAMA,
    Counted,
    Family,
    Sizes,
    count,
    integer,
)
from gputailor_agent.estimating.shapes import ModelError, ModelShape

_HIDDEN: Final = ("hidden_size", "n_embd", "d_model", "dim", "n_embed")
_LAYERS: Final = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS: Final = ("num_attention_heads", "n_head", "n_heads")
_PAIRS: Final = ("num_key_value_heads", "num_kv_heads")
_MLP: Final = ("intermediate_size", "n_inner", "ffn_dim", "hidden_dim", "ffn_hidden_size")
_POSITIONS: Final = ("max_position_embeddings", "n_positions", "seq_length")
_EXPERTS: Final = ("num_local_experts", "num_experts", "n_routed_experts")
_LATENT: Final = (
    *("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
)
_TWO_STACKS: Final = frozenset({
    "t5", "mt5", "umt5", "longt5", "switch_transformers", "bart", "mbart", "pegasus", "marian",
    "m2m_100", "nllb-moe", "led", "blenderbot", "whisper", "speech_to_text", "prophetnet",
})  # fmt: skip
_BITS: Final = {"float32": 32.0, "float16": 16.0, "bfloat16": 16.0, "float8_e4m3fn": 8.0}
_METHOD_BITS: Final = {"fp8": 8.0, "mxfp4": 4.25, "awq": 4.5, "gptq": 4.5}
_GROUP_OVERHEAD_BITS: Final = 0.5  # a 16-bit scale and zero for each group of 64 or so


def is_encoder_decoder(config: Mapping[str, Any]) -> bool:
    """Whether a configuration has two stacks of layers, as T5, BART and Whisper do."""
    both = all(config.get(f"{side}_layers") for side in ("encoder", "decoder"))
    return bool(config.get("is_encoder_decoder") or both or config.get("model_type") in _TWO_STACKS)


def shape_of_config(config: Mapping[str, Any], place: str, name: str = "") -> ModelShape:
    """The model of a ``config.json``; raises ``ModelError`` where its sizes are not there."""
    if isinstance(config.get("text_config"), dict):
        inside = {**config, **config["text_config"]}
        inside.pop("text_config")
        inside.pop("vision_config", None)
        shape = shape_of_config(inside, place, name or str(config.get("model_type", "")))
        return _noted(
            shape, 0.1, "only the text part is counted: the vision or audio tower adds to it"
        )
    kind = str(config.get("model_type", ""))
    if is_encoder_decoder(config):
        raise ModelError(
            f"{place}: {kind or 'this model'} has an encoder and a decoder, which are not counted "
            "from a config.json; give its .safetensors file, or a parameter count such as 770M"
        )
    if kind == "falcon":
        config = _falcon(config)
    label = name or str(config.get("_name_or_path") or kind or place)
    family = DECODERS.get(kind) or ENCODERS.get(kind)
    sizes = _sizes(config, place, family or LLAMA)
    family = _with_flags(config, family or LLAMA)
    encoder = kind in ENCODERS
    counted = count(sizes, family, extra=_extra(config, kind, sizes))
    shape = _shape(config, label, sizes, family, counted, encoder=encoder)
    if kind in DECODERS or encoder:
        return shape
    told = f"model type {kind or 'unknown'!r} is not known: counted as if it were like Llama"
    return _noted(shape, 0.1, told)


def _noted(shape: ModelShape, error: float, note: str) -> ModelShape:
    return msgspec.structs.replace(
        shape, parameters_error=max(error, shape.parameters_error), notes=(*shape.notes, note)
    )


def _falcon(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Falcon's own names: one pair of keys and values for all heads, or groups of them."""
    grouped = config.get("new_decoder_architecture")
    pairs = (config.get("num_kv_heads") if grouped else 1) if config.get("multi_query", 1) else None
    return {**config, "num_key_value_heads": pairs, "num_kv_heads": None}


def _needed(config: Mapping[str, Any], place: str, names: tuple[str, ...]) -> int:
    value = integer(config, *names)
    if value is None or value <= 0:
        raise ModelError(
            f"{place}: expected a whole number for {names[0]} (or {', '.join(names[1:])}); give a "
            "config.json of Hugging Face or TIMM, a .safetensors file, or a count such as 7B"
        )
    return value


def _sizes(config: Mapping[str, Any], place: str, family: Family) -> Sizes:
    hidden = _needed(config, place, _HIDDEN)
    layers, heads = _needed(config, place, _LAYERS), _needed(config, place, _HEADS)
    intermediate = integer(config, *_MLP, default=4 * hidden) or 4 * hidden
    experts = integer(config, *_EXPERTS, default=0) or 0
    one = integer(config, "moe_intermediate_size", default=intermediate) or intermediate
    shared = integer(config, "shared_expert_intermediate_size", default=0) or 0
    shared += (integer(config, "n_shared_experts", default=0) or 0) * one
    head_size = integer(config, "head_dim", default=hidden // heads) or hidden // heads
    latent = None
    if config.get("kv_lora_rank"):
        latent = {key: integer(config, key, default=0) or 0 for key in _LATENT}
    tied = config.get("tie_word_embeddings")
    vocabulary = integer(config, "vocab_size", default=0) or 0
    return Sizes(
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=integer(config, *_PAIRS, default=heads) or heads,
        head_size=head_size,
        intermediate=intermediate,
        vocabulary=vocabulary,
        positions=integer(config, *_POSITIONS, default=0) or 0,
        token_types=integer(config, "type_vocab_size", default=0) or 0,
        dense_layers=_dense_layers(config, layers),
        experts=experts,
        experts_per_token=integer(config, "num_experts_per_tok", default=2) or 2,
        expert_intermediate=one,
        shared_intermediate=shared,
        shared_gate=bool(config.get("shared_expert_intermediate_size")),
        tied=family.tied if tied is None else bool(tied),
        latent=latent,
    )


def _dense_layers(config: Mapping[str, Any], layers: int) -> int:
    """Layers without experts in a model that has them elsewhere."""
    first = integer(config, "first_k_dense_replace", default=0) or 0
    step = integer(config, "decoder_sparse_step", default=1) or 1
    named = config.get("mlp_only_layers")
    skipped = set(named) if isinstance(named, list) else set()
    dense = {n for n in range(layers) if n < first or (n + 1) % step or n in skipped}
    return len(dense)


def _with_flags(config: Mapping[str, Any], family: Family) -> Family:
    """The family with what the configuration says itself."""
    bias = config.get("attention_bias")
    if isinstance(bias, bool) and family.gated:
        family = replace(family, qkv_bias=bias, output_bias=bias)
    if config.get("model_type") == "falcon" and config.get("new_decoder_architecture"):
        family = replace(family, norms=2)
    return family


def _extra(config: Mapping[str, Any], kind: str, sizes: Sizes) -> int:
    """Weights outside embedding tables and layers."""
    hidden = sizes.hidden
    if kind in {"bert", "roberta", "xlm-roberta"}:
        return 2 * hidden + hidden * hidden + hidden  # norm of the embeddings, pooler
    if kind in {"distilbert", "electra"}:
        return 2 * hidden
    if kind == "vit":
        patch = integer(config, "patch_size", default=16) or 16
        side = (integer(config, "image_size", default=224) or 224) // patch
        channels = integer(config, "num_channels", default=3) or 3
        labels = len(config.get("id2label") or ()) or integer(config, "num_labels", default=2) or 2
        stem = channels * patch * patch * hidden + hidden + hidden * (side * side + 2)
        return stem + 2 * hidden + hidden * labels + labels
    with_bias = kind in {"gpt2", "opt", "gpt_neox", "bloom", "falcon", "starcoder2"}
    last = hidden * (2 if with_bias else 1)
    if kind == "bloom":
        last += 2 * hidden  # norm of the embeddings
    if kind == "deepseek_v3":
        last += (sizes.layers - sizes.dense_layers) * sizes.experts  # bias of the router
    return last


def _shape(
    config: Mapping[str, Any],
    name: str,
    sizes: Sizes,
    family: Family,
    counted: Counted,
    *,
    encoder: bool,
) -> ModelShape:
    sparse = sizes.layers - sizes.dense_layers if sizes.experts else 0
    of_experts = sizes.experts_per_token * sizes.expert_intermediate + sizes.shared_intermediate
    dense = sizes.layers - sparse
    kv = 2.0 * sizes.kv_heads * sizes.head_size
    if sizes.latent is not None:
        kv = float(sizes.latent["kv_lora_rank"] + sizes.latent["qk_rope_head_dim"])
    window, windowed = _window(config, sizes.layers)
    return ModelShape(
        name=name,
        kind="encoder" if encoder else "decoder",
        parameters=float(counted.parameters),
        active_parameters=float(counted.active) if sizes.experts else None,
        layers=sizes.layers,
        hidden=sizes.hidden,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_size=sizes.head_size,
        intermediate=(dense * sizes.intermediate + sparse * of_experts) / sizes.layers,
        gated=family.gated,
        dropout=family.dropout and _drops(config),
        vocabulary=sizes.vocabulary,
        tables=float(sizes.vocabulary * sizes.hidden * (1 if sizes.tied else 2)),
        logits=0 if encoder else sizes.vocabulary,
        kv_elements=0.0 if encoder else kv,
        window=window,
        windowed_layers=windowed,
        tokens=_patches(config),
        positions=sizes.positions or None,
        stored_bits=stored_bits(config),
    )


def _drops(config: Mapping[str, Any]) -> bool:
    names = ("hidden_dropout_prob", "resid_pdrop", "dropout", "attention_probs_dropout_prob")
    told = [config[name] for name in names if isinstance(config.get(name), int | float)]
    return any(told) if told else True


def _patches(config: Mapping[str, Any]) -> int | None:
    if config.get("model_type") != "vit":
        return None
    patch = integer(config, "patch_size", default=16) or 16
    side = (integer(config, "image_size", default=224) or 224) // patch
    return side * side + 1


def _window(config: Mapping[str, Any], layers: int) -> tuple[int | None, int]:
    """Window of sliding attention and how many layers have it."""
    window = integer(config, "sliding_window")
    if not window or config.get("use_sliding_window") is False:
        return None, 0
    types = config.get("layer_types")
    if isinstance(types, list):
        return window, sum(one == "sliding_attention" for one in types)
    if config.get("model_type") == "gemma2":
        return window, layers // 2
    pattern = integer(config, "sliding_window_pattern")
    return window, layers - layers // pattern if pattern else layers


def stored_bits(config: Mapping[str, Any]) -> float | None:
    """Bits per weight of a checkpoint, scales included; None where it does not say."""
    method = config.get("quantization_config")
    if isinstance(method, dict):
        bits = integer(method, "bits", "w_bit", "weight_bits")
        if bits is not None:
            return bits + (_GROUP_OVERHEAD_BITS if bits < 8 else 0.0)  # noqa: PLR2004
        if method.get("load_in_4bit"):
            return 4 + _GROUP_OVERHEAD_BITS
        if method.get("load_in_8bit"):
            return 8.0
        return _METHOD_BITS.get(str(method.get("quant_method", "")))
    return _BITS.get(str(config.get("dtype") or config.get("torch_dtype") or ""))
