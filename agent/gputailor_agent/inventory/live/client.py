"""Asking an API server: the ``kubernetes`` client's configuration and transport, raw answers.

The client's model classes cost 13 s and 590 MB for 5,000 pods, so its connection pool is used and
msgspec decodes what comes. Only GET is ever sent, and POST for reviews of our own permissions;
``write`` is for ``reports.delivery.kubernetes_writing``, which is asked to write into the cluster.
Busy servers (429, 5xx) and lost connections are asked again with back-off; refused credentials are
loaded anew once, since tokens rotate and exec plugins give new ones.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3.util.ssl_ import create_urllib3_context

from gputailor_agent.inventory.live.configuring import Connection, client_module, find_connection
from gputailor_agent.inventory.live.errors import (
    UNAUTHORISED,
    AnswerError,
    ClusterError,
    UnreachableError,
    UnreadableError,
    lost_advice,
    refused_advice,
)
from gputailor_agent.inventory.live.waiting import Patience, retry_after_seconds
from gputailor_agent.model.trust import without_strictness

Query = Sequence[tuple[str, str]]
T = TypeVar("T")

_OK: Final = range(200, 300)
_CHUNK_BYTES: Final = 1 << 16
_LONGEST_LINE_BYTES: Final = 64 << 20  # etcd holds at most 1.5 MiB an object; anything else is junk
_SHOWN: Final = 200


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct, rename="camel"):
    kind: str | None = None
    message: str | None = None
    details: _Details | None = None


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait for a connection, and for the next bytes of an answer."""

    connect_seconds: float = 10.0
    read_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    query: Query = ()
    body: bytes | None = None
    content: str = ""  # type of the body; '': as JSON
    encoding: str = "gzip"
    read_seconds: float | None = None  # None: as set


