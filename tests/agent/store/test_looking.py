"""Who reads a store, or meets a file that is none, leaves every byte as it was."""

import hashlib
import os
import sqlite3
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import pytest
from sqlalchemy import create_engine

from gputailor_agent.store import Store, StoreError
from gputailor_agent.store.ledger import Ledger
from gputailor_agent.store.migrating import schemas
from gputailor_agent.store.opening import schema_of
from gputailor_agent.store.tables import SCHEMA
from gputailor_agent.store.tasks import Task, kept_tasks, put_tasks
from tests.agent.store.test_store import put, row, usage
from tests.agent.store.test_upgrading import store_of_schema

NOBODY = 65534


def fingerprint(folder):
    """Every file of a folder with its bytes and the time it was written."""
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.iterdir()
    }


def filled(path):
    with Store.open(path) as store:
        put(store, row())
        with store.transaction() as tx:
            put_tasks(tx, "c1", [Task(job="rollup", outcome="done")])


def read_all(store):
    """What commands read: usage, the ledger, tasks, and everything once."""
    with store.transaction() as tx:
        assert Ledger(tx).entries("c1") == []
        assert [task.job for task in kept_tasks(tx, "c1")] == ["rollup"]
    assert usage(store) == [row()]
    assert store.check().problems == ()


def killed_in_the_middle(path):
    """Leave a write-ahead log behind, as an agent that was killed does."""
    filled(path)
    pid = os.fork()
    if pid == 0:
        with closing(sqlite3.connect(path)) as other:
            other.execute("UPDATE periods SET attempts = attempts")
            other.execute("INSERT INTO checkpoints (name, body) VALUES ('last', x'00')")
            other.commit()
            os._exit(0)
    os.waitpid(pid, 0)
    assert path.with_name("g.db-wal").stat().st_size > 0


@pytest.mark.parametrize("left", [filled, killed_in_the_middle])
def test_reading_writes_no_byte_whatever_state_the_file_is_in(tmp_path, left):
    path = tmp_path / "g.db"
    left(path)
    before = fingerprint(tmp_path)
    with Store.open(path, reading=True) as store:
        read_all(store)
        assert (store.checkpoint("last") is not None) == (left is killed_in_the_middle)
    assert set(fingerprint(tmp_path)) == set(before)
    assert fingerprint(tmp_path)["g.db"] == before["g.db"]
    assert fingerprint(tmp_path).get("g.db-wal") == before.get("g.db-wal")


def test_a_file_may_be_called_anything(tmp_path):
    path = tmp_path / "a b?c#d%20e&mode=x.db"
    filled(path)
    with Store.open(path, reading=True) as store:
        read_all(store)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_what_an_agent_writes_meanwhile_is_read(tmp_path):
    path = tmp_path / "g.db"
    filled(path)
    with Store.open(path, reading=True) as reader:
        read_all(reader)
        with Store.open(path) as agent:
            put(agent, row(pod="later"))
            assert len(usage(reader)) == 2
        assert len(usage(reader)) == 2


def test_a_writer_that_begins_while_an_unchanging_file_is_read_is_told(tmp_path):
    path = tmp_path / "g.db"
    filled(path)

    def overtaken(reader):
        with reader.reading_usage("c1"), Store.open(path) as agent:
            put(agent, row(pod="later"))

    with Store.open(path, reading=True) as reader:
        with pytest.raises(StoreError, match="began to write to it while it was read; try again"):
            overtaken(reader)
        assert len(usage(reader)) == 2


def test_a_store_that_is_only_read_takes_no_writing(address):
    Store.open(address).close()
    with (
        Store.open(address, reading=True) as store,
        pytest.raises(StoreError, match=r"may not write|only reads"),
    ):
        put(store, row())


