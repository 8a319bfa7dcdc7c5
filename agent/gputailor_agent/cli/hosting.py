"""One process that runs the agent and serves its pages until it is told to stop.

SIGTERM and SIGINT end it cleanly: no new scrape, running work ends, rows and checkpoint are
written, open requests are answered.
"""

import asyncio
import logging
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import uvicorn

from gputailor_agent.api.app import OPEN, create_app
from gputailor_agent.api.doors import Doors
from gputailor_agent.api.kept import Kept, KeptStore
from gputailor_agent.api.state import AgentState
from gputailor_agent.cli.errors import CommandError, UsageError
from gputailor_agent.cli.settings import split_listen
from gputailor_agent.schedule import AgentService

_SHUTDOWN_SECONDS: Final = 10
#: More at once are told to come again (503): a page takes a moment.
_MOST_CONNECTIONS: Final = 512
_START_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.2


class Stopped(Exception):  # noqa: N818 - a request to stop is no error
    """Somebody asked the process to stop."""


class Asked:
    """A wish that a signal handler notes down.

    Without a lock, unlike ``threading.Event``: a handler runs in the main thread in the middle of
    whatever that does, and would wait for ever for a lock that the main thread holds right then.
    """

    def __init__(self) -> None:
        self._noted = False

    def set(self) -> None:
        """Note it down."""
        self._noted = True

    def clear(self) -> None:
        """It is done."""
        self._noted = False

    def is_set(self) -> bool:
        """Whether it was noted."""
        return self._noted

    def wait(self, seconds: float) -> bool:
        """Sleep for so long, or until it is noted; returns whether it is."""
        end = time.monotonic() + seconds
        while not self._noted and (left := end - time.monotonic()) > 0:
            time.sleep(min(_LOOK_SECONDS, left))
        return self._noted


@contextmanager
def stopping() -> Iterator[Asked]:
    """Within: SIGTERM and SIGINT are noted, and raise ``Stopped`` in the main thread once.

    Outside, the former handlers are back.
    """
    asked = Asked()

    def ask(_number: int, _frame: FrameType | None) -> None:
        if not asked.is_set():
            asked.set()
            raise Stopped

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    except Stopped:
        return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def leaving(asked: Asked) -> Iterator[None]:
    """After it nobody can break into the cleaning up: what is being stopped is stopped in full."""
    try:
        yield
    finally:
        asked.set()


def check_address(listen: str) -> None:
    """Raise ``UsageError`` or ``CommandError`` now for an address that cannot be had later."""
    try:
        host, port = split_listen(listen)
    except ValueError as error:
        raise UsageError(f"--listen: {error}") from error
    _bind(host, port).close()


@contextmanager
def serving(
    state: AgentState, listen: str, doors: Doors = OPEN, kept: Kept | None = None
) -> Iterator[str]:
    """Serve the pages in a thread; yields the URL. Port 0 takes a free one.

    ``doors``: who is let in; ``kept``: what is kept beside plans, by default the agent's store.
    Raises ``CommandError`` when the address cannot be had.
    """
    host, port = split_listen(listen)
    bound = _bind(host, port)
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(state, doors=doors, kept=kept or _kept(state)),
            log_level=logging.WARNING,
            access_log=False,
            # whose address a request has is read from the connection: who believes headers about
            # it is the doors' business
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            lifespan="off",
        )
    )
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[bound])), name="pages", daemon=True
    )
    thread.start()
    try:
        yield _url(host, bound.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(_SHUTDOWN_SECONDS + _START_SECONDS)
        bound.close()


def _kept(state: AgentState) -> Kept | None:
    """What the running agent's store tells beside plans."""
    if not isinstance(state, AgentService):
        return None
    parts = state.parts
    return KeptStore(parts.store, parts.settings.cluster, lambda: parts.judging.newest)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise CommandError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another address "
            "with --listen HOST:PORT (port 0 takes a free one)"
        ) from error
    return bound


def _url(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"
