"""Our exporter's history read from a real Prometheus gives the rows that its own pages give."""

import re
from itertools import count

import pytest

from gputailor_agent.rollup import CounterRollup
from gputailor_agent.rollup.history import fill_store, read_window
from gputailor_agent.sources.archive import read_archive
from gputailor_agent.sources.prometheus import BLOCK_SECONDS, Budget, PrometheusSource
from gputailor_agent.store import Store
from tests.system.prometheus_history import (
    Running,
    found_binaries,
    labelled,
    need_binaries,
    scraped,
    simulate,
)

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

HOUR = 3600
NOW = 1_768_046_400  # 2026-01-10 12:00 UTC
HOURS = 8
START = NOW - HOURS * HOUR
PAGE = 120  # seconds between scrapes

EVENTFUL = """
version: 1
cluster: test
nodes:
  - name: node-a
    gpus: [{model: a100-sxm4-80gb, count: 2}, {model: a100-sxm4-80gb, mig: [3g.40gb, 1g.10gb]}]
    profiling: all
  - name: node-b
    gpus: [{model: t4, count: 1, replicas: 2, sharing: time_slicing}]
activities:
  steady:
    signals: {kernel: 0.6, sm: 0.4, graphics: 0.6, tensor: 0.2, dram: 0.3}
    memory: {plateau: 10GiB, peak: 14GiB, peak_at: 30m, peak_length: 2m}
    power: 0.5
  waves:
    signals: {kernel: 0.9, sm: 0.5, dram: 0.2}
    shape: {kind: on_off, period: 40m, duty: 0.4}
    memory: {plateau: 6GiB}
    power: 0.7
  half: {signals: {kernel: 0.4}, memory: {plateau: 3GiB}, power: 0.2}
workloads:
  - {name: long, namespace: team, kind: Deployment, activity: waves,
     runs: [{start: -30h, pods: [{node: node-a, gpus: [0]}]}]}
  - {name: ends, namespace: team, kind: Job, activity: steady,
     runs: [{start: -7h, end: -4h17m30s, pods: [{node: node-a, gpus: [1]}]}]}
  - {name: short, namespace: team, kind: Job, activity: steady,
     runs: [{start: -3h50m, duration: 7m, pods: [{node: node-a, gpus: [1]}]},
            {start: -3h35m, duration: 4m, pods: [{node: node-a, gpus: [1]}]},
            {start: -2h50m, duration: 6m, pods: [{node: node-a, gpus: [1]}]}]}
  - {name: slice, namespace: team, kind: Deployment, activity: half,
     runs: [{start: -5h30m, pods: [{node: node-a, gpus: ["2/0"]}]}]}
  - {name: one, namespace: team, kind: Deployment, activity: half,
     runs: [{start: -6h20m, pods: [{node: node-b, gpus: [0]}]}]}
  - {name: two, namespace: team, kind: Job, activity: half,
     runs: [{start: -5h40m, end: -1h20m, pods: [{node: node-b, gpus: [0]}]}]}
missing:
  - {node: node-a, start: -3h20m, end: -3h12m, what: exporter}
  - {node: node-a, start: -3h5m, end: -2h55m, what: exporter}
  - {node: node-b, start: -6h30m, end: -6h2m, what: exporter}
  - {node: node-b, start: -2h, end: -1h40m, what: exporter}
"""


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Pages of eight eventful hours: restarts, an exporter down over an hour's end, short jobs."""
    folder = tmp_path_factory.mktemp("pages")
    scenario = folder / "scenario.yaml"
    scenario.write_text(EVENTFUL, encoding="utf-8")
    return simulate(scenario, folder / "out", NOW, HOURS / 24, page=f"{PAGE}s")


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """A function that puts lines into a Prometheus of its own; all are stopped in the end."""
    running = []

    def begin(lines, binaries=None):
        folder = tmp_path_factory.mktemp("prometheus")
        running.append(Running(binaries or need_binaries(), folder, lines))
        return running[-1]

    yield begin
    for server in running:
        server.stop()


