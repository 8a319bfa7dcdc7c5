"""Public models that are known by name, where no ``config.json`` is at hand.

``known_models.yaml`` has the keys of their ``config.json`` that decide memory. An id that is not
there may still tell its parameter count (``…-13b``).
"""

import re
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec
import yaml

from gputailor_agent.estimating.huggingface import shape_of_config
from gputailor_agent.estimating.shapes import ModelShape, guessed_shape

#: Words of an id that name a tuning or a packing, not another size.
_TUNED: Final = re.compile(
    r"[-_](instruct|chat|it|hf|base|sft|dpo|preview|turbo|fp8|awq|gptq|bnb|nf4|mxfp4|dynamic|"
    r"int[48]|w[48]a(?:8|16)|[48]bit|v0\.\d|\d{4}|quantized\.[a-z0-9]+)(?=$|[-_])"
)
_SIZE: Final = re.compile(r"(?<![\w.])(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z0-9])")
_PACKED_BITS: Final = (
    (re.compile(r"awq|gptq|int4|4bit|nf4|w4a16|mxfp4"), "int4"),
    (re.compile(r"fp8"), "fp8"),
    (re.compile(r"int8|8bit|w8a(?:8|16)"), "int8"),
)


class KnownModel(msgspec.Struct, frozen=True):
    """A public model."""

    names: tuple[str, ...]
    parameters: int
    config: dict[str, Any]


@cache
def known_models() -> tuple[KnownModel, ...]:
    """All of ``known_models.yaml``."""
    text = resources.files(__package__).joinpath("known_models.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), tuple[KnownModel, ...])


@cache
def _by_name() -> dict[str, KnownModel]:
    return {name: model for model in known_models() for name in model.names}


def plain_name(model_id: str) -> str:
    """An id without owner, tuning and packing.

    ``meta-llama/Llama-3.1-8B-Instruct`` -> ``llama-3.1-8b``.
    """
    name = model_id.strip().rstrip("/").rsplit("/", 1)[-1].lower()
    before = ""
    while name != before:
        before, name = name, _TUNED.sub("", name)
    return re.sub(r"^meta-(?=llama)", "", name)


def known_shape(model_id: str) -> ModelShape | None:
    """The model of an id: known sizes, else its count guessed from the name, else None.

    A count out of the name is rounded, so the guess says that it is 10 % off; an id of experts
    such as ``8x22b`` names sizes that do not add up, so it is not guessed.
    """
    whole = model_id.strip().rstrip("/").rsplit("/", 1)[-1].lower()
    name = plain_name(model_id)
    model = _by_name().get(whole) or _by_name().get(name)
    if model is not None:
        return shape_of_config(model.config, name, name)
    sizes = [match for match in _SIZE.finditer(name) if match[1] is None]
    if len(sizes) != 1 or any(match[1] for match in _SIZE.finditer(name)):
        return None
    if float(sizes[0][2]) <= 0:
        return None
    guess = guessed_shape(float(sizes[0][2]) * 1e9, name)
    return msgspec.structs.replace(guess, parameters_error=0.1)


def named_packing(model_id: str) -> str | None:
    """The weights' number type where an id tells it: ``int4``, ``fp8``, ``int8``; else None."""
    name = model_id.rsplit("/", 1)[-1].lower()
    return next((bits for pattern, bits in _PACKED_BITS if pattern.search(name)), None)
