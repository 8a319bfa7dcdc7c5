"""Commands of the README that need a cluster: on a real API server, Prometheus and Helm."""

import json
import shutil

import pytest
import yaml

from tests.readme import commands
from tests.readme.commands import elsewhere, runs
from tests.system.cluster_fixtures import (
    control_plane,
    exporter,
    kube_state_metrics,
    namespace,
    nodes,
    prometheus,
    server,
    site,
    start,
    watching,
)
from tests.testbed.servers import need

__all__ = [
    "control_plane",
    "exporter",
    "kube_state_metrics",
    "namespace",
    "nodes",
    "prometheus",
    "server",
    "site",
    "start",
    "watching",
]

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

REPORT = "gputailor report --prometheus-url http://localhost:9090 --context my-cluster --since 14d"
EXPLAIN = (
    "gputailor explain team-a/train --prometheus-url http://localhost:9090 --context my-cluster"
)
CHECK = "gputailor check job.yaml --prometheus-url http://localhost:9090 --context my-cluster"
KUBECTL = "kubectl get pods,nodes,jobs,replicasets,deployments -A -o json > cluster.json"
HELM = (
    "helm install gputailor helm/gputailor -n gputailor --create-namespace "
    "--set clusterName=production --set image.registry=registry.example.com/gpu"
)
URL = "http://localhost:9090"
RELEASE = "gputailor"


@pytest.fixture
def kubeconfig(control_plane, tmp_path):
    """A reader's kubeconfig: its one context is called as the README calls it."""
    document = yaml.safe_load(control_plane.kubeconfig.read_text("utf-8"))
    (context,) = document["contexts"]
    context["name"] = document["current-context"] = "my-cluster"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document), "utf-8")
    return path


@pytest.fixture
def env(kubeconfig, tmp_path):
    """A reader's environment, with kubectl and helm on the path."""
    programs = {path.parent for path in need("kubectl", "helm").values()}
    more = {f"HELM_{kind}_HOME": str(tmp_path / kind) for kind in ("CACHE", "CONFIG", "DATA")}
    return commands.surroundings(tmp_path, *programs, KUBECONFIG=str(kubeconfig), **more)


@runs(REPORT, EXPLAIN)
def test_a_laptop_reads_prometheus_and_cluster_and_nothing_is_installed(
    server, site, tmp_path, env
):
    said = commands.run(elsewhere(REPORT, {URL: server.url}), tmp_path, env)
    assert said.startswith("GPU Tailor report: default\n")
    assert "Measured by: Prometheus." in said
    assert f"{site.namespace}/Deployment/chat/main" in said
    assert "release" in said
    here = {URL: server.url, "team-a/train": f"{site.namespace}/chat"}
    told = commands.run(elsewhere(EXPLAIN, here), tmp_path, env)
    assert told.startswith(f"{site.namespace}/Deployment/chat/main\n")
    assert "Idle GPUs (idle): recommended" in told


@runs(CHECK)
def test_a_manifest_is_held_against_the_history_of_its_workload(server, site, tmp_path, env):
    fetch = f"kubectl get deployment chat -n {site.namespace} -o yaml > job.yaml"
    commands.run(fetch, tmp_path, env)
    check = elsewhere(CHECK, {URL: server.url})
    said = commands.run(f"{check}; test $? -eq 3", tmp_path, env)
    assert f"{site.namespace}/Deployment/chat/main" in said
    assert "release" in said


@runs(KUBECTL)
def test_what_kubectl_prints_is_an_inventory(site, tmp_path, env):
    commands.run(KUBECTL, tmp_path, env)
    kinds = {item["kind"] for item in json.loads((tmp_path / "cluster.json").read_text())["items"]}
    assert {"Pod", "Node", "Job", "ReplicaSet", "Deployment"} <= kinds
    simulate = "gputailor-exporter simulate --scenario demo --node t4-0 --days 0.1 --out pages"
    commands.run(simulate, tmp_path, env)
    said = commands.run(
        "gputailor report --archive pages --inventory cluster.json --output json", tmp_path, env
    )
    (line,) = (one for one in json.loads(said)["plan"]["capacity"] if "H100" in str(one))
    assert line["capacity"] == 4


@pytest.fixture
def uninstalled(control_plane, env, repository):
    """Take away what the README's installation leaves."""
    yield
    commands.run(f"helm uninstall {RELEASE} -n {RELEASE}", repository, env)
    control_plane.kubectl("delete", "namespace", RELEASE, "--wait=false")


@runs(HELM)
def test_helm_installs_exporters_and_an_agent_of_the_chosen_registry(
    control_plane, uninstalled, repository, env
):
    assert shutil.which("helm", path=env["PATH"])
    notes = commands.run(HELM, repository, env)
    assert "GPU Tailor" in notes
    (agent,) = control_plane.get("deployments", RELEASE)
    (exporter,) = control_plane.get("daemonsets", RELEASE)
    images = {
        container["image"].rsplit(":", 1)[0]
        for each in (agent, exporter)
        for container in each["spec"]["template"]["spec"]["containers"]
    }
    registry = "registry.example.com/gpu"
    assert images == {f"{registry}/gputailor-agent", f"{registry}/gputailor-exporter"}
    settings = [
        yaml.safe_load(each["data"]["agent.yaml"])
        for each in control_plane.get("configmaps", RELEASE)
        if "agent.yaml" in each["data"]
    ]
    assert [one["cluster"] for one in settings] == ["production"]
