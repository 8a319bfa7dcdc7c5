"""Lines for inference servers, by topic and engine, and the number formats that a card has.

Lines stand in ``serving.yaml``. Formats go by compute capability (NVIDIA, TensorRT-LLM's support
matrix): FP16 from 7.0, INT8 from 7.5, BF16 from 8.0, FP8 from 8.9.
"""

from functools import cache
from importlib import resources
from typing import Final

import msgspec
import yaml

from gputailor_agent.model.inventory import Workload
from gputailor_agent.rules.snippets import Lines, Snippet, family

Capability = tuple[int, int]

_FORMATS: Final[tuple[tuple[str, Capability], ...]] = (
    ("FP8", (8, 9)),
    ("BF16", (8, 0)),
    ("INT8", (7, 5)),
    ("FP16", (7, 0)),
)
_OTHER: Final = "other"
#: Further tools that serve or compile models, whatever made them.
TOOLS: Final = (
    "https://docs.nvidia.com/deeplearning/tensorrt/latest/index.html",
    "https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/index.html",
    "https://onnxruntime.ai/docs/",
    "https://tvm.apache.org/docs/",
)


@cache
def serving_table() -> dict[str, dict[str, Lines]]:
    """The whole table: topic -> engine, framework or ``other`` -> lines."""
    text = resources.files(__package__).joinpath("serving.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), dict[str, dict[str, Lines]])


def serving_lines(topic: str, workload: Workload, **values: str) -> Snippet:
    """Return the lines of a topic for the workload's engine, else its framework, else any.

    ``values`` fill names in double braces. Raises ``KeyError`` for a topic there is not.
    """
    known = serving_table()[topic]
    named = (workload.framework, family(workload))
    found = next((name for name in named if name in known), _OTHER)
    code = known[found].code
    for name, value in values.items():
        code = code.replace(f"{{{{{name}}}}}", value)
    return Snippet("" if found == _OTHER else found, code, (known[found].link, *TOOLS))


def formats_of(capability: Capability | None) -> tuple[str, ...]:
    """Number formats that cards of this compute capability compute in; none where not known."""
    if capability is None:
        return ()
    return tuple(name for name, least in _FORMATS if capability >= least)
