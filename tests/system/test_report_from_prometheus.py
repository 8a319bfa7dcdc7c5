"""``gputailor report --prometheus-url`` from a laptop: nothing is installed in the cluster."""

import json
import os
import subprocess
import sys
import time

import httpx
import pytest

from gputailor_agent import metrics
from gputailor_exporter.scenarios.scenario import load
from tests.system.prometheus_history import (
    Running,
    dcgm_history,
    labelled,
    need_binaries,
    scraped,
    simulate,
)

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

HOUR = 3600
HOURS = 8
SCENARIO = """
version: 1
cluster: test
nodes:
  - name: node-a
    instance_type: p4de.24xlarge
    region: us-east-1
    gpus: [{model: a100-sxm4-80gb, count: 2}]
    profiling: all
activities:
  busy: {signals: {kernel: 0.9, sm: 0.7, graphics: 0.9, tensor: 0.3}, memory: {plateau: 60GiB}, power: 0.8}
  none: {signals: {kernel: 0.0, sm: 0.0, graphics: 0.0}, memory: {plateau: 2GiB}, power: 0.0}
workloads:
  - {name: forgotten, namespace: team, kind: Job, image: pytorch/pytorch:2.6.0, activity: none,
     runs: [{start: -7h, pods: [{node: node-a, gpus: [0]}]}]}
  - {name: trainer, namespace: team, kind: Job, image: pytorch/pytorch:2.6.0, activity: busy,
     runs: [{start: -7h, pods: [{node: node-a, gpus: [1]}]}]}
"""


class Laptop:
    """A server with history, the cluster's manifests, and a folder to work in."""

    def __init__(self, url, folder):
        self.url, self.folder = url, folder

    def run(self, command, *options, exporter):
        names = {name for name in os.environ if name.startswith("GPUTAILOR_")}
        done = subprocess.run(
            [
                *(sys.executable, "-m", "gputailor_agent.cli.entry", *command),
                *("--prometheus-url", self.url, "--prometheus-label", f"from={exporter}"),
                *("--inventory", "cluster.json", *options),
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env={name: value for name, value in os.environ.items() if name not in names},
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def report(self, *options, exporter):
        text = self.run(("report",), "--output", "json", *options, exporter=exporter)
        return json.loads(text)["plan"]


@pytest.fixture(scope="module")
def laptop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("laptop")
    now = int(time.time()) - 5
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    manifests = folder / "cluster.json"
    pages = simulate(path, folder / "out", now, HOURS / 24, manifests=manifests)

    def lines():
        for line in scraped(pages):
            yield labelled(line, 'from="ours"')
        for line in dcgm_history(load(path, now), now - HOURS * HOUR, now):
            yield labelled(line, 'from="dcgm"')

    (folder / "server").mkdir()
    server = Running(need_binaries(), folder / "server", lines())
    try:
        yield Laptop(server.url, folder)
    finally:
        server.stop()


def primary(plan, name):
    (found,) = [one for one in plan["verdicts"] if one["workload"]["name"].startswith(name)]
    return found["primary"] and found["primary"]["rule"]


@pytest.mark.parametrize("exporter", ["ours", "dcgm"])
def test_the_waste_is_found_whichever_exporter_was_scraped(laptop, exporter):
    plan = laptop.report("--since", "6h", exporter=exporter)
    assert primary(plan, "forgotten") == "idle"
    assert primary(plan, "trainer") != "idle"
    assert plan["sources"] == ["Prometheus"]
    assert plan["window"]["start"] % HOUR == 0  # usage is kept by whole hours
    assert 6 * HOUR <= plan["window"]["end"] - plan["window"]["start"] < 7 * HOUR


def test_without_a_window_it_is_what_the_server_has_of_the_last_days(laptop):
    plan = laptop.report(exporter="ours")
    assert plan["window"]["end"] == pytest.approx(time.time(), abs=100)
    assert 6 * HOUR <= plan["window"]["end"] - plan["window"]["start"] <= 9 * HOUR


def test_a_store_keeps_what_was_read_and_the_report_stays_the_same(laptop):
    options = ("--since", "6h", "--store", "sqlite:///kept.db")
    first = laptop.report(*options, exporter="ours")
    size = (laptop.folder / "kept.db").stat().st_size
    again = laptop.report(*options, exporter="ours")
    assert size > 0
    assert primary(first, "forgotten") == primary(again, "forgotten") == "idle"
    fresh = laptop.report("--since", "6h", exporter="ours")
    for kept, read in zip(again["verdicts"], fresh["verdicts"], strict=True):
        assert kept["workload"]["id"] == read["workload"]["id"]
        assert kept["gpu_hours"] == pytest.approx(read["gpu_hours"], rel=0.02)
        assert kept["mean_kernel"] == pytest.approx(read["mean_kernel"], abs=0.02)


def test_explain_reads_the_same_server(laptop):
    said = laptop.run(("explain", "forgotten"), "--since", "6h", exporter="ours")
    assert "team/Job/forgotten/main" in said
    assert "1 GPU without any work for 6" in said


def test_the_agent_reads_it_hourly_and_shows_what_it_found(laptop, start, tmp_path):
    agent = start(
        *("gputailor_agent.cli.entry", "serve", "--listen", "127.0.0.1:0", "--cluster", "test"),
        *("--prometheus-url", laptop.url, "--prometheus-label", "from=ours", "--window-days", "1"),
        *("--inventory", str(laptop.folder / "cluster.json"), "--store", str(tmp_path / "a.db")),
    )
    url = agent.url()
    deadline = time.monotonic() + 60
    while httpx.get(f"{url}/readyz", trust_env=False).status_code != 200:
        assert time.monotonic() < deadline, agent.output
        time.sleep(0.2)
    (found,) = httpx.get(f"{url}/api/v1/findings", trust_env=False).json()["findings"]
    assert (found["workload"], found["rule"]) == ("team/Job/forgotten/main", "idle")
    page = httpx.get(f"{url}/metrics", trust_env=False).text
    (line,) = [one for one in page.splitlines() if one.startswith(f"{metrics.FINDING.name}{{")]
    assert 'kind="Job",namespace="team",rule="idle",severity="high",workload="forgotten"' in line
    # a batch that was seen for less than a day is not scaled to a month
    assert found["saving_gpu_hours_per_month"] is None
    assert f"{metrics.FINDING_SAVING.name}{{" not in page
    assert agent.stop() == 0
    assert "Traceback" not in agent.output
