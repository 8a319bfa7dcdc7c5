"""A Prometheus that nobody named: found by its service's labels, asked through the API server."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
import yaml

from gputailor_agent.cli import app
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.cli.discovered import find_prometheus, reached
from gputailor_agent.cli.errors import CommandError
from gputailor_agent.cli.histories import PrometheusAccess
from gputailor_agent.sources.prometheus.discovering import KNOWN, Services, discover
from tests.agent.inventory.live.conftest import kubeconfig_of

NOW = 1_768_046_400.0


def service(name, labels, *ports, namespace="monitoring"):
    spec = {"ports": [{"name": port, "port": number} for port, number in ports]}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}


def matching(services, selector):
    """As the API server applies a label selector of equalities."""
    wanted = dict(part.split("=") for part in selector.split(","))
    return [one for one in services if wanted.items() <= one["metadata"]["labels"].items()]


class Cluster:
    """An API server with services, and what stands behind their proxies by service name."""

    def __init__(self, *services):
        self.services = list(services)
        self.names = {}  # metrics by service
        self.asked = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.answer(self)

            def log_message(self, *_arguments):
                return

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def answer(self, request):
        parts = urlsplit(request.path)
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append((parts.path, headers))
        status, body = 404, {"kind": "Status", "code": 404, "message": "no"}
        if parts.path.endswith("/services"):
            selector = parse_qs(parts.query)["labelSelector"][0]
            status, body = 200, {"items": matching(self.services, selector)}
        elif "/proxy" in parts.path:
            name = parts.path.split("/services/")[1].split(":")[0]
            if name in self.names:
                status, body = 200, {"status": "success", "data": self.names[name]}
        text = json.dumps(body).encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)


@contextmanager
def running(*services):
    cluster = Cluster(*services)
    thread = threading.Thread(target=cluster.http.serve_forever, daemon=True)
    thread.start()
    try:
        yield cluster
    finally:
        cluster.http.shutdown()
        cluster.http.server_close()
        thread.join()


@pytest.fixture
def access(tmp_path, monkeypatch):
    """A function that gives access to a cluster by a kubeconfig."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    def to(cluster):
        path = tmp_path / "config"
        path.write_text(
            yaml.safe_dump(kubeconfig_of(cluster.url, {"token": "t0ken"})), encoding="utf-8"
        )
        return ClusterAccess(kubeconfig=path)

    return to


STACK = service(
    "kps-prometheus", {"app": "kube-prometheus-stack-prometheus"}, ("reloader", 8080),
    ("http-web", 9090),
)  # fmt: skip
MIMIR = service(
    "mimir-query-frontend",
    {"app.kubernetes.io/name": "mimir", "app.kubernetes.io/component": "query-frontend"},
    ("http-metrics", 8080),
)
VMSELECT = service("vmselect", {"app.kubernetes.io/name": "vmselect"}, ("http", 8481))


def found(*services):
    def find(selector):
        return msgspec.convert({"items": matching(services, selector)}, Services).items

    return list(discover(find))


def test_every_kind_is_found_by_its_labels():
    for known in KNOWN:
        for selector in known.selectors:
            labels = dict(part.split("=") for part in selector.split(","))
            (one,) = found(service("x", labels, ("http", 80)))
            assert (one.kind, one.port) == (known.kind, 80)


def test_the_more_inclusive_server_comes_first_and_each_once():
    told = [one.name for one in found(STACK, VMSELECT, MIMIR)]
    assert told == ["mimir-query-frontend", "vmselect", "kps-prometheus"]


def test_addresses_inside_and_through_the_api_server():
    stack, vmselect = found(STACK)[0], found(VMSELECT)[0]
    assert stack.inside == "http://kps-prometheus.monitoring.svc:9090"
    assert vmselect.through("https://api:6443/") == (
        "https://api:6443/api/v1/namespaces/monitoring/services/vmselect:8481/proxy"
        "/select/0/prometheus"
    )
    secure = found(service("q", {"app": "thanos-query"}, ("https", 9091)))[0]
    assert secure.inside == "https://q.monitoring.svc:9091"
    assert "/services/https:q:9091/proxy" in secure.through("https://api:6443")


def test_a_server_is_asked_through_the_api_server_with_its_credentials(access):
    with running(STACK) as cluster:
        cluster.names["kps-prometheus"] = ["DCGM_FI_DEV_GPU_UTIL"]
        told = find_prometheus(PrometheusAccess(), access(cluster), now=NOW)
        path, headers = cluster.asked[-1]
    assert told.url.endswith("/api/v1/namespaces/monitoring/services/kps-prometheus:9090/proxy")
    assert path.endswith("/proxy/api/v1/label/__name__/values")
    assert headers["authorization"] == "Bearer t0ken"


def test_mimir_is_asked_for_its_default_tenant_unless_another_is_named(access):
    with running(MIMIR) as cluster:
        cluster.names["mimir-query-frontend"] = ["DCGM_FI_DEV_GPU_UTIL"]
        for given, sent in (({}, "anonymous"), ({"X-Scope-OrgID": "team"}, "team")):
            find_prometheus(PrometheusAccess(headers=given), access(cluster), now=NOW)
            assert cluster.asked[-1][1]["x-scope-orgid"] == sent


def test_the_server_with_metrics_of_gpus_is_taken(access):
    with running(VMSELECT, STACK) as cluster:
        cluster.names.update(
            {"vmselect": ["node_load1"], "kps-prometheus": ["DCGM_FI_DEV_FB_USED"]}
        )
        cluster.names["vmselect"] = []
        assert "kps-prometheus" in find_prometheus(PrometheusAccess(), access(cluster), now=NOW).url


def test_a_cluster_without_one_is_told_what_to_do(access):
    with running() as cluster, pytest.raises(CommandError, match="give --prometheus-url URL"):
        find_prometheus(PrometheusAccess(), access(cluster), now=NOW)


def test_one_that_does_not_answer_is_told_by_name(access):
    with running(STACK) as cluster, pytest.raises(CommandError, match="monitoring/kps-prometheus"):
        find_prometheus(PrometheusAccess(), access(cluster), now=NOW)


def test_inside_a_pod_the_service_is_asked_by_name(access, monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    told = reached(PrometheusAccess(), found(STACK)[0], ClusterAccess(kubernetes=True))
    assert told.url == "http://kps-prometheus.monitoring.svc:9090"


def test_a_report_of_a_live_cluster_alone_looks_for_its_prometheus(access, capsys, monkeypatch):
    for name in ("STORE", "PROMETHEUS_URL"):
        monkeypatch.delenv(f"GPUTAILOR_{name}", raising=False)
    with running() as cluster:
        options = ["--kubeconfig", str(access(cluster).kubeconfig)]
        code = app.run("gputailor", ["report", *options])
    told = capsys.readouterr().err
    assert code == 1
    assert "Traceback" not in told
