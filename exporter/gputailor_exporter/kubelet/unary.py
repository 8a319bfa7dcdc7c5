"""gRPC calls over HTTP/2 on a unix socket: all of gRPC that a reader of kubelet needs.

grpcio would add some 30 MB to every node's exporter for two calls a cycle; ``h2`` speaks HTTP/2 in
pure Python. A line is kept from call to call, which halves their cost, and holds no state that a
kubelet restart could break: a call on a kept line that breaks before an answer began is made again
on a new one (these calls only read), and after some hundred calls a line is given up, for ``h2``
remembers every stream there was. Protocol:
https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md (path, headers, a 5-byte message
prefix, the status in the trailers, or in the headers where there is no answer).
"""

import socket
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from gputailor_exporter.attribution.allocations import AllocationError

#: Largest answer accepted; a node of 110 pods with hundreds of replicas stays well under 1 MB.
MAX_ANSWER_BYTES: Final = 16 * 2**20
#: Calls on one line.
MOST_CALLS: Final = 500
_WINDOW_BYTES: Final = 2**20
_READ_BYTES: Final = 65536
#: Headers are not checked by the library: ours are fixed, and of kubelet's two are looked at.
_CONFIG: Final = h2.config.H2Configuration(
    client_side=True,
    header_encoding=None,
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
    validate_inbound_headers=False,
    normalize_inbound_headers=False,
)
_PREFIX: Final = struct.Struct(">BI")  # compressed flag, length
_ALLOWED_HTTP: Final = "200"
_DEADLINE_EXCEEDED: Final = "4"  # gRPC status codes

SOCKET_MISSING: Final = "socket_missing"
REFUSED: Final = "refused"
NO_PERMISSION: Final = "no_permission"
TIMEOUT: Final = "timeout"
BAD_ANSWER: Final = "bad_answer"


