"""Serves the rendered bytes over HTTP. A scrape touches neither a driver nor a socket.

Each snapshot is rendered, and gzipped, once, when it is first asked for. Which format a client
prefers is decided by prometheus-client's own negotiation; two content types are answered:
text 0.0.4 and OpenMetrics 1.0.0.
"""

import gzip
import html
import ipaddress
import logging
import socket
import sys
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final, Protocol, cast

from prometheus_client.exposition import choose_encoder

from gputailor_exporter import __version__
from gputailor_exporter.accounting import Snapshot
from gputailor_exporter.exposition import OPENMETRICS_CONTENT_TYPE, TEXT_CONTENT_TYPE, Renderer
from gputailor_exporter.webconfig import BasicAuth, WebConfig

log = logging.getLogger(__name__)

#: A client that sends or takes nothing for this long is let go.
CLIENT_TIMEOUT_SECONDS: Final = 15.0

#: Connections at once; one more and the oldest is let go, so that clients that keep theirs open
#: for ever, a byte at a time, can't keep a scrape out. A Prometheus pair needs two.
MOST_CONNECTIONS: Final = 100

#: A level above 1 costs more time than it saves bytes on pages of this size.
GZIP_LEVEL: Final = 1

PLAIN: Final = "text/plain; charset=utf-8"


class SnapshotSource(Protocol):
    """What the server shows; the sampler is one. Nothing here may wait for I/O."""

    @property
    def ready(self) -> bool:
        """Whether the first full cycle is over."""

    @property
    def healthy(self) -> bool:
        """Whether the process still works."""

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


def wants_openmetrics(accept: str | None) -> bool:
    """Return whether the Accept header prefers OpenMetrics, by prometheus-client's rules."""
    _, content_type = choose_encoder(accept or "")
    return content_type.startswith("application/openmetrics-text")


def accepts_gzip(header: str | None) -> bool:
    """Return whether an Accept-Encoding header allows gzip (``gzip;q=0`` forbids it)."""
    for part in (header or "").split(","):
        coding, _, parameters = part.partition(";")
        if coding.strip().lower() in {"gzip", "*"}:
            quality = parameters.strip().lower().removeprefix("q=")
            try:
                return not quality or float(quality) > 0
            except ValueError:
                return False
    return False


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = f"gputailor-exporter/{__version__}"
    sys_version = ""
    timeout = CLIENT_TIMEOUT_SECONDS

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        server = cast("MetricsServer", self.server)
        if path in {"/healthz", "/readyz"}:  # a kubelet carries no password
            self._probe(path, server.source)
        elif not server.auth.allows(self.headers.get("Authorization")):
            self._answer(
                HTTPStatus.UNAUTHORIZED,
                PLAIN,
                b"Unauthorized\n",
                {"WWW-Authenticate": 'Basic realm="gputailor-exporter"'},
            )
        elif path == "/metrics":
            self._metrics(server.page)
        elif path == "/":
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", _landing(server.source))
        else:
            text = b"404: the metrics are at /metrics\n"
            self._answer(HTTPStatus.NOT_FOUND, PLAIN, text)

    do_HEAD = do_GET  # noqa: N815 - the library's name; _answer leaves the body out

    def _metrics(self, page: Page) -> None:
        openmetrics = wants_openmetrics(self.headers.get("Accept"))
        compressed = accepts_gzip(self.headers.get("Accept-Encoding"))
        body = page.body(openmetrics=openmetrics, compressed=compressed)
        headers = {"Vary": "Accept, Accept-Encoding"}
        if compressed:
            headers["Content-Encoding"] = "gzip"
        content_type = OPENMETRICS_CONTENT_TYPE if openmetrics else TEXT_CONTENT_TYPE
        self._answer(HTTPStatus.OK, content_type, body, headers)

    def _probe(self, path: str, source: SnapshotSource) -> None:
        fine = source.healthy if path == "/healthz" else source.ready
        lines = ["ok" if fine else "not ready: waiting for the first full cycle"]
        if path == "/healthz" and not fine:
            lines = ["unhealthy: the watchdog stands still or the driver lists no device any more"]
        lines += [f"device {uuid} does not answer" for uuid in source.down()]
        status = HTTPStatus.OK if fine else HTTPStatus.SERVICE_UNAVAILABLE
        self._answer(status, PLAIN, ("\n".join(lines) + "\n").encode())

    def _answer(
        self,
        status: HTTPStatus,
        content_type: str,
        body: bytes,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        log.debug("%s %s", self.address_string(), format % args)


class MetricsServer(ThreadingHTTPServer):
    """The HTTP(S) server; each connection, its TLS handshake too, has a thread of its own."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64
    _families: ClassVar = {4: socket.AF_INET, 6: socket.AF_INET6}

    def __init__(self, address: tuple[str, int], source: SnapshotSource, web: WebConfig) -> None:
        """Bind ``address`` (port 0: a free one); raises ``OSError`` when it is taken."""
        self.source = source
        self.page = Page(source)
        self.auth = BasicAuth(web.users)
        self._tls = web.tls
        self._turn = threading.Lock()
        self._connections: dict[socket.socket, None] = {}  # the oldest first
        try:
            self.address_family = self._families[ipaddress.ip_address(address[0]).version]
        except ValueError:
            self.address_family = socket.AF_INET  # a host name
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        """Where a person on this machine finds the server."""
        host, port = self.server_address[:2]
        host = str(host)
        if host in {"0.0.0.0", "::"}:
            host = "127.0.0.1"
        host = f"[{host}]" if ":" in host else host
        return f"{'https' if self._tls else 'http'}://{host}:{port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve one connection in a thread of its own; let the oldest go where there are many."""
        self._enter(request)
        super().process_request(request, client_address)

    def _enter(self, connection: socket.socket) -> None:
        with self._turn:
            self._connections[connection] = None
            if len(self._connections) <= MOST_CONNECTIONS:
                return
            oldest = next(iter(self._connections))
            del self._connections[oldest]
        with suppress(OSError):  # its client may have left already
            oldest.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and forget it."""
        with self._turn:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve one connection, after its handshake where TLS is on."""
        if self._tls is None:
            super().finish_request(request, client_address)
            return
        with self._turn:
            self._connections.pop(request, None)
        request.settimeout(CLIENT_TIMEOUT_SECONDS)
        try:
            secured = self._tls.wrap_socket(
                request, server_side=True, do_handshake_on_connect=False
            )
        except OSError as error:  # the client left
            log.debug("%s: connection ended: %s", client_address, error)
            return
        self._enter(secured)  # the socket it was made of is no longer one
        try:
            with secured:
                secured.do_handshake()
                super().finish_request(secured, client_address)
        finally:
            with self._turn:
                self._connections.pop(secured, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients may leave whenever they like; that is no traceback. Own faults are."""
        del request
        error = sys.exc_info()[1]
        fault = not isinstance(error, OSError)
        level = logging.ERROR if fault else logging.DEBUG
        log.log(level, "%s: connection ended: %s", client_address, error, exc_info=fault)


def _landing(source: SnapshotSource) -> bytes:
    down = "".join(f"<li>device {html.escape(uuid)} does not answer</li>" for uuid in source.down())
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>GPU Tailor exporter</title>"
        f"<h1>GPU Tailor exporter {__version__}</h1>"
        "<ul><li><a href=/metrics>/metrics</a></li><li><a href=/healthz>/healthz</a></li>"
        f"<li><a href=/readyz>/readyz</a></li>{down}</ul></html>\n"
    )
    return page.encode()
