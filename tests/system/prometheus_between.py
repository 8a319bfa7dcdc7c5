"""A proxy of a test in front of real servers: it hands requests on, and does harm where told."""

import contextlib
import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

#: What a harm makes of an answer: another status and body. It is given the path.
Harm = Callable[[str, int, bytes], tuple[int, bytes]]


class Between:
    """Hands each request to the next of ``servers`` in turn. ``harm`` may spoil each answer."""

    def __init__(self, servers: Sequence[str]) -> None:
        self.servers = list(servers)
        self.harm: Harm | None = None
        self.asked: list[str] = []
        self._turn = threading.Lock()
        self.client = httpx.Client(trust_env=False, timeout=60)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.answer(self, "GET")

            def do_POST(self) -> None:
                outer.answer(self, "POST")

            def log_message(self, *_arguments: object) -> None:
                return

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def answer(self, request: BaseHTTPRequestHandler, method: str) -> None:
        """Ask the server whose turn it is and give its answer, spoilt or not."""
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        with self._turn:
            server = self.servers[len(self.asked) % len(self.servers)]
            self.asked.append(request.path)
        headers = {"Content-Type": request.headers.get("Content-Type", "text/plain")}
        answer = self.client.request(method, server + request.path, content=body, headers=headers)
        status, content = answer.status_code, answer.content
        if self.harm is not None:
            status, content = self.harm(request.path, status, content)
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        packed = gzip.compress(content, 1)
        request.send_header("Content-Encoding", "gzip")
        request.send_header("Content-Length", str(len(packed)))
        request.end_headers()
        with contextlib.suppress(ConnectionError):  # of who waited no longer
            request.wfile.write(packed)


@contextmanager
def between(*servers: str) -> Iterator[Between]:
    """A proxy in front of one or more servers."""
    proxy = Between(servers)
    thread = threading.Thread(target=proxy.http.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.http.shutdown()
        proxy.http.server_close()
        thread.join()
        proxy.client.close()


def every(nth: int, harm: Harm) -> Harm:
    """The harm done to each nth answer alone."""
    seen = iter(range(1, 1_000_000))

    def sometimes(path: str, status: int, body: bytes) -> tuple[int, bytes]:
        return harm(path, status, body) if next(seen) % nth == 0 else (status, body)

    return sometimes


def busy(_path: str, _status: int, _body: bytes) -> tuple[int, bytes]:
    """The server is not ready."""
    return 503, b"Service Unavailable"


def broken_off(_path: str, status: int, body: bytes) -> tuple[int, bytes]:
    """Half an answer, with the length of a half."""
    return status, body[: len(body) // 2]


def slow(seconds: float) -> Harm:
    """An answer that takes its time."""

    def wait(_path: str, status: int, body: bytes) -> tuple[int, bytes]:
        time.sleep(seconds)
        return status, body

    return wait


def partly(lost: Callable[[dict[str, str]], bool], said: str) -> Harm:
    """As Thanos answers when a store is away: series are missing and a warning says so."""

    def without(path: str, status: int, body: bytes) -> tuple[int, bytes]:
        answer: dict[str, Any] = json.loads(body)
        data = answer.get("data")
        if "/query" in path and isinstance(data, dict):
            data["result"] = [one for one in data["result"] if not lost(one["metric"])]
        elif path.partition("?")[0].endswith("/series"):
            answer["data"] = [one for one in data or () if not lost(one)]
        answer["warnings"] = [said]
        return status, json.dumps(answer).encode()

    return without