def _headers(event: h2.events.Event) -> dict[str, str]:
    pairs: Iterable[tuple[bytes | str, bytes | str]] = getattr(event, "headers", None) or ()
    return {_text(name): _text(value) for name, value in pairs}


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class Line:
    """A line to a server on a unix socket, made at the first call. Used from one thread.

    ``clock`` is monotonic seconds.
    """

    def __init__(
        self, path: str, timeout: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``timeout``: seconds a call may take, the making of a line included."""
        self._path = path
        self._timeout = timeout
        self._clock = clock
        self._wire: _Wire | None = None

    def call(self, method: str, request: bytes) -> bytes:
        """Return the answer's message bytes of ``method`` ("/package.Service/Method").

        Raises ``AllocationError`` with a reason.
        """
        deadline = self._clock() + self._timeout
        if self._wire is not None:
            call = _Call(self._path, method, self._timeout)
            try:
                return self._run(call, self._wire, request, deadline)
            except AllocationError as error:
                if call.answered or error.reason == TIMEOUT:
                    raise
        self._wire = self._wire or _Wire(self._path)
        call = _Call(self._path, method, self._timeout)
        return self._run(call, self._wire, request, deadline)

    def close(self) -> None:
        """Give the line up; the next call makes a new one."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    def _run(self, call: "_Call", wire: "_Wire", request: bytes, deadline: float) -> bytes:
        """Make one call; a line on which it failed is given up."""
        kept = False
        try:
            wire.limit(deadline, self._clock)
            wire.connect()
            call.exchange(wire, request)
            kept = wire.calls < MOST_CALLS
        except TimeoutError as error:
            text = f"{self._path}: no answer within {self._timeout:g} s"
            raise AllocationError(TIMEOUT, text) from error
        except ConnectionError as error:
            raise AllocationError(REFUSED, f"{self._path}: {error}") from error
        except h2.exceptions.H2Error as error:
            text = f"{self._path}: no HTTP/2 answer: {error}"
            raise AllocationError(BAD_ANSWER, text) from error
        finally:
            if not kept:
                self.close()
        return call.message()


class _Wire:
    """A socket and the HTTP/2 on it; whatever waits does so until the limit."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._deadline = 0.0
        self._clock: Callable[[], float] = time.monotonic
        self.calls = 0
        self.http = h2.connection.H2Connection(_CONFIG)
        # room for a whole answer from the start: no frame a call to ask for more
        initial = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW_BYTES}
        self.http.local_settings = h2.settings.Settings(client=True, initial_values=initial)

    def limit(self, deadline: float, clock: Callable[[], float]) -> None:
        """Raise ``TimeoutError`` from ``deadline`` on."""
        self._deadline, self._clock = deadline, clock

    def connect(self) -> None:
        """Connect and say hello, where that was not done."""
        if self.calls:
            return
        self._wait()
        try:
            self._socket.connect(self._path)
        except FileNotFoundError as error:
            text = f"{self._path} is not there: is kubelet's pod-resources folder mounted?"
            raise AllocationError(SOCKET_MISSING, text) from error
        except PermissionError as error:
            raise AllocationError(NO_PERMISSION, f"{self._path}: {error.strerror}") from error
        except BlockingIOError as error:  # a unix socket whose queue is full
            raise TimeoutError from error
        except ConnectionError:
            raise
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise AllocationError(SOCKET_MISSING, f"{self._path}: {error}") from error
        self.http.initiate_connection()
        self.http.increment_flow_control_window(_WINDOW_BYTES)

    def send(self) -> None:
        """Send what HTTP/2 has to say."""
        pending = self.http.data_to_send()
        if pending:
            self._wait()
            self._socket.sendall(pending)

    def receive(self) -> list[h2.events.Event]:
        """Wait for events."""
        self._wait()
        received = self._socket.recv(_READ_BYTES)
        if not received:
            raise AllocationError(BAD_ANSWER, f"{self._path}: the answer ended half-way")
        return self.http.receive_data(received)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _wait(self) -> None:
        left = self._deadline - self._clock()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)


class _Call:
    """One request and its answer."""

    def __init__(self, path: str, method: str, timeout: float) -> None:
        self._path = path
        self._method = method
        self._timeout = timeout
        self._body = bytearray()
        self._status: dict[str, str] = {}
        self._done = False

    @property
    def answered(self) -> bool:
        """Whether any of the answer came."""
        return bool(self._status)

    def exchange(self, wire: _Wire, request: bytes) -> None:
        """Send the request and take the answer."""
        http = wire.http
        wire.calls += 1
        stream = http.get_next_available_stream_id()
        http.send_headers(
            stream,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":authority", "localhost"),
                (":path", self._method),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
                ("grpc-timeout", f"{max(1, int(self._timeout * 1000))}m"),
                ("user-agent", "gputailor-exporter"),
            ],
        )
        http.send_data(stream, _PREFIX.pack(0, len(request)) + request, end_stream=True)
        wire.send()
        while not self._done:
            for event in wire.receive():
                if not self._done:  # what comes after the answer is the next call's affair
                    self._take(event, http, stream)
            with suppress(BrokenPipeError):  # kubelet may be gone and its answer still unread
                wire.send()

    def _take(self, event: h2.events.Event, wire: h2.connection.H2Connection, stream: int) -> None:
        if isinstance(event, h2.events.ConnectionTerminated):
            # A graceful GOAWAY still answers streams up to its last id.
            graceful = event.error_code == h2.errors.ErrorCodes.NO_ERROR
            if not graceful or (event.last_stream_id or 0) < stream:
                raise AllocationError(REFUSED, f"{self._path}: kubelet closed the connection")
        elif getattr(event, "stream_id", None) != stream:
            return
        elif isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
            self._status.update(_headers(event))
        elif isinstance(event, h2.events.DataReceived):
            self._body += event.data
            if len(self._body) > MAX_ANSWER_BYTES:
                text = f"{self._path}: the answer is above {MAX_ANSWER_BYTES} bytes"
                raise AllocationError(BAD_ANSWER, text)
            wire.acknowledge_received_data(event.flow_controlled_length, stream)
        elif isinstance(event, h2.events.StreamReset):
            raise AllocationError(REFUSED, f"{self._path}: stream reset ({event.error_code})")
        elif isinstance(event, h2.events.StreamEnded):
            self._done = True

    def message(self) -> bytes:
        """Return the answer's message; raises ``AllocationError`` where it is an error."""
        http, grpc = self._status.get(":status"), self._status.get("grpc-status")
        if grpc is None or not grpc.isdigit():
            text = f"{self._path}: no gRPC answer (HTTP status {http})"
            raise AllocationError(BAD_ANSWER, text)
        if grpc != "0":
            said = unquote(self._status.get("grpc-message", ""))
            text = f"{self._path}: {self._method} answered gRPC status {grpc}: {said}"
            late = grpc == _DEADLINE_EXCEEDED  # the server keeps our deadline, too
            raise AllocationError(TIMEOUT if late else f"grpc_status_{grpc}", text)
        if http != _ALLOWED_HTTP or len(self._body) < _PREFIX.size:
            raise AllocationError(BAD_ANSWER, f"{self._path}: an answer without a message")
        compressed, length = _PREFIX.unpack_from(self._body)
        if compressed or length != len(self._body) - _PREFIX.size:
            raise AllocationError(BAD_ANSWER, f"{self._path}: a message of wrong length or coding")
        return bytes(self._body[_PREFIX.size :])
