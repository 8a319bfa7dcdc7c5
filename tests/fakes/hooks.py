"""A web address on the loopback that keeps what is posted to it and answers ``status``."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.headers, json.loads(raw)))
        self.server.raw.append(raw)
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Listening(HTTPServer):
    """Listens on a free port of its own within ``with``."""

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
        self._thread.join(5)


class Hook(Listening):
    """Listens within ``with``. ``got``: headers and parsed bodies; ``raw``: bodies as they came."""

    def __init__(self):
        super().__init__(_Handler)
        self.got, self.raw, self.status = [], [], 200
        self.place = f"127.0.0.1:{self.server_port}"
        self.url = f"http://{self.place}/T0P/SECRET"
