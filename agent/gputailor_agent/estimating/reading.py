"""A model as a user names it: a ``config.json``, a folder, a safetensors file, a count such as 7B.

Only headers of safetensors are read, never weights. With a ``config.json`` beside it, a checkpoint
gives the exact parameter count and the configuration the layers.
"""

import json
import math
import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from gputailor_agent.estimating.huggingface import is_encoder_decoder, shape_of_config
from gputailor_agent.estimating.images import is_timm, shape_of_timm
from gputailor_agent.estimating.shapes import ModelError, ModelShape, guessed_shape

_COUNT: Final = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([kmbt]?)", re.IGNORECASE)
_FACTORS: Final = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
_FEWEST: Final = 1000
_LONGEST_HEADER: Final = 100_000_000  # safetensors' own limit
_LENGTH: Final = struct.Struct("<Q")
#: Packed types: 4-bit weights lie two in a byte.
_PACKED: Final = ("qweight", "weight_packed", "blocks")
_BITS: Final = {
    "F64": 64,
    "I64": 64,
    "U64": 64,
    "F32": 32,
    "I32": 32,
    "U32": 32,
    "F16": 16,
    "BF16": 16,
    "I16": 16,
    "U16": 16,
    "I8": 8,
    "U8": 8,
    "BOOL": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F4": 4,
}
_SHARD: Final = re.compile(r".*-(\d{5})-of-(\d{5})\.safetensors")


def parameter_count(text: str) -> float | None:
    """``7B``, ``350M``, ``1.3e9`` as a number; None for other texts, and below a thousand.

    A bare 7 is more likely meant as 7B than as seven parameters, so it is asked about.
    """
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        return None
    value = float(match[1]) * _FACTORS[match[2].lower()]
    return value if math.isfinite(value) and value >= _FEWEST else None


def read_model(named: str) -> ModelShape:
    """The model that a user named; raises ``ModelError`` with what was expected."""
    count = parameter_count(named)
    path = Path(named).expanduser()
    if count is not None and not path.exists():
        return guessed_shape(count, named)
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise ModelError(
            f"{named}: no such file; expected a config.json, a folder with one, a .safetensors "
            "file, or a parameter count such as 7B"
        )
    if path.suffix == ".safetensors":
        return _checkpoint(_shards(path), path.with_name("config.json"), path.stem)
    return config_shape(_json(path), str(path))


def config_shape(config: dict[str, Any], place: str) -> ModelShape:
    """The model of a parsed ``config.json`` of Hugging Face or TIMM."""
    if is_timm(config):
        return shape_of_timm(config, place)
    return shape_of_config(config, place)


def _folder(path: Path) -> ModelShape:
    files = sorted(path.glob("*.safetensors"))
    config = path / "config.json"
    if files:
        return _checkpoint(files, config, path.name)
    if config.exists():
        return config_shape(_json(config), str(config))
    raise ModelError(f"{path}: expected a config.json or .safetensors files in the folder")


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: cannot read: {error}") from error
    except json.JSONDecodeError as error:
        told = f"{path}:{error.lineno}:{error.colno}: is not JSON: {error.msg}"
        raise ModelError(f"{told}; expected the config.json of a model") from error
    if not isinstance(found, dict):
        raise ModelError(f"{path}:1: expected a JSON object, found {type(found).__name__}")
    return found


def _shards(path: Path) -> list[Path]:
    """All files of a checkpoint of which one was named."""
    match = _SHARD.fullmatch(path.name)
    if match is None:
        return [path]
    stem = path.name[: match.start(1)]
    found = sorted(path.parent.glob(f"{stem}*-of-{match[2]}.safetensors"))
    if len(found) < int(match[2]):
        raise ModelError(
            f"{path}: {len(found)} of {match[2]} files are here; put the others beside it, or give "
            "the config.json"
        )
    return found


def _checkpoint(files: Iterable[Path], config: Path, name: str) -> ModelShape:
    parameters, stored = 0.0, 0
    for file in files:
        for key, tensor in header_of(file).items():
            size = math.prod(tensor["shape"]) if tensor["shape"] else 1
            bits = _BITS.get(tensor["dtype"], 16)
            parameters += size * _weights_per_element(key, tensor["dtype"])
            stored += size * bits // 8
    if not parameters:
        raise ModelError(f"{name}.safetensors: has no weights; give the model's own checkpoint")
    told = _json(config) if config.exists() else None
    known = None
    if told is not None and not is_encoder_decoder(told):
        known = config_shape(told, str(config))
    shape = known or guessed_shape(parameters, name)
    return msgspec.structs.replace(
        shape,
        parameters=parameters,
        parameters_error=0.0,
        stored_bits=8 * stored / parameters,
    )


def _weights_per_element(name: str, dtype: str) -> int:
    """Weights in one element: 4-bit formats put several into a word or a byte."""
    if dtype == "U8" and name.endswith((".weight", *_PACKED)):  # bitsandbytes, MXFP4
        return 2
    if name.endswith(_PACKED):
        return _BITS.get(dtype, 8) // 4
    return 1


def header_of(path: Path) -> dict[str, dict[str, Any]]:
    """Tensors of a safetensors file by name: ``dtype`` and ``shape``.

    The format: 8 bytes little-endian with the header's length, then that much JSON
    (github.com/huggingface/safetensors). Raises ``ModelError`` for anything else.
    """
    try:
        with path.open("rb") as file:
            first = file.read(_LENGTH.size)
            length = _LENGTH.unpack(first)[0] if len(first) == _LENGTH.size else 0
            raw = file.read(length) if 0 < length <= _LONGEST_HEADER else b""
    except OSError as error:
        raise ModelError(f"{path}: cannot read: {error.strerror}") from error
    if not raw:
        raise ModelError(f"{path}: is no safetensors file: its header has no length")
    try:
        header = json.loads(raw)
        tensors = {key: value for key, value in header.items() if key != "__metadata__"}
        for value in tensors.values():
            value["shape"] = [abs(int(one)) for one in value["shape"]]
            value["dtype"] = str(value["dtype"])
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise ModelError(f"{path}: is no safetensors file: its header is damaged") from error
    return tensors
