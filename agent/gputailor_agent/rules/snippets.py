"""Lines of code for what a rule advises, by topic and framework, with the framework's own pages.

They stand in ``snippets.yaml`` beside this module. A framework that is not known gets the pages of
all frameworks, and no code.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

import msgspec
import yaml

from gputailor_agent.model.inventory import Workload

#: Frameworks and engines as ``inventory/classify.yaml`` names them -> whose code they run.
_FAMILIES: Final = {
    "pytorch": "PyTorch",
    "deepspeed": "PyTorch",
    "huggingface": "PyTorch",
    "torchserve": "PyTorch",
    "tensorflow": "TensorFlow",
    "tensorflow_serving": "TensorFlow",
    "jax": "JAX",
    "mindspore": "MindSpore",
}


class Lines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of ``snippets.yaml``."""

    link: str
    code: str


@dataclass(frozen=True, slots=True)
class Snippet:
    """``framework`` is '' where it is not known; then there are links of all and no code."""

    framework: str
    code: str
    links: tuple[str, ...]


@cache
def snippet_table() -> dict[str, dict[str, Lines]]:
    """The whole table: topic -> framework -> lines."""
    text = resources.files(__package__).joinpath("snippets.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), dict[str, dict[str, Lines]])


def family(workload: Workload) -> str:
    """Whose code a workload runs, '' where that is not known."""
    return _FAMILIES.get(workload.framework, "")


def snippet(topic: str, workload: Workload, **values: float) -> Snippet:
    """Return the lines for a topic (``KeyError`` for one that is not in the table).

    ``values`` fill names in double braces, e.g. ``workers``.
    """
    known = snippet_table()[topic]
    framework = family(workload)
    if framework not in known:
        return Snippet("", "", tuple(lines.link for lines in known.values()))
    code = known[framework].code
    for name, value in values.items():
        code = code.replace(f"{{{{{name}}}}}", f"{value:g}")
    return Snippet(framework, code, (known[framework].link,))
