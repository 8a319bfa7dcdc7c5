import sqlite3
from pathlib import Path

import pytest

from gputailor_agent.store import Store, StoreError
from gputailor_agent.store.database import shown, sqlite_file, store_url
from tests.agent.store.test_store import put, row, usage


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


def test_a_store_that_cannot_be_written_says_so(tmp_path, monkeypatch):
    path = tmp_path / "g.db"
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Store.open(path).close()
    with (
        Store.open(f"sqlite:///file:{path}?mode=ro&uri=true") as store,
        pytest.raises(StoreError, match="may not write"),
    ):
        put(store, row())
    assert list(Path().iterdir()) == []  # what SQLite calls a URI names no folder here


@pytest.mark.parametrize(
    ("where", "file"),
    [
        ("sqlite:////var/lib/g.db", "/var/lib/g.db"),
        ("sqlite:///file:/var/lib/a%20b.db?mode=ro&uri=true", "/var/lib/a b.db"),
        ("sqlite:///file:///var/lib/g.db?uri=true", "/var/lib/g.db"),
        ("sqlite:///file:x?mode=memory&uri=true", None),
        ("sqlite://", None),
        ("postgresql://h/g", None),
    ],
)
def test_the_file_of_a_store_is_told_from_its_address(where, file):
    assert sqlite_file(store_url(where)) == (None if file is None else Path(file))


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


def test_a_file_that_was_moved_away_is_missed_and_none_is_made_in_its_place(tmp_path):
    path, away = tmp_path / "g.db", tmp_path / "away.db"
    with Store.open(path) as store:
        put(store, row())
        path.rename(away)
        for use in (lambda: put(store, row(pod="lost")), lambda: store.latest_plan("c1")):
            with pytest.raises(StoreError, match=r"g\.db.*deleted or moved.*put it back"):
                use()
        assert not path.exists()
        away.rename(path)
        put(store, row(pod="q"))
        assert usage(store) == [row(), row(pod="q")]


def test_another_file_in_the_place_of_the_stores_is_not_written_before_a_restart(tmp_path):
    path, copy = tmp_path / "g.db", tmp_path / "copy.db"
    with Store.open(path) as store:
        put(store, row())
        store.backup(copy)
        copy.replace(path)
        with pytest.raises(StoreError, match=r"another file was put in its place.*restart"):
            put(store, row(pod="lost"))
    with Store.open(path) as store:
        put(store, row(pod="q"))
        assert usage(store) == [row(), row(pod="q")]


@pytest.mark.parametrize("where", ["u:secret@h/x", "h/x?user=u&password=secret"])
def test_a_password_is_never_shown_wherever_it_stands(where):
    told = shown(store_url(f"postgresql://{where}"))
    assert "secret" not in told
    assert "h/x" in told