def late(history):
    """Scrapes at any second."""
    return scraped(history, late=23.0)


def dishonoured(history):
    """As where a scrape does not honour the labels of the metrics."""
    for line in scraped(history):
        told = line
        if "container_gpu_" in line:
            for name in ("pod", "namespace", "container"):
                told = re.sub(rf'([{{,]){name}="', rf'\1exported_{name}="', told)
            told = told.replace("{", '{pod="exporter-x",namespace="gpu",container="e",', 1)
        yield told


def moved(history):
    """An exporter that comes back under another address each time."""
    for line in scraped(history):
        at = float(line.rsplit(" ", 1)[1])
        spell = sum(at > NOW - hours * HOUR for hours in (6.25, 3.25, 3.0, 1.8))
        yield line.replace(":9400", f":940{spell}")


def twice(history):
    """One exporter that two jobs scrape."""
    yield from scraped(history)
    yield from scraped(history, job="again")


def looked_late(history):
    """A Prometheus that began to look while the exporters had long been running."""
    lines = scraped(history)
    return (line for line in lines if float(line.rsplit(" ", 1)[1]) >= NOW - 2.5 * HOUR)


VARIANTS = {
    "plain": scraped, "late": late, "dishonoured": dishonoured, "moved": moved, "twice": twice,
    "looked_late": looked_late,
}  # fmt: skip


@pytest.fixture(scope="module")
def server(serve, history):
    """Every variant of the history, told apart by a label as clusters in one server are."""
    return serve(
        labelled(line, f'variant="{name}"')
        for name, variant in VARIANTS.items()
        for line in variant(history)
    )


def from_archive(files):
    rollup = CounterRollup("test")
    for page in read_archive(files, "test").pages():
        rollup.add(page)
    return {row.key: row for row in rollup.take_rows()}, rollup


def from_server(url, start=START, end=NOW, variant=None, **options):
    labels = {} if variant is None else {"variant": variant}
    with PrometheusSource(url, "test", labels=labels, **options) as source:
        found = read_window(source, start, end)
        return {row.key: row for row in found.rows}, found, source.cost


def assert_alike(told, expected, *, seconds):
    """Every figure of every row, to so many seconds (of energy: at the row's mean power)."""
    small = {key for key, row in expected.items() if row.allocated_seconds <= seconds}
    assert set(told) | small >= set(expected)
    assert {key for key, row in told.items() if row.allocated_seconds > seconds} <= set(expected)
    for key in set(told) & set(expected):
        mine, true = told[key], expected[key]
        assert mine.allocated_seconds == pytest.approx(true.allocated_seconds, abs=seconds), key
        assert mine.memory_total_bytes == true.memory_total_bytes
        for name, use in true.signals.items():
            if name == "width":  # it is known by its histogram alone
                continue
            own = mine.signals[name]
            assert own.observed_seconds == pytest.approx(use.observed_seconds, abs=seconds), key
            assert own.active_seconds == pytest.approx(use.active_seconds, abs=seconds), key
            assert (own.histogram is None) == (use.histogram is None)
            assert own.awaited_seconds == 0


