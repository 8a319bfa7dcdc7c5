"""The languages that reports are written in, and which of them is being written just now.

English is the language of the source: its texts are the ids of the catalogues. Another language is
one gettext file, ``locale/NAME/LC_MESSAGES/gputailor.po``, read by Babel when it is first asked for
(0.1 s for a thousand texts, then kept). Nothing is compiled, so that nothing can be out of date.

The language is a context variable, as in every gettext binding of a web framework: it follows a
request through its threads and never leaks into another. Texts of the source are marked by ``_``;
what is not in a catalogue reads in English, never as a key. ``reports.extracting`` finds the marks.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property
from gettext import c2py
from importlib import resources
from typing import Any, Final

from babel import Locale, negotiate_locale
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po

ENGLISH: Final = "en"
#: Languages with a catalogue, and the locale whose numbers, dates and money they use.
LOCALES: Final[Mapping[str, str]] = {ENGLISH: "en_US", "zh": "zh_Hans_CN"}
DOMAIN: Final = "gputailor"
#: Where texts come from that the parts below the reports made, as the catalogues' files name it.
TOLD: Final = "told/"


class UnknownLanguageError(ValueError):
    """A language without a catalogue; the text names those there are."""


@dataclass(frozen=True)
class Catalogue:
    """The texts of one language by their English ones. Plurals are kept by their singular."""

    name: str
    locale: Locale
    texts: Mapping[str, str] = field(default_factory=dict)
    plurals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    told: tuple[str, ...] = ()  # texts of the parts below the reports, see ``translating``
    place: Callable[[int], int] = field(default=lambda number: int(number != 1))  # of a plural form

    @property
    def english(self) -> bool:
        """Whether its texts are those of the source."""
        return self.name == ENGLISH

    @cached_property
    def tag(self) -> str:
        """The language as HTML and mail name it (BCP 47), e.g. ``zh-Hans-CN``."""
        return str(self.locale).replace("_", "-") if not self.english else ENGLISH

    def get(self, text: str) -> str:
        """The text in this language; itself where there is no translation."""
        return self.texts.get(text, text)

    def plural(self, one: str, many: str, number: float) -> str:
        """The form of a counted text that goes with ``number``."""
        forms = self.plurals.get(one)
        if forms is None:
            return one if number == 1 else many
        return forms[self.place(int(number))]


def names() -> tuple[str, ...]:
    """Every language there is, English first."""
    return tuple(LOCALES)


@cache
def catalogue(name: str) -> Catalogue:
    """The catalogue of a language; raises ``UnknownLanguageError``."""
    if name not in LOCALES:
        raise UnknownLanguageError(f"no language {name!r}; there are: {', '.join(LOCALES)}")
    locale = Locale.parse(LOCALES[name])
    if name == ENGLISH:
        return Catalogue(name=name, locale=locale)
    read = written(name)
    texts: dict[str, str] = {}
    plurals: dict[str, tuple[str, ...]] = {}
    told: list[str] = []
    for one in read:
        if isinstance(one.id, str):
            if one.id and isinstance(one.string, str) and one.string:
                texts[one.id] = one.string
                if any(str(place).startswith(TOLD) for place, _line in one.locations):
                    told.append(one.id)
        elif one.string and all(one.string):
            plurals[one.id[0]] = tuple(one.string)
    place = c2py(read.plural_expr)
    return Catalogue(
        name=name, locale=locale, texts=texts, plurals=plurals, told=tuple(told), place=place
    )


def written(name: str) -> Catalog:
    """The gettext file of a language, with everything that Babel knows of it."""
    path = resources.files("gputailor_agent") / "locale" / name / "LC_MESSAGES" / f"{DOMAIN}.po"
    with path.open("rb") as file:
        return read_po(file, locale=name, domain=DOMAIN)


_SPOKEN: Final[ContextVar[str]] = ContextVar("language of the texts being made", default=ENGLISH)


def spoken() -> Catalogue:
    """The catalogue of the language that texts are made in just now."""
    return catalogue(_SPOKEN.get())


@contextmanager
def speaking(name: str) -> Iterator[Catalogue]:
    """Make all texts inside in a language; raises ``UnknownLanguageError``."""
    found = catalogue(name)
    token = _SPOKEN.set(name)
    try:
        yield found
    finally:
        _SPOKEN.reset(token)


def _(text: str, /, **params: Any) -> str:
    """A text of ours in the language spoken; ``params`` fill its braces. Marks it for extraction.

    Without parameters braces are left as they are.
    """
    found = spoken().get(text)
    return found.format(**params) if params else found


def negotiated(accepted: str) -> str:
    """The language that an ``Accept-Language`` header wants most, of those there are.

    English where it names none of them. Weights count, regions and scripts do not.
    """
    weighed = []
    for place, part in enumerate(accepted.split(",")):
        tag, _sep, weight = part.partition(";")
        weighed.append((-_weight(weight), place, tag.strip().replace("-", "_").split("_")[0]))
    wanted = [tag for weight, _place, tag in sorted(weighed) if weight < 0 and tag]
    return negotiate_locale(wanted, names()) or ENGLISH


def _weight(text: str) -> float:
    """``;q=0.8`` of a header; 1 where there is none, 0 for what cannot be read."""
    if not text.strip():
        return 1.0
    try:
        return float(text.strip().removeprefix("q="))
    except ValueError:
        return 0.0
