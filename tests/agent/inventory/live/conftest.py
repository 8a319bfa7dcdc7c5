"""An API server of ours, and ways to reach it."""

import contextlib
import json

import pytest
import yaml

from gputailor_agent.inventory.live.client import connect
from gputailor_agent.inventory.live.following import LiveInventory, LiveSettings
from gputailor_agent.inventory.live.waiting import Patience
from gputailor_agent.inventory.live.watching import WatchSettings
from tests.agent.inventory.live.api_server import ApiServer

QUICK = Patience(attempts=5, attempts_unreachable=3, first_seconds=0.02, longest_seconds=0.1)


@pytest.fixture(autouse=True)
def _no_cluster_of_the_developer(monkeypatch, tmp_path):
    for name in ("KUBECONFIG", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def api():
    server = ApiServer()
    yield server
    server.stop()


def kubeconfig_of(server_url, user=None, **cluster):
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {"server": server_url, **cluster}}],
        "users": [{"name": "me", "user": user or {}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
    }


@pytest.fixture
def write_kubeconfig(tmp_path):
    """Writes a kubeconfig and returns its path."""

    def write(content, name="config"):
        path = tmp_path / name
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def kubeconfig(api, write_kubeconfig):
    return write_kubeconfig(kubeconfig_of(api.url))


@pytest.fixture
def client(kubeconfig):
    with contextlib.closing(connect(kubeconfig, patience=QUICK)) as connected:
        yield connected


@pytest.fixture
def follow(kubeconfig):
    """Starts a LiveInventory of the API server; it is stopped after the test."""
    started = []

    def begin(clock=None, **settings):
        settings.setdefault("watch", WatchSettings(watch_seconds=5))
        config = LiveSettings(kubeconfig=kubeconfig, patience=QUICK, **settings)
        more = {} if clock is None else {"clock": clock}
        live = LiveInventory("lab", config, **more)
        started.append(live)
        live.start()
        return live

    yield begin
    for live in started:
        live.stop()


def body_of(value) -> bytes:
    return json.dumps(value).encode()
