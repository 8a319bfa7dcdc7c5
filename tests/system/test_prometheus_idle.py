"""Who stopped working is told of between two plans, out of a real Prometheus."""

import pytest

from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.schedule import ServiceSettings
from gputailor_agent.schedule.jobs.idle import watch
from gputailor_agent.schedule.live import PrometheusUsage
from gputailor_agent.schedule.noticing import finding_of
from gputailor_agent.sources.prometheus import PrometheusSource
from gputailor_agent.store import Store
from gputailor_exporter import metrics
from tests.agent.schedule.fakes import service_of
from tests.system.prometheus_history import Running, need_binaries, scraped, simulate

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

HOUR = 3600
NOW = 1_768_046_400
HOURS = 7
#: Hourly rows do without it: who holds a device now.
HOLDS = f"{metrics.CONTAINER_ALLOCATED.name}{{"
#: The pod that stops did so half past an hour.
STOPPED = NOW - 5.5 * HOUR
SCENARIO = """
version: 1
cluster: c1
nodes:
  - {name: node-a, gpus: [{model: a100-sxm4-80gb, count: 2}]}
activities:
  busy: {signals: {kernel: 0.9, sm: 0.7}, memory: {plateau: 60GiB}, power: 0.8}
  stops: {signals: {kernel: 0.9, sm: 0.7}, memory: {plateau: 60GiB}, power: 0.8,
     shape: {kind: warmup, duration: 60m, level: 1.0, then: {kind: constant, level: 0.0}}}
workloads:
  - {name: stops, namespace: team, kind: Job, image: "pytorch/pytorch:2.6.0", activity: stops,
     runs: [{start: -390m, pods: [{node: node-a, gpus: [0]}]}]}
  - {name: works, namespace: team, kind: Job, image: "pytorch/pytorch:2.6.0", activity: busy,
     runs: [{start: -390m, pods: [{node: node-a, gpus: [1]}]}]}
"""


class Heard:
    """A delivery that only hears who is told of being idle, and by a plan of when."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float]] = []

    def keep_notices(self, _tx, plan) -> None:
        self.told += [
            (verdict.workload.name, plan.made_at)
            for verdict in plan.verdicts
            if finding_of(verdict, "idle") is not None
        ]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server over the history, and the cluster's manifests."""
    folder = tmp_path_factory.mktemp("idle")
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    cluster = folder / "cluster.json"
    pages = simulate(path, folder / "out", NOW, HOURS / 24, page="60s", manifests=cluster)
    (folder / "server").mkdir()
    running = Running(need_binaries(), folder / "server", scraped(pages, also=(HOLDS,)))
    try:
        yield running.url, cluster
    finally:
        running.stop()


def test_who_stopped_is_told_of_four_hours_later_and_not_at_the_end_of_that_hour(server, tmp_path):
    url, manifests = server
    begin = NOW - 7 * HOUR
    with (
        Store.open(tmp_path / "agent.db") as store,
        PrometheusSource(url, "c1") as source,
    ):
        usage = PrometheusUsage(source)
        service = service_of(
            store,
            None,
            float(NOW),
            settings=ServiceSettings(cluster="c1"),
            reader=lambda at: read_inventory([manifests], "c1", at),
            source=None,
            fill=usage,
            live=usage,
        )
        service.parts.backfill.run(begin, begin + 3 * HOUR)
        service.recommend(begin + 3 * HOUR)
        heard = service.parts.delivery = Heard()
        kept = 0
        for now in range(begin + 3 * HOUR + 300, NOW, 300):
            if now // HOUR > kept:
                kept = now // HOUR
                service.parts.backfill.run(begin, kept * HOUR + 180)
            watch(service.parts, float(now))
    assert {name for name, _ in heard.told} == {"stops"}
    first = min(at for _, at in heard.told)
    assert STOPPED + 4 * HOUR <= first <= STOPPED + 4 * HOUR + 600
