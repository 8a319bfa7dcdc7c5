"""The register of output formats: every module beside this one that has a ``FORMAT``.

Adding a format is adding a file; the command line's ``--output`` and its help follow.
"""

import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

import msgspec

from gputailor_agent.model.judgement import Plan
from gputailor_agent.reports import explain_page, log_page, plan_page
from gputailor_agent.reports.beside import NOTHING, Beside
from gputailor_agent.reports.catalogues import speaking, spoken
from gputailor_agent.reports.document import Document, shortened
from gputailor_agent.reports.explain import Explanation
from gputailor_agent.reports.runs import LogJudgement


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """How wide and how colourful a text may be; formats for machines ignore it."""

    width: int = 120
    color: bool = False


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """One way to write what the product has to say. Each function returns a whole text.

    Texts are in the language that is spoken when the function is called.
    """

    name: str
    summary: str
    media_type: str
    plan_beside: Callable[[Plan, Look, Beside], str]
    explanation: Callable[[Explanation, Look], str]
    log: Callable[[tuple[LogJudgement, ...], Look], str]

    def plan(self, plan: Plan, look: Look, beside: Beside = NOTHING) -> str:
        """The report on a plan, with what is known beside it."""
        return self.plan_beside(plan, look, beside)


def drawn(
    name: str,
    summary: str,
    media_type: str,
    draw: Callable[[Document, Look], str],
    *,
    details: bool = True,
    rows: int | None = None,
) -> Format:
    """A format for people: all that there is to say is composed once, and drawn by one function.

    ``details``: what to do first comes with its course, patch and risks; ``rows``: tables are cut
    after so many, and say where the rest is.
    """

    def plan_page_of(plan: Plan, look: Look, beside: Beside) -> str:
        page = plan_page.compose(plan, beside, details=details)
        if rows is not None:
            page = shortened(page, rows, plan_page.left_out)
        return draw(page, look)

    return Format(
        name=name,
        summary=summary,
        media_type=media_type,
        plan_beside=plan_page_of,
        explanation=lambda explanation, look: draw(explain_page.compose(explanation), look),
        log=lambda judgements, look: draw(log_page.compose(judgements), look),
    )


class UnknownFormatError(ValueError):
    """A format name that no module registered."""


@cache
def formats() -> Mapping[str, Format]:
    """All formats by name, in alphabetical order of their modules."""
    package = import_module("gputailor_agent.reports")
    found: dict[str, Format] = {}
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        candidate = getattr(import_module(module.name), "FORMAT", None)
        if isinstance(candidate, Format):
            found[candidate.name] = candidate
    return MappingProxyType(found)


def find(name: str) -> Format:
    """The format of a name; ``UnknownFormatError`` lists those there are."""
    try:
        return formats()[name]
    except KeyError:
        known = ", ".join(formats())
        raise UnknownFormatError(f"no output format {name!r}; there are: {known}") from None


DEFAULT_LOOK = Look()


def render(
    plan: Plan,
    name: str,
    look: Look = DEFAULT_LOOK,
    *,
    beside: Beside = NOTHING,
    language: str = "",
) -> str:
    """A plan as text in a format of ``formats()``, in a language of ``catalogues.names()``.

    Without ``language`` in the one that is spoken. Raises ``UnknownFormatError`` and
    ``UnknownLanguageError``.
    """
    with speaking(language or spoken().name):
        return find(name).plan(plan, look, beside)
