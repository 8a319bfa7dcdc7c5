"""Nothing but a Prometheus with dcgm-exporter and kube-state-metrics in it: the same findings.

Real: API server, scheduler, controllers, kube-state-metrics, Prometheus, the command. Played: what
kubelet does to pods (kwok), dcgm-exporter's pages, and the hours before the test began, in which
kube-state-metrics says what its page says now.
"""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass

import httpx
import pytest

from gputailor_agent.cli.histories import PrometheusAccess
from gputailor_agent.cli.prometheus_checks import checks_of
from gputailor_agent.cli.recorded import read_recorded
from gputailor_agent.inventory.holding import holding
from gputailor_agent.inventory.identity import resolve
from gputailor_agent.inventory.live import read_live_inventory
from gputailor_agent.model.inventory import Outcome
from gputailor_agent.model.profile import Window
from gputailor_exporter.scenarios.scenario import load
from tests.system import cluster_parts as parts
from tests.system.prometheus_history import dcgm_history, renamed, repeated
from tests.testbed import objects
from tests.testbed.control_plane import ControlPlane
from tests.testbed.fixtures import control_plane
from tests.testbed.monitoring import KubeStateMetrics, Prometheus, write_history
from tests.testbed.servers import eventually

__all__ = ["control_plane"]

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

HOUR = 3600
HOURS = 9
NAMESPACE = "seen-by-metrics"
LOST = parts.Life(8, 7.25, (3,), busy=True)
CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: honest
    honor_labels: true
    static_configs: [{{targets: ['{target}']}}]
  - job_name: renaming
    static_configs:
      - targets: ['{target}']
        labels: {{namespace: monitoring, pod: state-0, container: metrics, node: somewhere}}
"""


@dataclass(frozen=True)
class Site:
    """A namespace whose past a Prometheus knows; two of its pods are no longer there."""

    plane: ControlPlane
    prometheus: Prometheus
    now: float

    def recorded(self):
        """The inventory by the server's series, of this namespace's pods."""
        access = PrometheusAccess(url=self.prometheus.url)
        window = Window(start=self.now - HOURS * HOUR, end=time.time())
        return read_recorded(access, "test", window)

    def live(self):
        """The inventory by the API server."""
        return read_live_inventory(
            "test", kubeconfig=self.plane.kubeconfig, namespaces=[NAMESPACE], at=time.time()
        )

    def run(self, *command):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUTAILOR_")}
        done = subprocess.run(
            [sys.executable, "-m", "gputailor_agent.cli.entry", *command],
            capture_output=True,
            text=True,
            check=False,
            env=environment | {"KUBECONFIG": "/nowhere"},
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def report(self, *options):
        common = ("--prometheus-url", self.prometheus.url, "--since", "8h", "--output", "json")
        return json.loads(self.run("report", *common, *options))["plan"]


def lines_of(page, *texts):
    """The page's lines that hold one of the texts."""
    return [
        line
        for line in page.splitlines()
        if not line.startswith("#") and any(text in line for text in texts)
    ]


def state_history(page, pods, now):
    """What kube-state-metrics would have told while each pod was there, out of its page."""
    target = {"job": "honest", "instance": "past:8080"}
    lives = {**parts.LIVES, "lost": LOST}
    for life, pod in pods.items():
        lines = lines_of(page, f'uid="{pod["metadata"]["uid"]}"')
        begin = now - lives[life].began * HOUR
        if life == "nightly-2":  # it was looked at once it was done, and then deleted
            begin = now - lives[life].ended * HOUR
            yield from repeated(lines, begin, begin + HOUR, **target)
        elif life != "nightly-1":
            yield from repeated(lines, begin, now - lives[life].ended * HOUR, **target)
    kinds = ("kube_replicaset_owner", "kube_job_owner", "kube_job_complete")
    made = lines_of(page, *(f'{kind}{{namespace="{NAMESPACE}"' for kind in kinds))
    yield from repeated(made, now - 8 * HOUR, now, every=240, **target)
    nodes = lines_of(page, f'node="{parts.NODE}"')
    nodes = [line for line in nodes if line.startswith("kube_node_")]
    yield from repeated(nodes, now - 8 * HOUR, now, every=240, **target)


def dcgm_pages(folder, pods, now):
    """dcgm-exporter's past, with the names of the real pods."""
    path = folder / "scenario.yaml"
    lives = {**parts.LIVES, "lost": LOST}
    text = "".join(life.scenario(name) for name, life in lives.items())
    path.write_text(parts.SCENARIO + text, "utf-8")
    pages = dcgm_history(load(path, now), now - HOURS * HOUR, now)
    return renamed(pages, {life: pod["metadata"]["name"] for life, pod in pods.items()}, NAMESPACE)


