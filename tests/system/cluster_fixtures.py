"""Fixtures of a whole cluster; a test module takes them with what they stand on.

``from tests.system.cluster_fixtures import control_plane, exporter, namespace, nodes, server, site``
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gputailor_agent.store import Store
from tests.dashboards.prometheus import record
from tests.fakes.fixtures import fake_driver, fake_nvml_library
from tests.fakes.kubelet import Kubelet
from tests.fakes.mailbox import PASSWORD, USER, Mailbox
from tests.fakes.nvml import FakeEvent
from tests.processes import Process
from tests.system import chart_parts, flow_parts
from tests.system import cluster_parts as parts
from tests.system.conftest import start
from tests.testbed.control_plane import ControlPlane
from tests.testbed.fixtures import (
    control_plane,
    helm,
    kube_state_metrics,
    namespace,
    nodes,
    prometheus,
    running_helm,
)
from tests.testbed.monitoring import Prometheus
from tests.testbed.objects import gpu_node
from tests.testbed.servers import eventually

__all__ = [
    "agent",
    "control_plane",
    "exporter",
    "fake_driver",
    "fake_nvml_library",
    "helm",
    "kube_state_metrics",
    "mailbox",
    "namespace",
    "nodes",
    "prometheus",
    "release",
    "server",
    "site",
    "start",
    "watching",
]

DAY = 86400.0


@dataclass(frozen=True)
class Site:
    """A namespace whose pods the scheduler placed on one node, and a folder for what is made."""

    plane: ControlPlane
    namespace: str
    folder: Path
    pods: parts.Pods
    #: What the processes speak to, by component.
    flows: Mapping[str, flow_parts.Flows]


class Watching:
    """A Prometheus with the chart's rules, what it scrapes, and the exporter among that."""

    def __init__(
        self, server: Prometheus, exporter: Process, rules: Path, targets: Mapping[str, str]
    ) -> None:
        self.server = server
        self.exporter = exporter
        self._rules = rules
        self._targets = dict(targets)

    def scrape(self, job: str, url: str) -> None:
        """Scrape this too; the job's former address is forgotten."""
        self._targets[job] = url
        self.server.reload(parts.scraping(self._rules, self._targets))


@pytest.fixture
def site(control_plane, namespace, nodes, tmp_path):
    """A Deployment, two runs of a CronJob, a custom resource's pod, on a node of four GPUs."""
    nodes(gpu_node(parts.NODE, 4, parts.PRODUCT, instance_type=parts.INSTANCE_TYPE))
    pods = parts.fill(control_plane, namespace)
    flows = {}
    for component in ("exporter", "agent"):
        (tmp_path / component).mkdir()
        flows[component] = flow_parts.Flows(tmp_path / component)
    return Site(control_plane, namespace, tmp_path, pods, flows)


@pytest.fixture
def exporter(site, start, fake_driver, fake_nvml_library):
    """The chart's exporter of that node; kubelet lists exactly the pods that run there.

    It has had some trouble: kubelet did not answer at first, and a GPU told of an Xid error.
    """
    uuids = parts.devices(site.folder, time.time())
    parts.plug_in(fake_driver, uuids)
    fake_driver.write()
    logs = site.folder / "logs"
    kubelet = Kubelet(site.folder / "kubelet.sock")
    parts.hand_out(kubelet, logs, site.namespace, site.pods, uuids)
    template = ("template", "gt", str(parts.CHART), "-n", site.namespace)
    said = running_helm("helm", site.folder / "helm")(
        *template, "--show-only", "templates/exporter-daemonset.yaml"
    )
    places = {"pod-resources": site.folder, "pod-logs": logs}
    arguments, told = chart_parts.exporter_command(yaml.safe_load(said), parts.NODE, places)
    environment = fake_driver.environment(fake_nvml_library) | told
    process = start(
        "gputailor_exporter", *arguments, env=site.flows["exporter"].environment(environment)
    )
    page = f"{process.url()}/metrics"
    eventually(lambda: "exporter_errors_total{" in parts.fetch(page).text, "kubelet is missed")
    fake_driver.gpus[-1].events.append(FakeEvent(31))
    fake_driver.write()
    with kubelet:
        eventually(lambda: "gpu_allocated{" in parts.fetch(page).text, "kubelet is read")
        yield process


@pytest.fixture
def watching(site, exporter, kube_state_metrics, prometheus):
    """A Prometheus that scrapes exporter and kube-state-metrics, and knows the hours before.

    What its recording rules would have written in these hours is there as well.
    """
    url = exporter.url()
    targets = {"gputailor-exporter": url, "kube-state-metrics": kube_state_metrics.url}
    now = int(time.time())
    parts.grow_old(site.plane, site.namespace, site.pods, now)
    history = parts.past(site.folder, site.namespace, site.pods, now, url)
    rules = parts.alert_rules(site.folder / "rules.yaml")
    server = prometheus(parts.scraping(rules, targets), history=history)
    record(server.url, server.data, parts.RULES, now - parts.RECORDED_SECONDS, now)
    server.restart()  # it finds blocks at its start
    return Watching(server, exporter, rules, targets)


@pytest.fixture
def server(watching):
    """That Prometheus."""
    return watching.server


@pytest.fixture
def mailbox(tmp_path):
    with Mailbox(tmp_path / "tls", "starttls") as box:
        yield box


@pytest.fixture
def release(site, helm, server, mailbox):
    """The chart, installed to read that Prometheus and to mail there; what its agent is told."""
    secret = ("secret", "generic", "mail", f"--from-literal=password={PASSWORD}")
    site.plane.kubectl("create", *secret, "-n", site.namespace)
    settings = {
        "prometheus_url": server.url,
        "window_days": 3,
        "recommend_seconds": 30,
        "report_cron": parts.cron_that_fired(time.time()),
        "mail_to": ["ops@example.org"],
        "mail_from": "gpu@example.org",
        "smtp_host": "127.0.0.1",
        "smtp_port": mailbox.port,
        "smtp_username": USER,
        "smtp_ca_file": mailbox.ca_file,
        "kubernetes_events": True,
        "kubernetes_annotations": True,
    }
    agent = {
        "persistence": {"enabled": False},
        "settings": settings,
        "secretSettings": {"smtp_password": {"name": "mail", "key": "password"}},
    }
    values = {
        "clusterName": "blue",
        "namespaces": [site.namespace],
        "agent": agent,
        "networkPolicy": {"enabled": True},
    }
    file = site.folder / "values.yaml"
    file.write_text(json.dumps(values), "utf-8")
    where = ("-n", site.namespace)
    helm("install", "gt", str(parts.CHART), *where, "-f", str(file), cluster=site.plane)
    hooks = helm("get", "hooks", "gt", *where, cluster=site.plane)
    yield chart_parts.installed(site.plane, site.namespace, site.folder, hooks)
    helm("uninstall", "gt", *where, cluster=site.plane)


@pytest.fixture
def agent(site, release, start):
    """A function that starts the agent as installed; the store is a week old, so a report is due."""
    with Store.open(release.store) as store, store.transaction() as tx:
        tx.mark_period("blue/start", "first", at=time.time() - 8 * DAY)
    environment = site.flows["agent"].environment(release.environment)
    return lambda: start("gputailor_agent.cli.entry", *release.arguments, env=environment)
