"""Samples that one week of one workload costs a Prometheus: our reading beside KRR's four queries.

Both run against one real server over the same fourteen days, scraped every 30 s. KRR's queries are
written after its documentation: a percentile of CPU and a maximum of memory, each with a count of
its points, over sub-queries of fourteen days with its default step of 75 s. What each touched is
the server's own figure (``stats=all``). A weekly report of KRR's asks for the fourteen days anew;
ours has asked for each hour once, as an agent does: when it was over, into a store.
"""

import sys

import pytest

from gputailor_agent.dialects.gauges import AT_THE_END
from gputailor_agent.rollup.history import SETTLE_SECONDS, fill_store
from gputailor_agent.sources.prometheus import Access, PrometheusSource
from gputailor_agent.sources.prometheus.client import PrometheusClient
from gputailor_agent.store import Store
from gputailor_exporter.scenarios.scenario import load
from tests.system.prometheus_history import (
    SCRAPE,
    Running,
    dcgm_history,
    need_binaries,
    scraped,
    simulate,
)

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

HOUR, DAY = 3600, 86_400
NOW = 1_768_046_400  # 2026-01-10 12:00 UTC
START = NOW - 14 * DAY
WEEK = NOW - 7 * DAY

#: One workload: a pod of one container with one GPU, all signals there are, for a fortnight.
SCENARIO = """
version: 1
cluster: bench
nodes:
  - name: node-a
    gpus: [{model: a100-sxm4-80gb, count: 1}]
    profiling: all
activities:
  steady:
    signals: {kernel: 0.6, sm: 0.4, graphics: 0.6, tensor: 0.2, dram: 0.3, fp32: 0.1}
    memory: {plateau: 10GiB}
    power: 0.5
workloads:
  - {name: serve, namespace: team, kind: Deployment, activity: steady,
     runs: [{start: -20d, pods: [{node: node-a, gpus: [0]}]}]}
"""


def say(figure):
    """Shown by ``make bench``."""
    sys.stdout.write(f"{figure}\n")


CONTAINER = 'namespace="team",pod="serve-0",container="main"'
KRR_STEP, KRR_SPAN = "75s", f"{14 * DAY}s"


def krr_queries():
    """The four, as documented: quantile, points of CPU, maximum, points of memory."""
    cpu, memory = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
    by = "by (container, pod, job)"
    span = f"[{KRR_SPAN}:{KRR_STEP}]"
    yield f"quantile_over_time(0.95, max(rate({cpu}{{{CONTAINER}}}[{KRR_STEP}])) {by} {span})"
    yield f"count_over_time(max({cpu}{{{CONTAINER}}}) {by} {span})"
    yield f"max_over_time(max({memory}{{{CONTAINER}}}) {by} {span})"
    yield f"count_over_time(max({memory}{{{CONTAINER}}}) {by} {span})"


def cadvisor():
    """What KRR reads: one series of CPU and one of memory for the same container."""
    labels = f'{{job="kubelet",instance="node-a:10250",{CONTAINER}}}'
    for at in range(START + SCRAPE, NOW + 1, SCRAPE):
        yield f"container_cpu_usage_seconds_total{labels} {at - START} {at}\n"
        yield f"container_memory_working_set_bytes{labels} 1e9 {at}\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    pages = simulate(path, folder / "out", NOW, 14, page=f"{SCRAPE}s")

    def history():
        yield from scraped(pages, dialect="gputailor")
        for line in dcgm_history(load(path, NOW), START, NOW):
            yield line.replace("{", '{dialect="dcgm",', 1)
        yield from cadvisor()

    running = Running(need_binaries(), folder, history())
    yield running.url
    running.stop()


@pytest.fixture(scope="module")
def krr(server):
    """Samples that KRR's four queries touch for the workload."""
    touched = []
    with PrometheusClient(server, Access()) as client:
        for query in krr_queries():
            before = client.cost.samples
            assert client.query(query, NOW).result, query
            touched.append(client.cost.samples - before)
    say(f"\nKRR's four sub-queries of 14 days: {touched}, {sum(touched):,} samples")
    return sum(touched)


def read_week(server, dialect):
    """Samples that a week costs, asked for hour by hour; the rows, and the gauges that were read."""
    labels = {"dialect": dialect}
    with PrometheusSource(server, "bench", labels=labels) as source, Store.open() as store:
        gauges = [one.gauge for one in source.present(WEEK, NOW)[dialect]]
        before = source.cost.samples
        for end in range(WEEK + HOUR, NOW + 1, HOUR):
            assert fill_store(source, WEEK, end + SETTLE_SECONDS, store) == []
        rows = list(store.usage("bench", WEEK, NOW))
        assert sum(row.allocated_seconds for row in rows) == pytest.approx(7 * DAY, rel=0.01)
        return source.cost.samples - before, rows, gauges


def test_a_week_by_our_exporter_touches_a_tenth_of_what_krr_does(server, krr):
    touched, rows, _ = read_week(server, "gputailor")
    say(
        f"gputailor: {touched:,} samples a week, {touched / 168:.1f} an hour, 1/{krr / touched:.1f}"
    )
    uses = [use for row in rows for use in row.signals.values() if use.histogram is not None]
    told = sum(use.histogram.total_seconds for use in uses)
    say(f"histograms of {told / 3600:.0f} hours of {len(rows[0].signals)} signals, none awaited")
    assert all(use.awaited_seconds == 0 for row in rows for use in row.signals.values())
    assert told >= 0.99 * sum(use.observed_seconds for use in uses)
    assert len(uses) >= 4 * len(rows)
    assert touched * 10 <= krr


def test_a_week_by_gauges_touches_each_raw_sample_once_and_once_more_a_group(server, krr):
    """A gauge has no integral, so each sample must be looked at: with many metrics that is more.

    At 30 s between scrapes one metric has 20,160 samples a week; a fifth of KRR's four queries is
    17,741. So no metric at all can have each of its samples read once for a fifth of KRR's.
    """
    touched, _, gauges = read_week(server, "dcgm")
    metrics = sum(gauge.measure not in AT_THE_END for gauge in gauges)
    groups = len({gauge.group for gauge in gauges})
    once = 7 * DAY // SCRAPE
    raw = once * (metrics + groups)
    say(
        f"dcgm: {touched:,} samples a week of {metrics} metrics in {groups} groups, "
        f"{touched / raw:.2f} of each; {touched / krr:.1f} times KRR's for its two metrics"
    )
    say(
        f"a metric: {touched / metrics:,.0f} samples, 1/{krr / 2 / (touched / metrics):.1f} of KRR's "
        f"{krr / 2:,.0f}; each raw sample of one metric once, without counting: {once:,}, "
        f"1/{krr / once:.1f} of KRR's four queries"
    )
    assert touched <= 1.02 * raw
    assert touched / metrics <= 0.6 * krr / 2
    assert once * 5 > krr
