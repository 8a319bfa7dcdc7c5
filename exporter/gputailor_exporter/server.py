"""Serves the rendered bytes over HTTP. A scrape touches neither a driver nor a socket.

Each snapshot is rendered, and gzipped, once, when it is first asked for, in a thread of its own
that nobody waits for longer than the scraper does (X-Prometheus-Scrape-Timeout-Seconds). Each
connection, its TLS handshake too, has its own thread. HTTP/1.1 is h11's: the standard library's
server loads an HTTP client and TLS with it, 7 MB of memory that a node has better use for.
"""

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from gputailor_exporter.sampling.bounded import BoundedCalls
from gputailor_exporter.serving.connection import Connection
from gputailor_exporter.serving.listening import bind, url_of
from gputailor_exporter.serving.page import Page, Site, SnapshotSource
from gputailor_exporter.serving.webaccess import WebAccess
from gputailor_exporter.serving.webconfig import WebConfig

log = logging.getLogger(__name__)

#: Connections at once; one more and the one that waits longest for a request is let go, so that
#: clients that keep theirs open for ever can't keep a scrape out. A Prometheus pair needs two.
MOST_CONNECTIONS: Final = 256

#: After an accept that failed (no file descriptor, no thread left).
PAUSE_SECONDS: Final = 0.1
#: How long a stopping server lets new connections say what they want.
FRESH_SECONDS: Final = 0.5

#: Label values of ``exporter_errors_total``.
SOURCE: Final = "server"
NO_RESOURCES: Final = "no_resources"


def _uncounted(source: str, reason: str) -> None:
    log.debug("not counted: %s %s", source, reason)


class MetricsServer:
    """The HTTP(S) server on one or more addresses."""

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        source: SnapshotSource,
        web: WebConfig,
        on_error: Callable[[str, str], None] = _uncounted,
    ) -> None:
        """Bind ``addresses`` (port 0: a free one); raises ``ListenError`` for one that is taken.

        ``on_error`` is told source and reason of what goes wrong on the way.
        """
        self.site = Site(source, Page(source), BoundedCalls("page"), WebAccess(web, on_error))
        self.stopping = False
        self._on_error = on_error
        self._tls = web.tls is not None
        self._turn = threading.Lock()
        self._connections: dict[Connection, None] = {}  # that waited longest for a request first
        self._listeners = bind(addresses)
        self._wake, self._woken = socket.socketpair()
        self._accepting: threading.Thread | None = None

    @property
    def urls(self) -> tuple[str, ...]:
        """Where a person on this machine finds the server, by each address."""
        return tuple(url_of(one, tls=self._tls) for one in self._listeners)

    @property
    def url(self) -> str:
        """The first of ``urls``."""
        return self.urls[0]

    # -- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to serve; returns at once."""
        self._accepting = threading.Thread(target=self._accept_all, name="server", daemon=True)
        self._accepting.start()

    def stop(self, timeout: float = 3.0) -> None:
        """Close the listening sockets, let scrapes under way end, then close the rest.

        Returns within ``timeout`` seconds, whatever clients do; a second call changes nothing.
        """
        if self.stopping:
            return
        deadline = time.monotonic() + timeout
        self.stopping = True
        self._wake.send(b"x")
        if self._accepting is None:
            self._close_listeners()
        else:
            self._accepting.join(timeout)
        fresh = min(deadline, time.monotonic() + FRESH_SECONDS)
        for connection in self._open():
            if connection.answered:
                connection.hurry()
        for connection in self._open():
            connection.join(fresh - time.monotonic())
        for connection in self._open():
            connection.hurry()
        for connection in self._open():
            connection.join(deadline - time.monotonic())
        for connection in self._open():
            connection.abort()
        self._wake.close()
        self._woken.close()

    def _open(self) -> tuple[Connection, ...]:
        with self._turn:
            return tuple(self._connections)

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()

    # -- connections -------------------------------------------------------------------------

    def _accept_all(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            for listener in self._listeners:
                selector.register(listener, selectors.EVENT_READ)
            while not self.stopping:
                for key, _ in selector.select():
                    if key.fileobj is not self._woken:
                        self._accept(key.fileobj)  # type: ignore[arg-type] # we registered sockets
        for listener in self._listeners:
            while self._accept(listener):  # who came before the end is still served
                pass
        self._close_listeners()

    def _accept(self, listener: socket.socket) -> bool:
        """Take one connection; False where none waits."""
        try:
            client, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            return False
        except OSError as error:
            self._out_of_resources(error)
            return False
        connection = Connection(self, client)
        self._admit(connection)
        try:
            connection.start()
        except RuntimeError as error:  # no thread can be had
            self.forget(connection)
            client.close()
            self._out_of_resources(error)
        return True

    def _out_of_resources(self, error: Exception) -> None:
        log.error("a connection cannot be taken: %s", error)
        self._on_error(SOURCE, NO_RESOURCES)
        if not self.stopping:
            time.sleep(PAUSE_SECONDS)

    def waits(self, connection: Connection) -> None:
        """A connection begins to wait for another request: it is the youngest again.

        One that had to make room stays out: it may not drive another away.
        """
        with self._turn:
            if connection in self._connections:
                del self._connections[connection]
                self._connections[connection] = None

    def _admit(self, connection: Connection) -> None:
        """Take a new connection in; the one that waited longest makes room, if need be."""
        with self._turn:
            self._connections[connection] = None
            if len(self._connections) <= MOST_CONNECTIONS:
                return
            others = (one for one in self._connections if not one.busy and one is not connection)
            oldest = next(others, next(iter(self._connections)))
            del self._connections[oldest]
        oldest.abort()

    def forget(self, connection: Connection) -> None:
        """A connection is closed."""
        with self._turn:
            self._connections.pop(connection, None)
