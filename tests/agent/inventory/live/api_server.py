"""A small API server of ours: enough of Kubernetes' HTTP for lists, watches, discovery and faults."""

import contextlib
import fnmatch
import gzip
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from tests.agent.inventory.live.api_written import Written

if TYPE_CHECKING:
    from collections.abc import Callable

RESOURCES = {
    ("v1", "Pod"): ("pods", True),
    ("v1", "Node"): ("nodes", False),
    ("v1", "Secret"): ("secrets", True),
    ("v1", "Namespace"): ("namespaces", False),
    ("apps/v1", "ReplicaSet"): ("replicasets", True),
    ("apps/v1", "Deployment"): ("deployments", True),
    ("apps/v1", "StatefulSet"): ("statefulsets", True),
    ("batch/v1", "Job"): ("jobs", True),
    ("batch/v1", "CronJob"): ("cronjobs", True),
    ("resource.k8s.io/v1", "ResourceClaim"): ("resourceclaims", True),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): ("resourceclaimtemplates", True),
    ("resource.k8s.io/v1", "DeviceClass"): ("deviceclasses", False),
    ("events.k8s.io/v1", "Event"): ("events", True),
    ("farm.example/v2", "Crop"): ("crops", True),
}


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    at: float
    body: bytes = b""


@dataclass
class Fault:
    """What to answer instead, once. ``raw`` is written as it is, then the connection is cut."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    promised: int | None = None  # a Content-Length that is not kept
    stall: float = 0.0


def status(code: int, message: str = "no", **more) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "message": message, **more}).encode()


class ApiServer:
    """Objects, and how requests for them go wrong."""

    def __init__(self, tls=None) -> None:
        self.requests: list[Request] = []
        self.tokens: set[str] | None = None  # None: everybody may come in
        self.forbidden: set[str] = set()  # "plural", "plural/namespace"
        self.granted: Callable[[dict], bool] = lambda attributes: True
        self.closed_watches = 0
        self.written = Written()
        self._opened: list[Request] = []
        self._faults: list[tuple[str, Fault]] = []
        self._objects: dict[tuple[str, str, str, str], dict] = {}
        self._texts: dict[tuple[str, str, str, str], bytes] = {}  # as they are sent
        self._events: list[tuple[int, str, dict]] = []
        self._version = 100
        self._oldest = 0
        self._changed = threading.Condition()
        self._stopped = False
        self._cuts = 0
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self.port = self._http.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._http.shutdown()
        self._http.server_close()

    def fail(self, pattern: str, *faults: Fault) -> None:
        """The next requests whose path and query match go wrong, one after another."""
        self._faults += [(pattern, fault) for fault in faults]

    def put(self, *objects: dict) -> None:
        """Create or change objects."""
        with self._changed:
            for one in objects:
                key = _key(one)
                event = "MODIFIED" if key in self._objects else "ADDED"
                self._version += 1
                meta = {**one["metadata"], "resourceVersion": str(self._version)}
                meta.setdefault("managedFields", [{"manager": "kubectl", "fieldsV1": {}}])
                self._objects[key] = {**one, "metadata": meta}
                self._texts[key] = json.dumps(self._objects[key]).encode()
                self._events.append((self._version, event, self._objects[key]))
            self._changed.notify_all()

    def delete(self, one: dict) -> None:
        with self._changed:
            gone = self._objects.pop(_key(one))
            self._version += 1
            meta = {**gone["metadata"], "resourceVersion": str(self._version)}
            self._events.append((self._version, "DELETED", {**gone, "metadata": meta}))
            self._changed.notify_all()

    def vanish(self, one: dict) -> None:
        """Delete without a trace in the watch: the cut happened first."""
        with self._changed:
            self._objects.pop(_key(one))
            self._version += 1

    def find(self, path: str) -> dict | None:
        """The object at a path."""
        version, (_, namespace, plural, name) = _split(path)
        with self._changed:
            return self._objects.get((version, plural, namespace, name))

    def tell(self, line: dict | bytes) -> None:
        """Send a line to every open watch as it is."""
        with self._changed:
            self._version += 1
            self._events.append((self._version, "RAW", line))
            self._changed.notify_all()

    def bookmark(self) -> int:
        """Tell every watch the newest version, which no object of theirs carries."""
        with self._changed:
            self._version += 50
            meta = {"resourceVersion": str(self._version), "creationTimestamp": None}
            self._events.append((self._version, "BOOKMARK", {"metadata": meta}))
            self._changed.notify_all()
            return self._version

    def compact(self) -> None:
        """Forget what happened up to now; watches that are open have it already."""
        with self._changed:
            self._oldest = self._version

    def cut(self) -> None:
        """Break every open watch in the middle."""
        with self._changed:
            self._cuts += 1
            self._changed.notify_all()

    def asked(self, pattern: str) -> list[Request]:
        return [one for one in self.requests if fnmatch.fnmatch(one.path, pattern)]

    def watches(self) -> list[Request]:
        """Those that were opened: what is told from then on reaches them."""
        return list(self._opened)

    def fault_for(self, request: Request) -> Fault | None:
        target = request.path + "?" + "&".join(f"{k}={v}" for k, v in request.query.items())
        for place, (pattern, fault) in enumerate(self._faults):
            if fnmatch.fnmatch(target, pattern):
                del self._faults[place]
                return fault
        return None

    def listing(self, version: str, plural: str, namespace: str) -> list[dict]:
        with self._changed:
            return [self._objects[key] for key in self._keys(version, plural, namespace)]

    def texts(self, version: str, plural: str, namespace: str) -> list[bytes]:
        with self._changed:
            return [self._texts[key] for key in self._keys(version, plural, namespace)]

    def _keys(self, version: str, plural: str, namespace: str) -> list[tuple[str, str, str, str]]:
        return sorted(
            key
            for key in self._objects
            if key[:2] == (version, plural) and namespace in {"", key[2]}
        )


def _key(one: dict) -> tuple[str, str, str, str]:
    plural, _ = RESOURCES[one["apiVersion"], one["kind"]]
    return (
        one["apiVersion"],
        plural,
        one["metadata"].get("namespace", ""),
        one["metadata"]["name"],
    )


def _split(path: str) -> tuple[str, list[str]]:
    """The apiVersion of a path and what follows it."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        return parts[1], parts[2:]
    return "/".join(parts[1:3]), parts[3:]


