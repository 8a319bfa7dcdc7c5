"""The whole way in a cluster: a chart that Helm installed, real pods, a Prometheus, one mail.

Real: API server, scheduler, controllers, Helm, Prometheus, exporter process, agent process, SMTP
server. Played: the driver, kubelet's socket, what kubelet does to pods (kwok), and the hours before
the test began.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from gputailor_agent import metrics
from gputailor_agent.store import Outbox, Store
from tests.fakes.kubelet import Kubelet
from tests.fakes.mailbox import PASSWORD, USER, Mailbox
from tests.system import cluster_parts as parts
from tests.testbed.control_plane import ControlPlane
from tests.testbed.fixtures import control_plane, helm, namespace, nodes, prometheus
from tests.testbed.monitoring import scrape_config
from tests.testbed.objects import gpu_node
from tests.testbed.servers import eventually

__all__ = ["control_plane", "helm", "namespace", "nodes", "prometheus"]

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

DAY = 86400.0


@dataclass(frozen=True)
class Site:
    """A namespace whose pods the scheduler placed on one node, and a folder for what is made."""

    plane: ControlPlane
    namespace: str
    folder: Path
    pods: parts.Pods


@pytest.fixture
def site(control_plane, namespace, nodes, tmp_path):
    """A Deployment, two runs of a CronJob, a custom resource's pod, on a node of four GPUs."""
    nodes(gpu_node(parts.NODE, 4))
    pods = parts.fill(control_plane, namespace)
    return Site(control_plane, namespace, tmp_path, pods)


@pytest.fixture
def exporter(site, start, fake_driver, fake_nvml_library):
    """The exporter of that node; kubelet lists exactly the pods that run there."""
    uuids = parts.devices(site.folder, time.time())
    parts.plug_in(fake_driver, uuids)
    fake_driver.write()
    logs = site.folder / "logs"
    with Kubelet(site.folder / "kubelet.sock") as kubelet:
        parts.hand_out(kubelet, logs, site.namespace, site.pods, uuids)
        yield start(
            "gputailor_exporter",
            *("--node", parts.NODE, "--listen", "127.0.0.1:0"),
            *("--pod-resources-socket", kubelet.path, "--pod-logs-root", str(logs)),
            env=fake_driver.environment(fake_nvml_library),
        )


@pytest.fixture
def server(site, exporter, prometheus):
    """A Prometheus that scrapes the exporter, knows the hours before, and has the chart's rules."""
    url = exporter.url()
    now = int(time.time())
    parts.grow_old(site.plane, site.namespace, site.pods, now)
    history = parts.past(site.folder, site.namespace, site.pods, now)
    rules = parts.alert_rules(site.folder / "rules.yaml")
    # Every five seconds: a scrape may take so long, and a busy machine is no blind exporter.
    config = scrape_config({"gputailor-exporter": url}, interval="5s", rules=[rules])
    return prometheus(config, history=history)


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
        "window_days": 1,
        "report_cron": parts.cron_that_fired(time.time()),
        "mail_to": ["ops@example.org"],
        "mail_from": "gpu@example.org",
        "smtp_host": "127.0.0.1",
        "smtp_port": mailbox.port,
        "smtp_username": USER,
        "smtp_ca_file": mailbox.ca_file,
    }
    agent = {
        "persistence": {"enabled": False},
        "settings": settings,
        "secretSettings": {"smtp_password": {"name": "mail", "key": "password"}},
    }
    values = {"clusterName": "blue", "namespaces": [site.namespace], "agent": agent}
    file = site.folder / "values.yaml"
    file.write_text(json.dumps(values), "utf-8")
    where = ("-n", site.namespace)
    helm("install", "gt", str(parts.CHART), *where, "-f", str(file), cluster=site.plane)
    yield parts.installed(site.plane, site.namespace, site.folder)
    helm("uninstall", "gt", *where, cluster=site.plane)


@pytest.fixture
def agent(release, start):
    """A function that starts the agent as installed; the store is a week old, so a report is due."""
    with Store.open(release.store) as store, store.transaction() as tx:
        tx.mark_period("blue/start", "first", at=time.time() - 8 * DAY)
    return lambda: start("gputailor_agent.cli.entry", *release.arguments, env=release.environment)


