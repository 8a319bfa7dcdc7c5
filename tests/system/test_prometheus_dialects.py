"""One truth told by every exporter, in three makes of server: the same profile comes of each.

Each server holds fourteen days of all of them at once, thinned out where nothing is read, and some
hours more for each usual distance of scrapes. What a dialect cannot tell is not there, and is never
a zero.
"""

from functools import cache

import pytest

from gputailor_agent.dialects.gauges import HEALTH, Measure, gauge_dialects
from gputailor_agent.rollup.history import read_window
from gputailor_agent.sources.prometheus import PrometheusSource
from tests.system.prometheus_history import (
    Running,
    found_binaries,
    labelled,
    need_binaries,
    scraped,
    simulate,
)
from tests.system.test_prometheus_victoria import in_milliseconds, victoria
from tests.system.told_by import TELLERS, Truth, told_by
from tests.testbed.servers import eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

HOUR, DAY = 3600, 86_400
NOW = 1_768_046_400  # 2026-01-10 12:00 UTC
START = NOW - 14 * DAY
SCRAPE = 120  # seconds between the scrapes of the fourteen days
SELDOM = 1800  # seconds between the scrapes that are kept where nothing is read
GIB = 1024.0**3
PERIOD = 40 * 60  # of which the card works sixteen minutes
DOWN = (NOW - 3 * HOUR, NOW - 3 * HOUR + 20 * 60)  # nothing was scraped

#: Read of each dialect and server: some hours of the first day and of the last.
WINDOWS = ((START + HOUR, START + 3 * HOUR), (NOW - 4 * HOUR, NOW))
#: ... and of each distance of scrapes (seconds): an hour in which nothing was down, and one before.
NEAR = ((NOW - 3 * HOUR, NOW - HOUR),)
READ = {SCRAPE: WINDOWS, 60: NEAR, 30: NEAR, 15: NEAR}

SCENARIO = """
version: 1
cluster: test
nodes:
  - name: node-a
    gpus: [{model: a100-sxm4-80gb, count: 1}]
    profiling: all
activities:
  waves:
    signals: {kernel: 0.9, sm: 0.5, graphics: 0.9, tensor: 0.2, dram: 0.3, memcopy: 0.1,
              encoder: 0, decoder: 0}
    shape: {kind: on_off, period: 40m, duty: 0.4}
    memory: {plateau: 6GiB}
    power: 0.7
workloads:
  - {name: long, namespace: team, kind: Deployment, activity: waves,
     runs: [{start: -20d, pods: [{node: node-a, gpus: [0]}]}]}
missing:
  - {node: node-a, start: -3h, end: -2h40m, what: exporter}
"""
ACTIVE = {
    "kernel": 0.9, "sm": 0.5, "graphics": 0.9, "tensor": 0.2, "dram": 0.3, "memcopy": 0.1,
    "encoder": 0.0, "decoder": 0.0,
}  # fmt: skip


def truth_at(at):
    """What the scenario does at one time, as a gauge tells it."""
    on = (at - NOW) % PERIOD < 0.4 * PERIOD
    return Truth(
        uuid="GPU-0e6e4b52-7d9f-4c4e-9d0a-5b5a3f0c1d2e",
        model="NVIDIA A100-SXM4-80GB",
        node="node-a",
        namespace="team",
        pod="long-0",
        container="main",
        signals={name: value if on else 0.0 for name, value in ACTIVE.items()},
        memory_used=6 * GIB,
        memory_total=80 * GIB,
        watts=300.0 if on else 80.0,
    )


def is_kept(at, every):
    near = any(start - HOUR <= at <= end for start, end in READ[every])
    return near or (every == SCRAPE and at % SELDOM == 0)


def everybody(pages):
    """Every exporter's history at every distance of scrapes, told apart by labels."""
    for every, files in pages.items():
        for line in scraped(files):
            if is_kept(float(line.rsplit(" ", 1)[1]), every):
                yield labelled(line.rstrip("\n"), f'from="gputailor",every="{every}"') + "\n"
        for at in range(START + every, NOW + 1, every):
            if is_kept(at, every) and not DOWN[0] < at <= DOWN[1]:
                yield from others_at(at, every)


def others_at(at, every):
    for dialect in gauge_dialects():
        for line in told_by(dialect, truth_at(at), at):
            yield line.replace("{", f'{{from="{dialect.name}",every="{every}",', 1)


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Everybody's lines in a file, for all servers."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "scenario.yaml").write_text(SCENARIO, encoding="utf-8")
    pages = {
        every: simulate(
            folder / "scenario.yaml", folder / f"out-{every}", NOW,
            14 if every == SCRAPE else 6 / 24, page=f"{every}s",
        )
        for every in READ
    }  # fmt: skip
    with (folder / "history").open("w", encoding="utf-8") as file:
        file.writelines(everybody(pages))
    return folder / "history"