@contextmanager
def unprivileged():
    """Within: this process may write to nothing of its own, as somebody who was let read."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def read_only(tmp_path_factory):
    """A folder that nobody may write to and everybody may read."""
    folder = tmp_path_factory.mktemp("read-only")
    above = [folder, *folder.parents][:-1]
    modes = {path: path.stat().st_mode for path in above}
    for path in above[1:]:
        if path.owner() and path.stat().st_uid == os.geteuid():
            path.chmod(path.stat().st_mode | 0o055)
    yield folder
    for path, mode in modes.items():
        if path.stat().st_uid == os.geteuid():
            path.chmod(mode)


@pytest.mark.parametrize("left", [filled, killed_in_the_middle])
def test_a_medium_that_takes_no_writes_is_read(read_only, left):
    left(read_only / "g.db")
    for file in read_only.iterdir():
        file.chmod(0o444)
    read_only.chmod(0o555)
    with unprivileged(), Store.open(read_only / "g.db", reading=True) as store:
        read_all(store)


def test_a_log_that_cannot_be_read_here_is_told_with_what_to_do(read_only):
    killed_in_the_middle(read_only / "g.db")
    (read_only / "g.db-shm").unlink()
    read_only.chmod(0o555)
    with (
        unprivileged(),
        pytest.raises(StoreError, match=r"write-ahead log beside it .*Copy both files to a folder"),
    ):
        Store.open(read_only / "g.db", reading=True)


def foreign(path, *pragmas):
    with closing(sqlite3.connect(path)) as other:
        for pragma in pragmas:
            other.execute(f"PRAGMA {pragma}")
        other.execute("CREATE TABLE contacts (name TEXT)")
        other.commit()


@pytest.mark.parametrize("reading", [True, False])
@pytest.mark.parametrize("pragmas", [(), ("journal_mode = WAL",), ("user_version = 7",)])
def test_a_file_of_another_program_is_refused_untouched(tmp_path, pragmas, reading):
    path = tmp_path / "other.db"
    foreign(path, *pragmas)
    before = fingerprint(tmp_path)
    with pytest.raises(StoreError, match=r"other\.db is a database of another program.*contacts"):
        Store.open(path, reading=reading)
    assert fingerprint(tmp_path) == before


@pytest.mark.parametrize("content", [b"", b"hello, world\n" * 1000])
def test_a_file_that_is_no_store_becomes_none_by_being_read(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    before = fingerprint(tmp_path)
    with pytest.raises(StoreError, match=r"is empty, no agent has written|no SQLite file"):
        Store.open(path, reading=True)
    assert fingerprint(tmp_path) == before


def test_a_folder_and_a_file_that_is_not_there_are_told_apart(tmp_path):
    with pytest.raises(StoreError, match="is a folder; name a file in it"):
        Store.open(tmp_path, reading=True)
    with pytest.raises(StoreError, match=r"none\.db does not exist; gputailor serve"):
        Store.open(tmp_path / "none.db", reading=True)


def test_an_older_store_is_not_migrated_by_being_read(tmp_path):
    path = tmp_path / "g.db"
    store_of_schema(str(path), schemas()[0])
    before = fingerprint(tmp_path)
    with pytest.raises(
        StoreError, match=r"written by an older GPU Tailor.*gputailor store upgrade"
    ):
        Store.open(path, reading=True)
    assert fingerprint(tmp_path) == before
    assert schema_of(path) == schemas()[0]
    Store.open(path).close()
    assert schema_of(path) == SCHEMA


def test_a_role_that_may_only_select_reads_everything(postgres):
    where = postgres.database()
    with Store.open(where) as store:
        put(store, row())
        with store.transaction() as tx:
            put_tasks(tx, "c1", [Task(job="rollup", outcome="done")])
    reader = f"reader_{urlsplit(where).path.strip('/')}"
    engine = create_engine(where, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for line in (
            f"CREATE ROLE {reader} LOGIN",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader}",
        ):
            connection.exec_driver_sql(line)
    engine.dispose()
    with Store.open(where.replace("test@", f"{reader}@"), reading=True) as store:
        read_all(store)
        with pytest.raises(StoreError, match="only reads"):
            put(store, row())
