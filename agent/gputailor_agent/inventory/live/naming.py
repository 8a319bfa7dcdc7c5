"""What namespaces say, such as the team. Never needed: without it a team may be unknown.

All are listed at once where all may be read; else each that is asked about is read by its name.
"""

import logging
import threading
from collections.abc import Iterable
from typing import Any

import msgspec

from gputailor_agent.inventory import raw
from gputailor_agent.inventory.live.client import Client
from gputailor_agent.inventory.live.discovering import ApiResource
from gputailor_agent.inventory.live.errors import ClusterError
from gputailor_agent.inventory.live.listing import list_objects
from gputailor_agent.inventory.namespaces import said_by

log = logging.getLogger(__name__)

_NAMESPACES = ApiResource(api_version="v1", plural="namespaces", kind="Namespace", namespaced=False)


class _Named(msgspec.Struct):
    metadata: raw.RawMetadata | None = None


class NamespaceMemory:
    """Reads namespaces' labels and remembers them. Safe to use from several threads.

    ``one_by_one``: only single ones may be read (a Role). ``fresh_seconds``: what is older is read
    again; what could not be read is tried again then, too, and is no problem meanwhile.
    """

    def __init__(
        self, client: Client, *, one_by_one: bool = False, fresh_seconds: float = 600.0
    ) -> None:
        self._client = client
        self._one_by_one = one_by_one
        self._fresh_seconds = fresh_seconds
        self._read_at: float | None = None
        self._labels: dict[str, dict[str, str]] = {}
        self._tried: set[str] = set()
        self._lock = threading.Lock()

    def labels(self, names: Iterable[str], at: float) -> dict[str, dict[str, str]]:
        """Labels by namespace, of those names that have any (``at``: Unix seconds)."""
        wanted = set(names)
        with self._lock:
            stale = self._read_at is None or at - self._read_at >= self._fresh_seconds
            if stale:
                self._tried.clear()
            missing = wanted - self._tried
            if missing:
                self._read(missing)
                self._tried |= wanted
                self._read_at = at if stale else self._read_at
            return {name: self._labels[name] for name in sorted(wanted) if self._labels.get(name)}

    def _read(self, names: Iterable[str]) -> None:
        for name in sorted(names) if self._one_by_one else ("",):
            try:
                if name:
                    self._take(self._client.get(_NAMESPACES.path(name=name), _Named))
                else:
                    list_objects(self._client, _NAMESPACES.path(), self._take_raw)
            except ClusterError as error:  # another one may well be granted
                log.debug("labels of namespace %s cannot be read: %s", name or "*", error)

    def _take_raw(self, content: msgspec.Raw) -> Any:
        self._take(msgspec.json.decode(content, type=_Named))

    def _take(self, one: _Named) -> None:
        metadata = one.metadata or raw.RawMetadata()
        self._labels[raw.text(metadata.name)] = said_by(metadata)
