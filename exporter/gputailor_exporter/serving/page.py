"""What there is to serve: the source of snapshots, and its metrics page rendered once for all."""

import gzip
import threading
from dataclasses import dataclass
from typing import Final, Protocol

from gputailor_exporter.accounting import Snapshot
from gputailor_exporter.sampling.bounded import BoundedCalls
from gputailor_exporter.serving.exposition import Renderer
from gputailor_exporter.serving.webaccess import WebAccess

#: A level above 1 costs more time than it saves bytes on pages of this size.
GZIP_LEVEL: Final = 1


class SnapshotSource(Protocol):
    """What the server shows; the sampler is one. Nothing here may wait for I/O."""

    @property
    def ready(self) -> bool:
        """Whether the first full cycle is over."""

    @property
    def healthy(self) -> bool:
        """Whether the process still works."""

    @property
    def trouble(self) -> str:
        """What the process waits for before it can measure; empty where for nothing."""

    def down(self) -> tuple[str, ...]:
        """UUIDs of the devices that do not answer."""

    def snapshot(self) -> Snapshot:
        """Return all samples now; the same object while nothing changed."""


class Page:
    """The metrics page: rendered once per snapshot and format, on first demand."""

    def __init__(self, source: SnapshotSource) -> None:
        """Take the source of snapshots."""
        self._source = source
        self._renderer = Renderer()
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._bodies: dict[tuple[bool, bool], bytes] = {}

    def body(self, *, openmetrics: bool, compressed: bool) -> bytes:
        """Return the page of the current snapshot."""
        snapshot = self._source.snapshot()
        key = (openmetrics, compressed)
        with self._lock:
            if snapshot is not self._snapshot:
                self._snapshot = snapshot
                self._bodies = {}
            if key not in self._bodies:
                plain = self._bodies.get((openmetrics, False))
                if plain is None:
                    plain = self._renderer.render(snapshot, openmetrics=openmetrics)
                    self._bodies[openmetrics, False] = plain
                if compressed:
                    self._bodies[key] = gzip.compress(plain, GZIP_LEVEL, mtime=0)
            return self._bodies[key]


@dataclass(frozen=True, slots=True)
class Site:
    """What requests are answered from; ``calls`` bounds how long one may take."""

    source: SnapshotSource
    page: Page
    calls: BoundedCalls
    access: WebAccess
