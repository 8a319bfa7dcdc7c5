"""Throttled seconds and Xid errors of a device, hour by hour out of a real Prometheus."""

import pytest

from gputailor_agent.rollup import CounterRollup
from gputailor_agent.sources.prometheus.access import Access
from gputailor_agent.sources.prometheus.client import PrometheusClient
from gputailor_agent.sources.prometheus.counters import CounterReader
from gputailor_exporter import metrics
from tests.system.prometheus_history import Running, labelled, need_binaries

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

HOUR = 3600
BEGIN = 1_768_046_400
SCRAPE = 60
HOLDER = 'node="n",namespace="ns",pod="p",pod_uid="u",container="c",gpu_uuid="GPU-1"'
TARGET = 'job="gputailor",instance="n:9400"'
DEVICE = 'node="n",gpu="0",gpu_uuid="GPU-1"'


def page(at):
    """A pod that has held its GPU for long; a quarter of the time its clocks are held down."""
    held = at - (BEGIN - 2 * HOUR)
    yield f'{metrics.CONTAINER_ALLOCATED.name}{{{HOLDER},sharing="exclusive"}} 1'
    yield f"{metrics.CONTAINER_ALLOCATED_SECONDS.name}{{{HOLDER}}} {held}"
    yield f'{metrics.CONTAINER_ACTIVE_SECONDS.name}{{{HOLDER},signal="kernel"}} {held / 2}'
    yield f'{metrics.CONTAINER_OBSERVED_SECONDS.name}{{{HOLDER},signal="kernel"}} {held}'
    yield f'{metrics.DEVICE_INFO.name}{{{DEVICE},vendor="nvidia",model="A100"}} 1'
    yield f'{metrics.DEVICE_THROTTLED_SECONDS.name}{{{DEVICE},reason="hw_slowdown"}} {held / 4}'
    yield f'{metrics.PROCESS_START_TIME.name}{{node="n"}} {BEGIN - 3 * HOUR}'
    errors = 7 + 2 * (at >= BEGIN + HOUR + 900)
    yield f'{metrics.DEVICE_ECC_ERRORS.name}{{{DEVICE},severity="uncorrected"}} {errors}'
    if at >= BEGIN + HOUR + 600:
        yield f'{metrics.DEVICE_XID_ERRORS.name}{{{DEVICE},xid="79"}} 1'


def history():
    for at in range(BEGIN - 300, BEGIN + 2 * HOUR + 1, SCRAPE):
        for line in page(at):
            yield f"{labelled(line, TARGET)} {at}\n"


def test_they_count_for_the_holder_from_hour_to_hour(tmp_path):
    server = Running(need_binaries(), tmp_path, history())
    rollup = CounterRollup("test")
    try:
        with PrometheusClient(server.url, Access()) as client:
            reader = CounterReader(client, "test")
            pages = reader.boundary(BEGIN)
            for hour in (BEGIN, BEGIN + HOUR):
                pages += reader.hour(hour, hour + HOUR, {"n"})
    finally:
        server.stop()
    for one in pages:
        rollup.add(one)
    first, second = sorted(rollup.take_rows(), key=lambda row: row.key.hour)
    assert first.conditions["throttled/hw_slowdown"] == HOUR / 4
    assert first.conditions.get("xid/79", 0.0) == 0.0
    assert first.conditions["ecc/uncorrected"] == 0.0
    assert second.conditions == {
        "throttled/hw_slowdown": HOUR / 4, "xid/79": 1.0, "ecc/uncorrected": 2.0
    }  # fmt: skip
