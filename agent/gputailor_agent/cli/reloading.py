"""The agent's main loop: it minds the clock, reads settings anew on SIGHUP, and ends when told.

What a reload cannot change is told and stays as it was. Settings that cannot be used are told, too,
and the former ones stay in force: a running agent does not die of a typing error.
"""

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from gputailor_agent.catalog import CatalogueError, load_catalogue
from gputailor_agent.cli.errors import CommandError
from gputailor_agent.cli.hosting import Asked
from gputailor_agent.cli.running import RELOADED
from gputailor_agent.cli.scraping import ANEW
from gputailor_agent.cli.settings import AgentSettings
from gputailor_agent.reports.delivery.errors import DeliveryError
from gputailor_agent.schedule import AgentService, PageSource, ServiceSettings

_LOOK_SECONDS: Final = 0.5
_MIND_CLOCK_SECONDS: Final = 20.0

log = logging.getLogger(__name__)


@contextmanager
def hearing() -> Iterator[Asked]:
    """Within: SIGHUP is noted. On a terminal it ends the process, as it always did."""
    asked = Asked()
    terminal = sys.stdin is not None and os.isatty(0)
    if terminal or not hasattr(signal, "SIGHUP"):
        yield asked
        return

    def ask(_number: int, _frame: FrameType | None) -> None:
        asked.set()

    before = signal.signal(signal.SIGHUP, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGHUP, before)


class Reloading:
    """Reads settings anew and puts them into force; ``shape`` makes those of a service."""

    def __init__(
        self,
        service: AgentService,
        settings: AgentSettings,
        load: Callable[[], AgentSettings],
        shape: Callable[[AgentSettings], ServiceSettings],
        source: Callable[[AgentSettings], PageSource | None],
    ) -> None:
        """``load`` may raise ``CommandError``; ``source`` is asked where targets changed."""
        self._service = service
        self._settings = settings
        self._load = load
        self._shape = shape
        self._source = source
        service.telemetry.reloaded(time.time(), well=True)

    def reload(self) -> bool:
        """Whether settings could be read and are in force now."""
        try:
            read = self._load()
            new = merged(self._settings, read)
            delivery = new.delivery
            catalogue = load_catalogue(new.prices)
            moved = any(_differs(self._settings, new, name) for name in ANEW)
            source = self._source(new) if moved else None
        except (CommandError, CatalogueError, DeliveryError) as error:
            log.error("settings stay as they were: %s", error)  # noqa: TRY400 - a user's mistake
            self._service.telemetry.reloaded(time.time(), well=False)
            return False
        for name in unchanged(self._settings, read):
            log.warning("%s has changed; that needs a restart, the former value stays", name)
        changed = sorted(name for name in RELOADED if _differs(self._settings, new, name))
        self._service.change(self._shape(new), source=source, catalogue=catalogue)
        self._service.parts.delivery.settings = delivery
        self._settings = new
        self._service.telemetry.reloaded(time.time(), well=True)
        log.info("settings were read anew; changed: %s", ", ".join(changed) or "nothing")
        return True


def merged(old: AgentSettings, new: AgentSettings) -> AgentSettings:
    """The settings in force after a reload: ``new`` where that can be, else ``old``."""
    kept = {name: getattr(old, name) for name in AgentSettings.model_fields if name not in RELOADED}
    return new.model_copy(update=kept)


def unchanged(old: AgentSettings, new: AgentSettings) -> list[str]:
    """Names of settings that differ and need a restart."""
    names = (name for name in AgentSettings.model_fields if name not in RELOADED)
    return sorted(name for name in names if _differs(old, new, name))


def _differs(old: AgentSettings, new: AgentSettings, name: str) -> bool:
    return bool(getattr(old, name) != getattr(new, name))


def attend(service: AgentService, asked: Asked, hup: Asked, reload: Reloading) -> None:
    """Return when ``asked`` is set; raises ``CommandError`` when another agent has taken over."""
    minded = time.monotonic()
    while not asked.wait(_LOOK_SECONDS):
        if service.overtaken:
            raise CommandError(
                "another agent has taken over this store while this one was silent; this one "
                "has written nothing since, and stops"
            )
        if hup.is_set():
            hup.clear()
            with contextlib.suppress(OSError):
                reload.reload()
        if time.monotonic() - minded >= _MIND_CLOCK_SECONDS:
            minded = time.monotonic()
            service.mind_clock()
