"""A small server that behaves as Grafana's HTTP API is documented to: folders and dashboards.

``GET/POST /api/folders``, ``GET /api/dashboards/uid/UID``, ``POST /api/dashboards/db``: 401 for a
wrong token, 403 for one without the right, 404 for what is not there, 412 where a dashboard of that
uid is there with another version (``version-mismatch``) or another one of that title in the folder
(``name-exists``), unless ``overwrite`` is set. It numbers dashboards (``id``, ``version``) itself.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "glsa_secret"


@dataclass
class FakeGrafana:
    """What the server has, and what it is to refuse."""

    url: str = ""
    folders: dict[str, str] = field(default_factory=dict)
    dashboards: dict[str, dict[str, Any]] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)
    may_write: bool = True
    provisioned: set[str] = field(default_factory=set)
    #: Answers every request with this page, as a proxy before it would.
    page: tuple[int, str, dict[str, str]] | None = None
    posts: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, method: str, path: str, token: str, body: Any) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        if token != f"Bearer {TOKEN}":
            return 401, {"message": "Invalid API key"}
        if method == "POST" and not self.may_write:
            return 403, {"message": "You'll need additional permissions to perform this action."}
        if path.startswith("/api/folders"):
            return self._folder(method, path.removeprefix("/api/folders").strip("/"), body)
        if path.startswith("/api/dashboards/uid/"):
            uid = path.rsplit("/", 1)[1]
            if uid not in self.dashboards:
                return 404, {"message": "Dashboard not found"}
            return 200, {
                "dashboard": self.dashboards[uid],
                "meta": {"folderUid": self.homes[uid]},
            }
        return self._save(body) if path == "/api/dashboards/db" else (404, {"message": "?"})

    def _folder(self, method: str, uid: str, body: Any) -> tuple[int, Any]:
        if method == "GET":
            if uid not in self.folders:
                return 404, {"message": "folder not found"}
            return 200, {"uid": uid, "title": self.folders[uid]}
        if body["uid"] in self.folders or body["title"] in self.folders.values():
            return 412, {"message": "a folder with the same name already exists"}
        self.folders[body["uid"]] = body["title"]
        return 200, body

    def _save(self, body: Any) -> tuple[int, Any]:
        self.posts.append(body)
        dashboard, home = body["dashboard"], body["folderUid"]
        uid = dashboard["uid"]
        if home not in self.folders:
            return 400, {"message": "folder not found", "status": "not-found"}
        if uid in self.provisioned:
            return 400, {"message": "Cannot save provisioned dashboard"}
        there = self.dashboards.get(uid)
        if there is not None and not body["overwrite"]:
            if dashboard.get("version", 0) != there["version"]:
                said = "The dashboard has been changed by someone else"
                return 412, {"status": "version-mismatch", "message": said}
        elif not body["overwrite"] and self._same_title(dashboard["title"], home):
            said = "A dashboard with the same name already exists"
            return 412, {"status": "name-exists", "message": said}
        version = 1 if there is None else there["version"] + 1
        number = len(self.dashboards) + 1 if there is None else there["id"]
        self.dashboards[uid] = {**dashboard, "id": number, "version": version}
        self.homes[uid] = home
        return 200, {"status": "success", "uid": uid, "url": f"/d/{uid}/x", "version": version}

    def _same_title(self, title: str, home: str) -> bool:
        return any(
            one["title"] == title and self.homes[uid] == home
            for uid, one in self.dashboards.items()
        )


@contextmanager
def grafana() -> Iterator[FakeGrafana]:
    """Yield a server on a free port of the loopback interface; it ends with the block."""
    fake = FakeGrafana()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            if fake.page is not None:
                status, text, headers = fake.page
            else:
                token = self.headers.get("Authorization", "")
                status, answer = fake.answer(self.command, self.path, token, body)
                text, headers = json.dumps(answer), {"Content-Type": "application/json"}
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = _serve  # noqa: N815 - names of the base class

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
