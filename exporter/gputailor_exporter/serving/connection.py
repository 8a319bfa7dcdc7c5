"""One client's connection: its TLS handshake, its requests one after another, its end.

Limits: a request line and headers of 16 KiB, 15 s for a request once it began, for an answer to be
taken and for a handshake, 2 minutes without a request. A request is answered in time or with 503.
"""

import logging
import socket
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from typing import Final, Protocol

import h11

from gputailor_exporter.serving.answers import Answer, answer, refusal
from gputailor_exporter.serving.page import Site
from gputailor_exporter.serving.webaccess import may_enter

log = logging.getLogger(__name__)

#: A client that sends or takes nothing for this long is let go.
CLIENT_TIMEOUT_SECONDS: Final = 15.0
#: How long a connection may wait for its next request: twice a scrape interval of a minute, so
#: that a scraper keeps its TLS session.
IDLE_SECONDS: Final = 120.0
#: Bytes of a request's line and headers together.
MOST_REQUEST_BYTES: Final = 16 * 1024
#: What a refused client may still send before the connection is closed under it.
MOST_LEFTOVER_BYTES: Final = 256 * 1024
LEFTOVER_SECONDS: Final = 1.0

#: Small, because h11 looks at the limit only while a request is incomplete.
_READ_BYTES: Final = 4 * 1024


class Host(Protocol):
    """Who takes connections in: the server."""

    site: Site
    stopping: bool

    def waits(self, connection: "Connection") -> None:
        """``connection`` begins to wait for another request."""

    def forget(self, connection: "Connection") -> None:
        """``connection`` is closed."""


class Connection:
    """Serves one connection in a daemon thread of its own."""

    def __init__(self, host: Host, client: socket.socket) -> None:
        """``client`` is connected and closed at the end."""
        self.busy = False  # a request is being answered
        self.answered = False  # at least one was
        self._host = host
        self._socket = client
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_REQUEST_BYTES)
        self._began = False  # bytes of the next request are here
        self._thread = threading.Thread(target=self._run, name="connection", daemon=True)

    def start(self) -> None:
        """Start the thread; raises ``RuntimeError`` where none can be had."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait for the end."""
        self._thread.join(max(0.0, seconds))

    def hurry(self) -> None:
        """Take no further request; one that is under way ends well."""
        if not self.busy and not self._began:
            self._shut(socket.SHUT_RD)

    def abort(self) -> None:
        """End now."""
        self._shut(socket.SHUT_RDWR)

    def _shut(self, how: int) -> None:
        with suppress(OSError, ValueError):  # its client may have left already
            socket.socket.shutdown(self._socket, how)  # TLS has nothing to say to an end in haste

    # -- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._socket.settimeout(CLIENT_TIMEOUT_SECONDS)
            if self._secured():
                self._serve()
        except OSError as error:  # clients may leave whenever they like
            log.debug("connection ended: %s", error)
        except Exception:
            log.exception("connection ended")
        finally:
            self._host.forget(self)
            self._socket.close()

    def _secured(self) -> bool:
        """Shake hands where TLS is on; False where the client may not come in."""
        config = self._host.site.access.rules().config
        if config.tls is None:
            return True
        secured = config.tls.wrap_socket(
            self._socket, server_side=True, do_handshake_on_connect=False
        )
        self._socket = secured
        secured.do_handshake()
        if may_enter(secured.getpeercert(), config.allowed_sans):
            return True
        log.warning("a client's certificate carries none of client_allowed_sans")
        return False

    def _serve(self) -> None:
        while not (self._host.stopping and self.answered):
            self._host.waits(self)
            try:
                request = self._next_request()
            except h11.RemoteProtocolError as error:
                self._send(refusal(error.error_status_hint, str(error)), head=False, last=True)
                self._drain()
                return
            if request is None:
                return
            self.busy = True
            whole = self._protocol.their_state is h11.DONE  # no body that nobody reads
            last = not whole or self._host.stopping
            self._send(self._answer(request), head=request.method == b"HEAD", last=last)
            self.busy, self.answered = False, True
            if self._protocol.our_state is not h11.DONE or last:
                self._drain()
                return
            self._protocol.start_next_cycle()

    def _answer(self, request: h11.Request) -> Answer:
        try:
            return answer(self._host.site, request, time.monotonic())
        except Exception:
            log.exception("answering failed")
            return refusal(500, "an error of the exporter; its log says more")

    def _next_request(self) -> h11.Request | None:
        """Wait for a request; None when the client left instead."""
        self._began = bool(self._protocol.trailing_data[0])
        deadline = time.monotonic() + (CLIENT_TIMEOUT_SECONDS if self._began else IDLE_SECONDS)
        while True:
            event = self._protocol.next_event()
            if isinstance(event, h11.Request):
                self._protocol.next_event()  # its end, unless it has a body
                return event
            if isinstance(event, h11.ConnectionClosed):
                return None
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self._socket.settimeout(left)
            data = self._socket.recv(_READ_BYTES)
            if data and not self._began:
                self._began = True
                deadline = time.monotonic() + CLIENT_TIMEOUT_SECONDS
            self._protocol.receive_data(data)

    def _send(self, given: Answer, *, head: bool, last: bool) -> None:
        # The C locale's names, which Python keeps until it is told otherwise, are those of HTTP.
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        headers = [("Date", date), *given.headers, ("Content-Length", str(len(given.body)))]
        if last:
            headers.append(("Connection", "close"))
        phrase = HTTPStatus(given.status).phrase
        response = h11.Response(status_code=given.status, headers=headers, reason=phrase)
        parts = [self._protocol.send(response)]
        if not head:
            parts.append(self._protocol.send(h11.Data(data=given.body)))
        parts.append(self._protocol.send(h11.EndOfMessage()))
        self._socket.settimeout(CLIENT_TIMEOUT_SECONDS)
        self._socket.sendall(b"".join(part for part in parts if part))
        self._began = False

    def _drain(self) -> None:
        """Let the answer arrive: closing with unread bytes would take it back from the client."""
        self._socket.settimeout(LEFTOVER_SECONDS)
        self._shut(socket.SHUT_WR)
        left, until = MOST_LEFTOVER_BYTES, time.monotonic() + LEFTOVER_SECONDS
        with suppress(OSError):
            while left > 0 and time.monotonic() < until and not self._host.stopping:
                got = len(self._socket.recv(_READ_BYTES))
                if not got:
                    break
                left -= got
