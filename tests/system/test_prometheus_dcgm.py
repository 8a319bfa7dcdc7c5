"""dcgm-exporter's history in a real Prometheus tells what the scenario did, and what it cannot."""

import pytest

from gputailor_agent.dialects.dcgm import GAUGES
from gputailor_agent.rollup import CounterRollup
from gputailor_agent.rollup.history import fill_store, read_window
from gputailor_agent.sources.archive import read_archive
from gputailor_agent.sources.prometheus import PrometheusSource
from gputailor_agent.store import Store
from gputailor_exporter.scenarios.scenario import load
from tests.system.prometheus_history import (
    SCRAPE,
    Running,
    dcgm_history,
    found_binaries,
    need_binaries,
    scraped,
    simulate,
)

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

HOUR = 3600
NOW = 1_768_046_400  # 2026-01-10 12:00 UTC
HOURS = 5
START = NOW - HOURS * HOUR
GIB = 1024**3

SCENARIO = """
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
    signals: {kernel: 0.6, sm: 0.4, graphics: 0.6, tensor: 0.2, dram: 0.3, fp32: 0.1}
    memory: {plateau: 10GiB, peak: 14GiB, peak_at: 30m, peak_length: 2m}
    power: 0.5
  waves:
    signals: {kernel: 0.9, sm: 0.5, graphics: 0.9, dram: 0.2}
    shape: {kind: on_off, period: 40m, duty: 0.4}
    memory: {plateau: 6GiB}
    power: 0.7
  half: {signals: {kernel: 0.4, sm: 0.3, graphics: 0.4}, memory: {plateau: 3GiB}, power: 0.2}
workloads:
  - {name: long, namespace: team, kind: Deployment, activity: waves,
     runs: [{start: -30h, pods: [{node: node-a, gpus: [0]}]}]}
  - {name: first, namespace: team, kind: Job, activity: steady,
     runs: [{start: -4h40m, end: -2h17m, pods: [{node: node-a, gpus: [1]}]}]}
  - {name: next, namespace: team, kind: Job, activity: half,
     runs: [{start: -2h16m, end: -1h50m, pods: [{node: node-a, gpus: [1]}]}]}
  - {name: slice, namespace: team, kind: Deployment, activity: half,
     runs: [{start: -4h30m, pods: [{node: node-a, gpus: ["2/0"]}]}]}
  - {name: one, namespace: team, kind: Deployment, activity: half,
     runs: [{start: -4h20m, pods: [{node: node-b, gpus: [0]}]}]}
  - {name: two, namespace: team, kind: Job, activity: half,
     runs: [{start: -3h, end: -2h, pods: [{node: node-b, gpus: [0]}]}]}
missing:
  - {node: node-a, start: -3h20m, end: -3h5m, what: exporter}
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenario") / "scenario.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def scenario(path):
    return load(path, NOW)


@pytest.fixture(scope="module")
def pages(path):
    return simulate(path, path.parent / "out", NOW, HOURS / 24)


@pytest.fixture(scope="module")
def true(pages):
    """Rows of our exporter for the same hours."""
    rollup = CounterRollup("test")
    for page in read_archive(pages, "test").pages():
        rollup.add(page)
    return rollup.take_rows()


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    running = []

    def begin(lines, binaries=None):
        folder = tmp_path_factory.mktemp("prometheus")
        running.append(Running(binaries or need_binaries(), folder, lines))
        return running[-1].url

    yield begin
    for server in running:
        server.stop()


@pytest.fixture(scope="module")
def url(serve, scenario):
    return serve(dcgm_history(scenario, START, NOW))


@pytest.fixture(scope="module")
def found(url):
    with PrometheusSource(url, "test") as source:
        assert source.dialects(START, NOW) == ("dcgm",)
        return read_window(source, START, NOW)


def pick(rows, pod, hours_ago):
    hour = NOW - hours_ago * HOUR
    (row,) = [row for row in rows if row.key.pod.startswith(pod) and row.key.hour == hour]
    return row


def assert_alike(mine, true, *, seconds=2 * SCRAPE):
    """Means, and time observed, to two scrapes."""
    assert mine.dialect == "dcgm"
    assert mine.allocated_seconds == pytest.approx(true.allocated_seconds, abs=seconds)
    for name, use in true.signals.items():
        if name not in mine.signals:
            continue
        own = mine.signals[name]
        assert own.observed_seconds == pytest.approx(use.observed_seconds, abs=seconds), name
        assert own.active_seconds == pytest.approx(use.active_seconds, abs=seconds), name
        assert own.histogram.total_seconds == own.observed_seconds


@pytest.mark.parametrize("which", range(max(1, len(found_binaries()))))
def test_devices_of_their_own_give_what_our_exporter_gives(serve, scenario, true, which):
    binaries = found_binaries()[which] if found_binaries() else need_binaries()
    with PrometheusSource(serve(dcgm_history(scenario, START, NOW), binaries), "test") as source:
        found = read_window(source, START, NOW)
    compared = 0
    for mine in found.rows:
        if mine.key.gpu_uuid.startswith("MIG-") or mine.key.pod.startswith(("one", "two")):
            continue
        if not mine.key.pod:  # a card that nobody holds
            continue
        expected = pick(true, mine.key.pod, (NOW - mine.key.hour) // HOUR)
        assert_alike(mine, expected)
        assert set(mine.signals) >= {"kernel", "sm", "graphics", "tensor", "dram", "encoder"}
        watts = expected.energy_joules / expected.allocated_seconds
        assert mine.energy_joules == pytest.approx(expected.energy_joules, abs=watts * 60)
        assert mine.memory_total_bytes == expected.memory_total_bytes
        compared += 1
    assert compared == 5 + 3 + 2


def test_means_stay_means_where_work_comes_in_waves(found, true):
    for hours_ago in range(1, 6):
        mine, expected = (pick(rows, "long", hours_ago) for rows in (found.rows, true))
        assert mine.signals["sm"].mean == pytest.approx(expected.signals["sm"].mean, abs=0.01)


def test_zero_for_five_minutes_is_zero_in_the_histogram(found):
    histogram = pick(found.rows, "long", 1).signals["kernel"].histogram
    assert histogram.zero_seconds == pytest.approx(0.6 * HOUR, abs=600)


def test_no_maximum_and_no_width_is_made_up_of_means(found):
    for row in found.rows:
        assert "width" not in row.signals
        assert row.conditions == {}
        assert all(use.maximum is None for use in row.signals.values())


def test_memory_is_the_highest_sample_and_says_so(found):
    peak, later = pick(found.rows, "first", 5), pick(found.rows, "first", 4)
    assert (peak.memory_peak_bytes, peak.memory_peak_kind) == (14 * GIB, "sampled")
    assert later.memory_peak_bytes == 10 * GIB


def test_a_mig_instance_has_its_own_values_and_none_of_its_card(found, true, scenario):
    (card,) = {d.parent_uuid for d in scenario.devices("node-a") if d.parent_uuid}
    for hours_ago in range(1, 5):
        mine, expected = (pick(rows, "slice", hours_ago) for rows in (found.rows, true))
        assert mine.key.gpu_uuid.startswith(f"MIG-{card}/")
        assert_alike(mine, expected)
        assert mine.energy_joules is None  # the card's, copied
        assert "kernel" not in mine.signals
        assert mine.signals["sm"].mean == pytest.approx(0.3, abs=0.01)
        assert mine.memory_total_bytes == expected.memory_total_bytes
    (device,) = [
        d for d in found.devices if d.gpu_uuid == pick(found.rows, "slice", 1).key.gpu_uuid
    ]
    assert device.parent_uuid == card
    assert device.mig_profile == "3g.40gb"


def test_a_shared_device_is_nobodys_while_it_is_shared(found):
    for pod in ("one", "two"):
        row = pick(found.rows, pod, 3)
        assert row.allocated_seconds == pytest.approx(HOUR, abs=60)
        assert row.signals == {}
        assert row.energy_joules is None
        assert row.memory_peak_bytes is None
        assert row.share == pytest.approx(0.5)
    alone = pick(found.rows, "one", 1)
    assert alone.signals["kernel"].mean == pytest.approx(0.4, abs=0.01)
    assert any("not attributable" in problem for problem in found.problems)


def test_two_pods_one_after_the_other_are_not_taken_for_sharers(found):
    before, after = pick(found.rows, "first", 3), pick(found.rows, "next", 3)
    assert before.signals["kernel"].mean == pytest.approx(0.6, abs=0.02)
    assert after.signals["kernel"].mean == pytest.approx(0.4, abs=0.02)


def test_time_without_an_exporter_is_not_observed(found):
    row = pick(found.rows, "long", 4)
    assert row.signals["kernel"].observed_seconds == pytest.approx(HOUR - 15 * 60, abs=2 * SCRAPE)


def test_warm_up_is_known_for_a_pod_that_was_seen_to_begin(found):
    warm = pick(found.rows, "first", 5).warmup["kernel"]
    assert warm.observed_seconds == pytest.approx(600, abs=SCRAPE)
    assert pick(found.rows, "long", 5).warmup == {}


def test_an_idle_card_is_a_device_and_no_pods(found, scenario):
    known = {d.uuid for node in scenario.nodes for d in scenario.devices(node) if not d.parent_uuid}
    assert known <= {device.gpu_uuid for device in found.devices}
    (device,) = [device for device in found.devices if device.node == "node-b"]
    assert (device.model, device.vendor) == ("Tesla T4", "nvidia")


@pytest.mark.parametrize("hostname", ["Hostname", "hostname"])
def test_labels_that_were_not_honoured_or_renamed_change_nothing(serve, scenario, found, hostname):
    lines = dcgm_history(scenario, START, NOW, exported=True, hostname=hostname)
    with PrometheusSource(serve(lines), "test") as source:
        again = read_window(source, START, NOW)
    assert {row.key: row for row in again.rows} == {row.key: row for row in found.rows}
    assert {d.gpu_uuid: d.node for d in again.devices} == {
        d.gpu_uuid: d.node for d in found.devices
    }


def test_signals_that_our_exporter_lacks_come_from_dcgms_profiling(serve, scenario, pages, true):
    lacking = ('signal="sm"', 'signal="tensor"', 'signal="width"')

    def both():
        yield from (line for line in scraped(pages) if not any(one in line for one in lacking))
        yield from dcgm_history(scenario, START, NOW)

    with PrometheusSource(serve(both()), "test") as source:
        found = read_window(source, START, NOW)
    mine, expected = (pick(rows, "long", 2) for rows in (found.rows, true))
    assert (mine.dialect, mine.filled["sm"]) == ("gputailor", "dcgm")
    assert mine.signals["sm"].mean == pytest.approx(expected.signals["sm"].mean, abs=0.01)
    assert mine.signals["kernel"].histogram.seconds == pytest.approx(
        expected.signals["kernel"].histogram.seconds, abs=1
    )
    (slice_,) = {row.filled.get("sm") for row in found.rows if row.key.pod.startswith("slice")}
    assert slice_ == "dcgm"  # the MIG instance under either exporter's name
    assert {row.key for row in found.rows} == {row.key for row in true}


def test_where_both_exporters_tell_of_a_device_ours_counts(serve, scenario, pages, true):
    def both():
        yield from scraped(pages)
        yield from dcgm_history(scenario, START, NOW)

    with PrometheusSource(serve(both()), "test") as source:
        assert source.dialects(START, NOW) == ("dcgm", "gputailor")
        found = read_window(source, START, NOW)
    assert {row.dialect for row in found.rows} == {"gputailor"}
    assert {row.key for row in found.rows} == {row.key for row in true}


def test_an_exporter_that_was_updated_meanwhile_is_read_under_old_and_new_names(
    serve, scenario, found
):
    names = {name.names[0]: name.names[-1] for name in GAUGES.gauges}
    update = NOW - 2.6 * HOUR + 70

    def updated():
        for line in dcgm_history(scenario, START, NOW):
            name = line.partition("{")[0]
            old = float(line.rsplit(" ", 1)[1]) <= update
            told = line.replace(name, names.get(name, name), 1) if old else line
            yield told.replace('pod="', 'pod_name="') if old and name != "up" else told

    with PrometheusSource(serve(updated()), "test") as source:
        again = {row.key: row for row in read_window(source, START, NOW).rows}
    assert set(again) == {row.key for row in found.rows}
    for row in found.rows:
        assert_same_use(again[row.key], row)


def assert_same_use(mine, true):
    """The same, but for the five minutes of the update."""
    assert mine.allocated_seconds == pytest.approx(true.allocated_seconds, abs=2 * SCRAPE)
    assert mine.signals.keys() == true.signals.keys()
    for name, use in true.signals.items():
        assert mine.signals[name].observed_seconds == pytest.approx(
            use.observed_seconds, abs=2 * SCRAPE
        ), (name, true.key)
        assert mine.signals[name].active_seconds == pytest.approx(use.active_seconds, abs=300)
    if true.memory_peak_bytes is not None:
        assert mine.memory_peak_bytes == pytest.approx(true.memory_peak_bytes, rel=0.01)
    assert (mine.memory_peak_bytes is None) == (true.memory_peak_bytes is None)
    assert mine.memory_total_bytes == true.memory_total_bytes


def test_a_cluster_that_changed_to_our_exporter_has_each_hour_from_who_told_more_of_it(
    serve, scenario, pages
):
    change = NOW - 2 * HOUR - 40 * 60

    def changed():
        for line in scraped(pages):
            if float(line.rsplit(" ", 1)[1]) > change:
                yield line
        for line in dcgm_history(scenario, START, NOW):
            if float(line.rsplit(" ", 1)[1]) <= change:
                yield line

    with PrometheusSource(serve(changed()), "test") as source:
        rows = read_window(source, START, NOW).rows
    by_hour = {hours: pick(rows, "long", hours) for hours in (5, 4, 3, 2, 1)}
    assert [row.dialect for row in by_hour.values()] == ["dcgm"] * 2 + ["gputailor"] * 3
    assert by_hour[3].signals["kernel"].observed_seconds == pytest.approx(2400, abs=3 * SCRAPE)
    assert by_hour[2].signals["kernel"].observed_seconds == pytest.approx(3600, abs=1)


def test_each_raw_sample_is_touched_about_once_and_kept_hours_never_again(url, scenario, tmp_path):
    raw = sum(1 for _ in dcgm_history(scenario, START, NOW))
    with Store.open(tmp_path / "cache.db") as store:
        with PrometheusSource(url, "test") as source:
            assert all("was shared" in one for one in fill_store(source, START, NOW + 300, store))
            assert source.cost.samples < 1.3 * raw
        with PrometheusSource(url, "test") as source:
            assert fill_store(source, START, NOW + 300, store) == []
            assert source.cost.samples == 0
