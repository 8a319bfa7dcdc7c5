"""A server over a snapshot that stands still, and how to ask it."""

import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field

from gputailor_exporter.accounting import Snapshot
from gputailor_exporter.server import MetricsServer
from gputailor_exporter.serving.webconfig import WebConfig
from tests.exporter.fleets import exclusive_node

LOOPBACK = ("127.0.0.1", 0)


@dataclass
class FixedSource:
    """A source that stands still."""

    current: Snapshot | None = field(default_factory=exclusive_node)
    ready: bool = True
    healthy: bool = True
    lost: tuple[str, ...] = ()
    trouble: str = ""

    def down(self):
        return self.lost

    def snapshot(self):
        return self.current


@contextmanager
def serving(source, web=None, addresses=(LOOPBACK,), counted=None):
    """A running server; ``counted`` collects what it counts."""
    errors = [] if counted is None else counted
    made = MetricsServer(addresses, source, web or WebConfig(), lambda *given: errors.append(given))
    made.start()
    try:
        yield made
    finally:
        made.stop()


def get(server, path="/metrics", method="GET", context=None, data=None, **headers):
    """Status, headers and body of one request."""
    names = {name.replace("_", "-"): text for name, text in headers.items()}
    asked = urllib.request.Request(server.url + path, method=method, headers=names, data=data)
    try:
        with urllib.request.urlopen(asked, timeout=5, context=context) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.status, answer.headers, answer.read()
