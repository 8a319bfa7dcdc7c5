r"""One sample line of the text format 0.0.4 or of OpenMetrics, taken apart with care.

Slow and strict: the fast reader in ``exposition`` comes here once per series. Escapes in label
values are those of the formats: ``\\``, ``\"`` and ``\n``; any other backslash stands for
itself.
"""

import re
from typing import Final, NamedTuple

from gputailor_agent.sources.lines import LONGEST

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*')
_ESCAPE: Final = re.compile(r'\\[\\n"]')
_UNESCAPED: Final = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}
_LONE_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")

_SAMPLE: Final = "'name{label=\"value\",…} number [timestamp]'"


class SyntaxFault(Exception):  # noqa: N818 - it is the file's fault, told on as a Problem
    """A line breaks the format; the text says what was expected."""


class Series(NamedTuple):
    """A metric's name and labels, and the rest of the line: ``value [timestamp] [# exemplar]``."""

    name: str
    labels: dict[str, str]
    rest: str


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _UNESCAPED[match[0]], text) if "\\" in text else text


def _labels(line: str, at: int) -> tuple[dict[str, str], int]:
    """Labels from just behind the opening brace; also where the text behind the closing one is."""
    found: dict[str, str] = {}
    while True:
        match = _LABEL.match(line, at)
        if match is None:
            break
        if match[1] in found:
            raise SyntaxFault(f"each label once, not {match[1]!r} twice")
        found[match[1]] = _unescape(match[2])
        at = match.end()
        if not line.startswith(",", at):
            break
        at += 1
    stripped = line[at:].lstrip(" \t")
    if not stripped.startswith("}"):
        raise SyntaxFault('labels as {name="value",…} with a closing brace')
    return found, len(line) - len(stripped) + 1


def parse_series(line: str) -> Series:
    """Take a sample line apart up to its value.

    Raises ``SyntaxFault`` when it is no sample line.
    """
    if len(line) > LONGEST:
        raise SyntaxFault(f"lines of at most {LONGEST:,} characters")
    if _LONE_SURROGATE.search(line):
        raise SyntaxFault("UTF-8 text")
    line = line.strip(" \t\r")
    match = _NAME.match(line)
    if match is None:
        raise SyntaxFault(_SAMPLE)
    at, labels = match.end(), dict[str, str]()
    brace = line[at:].lstrip(" \t")
    if brace.startswith("{"):
        labels, at = _labels(line, len(line) - len(brace) + 1)
    elif not line.startswith((" ", "\t"), at):
        raise SyntaxFault(_SAMPLE)
    rest = line[at:].strip(" \t")
    if not rest:
        raise SyntaxFault("a number behind the series")
    return Series(match[0], labels, rest)


def split_value(rest: str) -> tuple[str, str]:
    """Value and timestamp ('' when there is none) of what follows a series; exemplars are left.

    Raises ``SyntaxFault`` when there are more words than that.
    """
    words = rest.partition("#")[0].split()
    if not 1 <= len(words) <= 2:  # noqa: PLR2004 - value and timestamp
        raise SyntaxFault(_SAMPLE)
    return words[0], words[1] if len(words) > 1 else ""
