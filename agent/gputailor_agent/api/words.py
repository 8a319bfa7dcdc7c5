"""Parts of pages that several of them have: notes, pagers, a plan's sentences."""

from collections.abc import Callable
from typing import Final

from gputailor_agent.api.listing import Index
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.document import Block, Bullets, Paragraph
from gputailor_agent.reports.plurals import agreed, counted

PER_PAGE: Final = 50

Link = tuple[str, str, str]  # address or '', text, relation


def no_plan() -> str:
    """Why there is no report yet."""
    return _("No report yet: the agent has not finished its first pass. Try again in a minute.")


def note(text: str) -> tuple[Block, ...]:
    """A text as blocks; further lines of it become a list."""
    first, *more = text.splitlines() or [""]
    listed = (Bullets(lines=tuple(line.strip() for line in more)),) if more else ()
    return (Paragraph(text=first), *listed)


def states(index: Index) -> str:
    """How many workloads there are, by state."""
    told = index.totals.states
    words = [
        f"{units.count(told[state])} {overview.state_word(state)}" for state in overview.STATES
    ]
    return _(
        "{workloads}: {states}.",
        workloads=counted(len(index), "workload"),
        states=_(", ").join(words),
    )


def checks(index: Index) -> tuple[str, bool]:
    """How many of the sums agree, and whether all do; '' where there are none."""
    made = index.plan.checks
    held = sum(1 for check in made if check.holds)
    if not made:
        return "", True
    text = _("{part} of {whole} conservation checks hold.", part=held, whole=len(made))
    return agreed(text), held == len(made)


def pager(links: dict[str, str]) -> list[Link]:
    """Links to other pages: first, previous, next, last; '' where that is this page."""
    return [
        (links["first"], _("First"), ""),
        (links["prev"], _("Previous"), "prev"),
        (links["next"], _("Next"), "next"),
        (links["last"], _("Last"), ""),
    ]


def page_links(
    number: int, total: int, size: int, address_of: Callable[[int], str]
) -> dict[str, str]:
    """Addresses of a pager by relation; '' where there is nothing to go to."""
    last = max(1, -(-total // size))
    return {
        "first": address_of(1) if number > 1 else "",
        "prev": address_of(number - 1) if number > 1 else "",
        "next": address_of(number + 1) if number < last else "",
        "last": address_of(last) if number < last else "",
    }
