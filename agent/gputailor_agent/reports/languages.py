"""A language as a value: what pages, mails and commands ask for texts, numbers and dates.

``language("zh").text("Workloads")`` translates one text; ``with language("zh").spoken():`` makes
everything composed inside (a plan's page, an explanation, a document) in that language, which is
the way to whole reports. Names of languages are those of ``catalogues.names()``.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any

from gputailor_agent.model.judgement import Message, Money, Scalar
from gputailor_agent.reports import plurals, units
from gputailor_agent.reports.catalogues import (
    ENGLISH,
    Catalogue,
    UnknownLanguageError,
    _,
    catalogue,
    names,
    negotiated,
    speaking,
)
from gputailor_agent.reports.wording import say

__all__ = ["ENGLISH", "Language", "UnknownLanguageError", "language", "names", "negotiated"]


@dataclass(frozen=True)
class Language:
    """One language. None is unknown everywhere, and reads so in that language."""

    name: str

    @property
    def tag(self) -> str:
        """As ``<html lang>`` wants it, e.g. ``en`` or ``zh-Hans-CN``."""
        return catalogue(self.name).tag

    @property
    def own_name(self) -> str:
        """What its speakers call it, e.g. ``中文``."""
        return str(catalogue(self.name).locale.language_name)

    def spoken(self) -> AbstractContextManager[Catalogue]:
        """Make all texts inside ``with`` in this language."""
        return speaking(self.name)

    def text(self, text: str, /, **params: Any) -> str:
        """A text of the catalogue; ``params`` fill its braces."""
        with self.spoken():
            return _(text, **params)

    def counted(self, number: float, noun: str) -> str:
        """``1 GPU``, ``8 GPUs``; ``noun`` is English, in the singular (see ``plurals``)."""
        with self.spoken():
            return plurals.counted(number, noun)

    def message(self, message: Message | None) -> str:
        """A sentence of a rule, the planner or the reports."""
        with self.spoken():
            return say(message)

    def number(self, value: float | None) -> str:
        """A count, at most two decimals."""
        with self.spoken():
            return units.count(value)

    def percent(self, ratio: float | None) -> str:
        """A ratio 0..1 as percent."""
        with self.spoken():
            return units.ratio(ratio)

    def size(self, value_bytes: float | None) -> str:
        """Bytes in binary units."""
        with self.spoken():
            return units.size(value_bytes)

    def money(self, value: Money | None, *, per: str = "") -> str:
        """An amount; ``per``: "month", "hour" or "GPU-hour"."""
        with self.spoken():
            return units.money(value, per=per)

    def time(self, at: float | None) -> str:
        """Unix seconds as a UTC time to the minute."""
        with self.spoken():
            return units.utc(at)

    def date(self, at: float | None) -> str:
        """Unix seconds as a UTC day."""
        with self.spoken():
            return units.day(at)

    def duration(self, seconds: float | None) -> str:
        """A length of time in its two largest units."""
        with self.spoken():
            return units.duration(seconds)

    def quantity(self, value: Scalar, unit: str = "") -> str:
        """A number in the unit of an evidence or threshold."""
        with self.spoken():
            return units.quantity(value, unit)


@cache
def language(name: str = ENGLISH) -> Language:
    """The language of a name; raises ``UnknownLanguageError``, which lists those there are."""
    catalogue(name)
    return Language(name)
