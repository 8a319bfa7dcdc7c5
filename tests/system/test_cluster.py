"""The whole way in a cluster: a chart that Helm installed, real pods, a Prometheus, one mail.

Real: API server, scheduler, controllers, Helm, Prometheus, kube-state-metrics, exporter process,
agent process, SMTP server. Played: the driver, kubelet's socket, what kubelet does to pods (kwok), and the hours before
the test began.
"""

import json
import time

import pytest

from gputailor_agent import metrics
from gputailor_agent.reports.delivery.kubernetes_words import RECOMMENDATION, REPORTER
from gputailor_agent.store import Outbox, Store
from tests.dashboards.asking import Shown, faults, targets
from tests.fakes.mailbox import PASSWORD
from tests.system import chart_parts
from tests.system import cluster_parts as parts
from tests.system.cluster_fixtures import (
    agent,
    control_plane,
    exporter,
    helm,
    kube_state_metrics,
    mailbox,
    namespace,
    nodes,
    prometheus,
    release,
    server,
    site,
    watching,
)
from tests.system.flow_parts import allowed, listening
from tests.testbed.servers import eventually

__all__ = [
    "agent",
    "control_plane",
    "exporter",
    "helm",
    "kube_state_metrics",
    "mailbox",
    "namespace",
    "nodes",
    "prometheus",
    "release",
    "server",
    "site",
    "watching",
]

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

STATES = ("finding", "ok", "unknown", "watching")
NATIVE = ("gputailor-cluster", "gputailor-workload")
#: Seconds: a busy machine is waited for.
PATIENCE = 120
#: Of an agent that starts beside everything else, and of its first passes.
LONG_PATIENCE = 240


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


def check_objects(site):
    """The idle Deployment has one Event and the annotation, and no other object has either."""
    where = site.namespace

    def told():
        found = site.plane.get("events.events.k8s.io", where)
        ours = [one for one in found if one.get("reportingController") == REPORTER]
        ((reason, about),) = {(one["reason"], one["regarding"]["name"]) for one in ours}
        assert (reason, about, len(ours)) == ("GpuIdle", "chat", 1)
        return ours[0]

    event = eventually(told, "the owner has an Event", PATIENCE)
    assert event["regarding"]["uid"] == site.plane.get("deployment chat", where)["metadata"]["uid"]
    assert event["note"].endswith(f"gputailor explain {where}/Deployment/chat/main")
    owners = site.plane.get("deployments,cronjobs,jobs,pytorchjobs", where)
    annotated = {
        one["metadata"]["name"]: json.loads(one["metadata"]["annotations"][RECOMMENDATION])
        for one in owners
        if RECOMMENDATION in one["metadata"].get("annotations", {})
    }
    assert [(name, one["rule"]) for name, one in annotated.items()] == [("chat", "idle")]
    assert annotated["chat"]["saving"]["moneyPerMonth"] > 0


def check_alerts(server, site):
    """The idle allocation is alerted, and nothing else: no lost GPU, no blind exporter."""
    idle = ("GpuAllocationIdle", site.pods["chat"]["metadata"]["name"])
    eventually(lambda: alerts(server).get(idle) == "firing", "the alert fires", PATIENCE)
    eventually(lambda: rules_that_are_not_well(server) == [], "every rule evaluates", PATIENCE)
    offered = f'kube_node_status_allocatable{{node="{parts.NODE}",resource="nvidia_com_gpu"}} == 4'
    assert server.wait_for(offered, seconds=PATIENCE)
    # not at once: a scrape that a busy machine did not finish makes an exporter blind for a moment
    eventually(lambda: set(alerts(server)) == {idle}, "the others rest", PATIENCE)
    held = f'gputailor:namespace_gpus_held:sum{{namespace="{site.namespace}"}} == 3'
    assert server.wait_for(held, seconds=PATIENCE)


def rules_that_are_not_well(server):
    """Name, health and error of rules that failed or were not evaluated yet."""
    return [
        (rule["name"], rule["health"], rule.get("lastError"))
        for group in server.api("rules")["groups"]
        for rule in group["rules"]
        if rule["health"] != "ok"
    ]


