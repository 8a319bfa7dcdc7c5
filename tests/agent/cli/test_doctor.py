"""Each check says what it found, and a problem says what to do."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml

from gputailor_agent.cli import app, checks, cluster_checks, doctor, prometheus_checks
from gputailor_agent.cli.cluster_checks import WRITING
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.cli.histories import PrometheusAccess
from gputailor_agent.inventory.live.writing_rights import FEATURES
from tests.agent.cli.name_server import prometheus_with
from tests.agent.inventory.live.api_server import ApiServer, Fault, status
from tests.agent.inventory.live.conftest import kubeconfig_of
from tests.agent.inventory.live.objects import deployment_of_two, node


@pytest.fixture
def exporter():
    """A page on a free loopback port; ``page`` and ``status`` can be changed."""

    class Handler(BaseHTTPRequestHandler):
        page = 'gputailor_exporter_build_info 1\ngputailor_device_up{gpu="0"} 1\n'
        status = 200

        def do_GET(self):
            self.send_response(self.status)
            self.end_headers()
            self.wfile.write(self.page.encode())

        def log_message(self, *_):
            """Stay quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}", Handler
    server.shutdown()
    server.server_close()


def test_an_exporter_that_answers_is_fine(exporter):
    check = checks.exporter_reachable(exporter[0])
    assert check.standing == "ok"
    assert "1 devices" in check.found


def test_a_target_that_is_resolved_is_asked_at_one_of_its_addresses(exporter):
    check = checks.exporter_reachable(f"dns+http://{exporter[0]}")
    assert check.standing == "ok"


def test_an_exporter_that_is_busy_starting_is_told(exporter):
    exporter[1].status = 503
    check = checks.exporter_reachable(exporter[0])
    assert check.standing == "problem"
    assert "503" in check.found
    assert "first cycle" in check.advice


def test_a_strangers_page_is_told(exporter):
    exporter[1].page = "node_load1 0.5\n"
    assert "is no gputailor exporter" in checks.exporter_reachable(exporter[0]).found


@pytest.mark.parametrize("target", ["127.0.0.1:1", "ftp://x", "http://[bad"])
def test_an_exporter_that_cannot_be_reached_is_told(target):
    check = checks.exporter_reachable(target)
    assert check.standing == "problem"
    assert check.advice


def test_a_driver_that_loads_is_fine_and_one_that_does_not_is_a_note():
    def missing(_name):
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    assert checks.driver(lambda _name: object()).standing == "ok"
    check = checks.driver(missing)
    assert check.standing == "note"
    assert "cannot open" in check.found


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """An API server of ours as the current context."""
    server = ApiServer()
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig_of(server.url)), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(path))
    yield server
    server.stop()


