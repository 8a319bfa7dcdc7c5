"""A server that speaks as much of Prometheus' API as tells which metrics there are."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class NameServer:
    """Its address, and the headers of what it was asked."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.asked: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(dict(self.headers))
                body = json.dumps({"status": "success", "data": outer.names}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments):
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def prometheus_with(names: Sequence[str]) -> Iterator[NameServer]:
    """A server that has metrics of these names."""
    found = NameServer(names)
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        found.server.server_close()
        thread.join()