def check_dashboards(server, site):
    """Every query of our exporter's dashboards answers, with all values and with chosen ones.

    None is silent: the machine throttles, has had an Xid error, and kubelet failed it once.
    """
    for wanted in ({}, {"node": parts.NODE, "namespace": site.namespace, "workload": "bert"}):

        def all_answer(wanted=wanted):
            now = int(time.time())
            shown = Shown(server.url, now - parts.HOUR, now)
            chosen = {name: shown.resolved(name, wanted) for name in NATIVE}
            found = {
                str(one): faults(one, shown.numbers(one, chosen[one.dashboard]))
                for one in targets(*NATIVE)
            }
            assert {name: fault for name, fault in found.items() if fault} == {}
            return True

        eventually(all_answer, f"all queries answer, of {wanted or 'all'}", PATIENCE)


def check_blindness(server, exporter):
    """Without its exporter the node is blind, and nothing is called idle any more."""
    blind = {("GpuExporterBlind", None): "firing"}
    assert exporter.stop() == 0

    def only_blind():
        assert alerts(server) == blind
        return True

    eventually(only_blind, "the exporter is blind", PATIENCE)
    until = time.monotonic() + 15
    while time.monotonic() < until:
        only_blind()
        time.sleep(1)
    (told,) = server.alerts()
    assert told["labels"]["node"] == parts.NODE


def check_report(url, server, namespace):
    """The report counts and prices what is held, its sums agree, and Prometheus has the finding."""
    report = parts.fetch(f"{url}/api/v1/report").json()
    totals, cost = report["totals"], report["plan"]["cost"]
    counted = {name: totals[name] for name in ("gpus", "allocated", "free", "unknown")}
    assert counted == {"gpus": 4.0, "allocated": 3.0, "free": 1.0, "unknown": 0.0}
    assert totals["saving"]["amount"] > 0
    split = ("workloads", "free", "unavailable", "unknown")
    assert sum(cost[name] for name in split) == pytest.approx(cost["nodes"])
    assert all(one["holds"] for one in report["plan"]["checks"])
    assert f"{namespace}/Deployment/chat/main" in parts.fetch(f"{url}/").text
    found = f'{metrics.FINDING.name}{{rule="idle",namespace="{namespace}"}} == 1'
    assert server.wait_for(found, seconds=PATIENCE)


def check_figures(url, namespace):
    """Hours, use and memory are those of the days before, and the metrics say what the report says."""
    report = parts.fetch(f"{url}/api/v1/report").json()
    found = {
        one["workload"]["id"].removeprefix(f"{namespace}/"): one
        for one in report["plan"]["verdicts"]
    }
    for identity, (lives, kernel, peak) in parts.TRUTH.items():
        one = found[identity]
        held = sum(parts.LIVES[name].gpu_hours for name in lives)
        open_hours = sum(parts.LIVES[name].open_devices for name in lives) * parts.OPEN_HOURS
        assert held - open_hours <= one["gpu_hours"] <= held + parts.SLACK_HOURS, identity
        assert one["coverage"] == pytest.approx(1.0, abs=0.02), identity
        assert one["mean_kernel"] == pytest.approx(kernel, abs=0.02), identity
        assert one["memory_peak_bytes"] == pytest.approx(peak, rel=0.1), identity
    totals, page = report["totals"], numbers(parts.fetch(f"{url}/metrics").text)
    hours = totals["saving_gpu_hours_per_month"]
    assert hours == pytest.approx(730.0, rel=0.03)  # one GPU, as long as it was held of the window
    assert page[metrics.SAVING_GPU_HOURS.name] == hours
    money = totals["saving"]
    assert page[f'{metrics.SAVING_MONEY.name}{{currency="{money["currency"]}"}}'] == money["amount"]
    states = {
        state: page.get(f'{metrics.WORKLOADS.name}{{state="{state}"}}', 0) for state in STATES
    }
    assert states == totals["states"] == {"finding": 1, "ok": 2, "unknown": 0, "watching": 0}
    assert page[metrics.COVERAGE.name] == pytest.approx(1.0, abs=0.02)
    assert page[f'{metrics.RUNS.name}{{job="tell",outcome="failed"}}'] == 0
    return True


