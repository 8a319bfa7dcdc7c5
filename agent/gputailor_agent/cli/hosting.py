"""One process that runs the agent and serves its pages until it is told to stop.

SIGTERM and SIGINT end it cleanly: no new scrape, running work ends, rows and checkpoint are
written, open requests are answered.
"""

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import uvicorn

from gputailor_agent.api.app import create_app
from gputailor_agent.api.state import AgentState
from gputailor_agent.cli.errors import CommandError, UsageError
from gputailor_agent.cli.settings import split_listen

_SHUTDOWN_SECONDS: Final = 10
_START_SECONDS: Final = 20.0


class Stopped(Exception):  # noqa: N818 - a request to stop is no error
    """Somebody asked the process to stop."""


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Within: SIGTERM and SIGINT set the event, and raise ``Stopped`` in the main thread once.

    Outside, the former handlers are back.
    """
    asked = threading.Event()

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
def leaving(asked: threading.Event) -> Iterator[None]:
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
def serving(state: AgentState, listen: str) -> Iterator[str]:
    """Serve the pages in a thread; yields the URL. Port 0 takes a free one.

    Raises ``CommandError`` when the address cannot be had.
    """
    host, port = split_listen(listen)
    bound = _bind(host, port)
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(state),
            log_level=logging.WARNING,
            access_log=False,
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
