"""``gputailor store``: check, backup, compact and export, as somebody types them."""

import pyarrow.parquet as pq
import pytest

from gputailor_agent.cli.app import run
from gputailor_agent.model.usage import Device
from gputailor_agent.store import Store, exporting
from tests.agent.factories import CLUSTER, DAY, HOUR, NOW, row, rows


@pytest.fixture
def path(tmp_path):
    """A store with three days of two pods."""
    path = tmp_path / "gputailor.db"
    with Store.open(path) as store, store.transaction() as tx:
        for pod in ("a", "b"):
            tx.put_usage(rows(NOW, NOW + 3 * DAY, pod=pod, kernel=0.5))
        tx.put_devices([Device(cluster=CLUSTER, gpu_uuid="GPU-0", model="A100", last_seen=NOW)])
    return path


def gputailor(*arguments):
    return run("gputailor", [*map(str, arguments)])


def test_check_tells_what_is_there(path, capsys):
    assert gputailor("store", "check", "--store", path) == 0
    out = capsys.readouterr().out
    assert out.startswith("sqlite, schema ")
    assert "cluster test: 144 hours and 0 days of GPUs, 2023-11-15 00:00 to 2023-11-18 00:00" in out


def test_check_ends_with_1_where_something_is_wrong(path, capsys):
    with Store.open(path) as store, store.transaction() as tx:
        tx.connection.exec_driver_sql("UPDATE usage_hourly SET detail = x'93'")
    assert gputailor("store", "check", "--store", path) == 1
    seen = capsys.readouterr()
    assert "problem: usage_hourly: test/team-a/a" in seen.out
    assert "the store is not sound (20 found)" in seen.err


def test_a_store_that_is_not_there_is_not_made(tmp_path, capsys):
    for name, more in (("check", ()), ("backup", ("x",)), ("compact", ()), ("export", ("x",))):
        assert gputailor("store", name, *more, "--store", tmp_path / "no.db") == 1
        assert "no.db does not exist" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_backup_makes_a_store_that_opens(path, tmp_path, capsys):
    copy = tmp_path / "copies" / "copy.db"
    assert gputailor("store", "backup", copy, "--store", path) == 0
    with Store.open(copy) as store:
        assert len(list(store.usage(CLUSTER, NOW, NOW + 3 * DAY))) == 144
    assert str(copy) in capsys.readouterr().out
    assert gputailor("store", "backup", copy, "--store", path) == 1
    assert "nothing was overwritten" in capsys.readouterr().err


def test_compact_drops_what_is_older_than_asked_and_gives_its_space_back(path, capsys):
    before = path.stat().st_size
    assert gputailor("store", "compact", "--store", path, "--keep-days", 1, "--vacuum") == 0
    assert "test: 0 days summed up from 0 hours, 145 old rows dropped" in capsys.readouterr().out
    assert path.stat().st_size < before
    with Store.open(path) as store:
        assert store.usage_span(CLUSTER) is None


def test_compact_sums_days_up(path, capsys):
    assert gputailor("store", "compact", "--store", path, "--keep-days", 100_000) == 0
    assert "test: 3 days summed up from 144 hours" in capsys.readouterr().out


def test_a_cluster_that_the_store_does_not_have_is_told_with_those_that_it_has(path, capsys):
    assert gputailor("store", "compact", "--store", path, "--cluster", "prod") == 1
    assert "nothing of 'prod'; there are: test" in capsys.readouterr().err


def exported(folder):
    """Rows of usage as pandas, Spark or DuckDB see them: the partition is a column."""
    return pq.read_table(folder / "usage").to_pylist()


def test_export_writes_a_file_a_day_that_reads_as_one_table(path, tmp_path, capsys):
    out = tmp_path / "out"
    assert gputailor("store", "export", out, "--store", path) == 0
    assert "test: 144 rows of usage" in capsys.readouterr().out
    files = sorted(one.relative_to(out).as_posix() for one in out.rglob("*.parquet"))
    assert files == [
        "devices/cluster=test/all.parquet",
        "usage/cluster=test/day=2023-11-15.parquet",
        "usage/cluster=test/day=2023-11-16.parquet",
        "usage/cluster=test/day=2023-11-17.parquet",
    ]
    table = exported(out)
    assert {one["cluster"] for one in table} == {CLUSTER}
    assert sum(one["kernel_active_seconds"] for one in table) == 144 * 1800
    first = min(table, key=lambda one: (one["pod"], one["hour"]))
    wanted = row(NOW, pod="a", kernel=0.5)
    assert first["hour"].timestamp() == NOW
    assert first["kernel_histogram_seconds"] == list(wanted.signals["kernel"].histogram.seconds)
    assert first["memory_peak_bytes"] == wanted.memory_peak_bytes
    assert first["sm_observed_seconds"] is None
    assert first["restarts"] is None


def test_export_of_a_window_and_again_replaces_what_was_there(path, tmp_path):
    out = tmp_path / "out"
    for _ in range(2):
        begin, end = "2023-11-15T03:00", "2023-11-15T05:00"
        asked = ("--since", begin, "--until", end)
        assert gputailor("store", "export", out, "--store", path, *asked) == 0
        assert sorted({one["hour"].timestamp() for one in exported(out)}) == [
            NOW + 3 * HOUR,
            NOW + 4 * HOUR,
        ]


def test_every_signal_of_the_exporter_has_its_columns():
    names = exporting._usage_schema().names
    assert {f"{signal}_active_seconds" for signal in exporting.SIGNALS} <= set(names)
    assert len(names) == len(set(names))


def test_export_without_its_library_says_which_extra_is_missing(
    path, tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    assert gputailor("store", "export", tmp_path / "out", "--store", path) == 1
    assert "pip install 'gputailor[parquet]'" in capsys.readouterr().err
