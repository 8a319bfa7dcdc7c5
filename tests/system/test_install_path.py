"""docs/helm.md tried as a new user would: its commands in their order, then what the notes print.

Nothing is known but the page. Images are not built (no container runtime is here) and addresses are
not opened (nobody forwards a port of a pretended pod); everything else is typed as it stands.
"""

import re

import pytest

from tests.readme import commands
from tests.testbed import objects
from tests.testbed.fixtures import control_plane_factory
from tests.testbed.servers import eventually, need

__all__ = ["control_plane_factory"]

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

NAME = "gputailor"
#: What has a server of its own to answer it, or needs a container runtime.
ELSEWHERE = ("docker ", "kubectl -n gputailor port-forward", "helm test")
#: What NVIDIA's GPU operator has made before, which the page's first preset names.
RUNTIME = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}
#: What a cluster has that hands out volumes.
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "disk"},
    "spec": {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/disk"},
    },
}
KINDS = ("ServiceMonitor", "PodMonitor", "PrometheusRule", "Prometheus")
STACK = "kube-prometheus-stack"


@pytest.fixture
def plane(control_plane_factory):
    """A cluster with GPU nodes, NVIDIA's operator and Prometheus' one."""
    plane = control_plane_factory()
    plane.apply([objects.custom_definition(kind, "monitoring.coreos.com") for kind in KINDS])
    prometheus = {"apiVersion": "monitoring.coreos.com/v1", "kind": "Prometheus"}
    chosen = {"matchLabels": {"release": STACK}}
    plane.apply([RUNTIME, VOLUME, objects.gpu_node("path-a"), objects.gpu_node("path-b")])
    plane.apply(
        {**prometheus, "metadata": {"name": "k8s"}, "spec": {"serviceMonitorSelector": chosen}}
    )
    return plane


@pytest.fixture
def typed(plane, repository, tmp_path):
    """A function that types a command; what it printed."""
    programs = {path.parent for path in need("kubectl", "helm").values()}
    more = {f"HELM_{kind}_HOME": str(tmp_path / kind) for kind in ("CACHE", "CONFIG", "DATA")}
    env = commands.surroundings(tmp_path, *programs, KUBECONFIG=str(plane.kubeconfig), **more)
    return lambda command: commands.run(command, repository, env)


def shell(repository, heading):
    """Commands of a section of the page, in their order."""
    page = (repository / "docs" / "helm.md").read_text("utf-8")
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", "").splitlines()
    return [line for line in lines if line.strip()]


def missing(notes):
    """What the notes say is missing, with the commands that they print for it."""
    found = {}
    for part in notes.split("\nMISSING ")[1:]:
        lines = re.split(r"\n\n|\n[A-Z]{4}", part)[0].splitlines()
        typed = ("helm upgrade", "kubectl -n gputailor create")
        found[lines[0].split()[0]] = [
            line.strip() for line in lines if line.strip().startswith(typed)
        ]
    return found


def placed(command, here):
    """A command with the reader's own names in place of those that stand for them."""
    for there, place in here.items():
        command = command.replace(there, place)
    return command


def running(plane):
    """Whether exporters run on both nodes, and an agent runs."""
    pods = plane.get("pods", NAME)
    kinds = [
        one["metadata"]["labels"]["app.kubernetes.io/component"]
        for one in pods
        if one["status"]["phase"] == "Running"
    ]
    return sorted(kinds) == ["agent", "exporter", "exporter"]


def test_the_page_leads_a_new_user_to_an_installation_that_misses_nothing(plane, typed, repository):
    said = ""
    for command in shell(repository, "In five minutes"):
        if not command.startswith(ELSEWHERE):
            told = typed(command)
            said = told if command.startswith("helm ") else said
    assert missing(said) == {}
    eventually(lambda: running(plane), "exporters and agent run", seconds=60)
    (chosen,) = [
        one["metadata"]["labels"]["release"]
        for one in plane.get("servicemonitors", NAME)
        if one["metadata"]["name"] == "gputailor-exporter"
    ]
    assert chosen == STACK

    for command in shell(repository, "Upgrade, rollback, uninstall"):
        typed(command)
    eventually(lambda: not plane.get("pods,configmaps -l helm.sh/chart", NAME), "all is gone")
    assert not plane.get("persistentvolumeclaims", NAME)


def test_whoever_gives_no_value_is_led_by_the_notes_alone(plane, typed):
    """The README's shortest way, without a registry: each thing that is missing brings its fix."""
    typed(f"kubectl create namespace {NAME}")
    notes = typed(f"helm install {NAME} helm/gputailor -n {NAME}")
    wanted = missing(notes)
    assert set(wanted) == {"image.registry:", "clusterName:", "tokens:", "a"}  # a label on monitors
    here = {"CHART": "helm/gputailor", "=REGISTRY": "=example.org/gpu", "=NAME": "=production"}
    here["=RELEASE"] = f"={STACK}"
    for fixes in wanted.values():
        said = [typed(placed(fix, here)) for fix in fixes]
        notes = said[-1]  # of helm upgrade
    assert missing(notes) == {}
    eventually(lambda: running(plane), "exporters and agent run", seconds=60)
