"""One kind, listed once and then followed.

A watch resumes from the last version it saw, which bookmarks keep fresh; when that version is too
old (410 Gone) the kind is listed anew. Lost connections and busy servers are met with back-off.
The thread never gives up and never dies of what a server sends: where it stands is told by
``problem``, ``contact`` and ``connected``.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from gputailor_agent.inventory.live.client import Client, Stream
from gputailor_agent.inventory.live.discovering import ApiResource
from gputailor_agent.inventory.live.errors import (
    FORBIDDEN,
    GONE,
    NOT_FOUND,
    AnswerError,
    ClusterError,
    UnreachableError,
    UnreadableError,
)
from gputailor_agent.inventory.live.listing import PAGE_SIZE, list_objects

log = logging.getLogger(__name__)

T = TypeVar("T")

_SILENCE_SECONDS: Final = 30.0  # on top of the watch's own length
_TRIES_OF_A_VERSION: Final = 5  # then the version may be what the server stumbles over


class Sink(Protocol[T]):
    """What a watch feeds. Times are Unix seconds."""

    def take(self, content: msgspec.Raw) -> T | None:
        """An object as it is kept; None for one that is not."""
        ...

    def listed(self, items: Sequence[T], at: float, unseen_since: float) -> None:
        """Everything there is; what is missing was last seen at ``unseen_since``."""
        ...

    def changed(self, content: msgspec.Raw, at: float) -> None:
        """An object is new or different."""
        ...

    def deleted(self, content: msgspec.Raw, at: float) -> None:
        """An object is gone; its last state."""
        ...


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """``watch_seconds``: how long one watch lasts before it is asked for anew.

    ``refused_seconds``: pause after a refusal, since a permission seldom comes sooner. Who may list
    but not watch is served by a list each time.
    """

    watch_seconds: int = 240
    refused_seconds: float = 60.0
    page_size: int = PAGE_SIZE


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str | None = None


class _Object(msgspec.Struct):
    metadata: _Meta | None = None


class _Status(msgspec.Struct):
    code: int | None = None
    message: str | None = None


class Watching(Generic[T]):
    """Follows one kind in one namespace ('' for all). ``run`` is a thread's body."""

    def __init__(
        self,
        client: Client,
        resource: ApiResource,
        namespace: str,
        sink: Sink[T],
        *,
        clock: Callable[[], float],
        stopped: threading.Event,
        jitter: Callable[[], float],
        settings: WatchSettings | None = None,
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.problem = ""  # why it is not up to date; '' when it is
        self.refused = False  # by permissions: it will not mend itself
        self.contact: float | None = None  # when the server last told us something
        self.connected = False
        self.synced = threading.Event()  # listed at least once
        self.tried = threading.Event()  # listed, or failed to at least once
        self._client = client
        self._path = resource.path(namespace)
        self._sink = sink
        self._clock = clock
        self._stopped = stopped
        self._jitter = jitter
        self._settings = settings or WatchSettings()
        self._version: str | None = None
        self._stream: Stream | None = None
        self._failures = 0

    def seen_at(self, now: float) -> float | None:
        """As of when it is known; None before the first list."""
        return now if self.connected else self.contact

    def interrupt(self) -> None:
        """Wake the thread from a watch, after ``stopped`` was set."""
        stream = self._stream
        if stream is not None:
            stream.shutdown()

    def run(self) -> None:
        """List and watch until stopped."""
        while not self._stopped.is_set():
            try:
                self._turn()
            except ClusterError as error:
                self._failed(error)
            except Exception as error:
                log.exception("watching %s", self.resource.named)
                self._version = None
                self._failed(ClusterError(f"{self.resource.named}: {error!r}"))

    def _turn(self) -> None:
        """One list where there is no version to go on from, and one watch."""
        if self._version is None:
            self._list()
        began = self._clock()
        told = self._watch(self._version or "")
        if not told and self._clock() - began < 1.0:  # a server that closes at once
            raise UnreachableError(f"{self._client.host}{self._path}: watches end at once")
        self._failures = 0

    def _list(self) -> None:
        since = self.contact
        listing = list_objects(
            self._client, self._path, self._sink.take, page_size=self._settings.page_size
        )
        now = self._clock()
        self._sink.listed(listing.items, now, now if since is None else since)
        self._version = listing.resource_version
        self._heard(failures=self._failures)  # a list alone is no success: its watch may fail
        self.synced.set()
        self.tried.set()

    def _watch(self, version: str) -> bool:
        """Follow until the server ends the watch; whether it told anything."""
        seconds = self._settings.watch_seconds
        query = [
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version),
            ("timeoutSeconds", str(round(seconds * (1.0 + 0.2 * self._jitter())))),
        ]
        silence = seconds * 1.2 + _SILENCE_SECONDS
        told = False
        with self._client.stream(self._path, query, silence_seconds=silence) as stream:
            self._stream = stream
            try:
                if self._stopped.is_set():  # `interrupt` came before there was a stream
                    return True
                self.connected = True
                self._heard(failures=self._failures)
                for line in stream.lines():
                    if self._stopped.is_set():
                        break
                    self._event(line)
                    self._heard()
                    told = True
                self.contact = self._clock()
            finally:
                self.connected = False
                self._stream = None
        return told

    def _event(self, line: bytes) -> None:
        try:
            event = msgspec.json.decode(line, type=_Event)
            if event.type == "ERROR":
                self._refused(msgspec.json.decode(event.object, type=_Status))
            about = msgspec.json.decode(event.object, type=_Object).metadata or _Meta()
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._version = None  # what it was is lost, so everything is looked at again
            raise UnreadableError(
                f"{self._client.host}{self._path}: no event in a watch ({error}): {line[:99]!r}"
            ) from error
        now = self._clock()
        if event.type == "DELETED":
            self._sink.deleted(event.object, now)
        elif event.type in {"ADDED", "MODIFIED"}:
            self._sink.changed(event.object, now)
        if about.resource_version:
            self._version = about.resource_version

    def _refused(self, status: _Status) -> None:
        code = status.code or 500
        raise AnswerError(
            f"{self._client.host}{self._path}: the watch ended with {code}: "
            f"{status.message or 'no reason given'}",
            status=code,
            message=status.message or "",
        )

    def _heard(self, failures: int = 0) -> None:
        self.contact = self._clock()
        self.problem = ""
        self.refused = False
        self._failures = failures

    def _failed(self, error: ClusterError) -> None:
        """Note what happened and wait; a version that is too old only costs a new list."""
        if self._stopped.is_set():
            return
        self._failures += 1
        status = error.status if isinstance(error, AnswerError) else None
        self.refused = status in {FORBIDDEN, NOT_FOUND}
        if status == GONE:
            log.info("%s: version too old, listing anew", self.resource.named)
        else:
            self.problem = str(error)
            self.tried.set()
            log.log(logging.WARNING if self._failures in {1, 10} else logging.DEBUG, "%s", error)
        answered = not isinstance(error, UnreachableError)
        stumbling = answered and self._failures % _TRIES_OF_A_VERSION == 0
        if status == GONE or self.refused or stumbling:
            self._version = None
        pause = self._client.patience.pause_seconds(
            self._failures, self._jitter(), error.retry_after_seconds
        )
        if status == GONE and self._failures == 1:
            pause = 0.0
        self._stopped.wait(max(pause, self._settings.refused_seconds) if self.refused else pause)
