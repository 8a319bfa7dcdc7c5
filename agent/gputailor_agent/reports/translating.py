"""Texts that rules, planner and sources put together, in the language that is spoken.

A number's name, a formula, a way back and what could not be read are plain text where they are
made, since the parts below the reports know no languages. ``told_texts`` finds them in the source;
those with something in them stand in the catalogue as patterns (``peak x {factor}``). Here a text
is looked up as it is, then by the patterns, the most special first, then sentence by sentence. What
fits nothing reads in English.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from gputailor_agent.reports.catalogues import Catalogue, catalogue, spoken
from gputailor_exporter.metrics import Signal

#: Texts that no literal of the source holds whole: put together of several, or of a single word.
PATTERNS: Final = (
    "mean {signal}",
    "{signal} active",
    "p95({signal})",
    "{formula}, at the price per GPU-hour",
    "[max(1, N mean({signal}) / k), N / k], N: GPUs that worked",
    "{model}: allocated + free + unavailable + unknown = capacity",
    "time left at least",
    "time left at most",
    "least cost of the present one",
    "most cost of the present one",
    "{file}:{line}: {what}",
    "in {place}",
    "argument {name}",
    "variable {name}",
    "label {name}",
    "annotation {name}",
    "document {number} (line {line})",
    "document {number}",
    "log {name}",
    "sampled",
    "median over providers of the cheapest list price per GPU",
    "overlap of {number}",
    "sum of {number}",
    "first {share} of the time of: {data}",
    "all applications of: {data}",
    "all jobs on one GPU of: {data}",
    "half of the job configurations (limits: all) of: {data}",
    "jobs measured with and without it: {data}",
    "public status page of a university cluster, one page per {minutes} minutes ({cards})",
    "Sia artifact: data-parallel training on three clusters",
    "what others reach: each left out",
    "what others reach: each left out in turn",
)
#: Names that stay as they are: signals, as metrics and settings have them.
_NAMES: Final = frozenset(map(str, Signal)) | {"width"}
_PLACE: Final = re.compile(r"\{(\w+)\}")
#: Where a text that fits nothing is cut; the catalogue has what stands there instead.
CUTS: Final = ("; ", ". ", ": ", ", ", " or ")
_KEPT: Final = 8192


@dataclass(frozen=True)
class _Pattern:
    """A pattern, what fits it, and a part of it that every such text holds."""

    text: str
    shape: re.Pattern[str]
    literal: str
    weight: int


def translated(text: str) -> str:
    """A text of the parts below in the language spoken; names and numbers in it stay."""
    known = spoken()
    return text if known.english else _translated(text, known.name)


@lru_cache(maxsize=_KEPT)
def _translated(text: str, language: str) -> str:
    if not text or text in _NAMES:
        return text
    known = catalogue(language)
    whole = known.get(text)
    if whole != text:
        return whole
    for pattern in _patterns(language):
        if pattern.literal in text:
            found = pattern.shape.fullmatch(text)
            if found:
                parts = {
                    name: _translated(part, language) for name, part in found.groupdict().items()
                }
                return known.get(pattern.text).format(**parts)
    if text != text.strip():  # a part that joins another one by its blank
        told = _translated(text.strip(), language)
        return text if told == text.strip() else told
    if text.endswith("."):  # the catalogue has such sentences without
        told = _translated(text[:-1], language)
        return text if told == text[:-1] else told + known.get(".")
    return _by_parts(text, language)


def _by_parts(text: str, language: str) -> str:
    """The text with those of its sentences and listed words translated that are known."""
    known = catalogue(language)
    for cut in CUTS:
        parts = text.split(cut)
        if len(parts) > 1:
            told = [_translated(part, language) for part in parts]
            if told != parts:
                return known.get(cut).join(told)
    return text


@cache
def _patterns(language: str) -> tuple[_Pattern, ...]:
    """The patterns of a catalogue, the longest first."""
    found = catalogue(language)
    made = [_pattern(text) for text in _told(found)]
    return tuple(sorted(made, key=lambda one: (-one.weight, one.text)))


def _told(known: Catalogue) -> Iterable[str]:
    return (text for text in known.told if _PLACE.search(text))


def _pattern(text: str) -> _Pattern:
    parts = _PLACE.split(text)
    literals, names = parts[::2], parts[1::2]
    shape = re.escape(literals[0])
    for name, literal in zip(names, literals[1:], strict=True):
        place = f"(?P={name})" if f"(?P<{name}>" in shape else f"(?P<{name}>.*?)"
        shape += f"{place}{re.escape(literal)}"
    return _Pattern(
        text=text,
        shape=re.compile(shape, re.DOTALL),
        literal=max(literals, key=len),
        weight=sum(map(len, literals)),
    )
