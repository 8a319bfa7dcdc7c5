"""What is wrong just now, for /readyz and the page; and kinds of errors, for metrics.

A trouble begins with the first failure of a job and ends with its next success.
"""

import threading
from typing import Final

from gputailor_agent.model.addresses import without_secrets
from gputailor_agent.reports import units
from gputailor_agent.store import StoreError

#: Words of the store's errors, as it explains them, and what they are counted as.
_STORE: Final = (
    ("disk is full", "full"),
    ("disk I/O error", "full"),
    ("No space left", "full"),
    ("locked", "locked"),
    ("readonly", "read_only"),
    ("read-only", "read_only"),
    ("taken over", "overtaken"),
    ("unable to open", "unreachable"),
    ("connection", "unreachable"),
    ("server closed", "unreachable"),
    ("deleted or moved", "unreachable"),
    ("another file was put", "unreachable"),
    ("database system is", "unreachable"),  # … starting up, … shutting down
    ("malformed", "damaged"),
    ("not a database", "damaged"),
)
STORE_REASONS: Final = (*dict.fromkeys(reason for _, reason in _STORE), "other")


def reason_of(error: Exception) -> str:
    """A short label value: what was wrong with the store, else the kind of error."""
    if not isinstance(error, StoreError):
        return type(error).__name__
    text = str(error)
    return next((reason for words, reason in _STORE if words in text), "other")


def explains_itself(error: Exception) -> bool:
    """Whether the error is one of ours, whose text is written for people."""
    return type(error).__module__.startswith("gputailor_agent.")


def cause_of(error: Exception) -> str:
    """What failures have in common: of the store its reason, else the error as it is told."""
    reason = reason_of(error)
    if isinstance(error, StoreError) and reason != "other":
        return f"store {reason}"
    return f"{reason}: {error}"


class Troubles:
    """What goes on failing, by job. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, str]] = {}
        self._of_store: set[str] = set()

    def begin(self, what: str, at: float, text: str, *, store: bool = False) -> None:
        """Note a failure at ``at`` (Unix seconds): the first one dates it, the last tells it.

        ``store``: it is the store that failed, so the same may work as soon as that answers.
        """
        with self._lock:
            since = self._known.get(what, (at, ""))[0]
            self._known[what] = (since, without_secrets(text))
            (self._of_store.add if store else self._of_store.discard)(what)

    def of_store(self) -> frozenset[str]:
        """Whose last failure was the store's."""
        with self._lock:
            return frozenset(self._of_store)

    def end(self, what: str) -> None:
        """Note that it works again."""
        with self._lock:
            self._known.pop(what, None)
            self._of_store.discard(what)

    def told(self) -> list[str]:
        """Each trouble as a line, the oldest first; jobs that share a cause share a line."""
        with self._lock:
            known = sorted((since, text, what) for what, (since, text) in self._known.items())
        by_cause: dict[str, tuple[float, list[str]]] = {}
        for since, text, what in known:
            by_cause.setdefault(" ".join(text.split()), (since, []))[1].append(what)
        return [
            f"failing: {', '.join(jobs)}: {text} (since {units.utc(since)})"
            for text, (since, jobs) in by_cause.items()
        ]
