"""Simulated history is what the exporter would have published, with every run in it."""

import argparse
import gzip
import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gputailor_exporter.scenarios import simulate
from gputailor_exporter.scenarios.scenario import DEMO, load

SMALL = Path(__file__).resolve().parents[1] / "fakes" / "scenarios" / "small.yaml"
NOW = 1_764_590_400.0
HOUR = 3600.0
CONTAINER = "gputailor_container_gpu_"


def run(*arguments):
    parser = argparse.ArgumentParser()
    simulate.add_arguments(parser)
    return simulate.run(parser.parse_args([str(one) for one in arguments]))


def samples(text):
    """(name, labels, value, seconds) of each sample."""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        for family in text_string_to_metric_families(line + "\n"):
            for one in family.samples:
                yield one.name, one.labels, one.value, float(line.rsplit(" ", 1)[1]) / 1000


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Seven hours of the small scenario: node -> samples."""
    folder = tmp_path_factory.mktemp("history")
    code = run(
        "--scenario", SMALL, "--out", folder, "--now", NOW, "--start=-7h", "--jobs", 1,
        "--manifests", folder / "objects.json",
    )  # fmt: skip
    assert code == 0
    text = {node: (folder / f"{node}.prom").read_text() for node in ("node-a", "node-b")}
    return folder, {node: list(samples(one)) for node, one in text.items()}


def series(found, name, **labels):
    return [
        (at, value)
        for sample, have, value, at in found
        if sample == name and all(have.get(key) == text for key, text in labels.items())
    ]


def uuid_of(node, address):
    return load(SMALL, NOW).nodes[node].by_address(address).identity.uuid


def test_pages_come_in_the_order_of_time_and_each_sample_has_its_own(history):
    for found in history[1].values():
        times = [at for *_, at in found]
        assert times == sorted(times)


def test_there_is_a_page_at_each_full_hour(history):
    times = {round(at, 3) for *_, at in history[1]["node-a"]}
    assert {NOW - hours * HOUR for hours in range(8)} <= times


def test_a_finished_run_has_its_zero_and_its_last_value(history):
    train = uuid_of("node-a", "0")
    held = series(history[1]["node-a"], CONTAINER + "allocated_seconds_total", gpu_uuid=train)
    assert held[0] == (NOW - 3 * HOUR, 0.0)
    assert max(value for _, value in held) == pytest.approx(2 * HOUR)
    assert (NOW - HOUR - 0.001) in [round(at, 3) for at, _ in held]


def test_counters_agree_with_the_scenario(history):
    uuid = uuid_of("node-a", "0")
    active = series(
        history[1]["node-a"], CONTAINER + "active_seconds_total", gpu_uuid=uuid, signal="kernel"
    )
    assert active[-1][1] == pytest.approx(0.8 * 2 * HOUR)


def test_a_signal_that_was_missing_was_not_observed(history):
    uuid = uuid_of("node-a", "0")
    sm = series(
        history[1]["node-a"], CONTAINER + "observed_seconds_total", gpu_uuid=uuid, signal="sm"
    )
    assert sm[-1][1] == pytest.approx(1.5 * HOUR)


def test_the_peak_of_memory_is_seen(history):
    uuid = uuid_of("node-a", "0")
    peak = series(history[1]["node-a"], CONTAINER + "memory_peak_bytes", gpu_uuid=uuid)
    assert max(value for _, value in peak) == 30 * 1024**3


def test_the_allocation_vanishes_at_once_and_the_counters_after_their_linger(history):
    uuid = uuid_of("node-a", "0")
    allocated = series(history[1]["node-a"], CONTAINER + "allocated", gpu_uuid=uuid)
    seconds = series(history[1]["node-a"], CONTAINER + "allocated_seconds_total", gpu_uuid=uuid)
    assert round(allocated[-1][0], 3) == NOW - HOUR - 0.001
    assert seconds[-1][0] == NOW - HOUR


def test_sharers_and_the_unattributed_add_up_to_the_device(history):
    found, uuid = history[1]["node-a"], uuid_of("node-a", "3")
    device = series(found, "gputailor_device_active_seconds_total", gpu_uuid=uuid, signal="kernel")
    rest = series(
        found,
        "gputailor_device_unattributed_active_seconds_total",
        gpu_uuid=uuid,
        signal="kernel",
    )
    pods = [
        (at, value)
        for at, value in series(
            found, CONTAINER + "active_seconds_total", gpu_uuid=uuid, signal="kernel"
        )
        if at == NOW
    ]
    assert len(pods) == 2
    assert sum(value for _, value in pods) + rest[-1][1] == pytest.approx(device[-1][1])


def test_while_the_exporter_is_down_nothing_is_written_and_then_it_starts_anew(history):
    found = history[1]["node-b"]
    times = sorted({at for *_, at in found})
    assert not [at for at in times if NOW - 2 * HOUR <= at < NOW - HOUR]
    starts = {value for _, value in series(found, "process_start_time_seconds")}
    assert starts == {NOW - 7 * HOUR, NOW - HOUR}
    observed = series(found, "gputailor_device_observed_seconds_total", signal="kernel")
    assert max(value for at, value in observed if at >= NOW - HOUR) <= HOUR + 2


def test_a_lost_device_is_down_in_the_pages(history):
    up = series(history[1]["node-a"], "gputailor_device_up", gpu_uuid=uuid_of("node-a", "1"))
    assert up[0][1] == 1.0
    assert up[-1] == (NOW, 0.0)


def test_the_manifests_are_a_list_as_kubectl_writes_it(history):
    objects = json.loads((history[0] / "objects.json").read_text())
    assert objects["kind"] == "List"
    assert {one["kind"] for one in objects["items"]} >= {"Node", "Pod", "Job", "CronJob"}


def test_a_pinned_scenario_goes_on_where_the_history_ended(tmp_path):
    pin = tmp_path / "pinned.yaml"
    run("--scenario", "demo", "--out", tmp_path, "--now", NOW, "--days", 0.05, "--node", "t4-0",
        "--pin", pin)  # fmt: skip
    later, same = load(pin, NOW + 86400), load(DEMO, NOW)
    assert later.now == NOW
    assert later.allocations("t4-0", NOW + 60) == same.allocations("t4-0", NOW + 60)


def test_two_processes_write_what_one_writes(history, tmp_path):
    code = run("--scenario", SMALL, "--out", tmp_path, "--now", NOW, "--start=-7h", "--jobs", 2)
    assert code == 0
    for node in ("node-a", "node-b"):
        first, second = history[0] / f"{node}.prom", tmp_path / f"{node}.prom"
        assert first.read_bytes() == second.read_bytes()


def test_the_step_changes_no_total(tmp_path, history):
    run("--scenario", SMALL, "--out", tmp_path, "--now", NOW, "--start=-7h",
        "--node", "node-a", "--step", "17s")  # fmt: skip
    found = list(samples((tmp_path / "node-a.prom").read_text()))
    name, uuid = CONTAINER + "active_seconds_total", uuid_of("node-a", "0")
    fine = series(found, name, gpu_uuid=uuid, signal="dram")[-1]
    coarse = series(history[1]["node-a"], name, gpu_uuid=uuid, signal="dram")[-1]
    assert fine[1] == pytest.approx(coarse[1])


def test_one_node_can_be_compressed_and_written_as_openmetrics(tmp_path):
    code = run("--scenario", SMALL, "--out", tmp_path, "--now", NOW, "--days", 0.1, "--node",
               "node-b", "--gzip", "--openmetrics")  # fmt: skip
    assert code == 0
    assert [one.name for one in tmp_path.iterdir()] == ["node-b.om.gz"]
    text = gzip.decompress((tmp_path / "node-b.om.gz").read_bytes()).decode()
    assert text.endswith("# EOF\n")
    assert text.count("# EOF") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--node", "node-z"], "no node 'node-z' .it has node-a, node-b"),
        (["--start", "later"], "--start: expected"),
        (["--end", "later"], "--end: expected"),
        (["--start", "+1h"], "--start must be before --end"),
        (["--step", "often"], "--step: expected a duration"),
        (["--page-interval", "0"], "--page-interval: expected a duration"),
        (["--now", "never"], "--now: expected"),
        (["--now", "nan"], "--now: expected"),
        (["--step", "inf"], "--step: expected a duration"),
        (["--start", "2001-01-01"], "at most 3660 days"),
    ],
)
def test_wrong_options_are_told_and_end_with_2(tmp_path, capsys, options, message):
    assert run("--scenario", SMALL, "--out", tmp_path, *options) == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--days", "nan"], "--days: expected days above 0"),
        (["--days", "inf"], "--days: expected days above 0"),
        (["--jobs", "0"], "--jobs: expected a whole number from 1 up"),
    ],
)
def test_a_number_that_makes_no_sense_is_wrong_usage(tmp_path, capsys, options, message):
    with pytest.raises(SystemExit) as ended:
        run("--scenario", SMALL, "--out", tmp_path, *options)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--manifests", "--pin"])
def test_a_target_without_a_folder_is_told_before_the_work(tmp_path, capsys, option):
    target = tmp_path / "nowhere" / "file"
    assert run("--scenario", SMALL, "--out", tmp_path, option, target) == 1
    assert f"{target}: cannot be written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_output_folder_that_is_a_file_is_told_with_its_name(tmp_path, capsys):
    taken = tmp_path / "taken"
    taken.touch()
    assert run("--scenario", SMALL, "--out", taken) == 1
    assert f"{taken}: cannot be written: File exists" in capsys.readouterr().err


def test_a_scenario_that_is_not_there_ends_with_1(tmp_path, capsys):
    assert run("--scenario", tmp_path / "none.yaml", "--out", tmp_path) == 1
    assert "none.yaml: document: cannot be read" in capsys.readouterr().err


def test_a_day_of_the_demo_shows_every_container_once_per_gpu(tmp_path):
    code = run("--scenario", DEMO, "--out", tmp_path, "--now", NOW, "--days", 1, "--node", "t4-0")
    assert code == 0
    found = list(samples((tmp_path / "t4-0.prom").read_text()))
    shares = [
        value for name, _, value, at in found if name == CONTAINER + "allocated_share" and at == NOW
    ]
    assert sorted(shares) == [0.25, 0.25, 0.5]