def numbers(page):
    """Every sample of an exposition by name and labels."""
    lines = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
    return {series: float(value) for series, _, value in lines}


def check_helm_test(hooks, places, *, passes):
    """What the pod of helm test runs ends well, or with what to look at."""
    seconds = LONG_PATIENCE if passes else 1.0
    code, said = chart_parts.run_test(hooks, places, seconds)
    assert code == (0 if passes else 1), said
    assert ("FAIL" in said.splitlines()[0]) != passes, said


def check_flows(site, exporter, agent, mailbox, server):
    """Every connection that was made is in the NetworkPolicies, and nobody else may come in."""
    named = {
        int(site.plane.url.rpartition(":")[2]): {443, 6443},
        int(server.url.rpartition(":")[2]): {int(server.url.rpartition(":")[2])},
        mailbox.port: {mailbox.port},
    }
    out = allowed(site.plane.get("networkpolicies", site.namespace))
    went = {port for _, port in site.flows["agent"].connected}
    assert went == set(named)  # the test would see nothing if nothing was told
    assert all(as_in_a_cluster & out["agent"] for as_in_a_cluster in named.values())
    assert out["exporter"] == set()
    assert site.flows["exporter"].connected == set()
    for process in (exporter, agent):
        assert len(listening(process.popen.pid)) == 1


def test_what_helm_installed_finds_the_idle_deployment_and_tells_of_it_once(
    site, watching, agent, release, mailbox
):
    process, server = agent(), watching.server

    def mails_are_due():
        kinds = {kind for kind, _ in letters(release.store)}
        assert kinds == {"report", "idle"}, process.output[-2000:]
        return True

    eventually(mails_are_due, "mails are due", PATIENCE)
    process.kill()
    process = agent()
    url = process.url()
    watching.scrape("gputailor-agent", url)
    eventually(lambda: parts.fetch(f"{url}/readyz").is_success, "the agent is ready", LONG_PATIENCE)
    check_findings(url, site.namespace)
    check_objects(site)
    # the last day is read first, and older ones a few at a time
    eventually(lambda: check_figures(url, site.namespace), "the days are read", LONG_PATIENCE)
    check_report(url, server, site.namespace)
    check_alerts(server, site)
    check_dashboards(server, site)

    def all_sent():
        return {state for _, state in letters(release.store)} == {"sent"}

    eventually(all_sent, "they are sent", PATIENCE)
    process.kill()
    second = sender(release.store)
    process = agent()

    def looked_again():
        assert process.popen.poll() is None, process.output[-2000:]
        return sender(release.store) != second

    eventually(looked_again, "it looked again", LONG_PATIENCE)
    places = {"exporter": watching.exporter.url(), "agent": process.url()}
    check_helm_test(release.hooks, places, passes=True)
    check_flows(site, watching.exporter, process, mailbox, server)
    check_blindness(server, watching.exporter)
    check_helm_test(release.hooks, places, passes=False)
    check_objects(site)  # whoever was killed and started again told nothing twice
    assert process.stop() == 0
    assert PASSWORD not in process.output

    # the report was due an hour or two ago, and may say that it is late
    subjects = sorted(str(mail["Subject"]).removeprefix("Late: ") for mail in mailbox.mails)
    assert [subject.split(", ")[0].split(" since ")[0] for subject in subjects] == [
        "GPU report blue",
        f"Idle GPUs on blue: {site.namespace}/chat",
    ]
    account = f"system:serviceaccount:{site.namespace}:gt-gputailor-agent"
    asked = {
        (event["verb"], event["objectRef"]["resource"])
        for event in site.plane.audit(account)
        if "objectRef" in event
    }
    assert {"list", "watch"} <= {verb for verb, _ in asked}
    wrote = {(verb, what) for verb, what in asked if verb not in {"get", "list", "watch"}}
    reviews = ("create", "selfsubjectaccessreviews")
    assert wrote == {("create", "events"), ("patch", "deployments"), reviews}