def test_a_kubeconfig_that_is_named_but_missing_is_a_problem(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    (check,) = cluster_checks.cluster_checks(ClusterAccess())
    assert check.standing == "problem"
    assert "there is no kubeconfig at" in check.found
    assert check.advice.startswith("give --kubeconfig PATH or set KUBECONFIG, or work from files")


def test_no_kubeconfig_at_all_is_only_a_note(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (check,) = cluster_checks.cluster_checks(ClusterAccess())
    assert check.standing == "note"


def test_a_cluster_that_answers_and_grants_everything_is_fine(cluster):
    found = list(cluster_checks.cluster_checks(ClusterAccess()))
    assert [check.standing for check in found] == ["ok", "ok"]
    assert f"{cluster.url} answers (context 'lab'" in found[0].found


def test_a_missing_permission_is_told_with_what_it_costs(cluster):
    cluster.granted = lambda attributes: attributes["resource"] not in {"nodes", "jobs"}
    _, nodes, jobs = cluster_checks.cluster_checks(ClusterAccess())
    assert (nodes.standing, jobs.standing) == ("note", "problem")
    assert "list, watch on nodes not granted in all namespaces: GPU models" in nodes.found
    assert "docs/kubernetes.md" in jobs.advice


def test_one_reading_of_the_cluster_is_told(cluster):
    cluster.put(node(), *deployment_of_two())
    inventory, (check,) = cluster_checks.inventory_checks(ClusterAccess(), 1_800_000_000.0)
    assert check.standing == "ok"
    assert check.found == "2 pods ask for accelerators, 1 nodes have some"
    assert len(inventory.pods) == 2


def prometheus(**spec):
    return {"metadata": {"name": "main", "namespace": "monitoring"}, "spec": spec}


MONITOR = {"metadata": {"name": "gputailor-exporter", "namespace": "gpu", "labels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("selector", "standing"),
    [
        ({}, "ok"),
        ({"matchLabels": {"a": "b"}}, "ok"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, "ok"),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, "problem"),
        ({"matchLabels": {"release": "kps"}}, "problem"),
        (None, "problem"),
    ],
)
def test_a_monitor_is_taken_or_lacks_a_label(selector, standing):
    server = prometheus(serviceMonitorSelector=selector, serviceMonitorNamespaceSelector={})
    assert cluster_checks.monitor_check("ServiceMonitor", MONITOR, [server]).standing == standing


def test_the_label_that_a_monitor_lacks_comes_with_the_command():
    server = prometheus(serviceMonitorSelector={"matchLabels": {"release": "kps"}})
    check = cluster_checks.monitor_check("ServiceMonitor", MONITOR, [server])
    assert "lacks the label release=kps" in check.found
    command = "kubectl label servicemonitor -n gpu gputailor-exporter release=kps"
    assert check.advice.startswith(command)


@pytest.mark.parametrize(
    ("selector", "told", "advice"),
    [
        (None, "problem", "set serviceMonitorNamespaceSelector of the Prometheus monitoring/main"),
        ({"matchLabels": {"scrape": "yes"}}, "problem", "kubectl label namespace gpu scrape=yes"),
        ({"matchLabels": {"kind": "gpus"}}, "ok", ""),
        ({}, "ok", ""),
    ],
)
def test_a_monitor_in_a_namespace_that_no_prometheus_looks_into_is_told(selector, told, advice):
    server = prometheus(serviceMonitorSelector={}, serviceMonitorNamespaceSelector=selector)
    spaces = {"gpu": {"kind": "gpus"}}
    check = cluster_checks.monitor_check("ServiceMonitor", MONITOR, [server], spaces)
    assert check.standing == told
    assert check.advice.startswith(advice)


def test_a_monitor_beside_its_prometheus_needs_no_selector_of_namespaces():
    server = prometheus(serviceMonitorSelector={})
    beside = {"metadata": {**MONITOR["metadata"], "namespace": "monitoring"}}
    assert cluster_checks.monitor_check("ServiceMonitor", beside, [server]).standing == "ok"


def test_a_namespace_that_is_not_there_is_told(cluster):
    access = ClusterAccess(namespaces=("team-x",))
    _, checks = cluster_checks.inventory_checks(access, 1_800_000_000.0)
    (note,) = [one for one in checks if "team-x" in one.found]
    assert note.found == "namespace 'team-x' is not there"
    assert note.advice == "check --namespace (kubectl get namespaces)"


@pytest.mark.parametrize(
    ("change", "found", "advice"),
    [
        ({"server": ""}, "cluster 'lab' has no server address", "expected server: https://"),
        ({"server": "http://127.0.0.1:1", "proxy-url": "http://127.0.0.1:1"},
         "Unable to connect to proxy", "does the proxy run (proxy-url, HTTPS_PROXY)"),
        ({"server": "http://127.0.0.1:1"}, "refused", "is the address right"),
    ],
)  # fmt: skip
def test_a_kubeconfig_that_leads_nowhere_is_told_with_the_place_to_look_at(
    tmp_path, monkeypatch, change, found, advice
):
    config = kubeconfig_of("")
    config["clusters"][0]["cluster"] = change
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config), "utf-8")
    (check,) = cluster_checks.cluster_checks(ClusterAccess(kubeconfig=path))
    assert found in check.found
    assert check.advice.startswith(advice)


def test_who_shows_nothing_is_told_to_log_in(cluster):
    said = 'selfsubjectaccessreviews is forbidden: User "system:anonymous" cannot create'
    cluster.fail("*selfsubjectaccessreviews*", Fault(status=403, body=status(403, said)))
    (check,) = cluster_checks.cluster_checks(ClusterAccess())
    assert "has no credentials: log in" in check.advice


def test_http_where_tls_is_wanted_is_told(cluster):
    said = b"Client sent an HTTP request to an HTTPS server."
    cluster.fail("*selfsubjectaccessreviews*", Fault(status=400, body=said))
    (check,) = cluster_checks.cluster_checks(ClusterAccess())
    assert check.advice.startswith("write https:// before the server's address")


def test_a_wrong_context_is_a_problem_that_names_those_there_are(cluster):
    (check,) = cluster_checks.cluster_checks(ClusterAccess(context="lap"))
    assert check.standing == "problem"
    assert "there is no context 'lap'" in check.found
    assert check.advice.startswith("contexts there are: lab; or work from files")


def test_what_settings_ask_to_write_is_checked_only_then(cluster):
    cluster.granted = lambda attributes: attributes["verb"] in {"get", "list", "watch"}
    assert WRITING not in {one.name for one in cluster_checks.cluster_checks(ClusterAccess())}
    found = cluster_checks.cluster_checks(ClusterAccess(), FEATURES)
    events, *owners = [one for one in found if one.name == WRITING]
    assert events.standing == "problem"
    assert events.found == (
        "create, patch on events.events.k8s.io not granted in all namespaces: kubernetes_events is "
        "on, but no Event is written"
    )
    assert events.advice.startswith("set agent.settings.kubernetes_events in the chart's values")
    assert "patch on replicasets.apps, deployments.apps" in owners[0].found


