"""Signs that a program is compiled already, or is kept from it, in its arguments and variables."""

import re
from typing import Final

from gputailor_agent.model.inventory import ContainerSpec

#: Engines that bring kernels of their own and launch them as CUDA graphs unless told not to.
ENGINES: Final = frozenset({"vllm", "sglang", "tensorrt_llm", "tgi", "nim", "lmdeploy", "mindie"})
#: What tells an engine to launch kernel by kernel (vLLM; SGLang).
_EAGER: Final = re.compile(
    r"^--(enforce[-_]eager|disable[-_]cuda[-_]graph)(=(true|1|yes))?$", re.IGNORECASE
)
_OPTION: Final = re.compile(
    r"^--?(?:[\w.-]*[._-])?(torch[-_]?compile(?:[-_]\w+)?|compile|jit[-_]compile|use[-_]xla|xla)"
    r"(?:=(\S*))?$",
    re.IGNORECASE,
)
_NO: Final = frozenset({"0", "false", "no", "off", "none"})
#: Variables that switch a compiler on, with the words in their value that do.
_VARIABLES: Final = {
    "TF_XLA_FLAGS": re.compile(r"--tf_xla_auto_jit=(?!-1|0)"),
    "ACCELERATE_DYNAMO_BACKEND": re.compile(r"^(?!no$|$)", re.IGNORECASE),
    "TORCH_COMPILE": re.compile(r"^(1|true|yes)$", re.IGNORECASE),
}


def compile_sign(container: ContainerSpec) -> str:
    """Return what says that the program is compiled, '' where nothing does."""
    words = _words(container)
    for place, word in enumerate(words):
        option = _OPTION.match(word)
        if option is None:
            continue
        value = option.group(2)
        if value is None:
            after = words[place + 1] if place + 1 < len(words) else ""
            value = "" if after.startswith("-") else after
        if value.strip("'\"").lower() not in _NO:
            return f"argument {word.partition('=')[0]}"
    for name, sign in _VARIABLES.items():
        if name in container.env and sign.search(container.env[name]):
            return f"variable {name}"
    return ""


def eager_sign(container: ContainerSpec) -> str:
    """Return the option that keeps an engine from CUDA graphs, '' where there is none."""
    return next((word for word in _words(container) if _EAGER.match(word)), "")


def _words(container: ContainerSpec) -> list[str]:
    return " ".join((*container.command, *container.args)).split()
