"""What only PostgreSQL has: connections that break, time-outs, bulk loading."""

import pytest
from sqlalchemy import text

from gputailor_agent.model.usage import Device
from gputailor_agent.store import Store, StoreError
from tests.agent.factories import CLUSTER, HOUR, NOW, rows
from tests.postgres import running
from tests.testbed.servers import free_ports


def put(store, usage):
    with store.transaction() as tx:
        tx.put_usage(usage)


def test_rows_in_bulk_are_written_and_written_again(postgres):
    many = [one for pod in "abc" for one in rows(NOW, NOW + 100 * HOUR, pod=pod, kernel=0.5)]
    again = [one for pod in "abc" for one in rows(NOW, NOW + 100 * HOUR, pod=pod, kernel=0.7)]
    with Store.open(postgres.database()) as store:
        for usage in (many, again):
            put(store, usage)
            kept = sorted(store.usage(CLUSTER, NOW, NOW + 100 * HOUR), key=lambda one: one.key)
            assert kept == usage


def test_a_row_that_comes_twice_in_one_bulk_counts_as_it_came_last(postgres):
    usage = [*rows(NOW, NOW + 300 * HOUR, kernel=0.1), *rows(NOW, NOW + 300 * HOUR, kernel=0.2)]
    with Store.open(postgres.database()) as store:
        put(store, usage)
        (first,) = store.usage(CLUSTER, NOW, NOW + HOUR)
        assert first.signals["kernel"].mean == pytest.approx(0.2, abs=1e-3)


def test_an_older_sight_in_bulk_replaces_nothing(postgres):
    def seen(at, model):
        return [
            Device(cluster="c", gpu_uuid=f"G{i}", model=model, last_seen=at) for i in range(300)
        ]

    with Store.open(postgres.database()) as store:
        for at, model in ((200.0, "new"), (100.0, "old")):
            with store.transaction() as tx:
                tx.put_devices(seen(at, model))
        assert {one.model for one in store.devices("c")} == {"new"}


def test_a_fault_in_the_middle_of_a_bulk_is_told_and_leaves_nothing(postgres):
    with Store.open(postgres.database()) as store:
        with store._engine.begin() as connection:
            connection.execute(text("ALTER TABLE usage_hourly ALTER dialect TYPE varchar(3)"))
        with pytest.raises(StoreError, match=r"store postgresql.*cannot be used: .*too long"):
            put(store, rows(NOW, NOW + 300 * HOUR))
        assert list(store.usage(CLUSTER, NOW, NOW + HOUR)) == []


def test_a_statement_that_never_ends_is_given_up(postgres):
    url = f"{postgres.database()}?options=-cstatement_timeout%3D50ms"
    with (
        Store.open(url) as store,
        pytest.raises(StoreError, match="statement timeout"),
        store.transaction() as tx,
    ):
        tx.connection.execute(text("SELECT pg_sleep(20)"))


def test_every_connection_has_its_time_outs(postgres):
    with Store.open(postgres.database()) as store, store._engine.connect() as connection:
        for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
            assert connection.execute(text(f"SHOW {name}")).scalar() not in {"0", None}


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_an_address_as_other_programs_write_it_will_do(postgres, scheme):
    url = postgres.database().replace("postgresql+psycopg", scheme)
    with Store.open(url) as store:
        put(store, rows(NOW, NOW + HOUR))


def test_what_cannot_be_reached_or_is_not_there_is_told_with_what_to_do(postgres):
    with pytest.raises(StoreError, match="is the database running"):
        Store.open(f"postgresql://test@127.0.0.1:{free_ports(1)[0]}/x")
    with pytest.raises(StoreError, match=r"\"absent\" does not exist; create the database"):
        Store.open(postgres.url("absent"))


def test_a_password_is_never_shown(postgres):
    url = postgres.url("absent").replace("test@", "test:geheim@")
    with pytest.raises(StoreError) as told:
        Store.open(url)
    assert "geheim" not in str(told.value)


def test_after_a_restart_of_the_database_the_store_goes_on():
    with running() as server, Store.open(server.database()) as store:
        put(store, rows(NOW, NOW + HOUR))
        server.stop()
        with pytest.raises(StoreError, match=r"went away|is the database running"):
            put(store, rows(NOW + HOUR, NOW + 2 * HOUR))
        server.start()
        put(store, rows(NOW + HOUR, NOW + 2 * HOUR))
        assert len(list(store.usage(CLUSTER, NOW, NOW + 2 * HOUR))) == 2
