"""The model that a workload's own arguments or environment name, and what it needs.

For rules: pure, no file and no network. Known are vLLM, SGLang, Text Generation Inference and the
flags of Hugging Face's Trainer. What an argument does not say has the engine's default.
"""

import itertools
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from gputailor_agent.estimating.amounts import Estimate
from gputailor_agent.estimating.known import known_shape, named_packing
from gputailor_agent.estimating.serving import CACHE_BITS, WEIGHT_BITS, Serving, estimate_serving
from gputailor_agent.estimating.shapes import ModelError, ModelShape
from gputailor_agent.estimating.training import Training, estimate_training

_MODEL_FLAGS: Final = (
    *("--model", "--model-id", "--model-path", "--model-name-or-path", "--base-model"),
)
_MODEL_VARIABLES: Final = ("MODEL_ID", "HF_MODEL_ID", "MODEL_NAME", "MODEL", "VLLM_MODEL")
_SERVING: Final = re.compile(
    r"(?<![a-z])(vllm|sglang|text-generation-(?:launcher|inference|server)|lightllm|lmdeploy)(?![a-z])"
)
_TRAINING_FLAGS: Final = ("--per-device-train-batch-size", "--gradient-accumulation-steps")
_DTYPES: Final = {
    "half": "fp16",
    "float16": "fp16",
    "fp16": "fp16",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float": "fp32",
    "float32": "fp32",
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "int8": "int8",
    "awq": "int4",
    "gptq": "int4",
    "bitsandbytes": "int4",
    "w4a16": "int4",
    "awq_marlin": "int4",
    "gptq_marlin": "int4",
    "bitsandbytes-nf4": "int4",
}
#: Sequences an engine is taken to hold at once where nothing says how many.
_HELD: Final = 1


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """What a workload says of its model. ``evidence``: the arguments that said it.

    ``memory_utilisation``: share of the card that the engine takes (vLLM: 0.9 unless said).
    """

    model: str
    shape: ModelShape
    task: Literal["serving", "training"]
    serving: Serving | None
    training: Training | None
    memory_utilisation: float | None
    evidence: tuple[str, ...]


def stated_model(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None, image: str = ""
) -> Stated | None:
    """The model of a container's command with arguments, environment and image; else None.

    None where no model is named, where its size is not known (a path), and where nothing tells
    that it is served by an engine or trained with the Trainer's flags.
    """
    words = _words(arguments)
    flags = _flags(words)
    name, evidence = _model_name(words, flags, environment or {})
    shape = known_shape(name) if name else None
    if shape is None:
        return None
    if _SERVING.search(" ".join([image, *words])) is None:
        if not any(flag in flags for flag in _TRAINING_FLAGS):
            return None
        training, told = _training(flags)
        return Stated(
            model=name,
            shape=shape,
            task="training",
            serving=None,
            training=training,
            memory_utilisation=None,
            evidence=(evidence, *told),
        )
    serving, told = _serving(name, shape, flags)
    return Stated(
        model=name,
        shape=shape,
        task="serving",
        serving=serving,
        training=None,
        memory_utilisation=_utilisation([image, *words], flags),
        evidence=(evidence, *told),
    )


def stated_estimate(stated: Stated) -> Estimate | None:
    """Memory per GPU that the stated model needs at least; None where the settings clash.

    Serving: the weights and the cache of the sequences stated (one of full length unless told), not
    what an engine pre-allocates.
    """
    try:
        if stated.training is not None:
            return estimate_training(stated.shape, stated.training)
        return None if stated.serving is None else estimate_serving(stated.shape, stated.serving)
    except ModelError:
        return None


def _words(arguments: Sequence[str]) -> list[str]:
    """Words of a command; a shell's script is taken apart."""
    words: list[str] = []
    for argument in arguments:
        if any(mark in argument for mark in " \n\t"):
            try:
                words += shlex.split(argument.replace("\\\n", " "), comments=True)
            except ValueError:
                words += argument.split()
        else:
            words.append(argument)
    return words


def _flags(words: Iterable[str]) -> dict[str, str]:
    """Flags with their values, ``_`` written as ``-``."""
    flags: dict[str, str] = {}
    last = ""
    for word in words:
        if word.startswith("-") and not word[1:2].isdigit():
            name, equals, value = word.partition("=")
            last = name.replace("_", "-").lower()
            flags[last] = value
            last = "" if equals else last
        elif last:
            flags[last], last = word, ""
    return flags


