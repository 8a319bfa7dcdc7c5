"""Selectors of PromQL, with every label value escaped."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

#: Names in one alternation: keeps a request's body, and the server's regular expression, small.
NAMES_AT_ONCE: Final = 100

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL: Final = re.compile(r"[.+*?()|\[\]{}^$\\]")


def quoted(text: str) -> str:
    """Return the text as a string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def one_of(label: str, values: Iterable[str]) -> str:
    """Return a matcher for any of the values; '' matches a missing label."""
    distinct = sorted(set(values))
    if len(distinct) == 1:
        return f"{label}={quoted(distinct[0])}"
    pattern = "|".join(_SPECIAL.sub(r"\\\g<0>", value) for value in distinct)
    return f"{label}=~{quoted(pattern)}"


def equal(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return a matcher for each label.

    A name with other signs than letters, digits and ``_`` is quoted, as Prometheus 3 has it.
    """
    return tuple(f"{_named(name)}={quoted(value)}" for name, value in labels.items())


def _named(label: str) -> str:
    return label if _PLAIN.fullmatch(label) else quoted(label)


def selector(names: Sequence[str], *matchers: str) -> str:
    """Return a selector of one or more metric names with matchers."""
    if len(names) == 1:
        return f"{names[0]}{{{','.join(matchers)}}}" if matchers else names[0]
    return f"{{{','.join((one_of('__name__', names), *matchers))}}}"


def chunks(values: Iterable[T], size: int = NAMES_AT_ONCE) -> Iterator[list[T]]:
    """Yield the values in lists of at most ``size``."""
    part: list[T] = []
    for value in values:
        part.append(value)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part
