"""Whether a store is sound, copies of it, and what a full disk says."""

import sqlite3
import threading

import pytest
from sqlalchemy import delete, update

from gputailor_agent.store import Store, StoreError, tables
from gputailor_agent.store.compacting import compact
from tests.agent.factories import CLUSTER, DAY, HOUR, NOW, rows

LATE = NOW + 30 * DAY


def put(store, usage):
    with store.transaction() as tx:
        tx.put_usage(usage)


def test_a_sound_store_says_what_it_holds(store):
    put(store, rows(NOW, NOW + DAY))
    compact(store, CLUSTER, LATE)
    put(store, rows(NOW + 3 * DAY, NOW + 3 * DAY + 2 * HOUR))
    found = store.check()
    assert found.problems == ()
    assert found.size_bytes > 10_000
    (held,) = found.clusters
    assert (held.cluster, held.days, held.hours) == (CLUSTER, 1, 2)
    assert (held.first, held.last) == (NOW, NOW + 3 * DAY + HOUR)


def test_a_row_that_cannot_be_read_is_named(store):
    put(store, rows(NOW, NOW + HOUR))
    with store.transaction() as tx:
        tx.connection.execute(update(tables.usage_hourly).values(detail=b"\x93broken"))
    (told,) = store.check().problems
    assert told.startswith("usage_hourly: test/team-a/train-0/uid-train-0/main/GPU-0 at 2023-11-15")
    assert "cannot be read" in told


def test_a_row_of_other_histogram_edges_is_named(store):
    put(store, rows(NOW, NOW + HOUR))
    with store.transaction() as tx:
        tx.connection.execute(update(tables.usage_hourly).values(histogram_edges=7))
    assert "edges of version 7, not 1" in store.check().problems[0]


def test_a_day_whose_sums_are_not_those_of_its_hours_is_named(store):
    put(store, rows(NOW, NOW + DAY))
    compact(store, CLUSTER, LATE)
    with store.transaction() as tx:
        tx.connection.execute(update(tables.usage_daily).values(allocated_seconds=1.0))
    assert "its sums are not those of its hours" in store.check().problems[0]


def test_days_that_nobody_would_read_are_named(store):
    put(store, rows(NOW, NOW + DAY))
    compact(store, CLUSTER, LATE)
    with store.transaction() as tx:
        tx.connection.execute(delete(tables.usage_days))
    assert "which is not noted as a day" in store.check().problems[0]


def broken_inside(path):
    """Damage pages in the middle of the file, as a failing disk does."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        for at in range(size // 3 // 4096 * 4096, size // 3 * 2, 4096):
            file.seek(at)
            file.write(b"\xff" * 600)


def test_a_file_damaged_inside_is_found_at_the_start_of_the_agent(tmp_path):
    path = tmp_path / "g.db"
    with Store.open(path) as store:
        put(store, [one for pod in "abcdef" for one in rows(NOW, NOW + 5 * DAY, pod=pod)])
    Store.open(path, checked=True).close()
    broken_inside(path)
    with pytest.raises(StoreError, match=r"g\.db.* damaged.*restore a copy"):
        Store.open(path, checked=True)


def test_a_copy_made_while_others_write_is_whole(tmp_path):
    path, copy = tmp_path / "g.db", tmp_path / "backup" / "copy.db"
    stop = threading.Event()
    with Store.open(path) as store:
        put(store, rows(NOW, NOW + DAY))

        def write():
            place = 0
            while not stop.is_set():
                put(store, rows(NOW, NOW + DAY, pod=f"p{place}"))
                place += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            store.backup(copy)
        finally:
            stop.set()
            writer.join()
    with Store.open(copy, checked=True) as copied:
        found = list(copied.usage(CLUSTER, NOW, NOW + DAY))
        assert len(found) % 24 == 0
        assert len(found) >= 24
    assert [one.name for one in copy.parent.iterdir() if "part" in one.name] == []


def test_a_copy_overwrites_nothing(tmp_path):
    copy = tmp_path / "copy.db"
    copy.write_text("mine")
    with (
        Store.open(tmp_path / "g.db") as store,
        pytest.raises(StoreError, match="nothing was over"),
    ):
        store.backup(copy)
    assert copy.read_text() == "mine"


def test_a_copy_of_postgresql_is_made_by_its_own_tools(postgres, tmp_path):
    url = postgres.database().replace("test@", "test:geheim@")
    with Store.open(url) as store, pytest.raises(StoreError, match="pg_dump") as told:
        store.backup(tmp_path / "copy")
    assert "geheim" not in str(told.value)


def test_a_full_disk_is_told_and_what_was_there_stays(tmp_path):
    with Store.open(tmp_path / "g.db") as store:
        put(store, rows(NOW, NOW + DAY))
        with store._engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreError, match=r"disk is full; make room"):
            put(store, [one for pod in "abc" for one in rows(NOW, NOW + 20 * DAY, pod=pod)])
        assert len(list(store.usage(CLUSTER, NOW, NOW + DAY))) == 24


def test_a_file_locked_by_another_program_is_told(tmp_path, monkeypatch):
    path = tmp_path / "g.db"
    with Store.open(path) as store:
        with store._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout = 50")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            with pytest.raises(StoreError, match="another process holds it"):
                put(store, rows(NOW, NOW + HOUR))
        finally:
            other.close()
        put(store, rows(NOW, NOW + HOUR))
