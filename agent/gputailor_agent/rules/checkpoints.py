"""Signs that a program saves its state and goes on from it, as its arguments and variables say.

Activation checkpointing (recomputing, to save memory) is another thing of nearly the same name, and
so is a trained model that is only loaded: neither is taken for a sign.
"""

import re
from typing import Final

from gputailor_agent.model.inventory import ContainerSpec

#: People may say so themselves, with any words but those of ``_NO``.
ANNOTATION: Final = "gputailor.io/checkpoints"
_NO: Final = frozenset(
    {"", "no", "none", "false", "0", "off", "never", "-1", "null", "nil", "inf", "disabled"}
)
_OTHER: Final = re.compile(
    r"(gradient|activation|recompute|pretrained|init|load|teacher|wandb"
    r"|(^|[-_.])(no|not|dont|don|disable|disabled|without|skip|never)([-_.]|$))",
    re.IGNORECASE,
)
_SIGN: Final = re.compile(
    r"(checkpoint|ckpt)s?[-_.]?(dir|folder|path|root|uri|interval|every|freq|frequency|steps|"
    r"epochs|period|minutes|seconds)"
    r"|save[-_.](steps|strategy|interval|every|freq|frequency|checkpoint|ckpt|total[-_]limit)"
    r"|(auto[-_.]?)?resume([-_.](from|training|run|ckpt|checkpoint).*)?"
    r"|snapshot[-_.](dir|path|interval|every|freq)",
    re.IGNORECASE,
)
_OPTION: Final = re.compile(r"-{1,2}([A-Za-z][\w.-]*)(?:=(\S*))?")


def checkpoint_sign(container: ContainerSpec, annotations: dict[str, str]) -> str:
    """Return what says that the program saves and resumes, '' where nothing does."""
    said = annotations.get(ANNOTATION)
    if said is not None:
        return "" if said.strip().lower() in _NO else f"annotation {ANNOTATION}"
    words = " ".join((*container.command, *container.args)).split()
    for place, word in enumerate(words):
        option = _OPTION.fullmatch(word)
        if option is None or not _is_sign(option.group(1)):
            continue
        value = option.group(2)
        if value is None:
            after = words[place + 1] if place + 1 < len(words) else ""
            value = "yes" if not after or re.match(r"-+[A-Za-z]", after) else after
        if _means(value):
            return f"argument --{option.group(1)}"
    for name, value in sorted(container.env.items()):
        if _is_sign(name) and _means(value):
            return f"variable {name}"
    return ""


def _is_sign(name: str) -> bool:
    if _OTHER.search(name):
        return False
    # A prefix of words (``trainer.``, ``TRAINING_``) may stand before the sign, nothing after it.
    tail = re.split(r"(?<=[._-])", name)
    return any(_SIGN.fullmatch("".join(tail[start:])) for start in range(len(tail)))


def _means(value: str) -> bool:
    return value.strip("'\"").lower() not in _NO