def test_rights_to_write_that_are_there_are_told(cluster):
    *_, found = cluster_checks.cluster_checks(ClusterAccess(), FEATURES)
    assert (found.name, found.standing) == (WRITING, "ok")
    assert found.found.startswith("kubernetes_events and kubernetes_annotations: everything")


def test_the_agents_settings_say_what_rights_are_needed(cluster, tmp_path):
    cluster.granted = lambda attributes: attributes["resource"] != "events"
    config = tmp_path / "agent.yaml"
    config.write_text("kubernetes_events: true\nkubernetes_annotations: true\n")
    found = list(doctor.all_checks(None, [], ClusterAccess(), PrometheusAccess(), config))
    (told,) = [one for one in found if one.name == WRITING]
    assert "events.events.k8s.io" in told.found
    assert told.standing == "problem"


def test_settings_that_cannot_be_read_are_a_problem_and_the_rest_is_checked(cluster, tmp_path):
    config = tmp_path / "agent.yaml"
    config.write_text("kubernetes_event: true\n")
    found = list(doctor.all_checks(None, [], ClusterAccess(), PrometheusAccess(), config))
    (told,) = [one for one in found if one.name == "settings"]
    assert "kubernetes_event" in told.found
    assert any(one.name == "Kubernetes" and one.standing == "ok" for one in found)


def test_a_prometheus_that_does_not_answer_is_a_problem():
    check = prometheus_checks.answers(PrometheusAccess(url="http://127.0.0.1:1"))
    assert check.standing == "problem"
    assert "127.0.0.1:1 cannot be reached" in check.found


@pytest.mark.parametrize(
    ("names", "standing", "told"),
    [
        (["DCGM_FI_DEV_GPU_UTIL"], "ok", "answers with dcgm metrics"),
        ([], "problem", "has no GPU metrics of the last day"),
    ],
)
def test_a_prometheus_is_asked_what_it_has_of_gpus(names, standing, told):
    with prometheus_with(names) as server:
        check = prometheus_checks.answers(PrometheusAccess(url=server.url))
    assert check.standing == standing
    assert told in check.found


def test_a_prometheus_that_nobody_named_is_only_a_note():
    assert prometheus_checks.answers(PrometheusAccess()).standing == "note"


def test_a_missing_extra_is_told_with_the_command():
    check = checks.extra_installed("exporter", ("no_such_module", "no.such.module"))
    assert check.standing == "note"
    assert "pip install 'gputailor[exporter]'" in check.advice


def test_doctor_does_not_make_a_store_that_is_not_there(tmp_path):
    path = tmp_path / "none.db"
    check = checks.store_readable(f"sqlite:///{path}")
    assert check.standing == "problem"
    assert not path.exists()


def test_a_problem_exits_1_and_notes_alone_exit_0(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("GPUTAILOR_STORE", raising=False)
    monkeypatch.delenv("GPUTAILOR_PROMETHEUS_URL", raising=False)
    assert app.run("gputailor", ["doctor"]) == 0
    assert app.run("gputailor", ["doctor", "--target", "127.0.0.1:1"]) == 1
    assert "what to do" in capsys.readouterr().out


def test_one_of_a_thing_is_told_as_one(monkeypatch, capsys):
    found = checks.Check(name="nodes", standing="ok", found="all measured: 1 nodes with GPUs")
    monkeypatch.setattr(doctor, "all_checks", lambda *_: [found])
    assert app.run("gputailor", ["doctor"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "all measured: 1 node with GPUs" in told


def test_how_to_grant_what_is_missing_fits_the_place(cluster):
    cluster.granted = lambda attributes: attributes["resource"] not in {"nodes", "pods"}
    _, pods, nodes = cluster_checks.cluster_checks(ClusterAccess())
    assert pods.advice == (
        "grant the ClusterRole and bind it: docs/kubernetes.md, or name namespaces with --namespace"
    )
    assert nodes.advice == "grant the ClusterRole and bind it: docs/kubernetes.md"
    _, pods, nodes = cluster_checks.cluster_checks(ClusterAccess(namespaces=("team-a",)))
    assert pods.advice == "grant the Role in team-a and bind it: docs/kubernetes.md"
    assert nodes.advice == "grant the ClusterRole and bind it: docs/kubernetes.md"


def test_what_is_missing_for_one_reason_is_told_in_one_line(cluster):
    cluster.granted = lambda attributes: attributes["group"] != "apps"
    _, line = cluster_checks.cluster_checks(ClusterAccess())
    assert "get, list on replicasets.apps, deployments.apps, statefulsets.apps" in line.found


def test_a_note_of_the_reading_carries_its_own_fix(cluster):
    cluster.forbidden.add("nodes")
    _, checks = cluster_checks.inventory_checks(ClusterAccess(), 1_800_000_000.0)
    assert checks[1].advice == "grant list and watch on nodes by a ClusterRole (docs/kubernetes.md)"
