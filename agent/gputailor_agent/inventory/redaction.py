"""Keeps secrets out of the inventory: it is stored and printed, and needs none of them."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_SECRET_NAME: Final = re.compile(
    r"(?:^|[_.-])(?:token|secret|passw(?:or)?d|pwd|credentials?|key|apikey)(?:$|[_.-])",
    re.IGNORECASE,
)
_SECRET_FLAG: Final = re.compile(
    r"--?(?:[a-z0-9_.-]*[_.-])?(?:token|secret|passw(?:or)?d|api[_-]?key)", re.IGNORECASE
)
_SECRET_INLINE: Final = re.compile(
    r"((?<![a-z0-9])(?:[a-z0-9_-]*[_-])?(?:token|secret|passw(?:or)?d|api[_-]?key)(?:=|\s+))(?!-)[^\s'\"]+",
    re.IGNORECASE,
)
_SECRET_VALUE: Final = re.compile(r"\b(?:hf_|sk-|ghp_|glpat-|AKIA)[A-Za-z0-9_-]{12,}")
MASK: Final = "***"


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether an environment variable's name says that its value is a secret."""
    return _SECRET_NAME.search(name) is not None


@lru_cache(maxsize=4096)
def mask_text(argument: str) -> str:
    """A command line with the values of token, password and key options masked."""
    if len(argument) < 6:  # noqa: PLR2004 - shorter than any option that could carry a secret
        return argument
    return _SECRET_VALUE.sub(MASK, _SECRET_INLINE.sub(rf"\1{MASK}", argument))


def mask_arguments(arguments: Iterable[str]) -> tuple[str, ...]:
    """Arguments with secrets masked, also where option and value are two arguments."""
    masked, hide_next = [], False
    for argument in arguments:
        masked.append(MASK if hide_next and not argument.startswith("-") else mask_text(argument))
        hide_next = _SECRET_FLAG.fullmatch(argument) is not None
    return tuple(masked)
