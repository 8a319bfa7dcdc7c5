import sqlite3

import pytest

from gputailor_agent.store import Store, StoreError
from tests.agent.store.test_store import put, row


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"x" * 5000]
)
def test_a_damaged_file_is_named(tmp_path, content):
    path = tmp_path / "bad.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"bad\.db.*(no SQLite file|damaged)"):
        Store.open(path)
    assert path.read_bytes() == content


def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE contacts (name TEXT)")
    with pytest.raises(StoreError, match=r"another program.*contacts"):
        Store.open(path)


def test_another_programs_database_with_alembic_is_left_alone(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
    with pytest.raises(StoreError, match="another program"):
        Store.open(path)


def test_a_newer_schema_asks_for_an_upgrade(tmp_path):
    path = tmp_path / "g.db"
    Store.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match=r"newer GPU Tailor \(schema 9999.*upgrade"):
        Store.open(path)


def test_a_folder_is_no_store(tmp_path):
    with pytest.raises(StoreError, match="is a folder; name a file in it"):
        Store.open(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be made"):
        Store.open(tmp_path / "file" / "g.db")


def test_a_store_that_cannot_be_written_says_so(tmp_path):
    path = tmp_path / "g.db"
    Store.open(path).close()
    with (
        Store.open(f"sqlite:///file:{path}?mode=ro&uri=true") as store,
        pytest.raises(StoreError, match="may not write"),
    ):
        put(store, row())


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("mysql://root@host/db", "use SQLite or PostgreSQL"),
        ("postgresql+nodriver://host/db", "no driver"),
        ("http://", "no database URL|use SQLite"),
    ],
)
def test_an_address_that_is_no_store_is_explained(where, text):
    with pytest.raises(StoreError, match=text):
        Store.open(where)