def letters(path):
    """State of each message in the outbox, by kind: the report, and the notice of idle GPUs."""
    with Store.open(path) as store, store.transaction() as tx:
        found = Outbox(tx).letters("blue")
    return [(one.scope.split("/")[1], one.state) for one in found]


def sender(path):
    """The process that looked into the outbox last: it takes the right to send as it does so."""
    with Store.open(path) as store, store.transaction() as tx:
        return Outbox(tx).holder("blue")


def alerts(server):
    """State by alert and pod of what is pending or fires."""
    return {
        (one["labels"]["alertname"], one["labels"].get("pod")): one["state"]
        for one in server.alerts()
    }


def check_findings(url, namespace):
    """The Deployment is idle; of the others nothing is to be said."""
    states = {
        one["id"].removeprefix(f"{namespace}/"): one["state"]
        for one in parts.fetch(f"{url}/api/v1/workloads").json()["workloads"]
    }
    assert states == {
        "Deployment/chat/main": "finding",
        "CronJob/nightly/main": "ok",
        "PyTorchJob/bert/main": "ok",
    }
    (finding,) = parts.fetch(f"{url}/api/v1/findings").json()["findings"]
    assert finding["workload"] == f"{namespace}/Deployment/chat/main"
    assert (finding["rule"], finding["severity"]) == ("idle", "high")
    assert finding["change"] == f"kubectl -n {namespace} scale deployment/chat --replicas=0"
    page = parts.fetch(f"{url}/metrics").text
    (line,) = [one for one in page.splitlines() if one.startswith(f"{metrics.FINDING.name}{{")]
    labels = f'namespace="{namespace}",rule="idle",severity="high",workload="chat"'
    assert line == f'{metrics.FINDING.name}{{kind="Deployment",{labels}}} 1.0'


def check_alerts(server, site):
    """The idle allocation is alerted, and nothing else: no lost GPU, no blind exporter."""
    idle = ("GpuAllocationIdle", site.pods["chat"]["metadata"]["name"])
    eventually(lambda: alerts(server).get(idle) == "firing", "the alert fires", seconds=60)
    eventually(lambda: rules_that_are_not_well(server) == [], "every rule evaluates", seconds=60)
    assert set(alerts(server)) == {idle}
    held = f'gputailor:namespace_gpus_held:sum{{namespace="{site.namespace}"}} == 3'
    assert server.wait_for(held, seconds=60)


def rules_that_are_not_well(server):
    """Name, health and error of rules that failed or were not evaluated yet."""
    return [
        (rule["name"], rule["health"], rule.get("lastError"))
        for group in server.api("rules")["groups"]
        for rule in group["rules"]
        if rule["health"] != "ok"
    ]


def test_what_helm_installed_finds_the_idle_deployment_and_tells_of_it_once(
    site, server, agent, release, mailbox
):
    process = agent()
    due = {"report", "idle"}
    eventually(lambda: {kind for kind, _ in letters(release.store)} == due, "mails are due", 60)
    process.kill()
    process = agent()
    url = process.url()
    eventually(lambda: parts.fetch(f"{url}/readyz").is_success, "the agent is ready", 60)
    check_findings(url, site.namespace)
    check_alerts(server, site)

    def all_sent():
        return {state for _, state in letters(release.store)} == {"sent"}

    eventually(all_sent, "they are sent", 60)
    process.kill()
    second = sender(release.store)
    process = agent()
    eventually(lambda: sender(release.store) != second, "it looked again", 60)
    assert process.stop() == 0
    assert PASSWORD not in process.output

    subjects = sorted(str(mail["Subject"]) for mail in mailbox.mails)
    assert len(subjects) == 2, subjects
    assert subjects[0].startswith("GPU report blue, ")
    assert subjects[1].startswith(f"Idle GPUs on blue: {site.namespace}/chat since ")
    account = f"system:serviceaccount:{site.namespace}:gt-gputailor-agent"
    asked = {event["verb"] for event in site.plane.audit(account)}
    assert {"list", "watch"} <= asked <= {"get", "list", "watch"}
