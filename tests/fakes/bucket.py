"""A web server on the loopback that takes objects by PUT, as far as a client of S3 can see.

``objects`` maps paths to bodies, ``kinds`` to their media types; it answers ``status`` and ``body``.
What checks signatures is the real server of the test bed.
"""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer


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


class Bucket(HTTPServer):
    """Listens within ``with``."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects, self.kinds, self.asked = {}, {}, []
        self.status, self.body = 200, b""
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
        self._thread.join(5)