def fill(plane):
    """The pods of ``cluster_parts``, and one that is to be deleted while it runs."""
    pods = dict(parts.fill(plane, NAMESPACE))
    plane.apply(objects.pod("lost", gpus=1), NAMESPACE)
    plane.wait("pod/lost", "condition=Ready", NAMESPACE)
    return pods | {"lost": plane.get("pod lost", NAMESPACE)}


@pytest.fixture(scope="module")
def site(control_plane, tmp_path_factory):
    folder = tmp_path_factory.mktemp("seen")
    control_plane.create_namespace(NAMESPACE)
    node = objects.gpu_node(parts.NODE, 4)
    control_plane.apply(node)
    control_plane.wait(f"node/{parts.NODE}", "condition=Ready")
    flags = ["--metric-labels-allowlist=nodes=[*]"]
    states = KubeStateMetrics(control_plane, folder / "states", flags).start()
    server = None
    try:
        pods = fill(control_plane)
        now = time.time()
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(parts.LIVES, "lost", LOST)
            parts.grow_old(control_plane, NAMESPACE, pods, now)
        began = f"{int(now - LOST.began * HOUR)}"[:6]
        time.sleep(1)
        page = eventually(
            lambda: text if began in (text := states.page()) or text else "", "the page is new"
        )
        control_plane.kubectl("delete", "job/nightly-2", "pod/lost", "-n", NAMESPACE)
        uids = [pods[life]["metadata"]["uid"] for life in ("nightly-2", "lost")]
        eventually(lambda: not lines_of(states.page(), *uids), "two pods are forgotten")
        past = folder / "past.om"
        with past.open("w", encoding="utf-8") as file:
            file.writelines(state_history(page, pods, now))
            file.writelines(dcgm_pages(folder, pods, now))
            file.write("# EOF\n")
        server = Prometheus(folder / "prometheus", CONFIG.format(target=states.target))
        write_history(past, server.data)
        server.start()
        seen = 'count(kube_node_info{job="renaming"}) > 0 and count(kube_node_info{job="honest"})'
        server.wait_for(seen)
        yield Site(control_plane, server, now)
    finally:
        if server is not None:
            server.stop()
        states.stop()
        control_plane.delete(node)
        control_plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def mine(items):
    return [one for one in items if one.namespace == NAMESPACE]


def test_the_same_workloads_are_known_as_from_the_api_server(site):
    by_series, by_api = (
        {one.id: one for one in mine(resolve(inventory).workloads)}
        for inventory in (site.recorded(), site.live())
    )
    assert set(by_api) < set(by_series)
    assert set(by_series) - set(by_api) == {f"{NAMESPACE}/Pod/lost/main"}
    for id_, workload in by_api.items():
        assert by_series[id_].gpu_requests == workload.gpu_requests
        assert by_series[id_].image == workload.image
        assert by_series[id_].framework == workload.framework


def test_pods_have_the_same_times_and_hold_their_devices_likewise(site):
    told = {pod.uid: pod for pod in site.recorded().pods}
    for pod in site.live().pods:
        seen = told[pod.uid]
        assert (seen.node, seen.phase, seen.created) == (pod.node, pod.phase, pod.created)
        assert (seen.scheduled, seen.started) == (pod.scheduled, pod.started)
        assert seen.finished == pod.finished
        assert holding(seen) == holding(pod)
    assert [pod.name[:7] for pod in mine(told.values()) if pod.phase == "Succeeded"] == [
        "nightly",
        "nightly",
    ]


def test_a_node_is_the_same_as_from_the_api_server(site):
    (told,) = [one for one in site.recorded().nodes if one.name == parts.NODE]
    (real,) = [one for one in site.live().nodes if one.name == parts.NODE]
    for name in ("capacity", "allocatable", "schedulable", "ready", "instance_type", "region",
                 "gpu_product", "gpu_memory_bytes", "gpu_count"):  # fmt: skip
        assert getattr(told, name) == getattr(real, name)