def by_block(rows):
    """Histograms by container, device, signal and block of hours."""
    sums = {}
    for key, row in rows.items():
        for name, use in row.signals.items():
            if use.histogram is not None:
                place = (key.pod, key.gpu_uuid, key.hour // BLOCK_SECONDS, name)
                known = sums.get(place)
                sums[place] = known.merge(use.histogram) if known else use.histogram
    return sums


def assert_same_histograms(told, expected, *, seconds):
    """Those of blocks, bucket by bucket; those of hours, as a whole."""
    mine, true = by_block(told), by_block(expected)
    assert mine.keys() == true.keys()
    for place, histogram in true.items():
        assert mine[place].seconds == pytest.approx(histogram.seconds, abs=seconds), place
    for key, row in expected.items():
        for name, use in row.signals.items():
            if use.histogram is not None and name != "width":
                own = told[key].signals[name].histogram
                assert own.total_seconds == pytest.approx(
                    use.histogram.total_seconds, abs=1 + seconds
                ), (key, name)


@pytest.mark.parametrize("which", range(max(1, len(found_binaries()))))
def test_rows_equal_those_of_the_archive_whatever_happened(serve, history, which):
    binaries = found_binaries()[which] if found_binaries() else need_binaries()
    expected, rollup = from_archive(history)
    told, found, _ = from_server(serve(scraped(history), binaries).url)
    assert found.problems == []
    assert rollup.problems == {}
    assert_alike(told, expected, seconds=0.01)
    for key, row in expected.items():
        assert told[key].memory_peak_bytes == row.memory_peak_bytes
        assert told[key].last_active == row.last_active
        assert told[key].share == pytest.approx(row.share)
        if row.energy_joules is not None:
            # a process's first page has no energy yet: a page of it is won or lost there
            watts = max(one.energy_joules / one.allocated_seconds for one in (row, told[key]))
            assert told[key].energy_joules == pytest.approx(row.energy_joules, abs=watts * PAGE)
    assert_same_histograms(told, expected, seconds=0.05)
    assert {d.gpu_uuid: d.model for d in found.devices} == {
        d.gpu_uuid: d.model for d in rollup.devices()
    }


def test_warm_up_is_that_of_the_archive(server, history):
    expected, _ = from_archive(history)
    told, _, _ = from_server(server.url, variant="plain")
    for key, row in expected.items():
        for name, warm in row.warmup.items():
            mine = told[key].warmup[name]
            # a run that ended is placed at its hour's end; its warm-up keeps its length
            assert mine.observed_seconds == pytest.approx(warm.observed_seconds, abs=PAGE), key


def test_an_exporter_that_was_down_is_missing_time_and_no_zero(server):
    told, _, _ = from_server(server.url, variant="plain")
    down = [
        row
        for key, row in told.items()
        if key.pod.startswith("long") and key.hour == NOW - 4 * HOUR
    ]
    (row,) = down
    assert row.signals["kernel"].observed_seconds == pytest.approx(3600 - 8 * 60 - 5 * 60, abs=1)


def test_scrapes_at_any_second_cost_at_most_one_scrape_of_precision(server, history):
    expected, _ = from_archive(history)
    told, found, _ = from_server(server.url, variant="late")
    assert found.problems == []
    assert_alike(told, expected, seconds=PAGE)
    for pod in {key.pod for key in expected}:
        mine = sum(row.allocated_seconds for key, row in told.items() if key.pod == pod)
        true = sum(row.allocated_seconds for key, row in expected.items() if key.pod == pod)
        assert mine == pytest.approx(true, abs=PAGE), pod


@pytest.mark.parametrize("variant", ["dishonoured", "moved", "twice"])
def test_how_it_was_scraped_changes_nothing(server, history, variant):
    expected, _ = from_archive(history)
    told, found, _ = from_server(server.url, variant=variant)
    assert_alike(told, expected, seconds=0.01)
    assert {device.node for device in found.devices} == {"node-a", "node-b"}


def test_an_exporter_that_ran_before_anybody_looked_is_not_credited_its_past(server):
    told, _, _ = from_server(server.url, variant="looked_late")
    first = min(
        (row for key, row in told.items() if key.pod.startswith("long")), key=lambda r: r.key.hour
    )
    assert first.key.hour == NOW - 3 * HOUR
    assert first.allocated_seconds == pytest.approx(0.5 * HOUR, abs=PAGE + 1)


def test_an_hour_that_still_runs_is_given_as_far_as_it_came(server, history):
    until = NOW - 25 * 60
    told, _, _ = from_server(server.url, end=until, variant="plain")
    (row,) = [
        row for key, row in told.items() if key.pod.startswith("long") and key.hour == NOW - HOUR
    ]
    assert row.allocated_seconds == pytest.approx(35 * 60, abs=PAGE)


# ---- cost, and going on ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def fortnight(tmp_path_factory, serve):
    """Fourteen days of a small cluster, a page every five minutes."""
    folder = tmp_path_factory.mktemp("fortnight")
    scenario = folder / "scenario.yaml"
    scenario.write_text(
        EVENTFUL.split("workloads:", maxsplit=1)[0]
        + """
workloads:
  - {name: long, namespace: team, kind: Deployment, activity: half,
     runs: [{start: -20d, pods: [{node: node-b, gpus: [0]}]}]}
  - {name: daily, namespace: team, kind: CronJob, activity: half,
     schedule: {at: "03:10", duration: 2h, pods: [{node: node-b, gpus: [0]}]}}
""",
        encoding="utf-8",
    )
    files = simulate(scenario, folder / "out", NOW, 14, page="300s", node="node-b")
    series = sum(1 for line in scraped(files) if line.endswith(f" {NOW}.000\n"))
    return serve(scraped(files)), files, series


def test_back_fill_of_14_days_touches_less_than_one_sample_per_series_and_hour(fortnight):
    server, files, series = fortnight
    told, found, cost = from_server(server.url, start=NOW - 14 * 24 * HOUR)
    expected, _ = from_archive(files)
    assert found.problems == []
    assert_alike(told, expected, seconds=0.01)
    hours = 14 * 24
    raw = series * hours * 12  # what was scraped
    assert cost.samples < hours * series
    assert cost.samples < raw / 12
    assert cost.requests < hours * 25


def test_back_fill_goes_on_where_it_was_stopped(fortnight, tmp_path):
    server, _, series = fortnight
    start = NOW - 5 * 24 * HOUR
    budget = Budget(samples=series * 8)
    whole, _, _ = from_server(server.url, start=start, end=NOW)
    with Store.open(tmp_path / "cache.db") as store:
        for goes in count(1):
            with PrometheusSource(server.url, "test", budget=budget) as source:
                problems = fill_store(source, start, NOW + 300, store)
                assert source.cost.samples < series * (8 + 6)  # the block that was begun
            if not problems:
                break
            assert "the budget of samples is used up; run again" in problems[0]
            assert goes < 20
        assert goes > 3
        kept = {row.key: row for row in store.usage("test", start, NOW)}
        assert kept == whole


def test_hours_that_are_kept_are_never_asked_for_again(fortnight, tmp_path):
    server, _, series = fortnight
    start = NOW - 24 * HOUR
    with Store.open(tmp_path / "cache.db") as store:
        for end, samples in ((NOW - 3000, None), (NOW - 200, 0), (NOW + 300, series * 1.2)):
            with PrometheusSource(server.url, "test") as source:
                assert fill_store(source, start, end, store) == []
                if samples is not None:
                    assert source.cost.samples <= samples
        with PrometheusSource(server.url, "test") as source:
            earlier = start - 24 * HOUR
            assert fill_store(source, earlier, NOW, store) == []  # older hours are added later
            kept = {row.key: row for row in store.usage("test", earlier, NOW)}
    assert kept.keys() == from_server(server.url, start=earlier)[0].keys()


def test_a_report_reads_kept_hours_from_the_store(fortnight, tmp_path):
    server, _, _ = fortnight
    start, told = NOW - 24 * HOUR, []
    with Store.open(tmp_path / "cache.db") as store:
        with PrometheusSource(server.url, "test") as source:
            first = read_window(source, start, NOW, store, lambda *done: told.append(done))
        with PrometheusSource(server.url, "test") as source:
            again = read_window(source, start, NOW, store)
            second = source.cost.samples
    assert told[-1] == (24, 24)
    assert {row.key: row for row in again.rows} == {row.key: row for row in first.rows}
    assert second < 200  # the last hour, which may still be written to
    assert {row.key: row for row in first.rows} == from_server(server.url, start=start)[0]
