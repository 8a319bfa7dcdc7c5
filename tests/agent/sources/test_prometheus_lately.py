"""Who held a device lately and when it last worked, out of a Prometheus."""

import httpx
import pytest

from gputailor_agent.sources.prometheus import Access, PrometheusSource
from gputailor_agent.sources.prometheus.lately import held_lately
from tests.agent.sources.memory_prometheus import MemoryPrometheus

NOW, BACK = 1_800_000_000, 1800.0


@pytest.fixture
def server():
    return MemoryPrometheus()


def lately(server):
    source = PrometheusSource(
        "http://p", "c1", access=Access(attempts=1), transport=httpx.MockTransport(server)
    )
    with source:
        return {one.pod: one.last_active for one in held_lately(source, NOW, BACK)}


def ours(pod, last_active=None, *, allocated=True):
    labels = (
        f'node="n1",namespace="team",pod="{pod}",pod_uid="u-{pod}",container="main",'
        f'gpu_uuid="GPU-{pod}"'
    )
    lines = [f"gputailor_container_gpu_allocated_seconds_total{{{labels}}} 100"]
    if allocated:
        lines.append(f'gputailor_container_gpu_allocated{{{labels},sharing="none"}} 1')
    if last_active is not None:
        name = "gputailor_container_gpu_last_active_timestamp_seconds"
        lines.append(f"{name}{{{labels}}} {last_active}")
    return "\n".join(lines) + "\n"


def test_our_exporter_says_when_each_container_last_worked(server):
    page = ours("quiet", NOW - 7000) + ours("busy", NOW - 5) + ours("never")
    server.scrapes(lambda _: page, NOW - 120, NOW, job="gputailor", instance="n1")
    assert lately(server) == {"quiet": NOW - 7000, "busy": NOW - 5, "never": None}


def test_a_container_that_ended_holds_nothing_though_its_counters_linger(server):
    page = ours("ended", NOW - 200, allocated=False) + ours("lives", NOW)
    server.scrapes(lambda _: page, NOW - 120, NOW, job="gputailor", instance="n1")
    assert lately(server) == {"lives": NOW}


def dcgm(pod, value, card):
    labels = (
        f'gpu="0",UUID="GPU-{card}",Hostname="n1",pod="{pod}",namespace="team",container="main"'
    )
    return f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {value}\n"


def test_of_gauges_the_highest_of_the_last_minutes_tells_whether_anything_ran(server):
    def page(at):
        once = 40 if at == NOW - 600 else 0
        return dcgm("still", 0, "a") + dcgm("once", once, "b")

    server.scrapes(page, NOW - 3600, NOW, job="dcgm", instance="n1")
    assert lately(server) == {"still": NOW - BACK, "once": NOW}


def test_whom_nobody_tells_of_is_not_there_and_a_value_that_cannot_be_true_says_nothing(server):
    server.scrape(dcgm("garbage", 9.2e18, "a"), NOW, job="dcgm", instance="n1")
    server.scrape(dcgm("gone", 0, "b"), NOW - 7200, job="dcgm", instance="n1")
    assert lately(server) == {}