class Client:
    """One cluster's API server. Safe to use from several threads; ``close`` at the end."""

    def __init__(
        self,
        connection: Connection,
        *,
        patience: Patience | None = None,
        timeouts: Timeouts | None = None,
        sleep: Callable[[float], object] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.where = connection.where
        self.namespace = connection.namespace
        self.patience = patience or Patience()
        self._timeouts = timeouts or Timeouts()
        self._connection = connection
        self._sleep = sleep
        self._jitter = jitter
        self._loading = threading.Lock()
        self._api = self._loaded()

    @property
    def host(self) -> str:
        """Address of the API server."""
        return str(self._api.configuration.host)

    def close(self) -> None:
        """Give back every connection."""
        self._api.rest_client.pool_manager.clear()

    def get(self, path: str, kind: type[T], query: Query = ()) -> T:
        """The decoded answer to a GET; raises ``ClusterError`` when patience is at its end."""
        request = _Request("GET", path, query)
        return self._patiently(lambda: self._decoded(self._whole(request), path, kind))

    def review(self, path: str, body: object, kind: type[T]) -> T:
        """The decoded answer to a review of our own permissions."""
        request = _Request("POST", path, body=msgspec.json.encode(body))
        return self._patiently(lambda: self._decoded(self._whole(request), path, kind))

    def write(
        self, method: str, path: str, body: object, *, content: str = "", query: Query = ()
    ) -> None:
        """Send an object once; raises ``ClusterError`` unless the server took it."""
        self._whole(_Request(method, path, query, msgspec.json.encode(body), content))

    @contextmanager
    def stream(self, path: str, query: Query, *, silence_seconds: float) -> Iterator["Stream"]:
        """An answer that goes on: lines as they come. No second try; the caller resumes."""
        response = self._answered(
            _Request("GET", path, query, encoding="identity", read_seconds=silence_seconds)
        )
        try:
            yield Stream(response, lambda error: self._lost(path, error))
        finally:
            response.close()

    def _patiently(self, ask: Callable[[], T]) -> T:
        failures = 0
        while True:
            try:
                return ask()
            except ClusterError as error:
                failures += 1
                away = isinstance(error, UnreachableError)
                attempts = self.patience.attempts_unreachable if away else self.patience.attempts
                if not error.passing or failures >= attempts:
                    raise
                self._sleep(
                    self.patience.pause_seconds(failures, self._jitter(), error.retry_after_seconds)
                )

    def _decoded(self, body: bytes, path: str, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            start = body[:_SHOWN].decode("utf-8", "replace").replace("\n", " ")
            raise UnreadableError(
                f"{self.host}{path} answered something that is no Kubernetes object ({error}): "
                f"{start!r}; is the address ({self.where}) an API server, or is a proxy between?"
            ) from error

    def _whole(self, request: "_Request") -> bytes:
        response = self._answered(request)
        try:
            content: bytes = response.read(decode_content=True)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            response.close()
            raise self._lost(request.path, error) from error
        response.release_conn()
        return content

    def _answered(self, request: "_Request") -> Any:
        """A successful response with its body unread; raises for every other."""
        api = self._api
        response = self._send(api, request)
        if response.status == UNAUTHORISED:
            response.close()
            response = self._send(self._reloaded(api), request)
        if response.status in _OK:
            return response
        try:
            content = response.read(decode_content=True)
        except (urllib3.exceptions.HTTPError, OSError):
            content = b""
        response.close()
        raise self._refused(request, response.status, response.headers, content)

    def _send(self, api: Any, request: "_Request") -> Any:
        asked = f"{request.path}?{urlencode(request.query)}" if request.query else request.path
        read_seconds = request.read_seconds or self._timeouts.read_seconds
        credentials = self._credentials(api)
        try:
            return api.rest_client.pool_manager.request(
                request.method,
                api.configuration.host.rstrip("/") + asked,
                body=request.body,
                headers={
                    **api.default_headers,
                    **credentials,
                    **({"Content-Type": request.content} if request.content else {}),
                    "Accept-Encoding": request.encoding,
                },
                timeout=urllib3.Timeout(connect=self._timeouts.connect_seconds, read=read_seconds),
                preload_content=False,
                retries=False,  # its own retries would sleep as long as any server says
            )
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._lost(request.path, error) from error

    def _credentials(self, api: Any) -> dict[str, str]:
        """The header that says who we are; refreshed by the client where it knows how."""
        with self._loading:
            try:
                settings = api.configuration.auth_settings()
            except Exception as error:
                raise UnreachableError(f"{self.where}: credentials: {error}") from error
            return {one["key"]: one["value"] for one in settings.values() if one["value"]}

    def _loaded(self) -> Any:
        configuration = self._connection.load()
        if hasattr(configuration, "keep_alive"):
            configuration.keep_alive = True  # a watch must notice a peer that vanished
        if "://" not in configuration.host:  # kubectl takes such an address for plain HTTP
            configuration.host = f"http://{configuration.host}"
        api = client_module("client").ApiClient(configuration)
        pools = api.rest_client.pool_manager.connection_pool_kw
        context = create_urllib3_context(cert_reqs=pools.get("cert_reqs"))
        if not pools.get("ca_certs"):
            context.load_default_certs()
        pools["ssl_context"] = without_strictness(context)
        api.default_headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": f"gputailor/{metadata.version('gputailor')}",
        }
        return api

    def _reloaded(self, refused: Any) -> Any:
        """The client with credentials read anew, unless another thread just did that."""
        with self._loading:
            if self._api is refused:
                self._api = self._loaded()
            return self._api

    def _lost(self, path: str, error: Exception) -> UnreachableError:
        passing, advice = lost_advice(f"{type(error).__name__}: {error}")
        return UnreachableError(
            f"{self.host}{path} ({self.where}): {_said(error)}; {advice}", passing=passing
        )

    def _refused(
        self, request: "_Request", status: int, headers: Any, content: bytes
    ) -> AnswerError:
        try:
            answer = msgspec.json.decode(content, type=_Status)
        except (msgspec.DecodeError, UnicodeDecodeError):
            text = content[:_SHOWN].decode("utf-8", "replace").strip()
            answer = _Status(message=text.replace("\n", " "))
        message = answer.message or "no reason given"
        asked = retry_after_seconds(headers.get("Retry-After"), time.time())
        if asked is None and answer.details is not None:
            asked = answer.details.retry_after_seconds
        advice = refused_advice(status, message, self.where)
        return AnswerError(
            f"{request.method} {self.host}{request.path}: {status}: {message.rstrip('.')}{advice}",
            status=status,
            message=message,
            retry_after_seconds=asked,
        )


def _said(error: Exception) -> str:
    """What a transport error says, without the addresses of its objects."""
    reason = getattr(error, "reason", None) or error
    text = str(reason) or type(reason).__name__
    return text.rpartition("object at 0x")[2].partition(">: ")[2] or text


class Stream:
    """Lines of an endless answer."""

    def __init__(self, response: Any, lost: Callable[[Exception], UnreachableError]) -> None:
        self._response = response
        self._lost = lost

    def shutdown(self) -> None:
        """End it from another thread: whoever waits for a line wakes up."""
        try:
            self._response.shutdown()
        except (ValueError, RuntimeError, AttributeError, OSError):
            self._response.close()

    def lines(self) -> Iterator[bytes]:
        """Each line without its end; raises ``UnreachableError`` when the connection is lost."""
        rest = bytearray()
        try:
            for chunk in self._response.stream(_CHUNK_BYTES, decode_content=True):
                rest += chunk
                if b"\n" in chunk:
                    *whole, last = bytes(rest).split(b"\n")
                    rest = bytearray(last)
                    yield from (line for line in whole if line.strip())
                elif len(rest) > _LONGEST_LINE_BYTES:
                    raise UnreadableError(
                        f"a line of more than {_LONGEST_LINE_BYTES >> 20} MiB in a watch; "
                        "is a proxy between us and the API server?"
                    )
        except (urllib3.exceptions.HTTPError, OSError, AttributeError, ValueError) as error:
            # closing a response under its reader surfaces as any of these
            raise self._lost(error) from error


def connect(
    kubeconfig: Path | str | None = None, context: str | None = None, **more: Any
) -> Client:
    """A client of the cluster that is named, else of the one kubectl would ask.

    Raises ``AccessError`` where there is none or its credentials cannot be loaded.
    """
    return Client(find_connection(kubeconfig, context), **more)