def test_runs_that_ended_and_were_deleted_are_known_with_their_end(site):
    found = site.recorded()
    assert found.complete
    pods = {pod.name.rpartition("-")[0] or pod.name: pod for pod in mine(found.pods)}
    done, lost = pods["nightly-2"], pods["lost"]
    assert done.finished == pytest.approx(site.now - 2 * HOUR, abs=2)
    assert (done.phase, done.reason) == ("Succeeded", "Completed")
    assert lost.finished == pytest.approx(site.now - LOST.ended * HOUR, abs=61)
    assert (lost.phase, lost.reason) == ("Unknown", "NoLongerSeen")
    assert lost.started == pytest.approx(site.now - LOST.began * HOUR, abs=2)
    runs = [run for run in resolve(found).runs if "/CronJob/nightly/" in run.workload_id]
    assert [run.outcome for run in runs] == [Outcome.SUCCEEDED] * 2


def test_a_pod_that_came_and_went_within_a_minute_is_known(site):
    site.plane.apply(objects.pod("brief", gpus=1), NAMESPACE)
    uid = site.plane.get("pod brief", NAMESPACE)["metadata"]["uid"]
    # By its uid, which both scrape jobs leave alone: each notices at a moment of its own.
    running = f'kube_pod_status_phase{{uid="{uid}",phase="Running"}} == 1'
    site.prometheus.wait_for(running)
    site.plane.kubectl("delete", "pod/brief", "-n", NAMESPACE)
    eventually(lambda: not site.prometheus.query(running), "the server has noticed")
    (brief,) = [pod for pod in site.recorded().pods if pod.name == "brief"]
    assert (brief.phase, brief.node) == ("Unknown", parts.NODE)
    assert brief.started - 2 < brief.finished < time.time()


def test_the_report_needs_nothing_else_and_finds_the_same(site):
    alone = site.report()
    kubeconfig = str(site.plane.kubeconfig)
    asked = site.report("--kubeconfig", kubeconfig, "--namespace", NAMESPACE)

    def told(plan):
        return {
            one["workload"]["id"].removeprefix(f"{NAMESPACE}/"): one
            for one in plan["verdicts"]
            if one["workload"]["namespace"] == NAMESPACE
        }

    ours, theirs = told(alone), told(asked)
    rules = {id_: one["primary"] and one["primary"]["rule"] for id_, one in ours.items()}
    assert rules["Deployment/chat/main"] == "idle"
    assert {rules[id_] for id_ in rules if "chat" not in id_} == {None}
    for id_ in ("Deployment/chat/main", "PyTorchJob/bert/main"):
        mine_, theirs_ = ours[id_], theirs[id_]
        assert (mine_["primary"] or {}).get("rule") == (theirs_["primary"] or {}).get("rule")
        for key in ("gpu_hours", "mean_kernel", "coverage"):
            # the reports are made some seconds apart, which a busy machine may make many
            assert mine_[key] == pytest.approx(theirs_[key], rel=0.02)
    hours = {whose: plan["CronJob/nightly/main"]["gpu_hours"] for whose, plan in
             (("series", ours), ("api", theirs))}  # fmt: skip
    assert hours == pytest.approx({"series": 4.0, "api": 2.0}, abs=0.02)  # one run was deleted
    told_of = [one for one in alone["problems"] if one.startswith("kube-state-metrics: ")]
    assert any("--metric-annotations-allowlist=pods=[*]" in one for one in told_of)
    assert not any("--metric-labels-allowlist=nodes=[*]" in one for one in told_of)


def test_the_agent_reads_the_same_hourly(site, start, tmp_path):
    agent = start(
        *("gputailor_agent.cli.entry", "serve", "--listen", "127.0.0.1:0", "--cluster", "test"),
        *("--prometheus-url", site.prometheus.url, "--window-days", "1"),
        *("--store", str(tmp_path / "a.db"), "--no-kubernetes"),
    )
    url = agent.url()
    eventually(lambda: httpx.get(f"{url}/readyz", trust_env=False).status_code == 200, "a plan", 60)
    found = httpx.get(f"{url}/api/v1/findings", trust_env=False).json()["findings"]
    assert (f"{NAMESPACE}/Deployment/chat/main", "idle") in [
        (one["workload"], one["rule"]) for one in found
    ]
    assert agent.stop() == 0
    assert "Traceback" not in agent.output


def test_doctor_says_what_kube_state_metrics_leaves_out(site):
    lines = [
        (one.standing, one.found, one.advice)
        for one in checks_of(PrometheusAccess(url=site.prometheus.url), None)
        if one.name == "kube-state-metrics"
    ]
    (_, found, _) = lines[0]
    assert re.fullmatch(r"\d+ pods with GPUs and \d+ nodes are told", found)
    (note,) = [one for one in lines if "annotations (gputailor.io/ignore" in one[1]]
    assert note[0] == "note"
    assert note[2].startswith("give it --metric-annotations-allowlist=")
