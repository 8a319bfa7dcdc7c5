"""VictoriaMetrics speaks the API in its own way, tells no cost, and gives the same rows."""

import shutil
from pathlib import Path

import httpx
import pytest

from gputailor_agent.rollup import CounterRollup
from gputailor_agent.rollup.history import read_window
from gputailor_agent.sources.archive import read_archive
from gputailor_agent.sources.prometheus import PrometheusSource
from gputailor_agent.sources.prometheus.promql import chunks
from gputailor_exporter.scenarios.scenario import load
from tests.system.prometheus_history import dcgm_history, labelled, scraped, simulate
from tests.system.test_prometheus_counters import EVENTFUL, NOW
from tests.testbed.servers import HOST, Server, eventually, start_on_free_ports

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

HOURS = 4
START = NOW - HOURS * 3600


def in_milliseconds(lines):
    for line in lines:
        body, _, stamp = line.rstrip().rpartition(" ")
        yield f"{body} {round(float(stamp) * 1000)}\n"


def victoria(folder, lines):
    """A server over given history (times in milliseconds), and its address; skips by name."""
    binary = shutil.which("victoria-metrics")
    if binary is None:
        pytest.skip("no victoria-metrics: apt-get install victoria-metrics")

    def begin(ports):
        address = f"{HOST}:{ports[0]}"
        server = Server(
            "victoria-metrics",
            [
                Path(binary),
                f"-storageDataPath={folder / 'data'}",
                f"-httpListenAddr={address}",
                "-retentionPeriod=20y",
                "-search.latencyOffset=0s",
            ],
            folder / "victoria.log",
        )
        url = f"http://{address}"
        server.wait_ready(lambda: httpx.get(f"{url}/health", trust_env=False).is_success)
        return server, url

    server, url = start_on_free_ports(1, begin)
    with httpx.Client(trust_env=False, timeout=60) as client:
        for part in chunks(lines, 100_000):
            body = "".join(part).encode()
            sent = client.post(f"{url}/api/v1/import/prometheus", content=body)
            assert sent.is_success
        client.get(f"{url}/internal/force_flush")
    return server, url


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    (folder / "scenario.yaml").write_text(EVENTFUL, encoding="utf-8")
    files = simulate(folder / "scenario.yaml", folder / "out", NOW, HOURS / 24, page="120s")
    return files, load(folder / "scenario.yaml", NOW)


@pytest.fixture(scope="module")
def url(tmp_path_factory, pages):
    files, scenario = pages
    lines = [labelled(line, 'from="ours"') for line in scraped(files)]
    lines += [labelled(line, 'from="dcgm"') for line in dcgm_history(scenario, START, NOW)]
    server, url = victoria(tmp_path_factory.mktemp("victoria"), in_milliseconds(lines))
    eventually(lambda: _names(url), "the history can be searched")
    yield url
    server.stop()


def _names(url):
    with PrometheusSource(url, "test") as source:
        return source.dialects(START, NOW) == ("dcgm", "gputailor")


def test_rows_equal_those_of_the_archive(url, pages):
    rollup = CounterRollup("test")
    for page in read_archive(pages[0], "test").pages():
        rollup.add(page)
    expected = {row.key: row for row in rollup.take_rows() if row.key.hour >= START}
    with PrometheusSource(url, "test", labels={"from": "ours"}) as source:
        found = read_window(source, START, NOW)
        assert source.cost.samples > 0
    assert found.problems == []
    told = {row.key: row for row in found.rows}
    assert told.keys() == expected.keys()
    for key, row in expected.items():
        assert told[key].allocated_seconds == pytest.approx(row.allocated_seconds, abs=0.01)
        for name, use in row.signals.items():
            assert told[key].signals[name].active_seconds == pytest.approx(
                use.active_seconds, abs=0.01
            )


def test_means_of_gauges_are_made_there_too(url):
    with PrometheusSource(url, "test", labels={"from": "dcgm"}) as source:
        rows = read_window(source, START, NOW).rows
    long = [row for row in rows if row.key.pod.startswith("long")]
    assert len(long) == HOURS
    for row in long:
        assert row.signals["sm"].mean == pytest.approx(
            row.signals["kernel"].mean * 0.5 / 0.9, abs=0.01
        )
        assert row.memory_peak_bytes == 6 * 1024**3
