"""Leads the processes of one reading to their containers, whatever happens on the way."""

import logging
from collections.abc import Callable, Iterable

from gputailor_exporter.attribution.allocations import UNTOLD, ContainerRef, ProcessAttribution
from gputailor_exporter.devices.base import ProcessReading

log = logging.getLogger(__name__)


def owners_of(
    attribution: ProcessAttribution, processes: Iterable[ProcessReading], failed: Callable[[], None]
) -> dict[int, ContainerRef | None]:
    """Return each process's container by its pid (see ``ProcessAttribution.owner``).

    A process whose look-up raises may be anyone's (``UNTOLD``); ``failed`` is told.
    """
    found: dict[int, ContainerRef | None] = {}
    for process in processes:
        try:
            found[process.pid] = attribution.owner(process.pid)
        except Exception:
            found[process.pid] = UNTOLD
            log.exception("finding the container of process %d failed", process.pid)
            failed()
    return found
