"""A TIMM ``config.json`` as a ``ModelShape``.

Such a file names the architecture and the input size but not the layers. Plain ViTs are known by
their name; of the others parameters and activations are in ``image_models.csv``, out of the
project's own published results (pytorch-image-models, Apache-2.0).
"""

import csv
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from gputailor_agent.estimating.counting import ENCODERS, Sizes, count
from gputailor_agent.estimating.shapes import ModelError, ModelShape
from gputailor_agent.model.nearest import did_you_mean

_VIT: Final = re.compile(
    r"(?:vit|deit|deit3)_(tiny|small|base|large|huge)_patch(\d+)(?:\D*_(\d+))?"
)
#: Width, layers and heads: Dosovitskiy et al. 2021, table 1; Touvron et al. 2021, table 1.
_VIT_SIZES: Final = {
    "tiny": (192, 12, 3),
    "small": (384, 12, 6),
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
    "huge": (1280, 32, 16),
}
_SIDE: Final = 224


@cache
def _table() -> dict[str, dict[str, str]]:
    text = resources.files(__package__).joinpath("image_models.csv").read_text("utf-8")
    return {row["architecture"]: row for row in csv.DictReader(text.splitlines())}


def is_timm(config: Mapping[str, Any]) -> bool:
    """Whether a configuration is TIMM's."""
    return "architecture" in config and "model_type" not in config


def shape_of_timm(config: Mapping[str, Any], place: str) -> ModelShape:
    """The model of a TIMM configuration; raises ``ModelError`` for an unknown architecture."""
    name = str(config["architecture"]).split(".")[0]
    side = _side(config)
    classes = config.get("num_classes")
    labels = classes if isinstance(classes, int) else 1000
    match = _VIT.match(name)
    if match is not None:
        return _vit(name, match, side, labels)
    row = _table().get(name)
    if row is None:
        raise ModelError(
            f"{place}: the TIMM architecture {name!r} is not known; give a parameter count such as "
            f"25M instead{did_you_mean(name, _table())}"
        )
    base = int(row["image_size"])
    used = side or base
    return ModelShape(
        name=name,
        kind="convolutional",
        parameters=float(row["parameters_m"]) * 1e6,
        parameters_error=0.02,
        activations_per_image=float(row["activations_m"]) * 1e6 * (used / base) ** 2,
    )


def _side(config: Mapping[str, Any]) -> int | None:
    for holder in (config, config.get("pretrained_cfg"), config.get("model_args")):
        if isinstance(holder, dict):
            size = holder.get("input_size") or holder.get("img_size")
            if isinstance(size, list) and size and isinstance(size[-1], int):
                return size[-1]
            if isinstance(size, int):
                return size
    return None


def _vit(name: str, match: re.Match[str], side: int | None, labels: int) -> ModelShape:
    hidden, layers, heads = _VIT_SIZES[match[1]]
    patch = int(match[2])
    used = side or int(match[3] or _SIDE)
    tokens = (used // patch) ** 2 + 1
    sizes = Sizes(
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=heads,
        head_size=hidden // heads,
        intermediate=4 * hidden,
        vocabulary=0,
        positions=tokens,
    )
    stem = 3 * patch * patch * hidden + hidden + hidden  # patches, class token
    extra = stem + 2 * hidden + hidden * labels + labels
    return ModelShape(
        name=name,
        kind="encoder",
        parameters=float(count(sizes, ENCODERS["vit"], extra=extra).parameters),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_size=hidden // heads,
        intermediate=4.0 * hidden,
        tokens=tokens,
    )