def _model_name(
    words: Sequence[str], flags: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[str, str]:
    """The model's id and what named it."""
    for flag in _MODEL_FLAGS:
        if flags.get(flag):
            return flags[flag], f"{flag} {flags[flag]}"
    for before, word in itertools.pairwise(words):
        if before == "serve" and not word.startswith("-"):
            return word, f"serve {word}"
    for variable in _MODEL_VARIABLES:
        if environment.get(variable):
            return environment[variable], f"{variable}={environment[variable]}"
    return "", ""


def _number(flags: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmM]?)", flags.get(name, ""))
        if match:
            factor = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 1024**2}[match[2]]
            return int(float(match[1]) * factor) or None
    return None


def _told(flags: Mapping[str, str], *names: str) -> tuple[str, ...]:
    return tuple(f"{name} {flags[name]}".strip() for name in names if name in flags)


def _serving(
    name: str, shape: ModelShape, flags: Mapping[str, str]
) -> tuple[Serving, tuple[str, ...]]:
    packed = _DTYPES.get(flags.get("--quantization", flags.get("--quantize", "")).lower())
    dtype = _DTYPES.get(flags.get("--dtype", "").lower())
    weights = packed or named_packing(name) or _stored(shape) or dtype or "bf16"
    cache = _DTYPES.get(flags.get("--kv-cache-dtype", "").lower()) or dtype or "bf16"
    lengths = ("--max-model-len", "--context-length", "--max-total-tokens")
    sizes = ("--tensor-parallel-size", "-tp", "--tp-size", "--tp", "--num-shard")
    settings = Serving(
        weights=weights if weights in WEIGHT_BITS else "bf16",
        cache=cache if cache in CACHE_BITS else "bf16",
        batch=_number(flags, "--max-num-seqs", "--max-running-requests") or _HELD,
        sequence=_number(flags, *lengths) or shape.positions or 4096,
        gpus=_number(flags, *sizes) or 1,
        prefill=_number(flags, "--max-num-batched-tokens", "--chunked-prefill-size") or 2048,
    )
    names = ("--dtype", "--quantization", "--quantize", "--kv-cache-dtype", "--max-num-seqs")
    return settings, _told(flags, *names, *lengths, *sizes)


def _stored(shape: ModelShape) -> str | None:
    """Number type that a checkpoint with fewer than 16 bits is kept in."""
    bits = shape.stored_bits
    if bits is None or bits >= WEIGHT_BITS["bf16"]:
        return None
    return "int4" if bits < WEIGHT_BITS["fp8"] else "fp8"


def _utilisation(words: Sequence[str], flags: Mapping[str, str]) -> float | None:
    for name in ("--gpu-memory-utilization", "--mem-fraction-static"):
        try:
            return float(flags[name])
        except (KeyError, ValueError):
            continue
    return 0.9 if any("vllm" in word for word in words) else None


def _training(flags: Mapping[str, str]) -> tuple[Training, tuple[str, ...]]:
    half = any(
        flags.get(name, "false").lower() in {"", "true", "1"} for name in ("--bf16", "--fp16")
    )
    optimizer = flags.get("--optim", "").lower()
    checkpointed = flags.get("--gradient-checkpointing", "false").lower() in {"", "true", "1"}
    lengths = (
        "--max-seq-length",
        "--max-seq-len",
        "--model-max-length",
        "--block-size",
        "--cutoff-len",
    )
    ranks = ("--lora-r", "--lora-rank")
    settings = Training(
        precision="amp" if half else "fp32",
        optimizer="adamw8bit"
        if "8bit" in optimizer
        else "adafactor"
        if "adafactor" in optimizer
        else "adamw",
        batch=_number(flags, "--per-device-train-batch-size") or 8,
        sequence=_number(flags, *lengths) or 1024,
        lora_rank=_number(flags, *ranks),
        checkpointing="full" if checkpointed else "none",
    )
    names = (
        "--bf16",
        "--fp16",
        "--optim",
        "--per-device-train-batch-size",
        "--gradient-checkpointing",
    )
    return settings, _told(flags, *names, *lengths, *ranks)