def _handler(server: ApiServer) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - one server
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and body go out apart, and at once

        def log_message(self, *_):
            pass

        def do_POST(self):
            self.do_GET()

        def do_PATCH(self):
            self.do_GET()

        def do_GET(self):
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Request(
                self.command,
                url.path,
                dict(parse_qsl(url.query)),
                {name.lower(): value for name, value in self.headers.items()},
                time.monotonic(),
                body,
            )
            server.requests.append(request)
            fault = server.fault_for(request)
            if fault is not None:
                self._go_wrong(fault)
            elif server.tokens is not None and not self._known(request):
                self._send(401, status(401, "Unauthorized"))
            elif self.command == "PATCH" or "/events" in url.path:
                code, answer = server.written.take(server, request)
                self._send(code, answer)
            elif self.command == "POST":
                self._review(json.loads(body))
            else:
                self._read(request)

        def _known(self, request):
            given = request.headers.get("authorization", "")
            return given.partition(" ")[2] in server.tokens

        def _go_wrong(self, fault):
            time.sleep(fault.stall)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._answer_wrongly(fault)

        def _answer_wrongly(self, fault):
            if fault.raw is not None:
                self.wfile.write(fault.raw)
                self.close_connection = True
                return
            self._send(fault.status, fault.body, fault.headers, fault.promised)
            if fault.promised is not None:
                self.close_connection = True

        def _send(self, code, body, headers=None, promised=None):
            packed = "gzip" in self.headers.get("Accept-Encoding", "") and len(body) > 1000
            body = gzip.compress(body, 1) if packed else body
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(promised or len(body)))
            if packed:
                self.send_header("Content-Encoding", "gzip")
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def _review(self, review):
            attributes = review["spec"]["resourceAttributes"]
            allowed = server.granted(attributes)
            self._send(201, json.dumps({"status": {"allowed": allowed}}).encode())

        def _read(self, request):
            version, rest = _split(request.path)
            if not rest:
                self._discover(request.path, version)
                return
            namespace = ""
            if rest[0] == "namespaces" and len(rest) > 2:
                namespace, rest = rest[1], rest[2:]
            plural, name = rest[0], rest[1] if len(rest) > 1 else ""
            if (version, plural) not in {(v, p) for (v, _), (p, _) in RESOURCES.items()}:
                self._send(404, b"404 page not found")
            elif {plural, f"{plural}/{namespace}"} & server.forbidden or (
                not namespace and f"{plural}/" in server.forbidden
            ):
                self._send(403, status(403, f"{plural} is forbidden: User cannot list {plural}"))
            elif name:
                found = [
                    one
                    for one in server.listing(version, plural, namespace)
                    if one["metadata"]["name"] == name
                ]
                self._send(200, json.dumps(found[0]).encode()) if found else self._send(
                    404, status(404, f"{name} not found")
                )
            elif request.query.get("watch"):
                self._watch(request, version, plural, namespace)
            else:
                self._list(request, version, plural, namespace)

        def _discover(self, path, version):
            groups = {v.partition("/")[0] for v, _ in RESOURCES if "/" in v}
            found = [
                {"name": plural, "kind": kind, "namespaced": namespaced}
                for (v, kind), (plural, namespaced) in RESOURCES.items()
                if v == version
            ]
            group = path.removeprefix("/apis/").strip("/")
            if found:
                found.append({"name": f"{found[0]['name']}/status", "kind": found[0]["kind"]})
                self._send(200, json.dumps({"resources": found}).encode())
            elif group in groups:
                versions = [{"groupVersion": v} for v, _ in RESOURCES if v.startswith(group + "/")]
                self._send(200, json.dumps({"versions": versions}).encode())
            else:
                self._send(404, b"404 page not found")

        def _list(self, request, version, plural, namespace):
            items = server.texts(version, plural, namespace)
            begin = int(request.query.get("continue") or 0)
            end = begin + int(request.query.get("limit") or len(items) + 1)
            meta = {"resourceVersion": str(server._version)}
            if end < len(items):
                meta["continue"] = str(end)
            head = json.dumps({"kind": "List", "metadata": meta}).encode()
            self._send(200, head[:-1] + b',"items":[' + b",".join(items[begin:end]) + b"]}")

        def _watch(self, request, version, plural, namespace):
            seen = int(request.query["resourceVersion"])
            if seen < server._oldest:
                self._send(410, status(410, "too old resource version"))
                return
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            with server._changed:
                cuts, opened = server._cuts, server._version
                server._opened.append(request)
            deadline = time.monotonic() + int(request.query["timeoutSeconds"])
            try:
                while time.monotonic() < deadline:
                    with server._changed:
                        news = [event for event in server._events if event[0] > seen]
                        if not news and server._cuts == cuts and not server._stopped:
                            server._changed.wait(0.5)
                            continue
                    if server._stopped or server._cuts != cuts:
                        self.close_connection = True  # without the last chunk: cut off
                        return
                    for number, kind, what in news:
                        seen = number
                        if kind == "RAW" and number <= opened:
                            continue  # told to those who listened then
                        self._event(kind, what, version, plural, namespace)
                self.wfile.write(b"0\r\n\r\n")
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
            finally:
                server.closed_watches += 1

        def _event(self, kind, what, version, plural, namespace):
            if kind == "RAW":
                line = what if isinstance(what, bytes) else json.dumps(what).encode()
            elif kind == "BOOKMARK":
                line = json.dumps({"type": kind, "object": what}).encode()
            else:
                v, p, ns, _ = _key(what)
                if (v, p) != (version, plural) or namespace not in {"", ns}:
                    return
                line = json.dumps({"type": kind, "object": what}).encode()
            line += b"\n"
            for half in (line[:7], line[7:]):  # lines do not keep to chunks
                self.wfile.write(f"{len(half):x}\r\n".encode() + half + b"\r\n")
                self.wfile.flush()

    return Handler
