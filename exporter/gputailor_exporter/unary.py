"""One gRPC call over HTTP/2 on a unix socket: all of gRPC that a reader of kubelet needs.

grpcio would add some 30 MB to every node's exporter for two calls a cycle; ``h2`` speaks HTTP/2 in
pure Python. A connection per call keeps no state that a kubelet restart could break. Protocol:
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

from gputailor_exporter.allocations import AllocationError

#: Largest answer accepted; a node of 110 pods with hundreds of replicas stays well under 1 MB.
MAX_ANSWER_BYTES: Final = 16 * 2**20
_WINDOW_BYTES: Final = 2**20
_READ_BYTES: Final = 65536
_PREFIX: Final = struct.Struct(">BI")  # compressed flag, length
_ALLOWED_HTTP: Final = "200"

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


class UnaryCall:
    """One request and its answer; ``clock`` is monotonic seconds."""

    def __init__(
        self, path: str, method: str, timeout: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare a call of ``method`` ("/package.Service/Method") on the socket at ``path``."""
        self._path = path
        self._method = method
        self._timeout = timeout
        self._clock = clock
        self._deadline = 0.0
        self._body = bytearray()
        self._status: dict[str, str] = {}
        self._done = False

    def run(self, request: bytes) -> bytes:
        """Return the answer's message bytes; raises ``AllocationError`` with a reason."""
        self._deadline = self._clock() + self._timeout
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            try:
                self._connect(channel)
                self._exchange(channel, request)
            except TimeoutError as error:
                text = f"{self._path}: no answer within {self._timeout:g} s"
                raise AllocationError(TIMEOUT, text) from error
            except (ConnectionError, BrokenPipeError) as error:
                raise AllocationError(REFUSED, f"{self._path}: {error}") from error
            except h2.exceptions.H2Error as error:
                text = f"{self._path}: no HTTP/2 answer: {error}"
                raise AllocationError(BAD_ANSWER, text) from error
        return self._message()

    def _connect(self, channel: socket.socket) -> None:
        self._wait(channel)
        try:
            channel.connect(self._path)
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

    def _wait(self, channel: socket.socket) -> None:
        left = self._deadline - self._clock()
        if left <= 0:
            raise TimeoutError
        channel.settimeout(left)

    def _exchange(self, channel: socket.socket, request: bytes) -> None:
        config = h2.config.H2Configuration(client_side=True, header_encoding=None)
        wire = h2.connection.H2Connection(config)
        wire.initiate_connection()
        wire.increment_flow_control_window(_WINDOW_BYTES)
        stream = wire.get_next_available_stream_id()
        wire.send_headers(
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
        wire.send_data(stream, _PREFIX.pack(0, len(request)) + request, end_stream=True)
        wire.increment_flow_control_window(_WINDOW_BYTES, stream)
        channel.sendall(wire.data_to_send())
        while not self._done:
            self._wait(channel)
            received = channel.recv(_READ_BYTES)
            if not received:
                raise AllocationError(BAD_ANSWER, f"{self._path}: the answer ended half-way")
            for event in wire.receive_data(received):
                self._take(event, wire, stream)
                if self._done:  # kubelet may have hung up already: nothing is left to say
                    return
            pending = wire.data_to_send()
            if pending:
                self._wait(channel)
                with suppress(BrokenPipeError):  # kubelet may be gone and its answer still unread
                    channel.sendall(pending)

    def _take(self, event: h2.events.Event, wire: h2.connection.H2Connection, stream: int) -> None:
        if isinstance(event, h2.events.ConnectionTerminated):
            # A graceful GOAWAY still answers streams up to its last id; ours is the first.
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

    def _message(self) -> bytes:
        http, grpc = self._status.get(":status"), self._status.get("grpc-status")
        if grpc is None or not grpc.isdigit():
            text = f"{self._path}: no gRPC answer (HTTP status {http})"
            raise AllocationError(BAD_ANSWER, text)
        if grpc != "0":
            said = unquote(self._status.get("grpc-message", ""))
            text = f"{self._path}: {self._method} answered gRPC status {grpc}: {said}"
            raise AllocationError(f"grpc_status_{grpc}", text)
        if http != _ALLOWED_HTTP or len(self._body) < _PREFIX.size:
            raise AllocationError(BAD_ANSWER, f"{self._path}: an answer without a message")
        compressed, length = _PREFIX.unpack_from(self._body)
        if compressed or length != len(self._body) - _PREFIX.size:
            raise AllocationError(BAD_ANSWER, f"{self._path}: a message of wrong length or coding")
        return bytes(self._body[_PREFIX.size :])
