"""A web server on the loopback that takes objects by PUT, as far as a client of S3 can see.

``objects`` maps paths to bodies, ``kinds`` to their media types; it answers ``status`` and ``body``.
What checks signatures is the real server of the test bed.
"""

from http.server import BaseHTTPRequestHandler

from tests.fakes.hooks import Listening


class _Handler(BaseHTTPRequestHandler):
    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.headers["Host"], self.path, dict(self.headers)))
        if self.server.status == 200:
            self.server.objects[self.path] = body
            self.server.kinds[self.path] = self.headers["Content-Type"]
        self.send_response(self.server.status)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_):
        pass


class Bucket(Listening):
    """Listens within ``with``."""

    def __init__(self):
        super().__init__(_Handler)
        self.objects, self.kinds, self.asked = {}, {}, []
        self.status, self.body = 200, b""
        self.url = f"http://127.0.0.1:{self.server_port}"
