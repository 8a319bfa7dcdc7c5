"""What fails is said in the log once, until it changes, and once more when it works again.

A store that is gone makes every job fail, several times a minute: whoever reads the log wants to
know of it once. Jobs that fail for one cause share one line. Errors of ours explain themselves in a
line; any other is a fault of ours and comes with its trace.
"""

import logging
import threading
from typing import Final

from gputailor_agent.reports import units
from gputailor_agent.schedule.troubles import cause_of, explains_itself
from gputailor_agent.store import StoreError

_WHAT_THEN: Final = "; nothing that is known is lost, it is tried again until it works"

log = logging.getLogger(__name__)


class Saying:
    """What was said and is not over. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failing: dict[str, tuple[str, str]] = {}  # what -> its cause, and who has that
        self._since: dict[str, float] = {}  # cause -> Unix seconds

    def failed(self, what: str, at: float, error: Exception) -> None:
        """Say that ``what`` failed at ``at`` (Unix seconds), unless its cause was said."""
        cause = cause_of(error)
        store = isinstance(error, StoreError)
        with self._lock:
            known = cause in self._since
            if self._failing.get(what, ("", ""))[0] != cause:
                self._forget(what)
            self._failing[what] = (cause, "the store" if store else what)
            self._since.setdefault(cause, at)
        if known:
            return
        if explains_itself(error):
            log.error("%s failed: %s%s", what, " ".join(str(error).split()), _WHAT_THEN * store)
        else:
            log.error("%s failed", what, exc_info=error)

    def well(self, what: str, at: float) -> None:
        """Say that what failed works again, once nothing fails for its cause any more."""
        with self._lock:
            if what not in self._failing:
                return
            cause, who = self._failing.pop(what)
            if any(one == cause for one, _ in self._failing.values()):
                return
            since = self._since.pop(cause)
        log.info("%s works again, after %s", who, units.duration(max(0.0, at - since)))

    def _forget(self, what: str) -> None:
        """Drop a former cause that nobody else has: it changed, so it is not over."""
        cause, _ = self._failing.pop(what, ("", ""))
        if not any(one == cause for one, _ in self._failing.values()):
            self._since.pop(cause, None)
