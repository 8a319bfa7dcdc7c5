"""Several exporter processes that count the same container: each second is counted once.

Two exporters may run on one node: an old and a new release for a while, or two installed by
mistake. Each counts from its own start, so their counters cannot be compared with each other. Every
process therefore has a sample of its own to rise from, and of its rise only the part after the time
that is accounted for already is taken. Whichever of them is read, and whichever dies, no second is
lost and none counted twice.

Which process a page is of is told by the exporter's address and its process's start; a source that
tells no start is one process.
"""

from dataclasses import dataclass

from gputailor_agent.model.usage import Page
from gputailor_agent.rollup.layout import Vector

_SAME_START_SECONDS = 0.01  # one process always prints the same start

#: A process not heard for two of the slowest usual scrape intervals is taken for dead, and another
#: goes on; until then nothing is given up that it may still tell.
SILENT_SECONDS = 120.0

#: A process that was not heard for this long is gone; its sample is of no use.
FORGET_SECONDS = 3600.0


@dataclass(slots=True)
class Sample:
    """Counters of one exporter process at Unix time ``at``, in their series' layout."""

    at: float
    process_started: float | None
    values: Vector


def same_start(one: float | None, other: float | None) -> bool:
    """Whether two starts are of one process; an unknown one is of any."""
    return one is None or other is None or abs(one - other) <= _SAME_START_SECONDS


def same_process(page: Page, exporter: str, process_started: float | None) -> bool:
    """Whether the page may go on with counters that came from ``exporter``.

    An address that begins anew is judged by its counters, see ``CounterRollup``.
    """
    return page.exporter == exporter or same_start(page.process_started, process_started)


def fraction_after(accounted: float, start: float, end: float) -> float:
    """Part of a rise over (start, end] that lies after ``accounted``; all are Unix seconds."""
    if start >= accounted:
        return 1.0
    return max(0.0, end - accounted) / (end - start)
