"""Keeps secrets out of the inventory: it is stored and printed, and needs none of them."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_SECRET_NAME: Final = re.compile(
    r"(?:^|[_.-])(?:token|secret|passw(?:or)?d|passphrase|pwd|credentials?|key|apikey|accesskey|"
    r"auth(?:orization)?|bearer|cookie|dsn|pat|sas)(?:$|[_.-])",
    re.IGNORECASE,
)
_SECRET_FLAG: Final = re.compile(
    r"--?(?:[a-z0-9_.-]*[_.-])?(?:token|secret|passw(?:or)?d|api[_-]?key)", re.IGNORECASE
)
_SECRET_INLINE: Final = re.compile(
    r"((?<![a-z0-9])(?:[a-z0-9_-]*[_-])?(?:token|secret|passw(?:or)?d|api[_-]?key)(?:=|\s+))(?!-)[^\s'\"]+",
    re.IGNORECASE,
)
#: Prefixes by which the issuers' own scanners know their tokens; JSON web tokens; private keys.
_SECRET_VALUE: Final = re.compile(
    r"\b(?:hf_|sk-|gh[pousr]_|github_pat_|glpat-|AKIA|ASIA|AIza|xox[abpr]-|nvapi-|npm_|pypi-|"
    r"dop_v1_|eyJ[A-Za-z0-9_-]+\.eyJ)[A-Za-z0-9_.-]{12,}"
)
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_USER_INFO: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")
#: Letters of both cases and digits without a word's or a path's marks: nobody types that.
_RANDOM: Final = re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9+=]{24,}")
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
    plain = _SECRET_VALUE.sub(MASK, _SECRET_INLINE.sub(rf"\1{MASK}", argument))
    return _USER_INFO.sub(MASK, plain) if "@" in plain else plain


@lru_cache(maxsize=4096)
def mask_value(value: str) -> str:
    """A variable's value without what looks like a credential, whatever the variable is called."""
    if _RANDOM.fullmatch(value) or _PRIVATE_KEY.search(value):
        return MASK
    return mask_text(value)


def mask_arguments(arguments: Iterable[str]) -> tuple[str, ...]:
    """Arguments with secrets masked, also where option and value are two arguments."""
    masked, hide_next = [], False
    for argument in arguments:
        masked.append(MASK if hide_next and not argument.startswith("-") else mask_text(argument))
        hide_next = _SECRET_FLAG.fullmatch(argument) is not None
    return tuple(masked)
