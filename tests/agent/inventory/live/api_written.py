"""What was written into the API server of ours: Events, and annotations by server-side apply."""

import json

_MISMATCH = "uid mismatch: the provided object specified another uid"


def _status(code: int, message: str) -> tuple[int, bytes]:
    return code, json.dumps({"kind": "Status", "code": code, "message": message}).encode()


class Written:
    """Events by their paths, and which annotations one manager applied."""

    def __init__(self) -> None:
        self.events: dict[str, dict] = {}
        self._applied: dict[str, tuple[str, ...]] = {}

    def take(self, server, request) -> tuple[int, bytes]:
        """The answer to a request that writes."""
        body = json.loads(request.body)
        if "/events" not in request.path:
            return self._apply(server, request.path, body)
        if request.method == "POST":
            path = f"{request.path}/{body['metadata']['name']}"
            if path in self.events:
                return _status(409, "it exists already")
            self.events[path] = body
            return 201, request.body
        if request.path not in self.events:
            return _status(404, "not found")
        self.events[request.path].update(body)
        return 200, b"{}"

    def _apply(self, server, path: str, body: dict) -> tuple[int, bytes]:
        """Server-side apply of annotations by one manager: those it leaves out go."""
        there = server.find(path)
        if there is None or there["metadata"]["uid"] != body["metadata"]["uid"]:
            return _status(409, _MISMATCH)
        former = self._applied.get(path, ())
        kept = {
            name: text
            for name, text in there["metadata"].get("annotations", {}).items()
            if name not in former
        }
        given = body["metadata"].get("annotations", {})
        self._applied[path] = tuple(given)
        server.put({**there, "metadata": {**there["metadata"], "annotations": kept | given}})
        return 200, b"{}"