def prometheus(place):
    def begin(tmp_path_factory, lines):
        found = found_binaries()
        if len(found) <= place:
            need_binaries()
            pytest.skip("only one Prometheus: `make testbed` and apt-get install prometheus")
        server = Running(found[place], tmp_path_factory.mktemp("prometheus"), lines)
        return server.url, server

    return begin


def victoria_metrics(tmp_path_factory, lines):
    server, url = victoria(tmp_path_factory.mktemp("victoria"), in_milliseconds(lines))
    eventually(lambda: rows_of(url, "gputailor"), "the history can be searched")
    return url, server


@pytest.fixture(scope="module", params=[prometheus(0), prometheus(1), victoria_metrics],
                ids=["prometheus_3", "prometheus_2", "victoria_metrics"])  # fmt: skip
def url(request, tmp_path_factory, history):
    with history.open(encoding="utf-8") as lines:
        address, server = request.param(tmp_path_factory, lines)
    yield address
    server.stop()


@cache
def rows_of(url, dialect, every=SCRAPE):
    """The rows of some hours, by hour."""
    found = {}
    with PrometheusSource(url, "test", labels={"from": dialect, "every": str(every)}) as source:
        for window in READ[every]:
            for row in read_window(source, *window).rows:
                assert row.dialect == dialect
                assert row.key.hour not in found, "one container, one row an hour"
                found[row.key.hour] = row
    return found


each_distance = pytest.mark.parametrize("every", READ)
each_dialect = pytest.mark.parametrize("dialect", gauge_dialects(), ids=lambda one: one.name)


def test_our_own_exporter_tells_the_truth(url):
    ours = rows_of(url, "gputailor")
    assert len(ours) == 6
    total = sum(row.signals["kernel"].active_seconds for row in ours.values())
    held = sum(row.signals["kernel"].observed_seconds for row in ours.values())
    assert total / held == pytest.approx(0.36, abs=0.03)
    assert ours[DOWN[0]].signals["kernel"].observed_seconds == pytest.approx(2400, abs=SCRAPE)


def test_every_dialect_of_gauges_is_told_here():
    assert {dialect.name for dialect in gauge_dialects()} == set(TELLERS)


@each_distance
def test_our_own_exporter_tells_the_same_at_any_distance_of_scrapes(url, every):
    rows, ours = rows_of(url, "gputailor", every), rows_of(url, "gputailor")
    for hour, row in rows.items():
        for name, use in row.signals.items():
            true = ours[hour].signals[name]
            assert use.observed_seconds == pytest.approx(true.observed_seconds, abs=SCRAPE), name
            assert use.active_seconds == pytest.approx(true.active_seconds, abs=SCRAPE), name
            assert use.histogram is None or use.histogram.total_seconds == pytest.approx(
                use.observed_seconds, abs=2
            )


@each_distance
@each_dialect
def test_a_dialect_gives_the_same_within_its_resolution(url, dialect, every):
    ours, rows = rows_of(url, "gputailor", every), rows_of(url, dialect.name, every)
    assert rows.keys() == ours.keys()
    told = {gauge.signal for gauge in dialect.gauges if gauge.measure is Measure.ACTIVITY}
    for hour, true in ours.items():
        mine = rows[hour]
        assert set(mine.signals) <= told
        assert "kernel" in mine.signals
        observed = true.signals["kernel"].observed_seconds
        for name, use in mine.signals.items():
            assert use.observed_seconds == pytest.approx(observed, abs=2 * every), name
            if name in true.signals:
                true_use = true.signals[name]
                assert use.active_seconds == pytest.approx(
                    true_use.active_seconds, abs=2 * every * max(ACTIVE[name], 0.01)
                ), (name, hour)
        assert mine.memory_peak_bytes == pytest.approx(6 * GIB, rel=0.001)
        assert mine.memory_total_bytes == pytest.approx(80 * GIB, rel=0.001)


@each_dialect
def test_what_a_dialect_cannot_tell_is_absent_and_no_zero(url, dialect):
    rows = rows_of(url, dialect.name)
    told = {gauge.signal for gauge in dialect.gauges if gauge.measure is Measure.ACTIVITY}
    powered = any(gauge.measure is Measure.POWER for gauge in dialect.gauges)
    well = any(gauge.measure in HEALTH for gauge in dialect.gauges)
    for row in rows.values():
        assert not set(ACTIVE) - told & set(row.signals)
        assert (row.energy_joules is not None) == powered
        assert all(use.maximum is None for use in row.signals.values())
        assert bool(row.conditions) == well
        assert not any(row.conditions[name] for name in row.conditions if "untold" not in name)
