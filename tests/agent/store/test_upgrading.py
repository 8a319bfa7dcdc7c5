"""Stores of every earlier schema are opened and used; what was in them stays."""

import pytest
from sqlalchemy import create_engine, text

from gputailor_agent.store import Store
from gputailor_agent.store.compacting import compact
from gputailor_agent.store.database import APPLICATION_ID
from gputailor_agent.store.migrating import schemas, upgrade
from gputailor_agent.store.tables import SCHEMA
from tests.agent.store.test_store import HOUR, put, row, usage

#: ``detail`` of ``row()`` as the first release wrote it: signals, warm-up, conditions, bytes of
#: links and eight plain fields.
FIRST_DETAIL = bytes.fromhex(
    "9c82a66b65726e656c95cb40ac200000000000cb409c200000000000cb3fe0000000000000cb3fd0000000000000"
    "810acb40ac200000000000a2736d95cb3ff0000000000000cb3fe0000000000000c0c08081a66b65726e656c92cb"
    "4082c00000000000cb3ff000000000000081ae6c696e6b5f736174757261746564cb400800000000000081a77063"
    "69652f7278cb4310000000000000a47065616bcf0000004000000000c0c0c0c0c0c0"
)


def old_row() -> dict[str, object]:
    """Columns of ``row()`` by their names."""
    return {
        "cluster": "c1",
        "namespace": "n",
        "pod": "p",
        "pod_uid": "u",
        "container": "main",
        "gpu_uuid": "GPU-0",
        "hour": HOUR,
        "dialect": "gputailor",
        "allocated_seconds": 3600.0,
        "share": 0.5,
        "kernel_observed_seconds": 3600.0,
        "kernel_active_seconds": 1800.0,
        "memory_peak_bytes": 2**37,
        "energy_joules": 1e6,
        "last_active": HOUR + 5.5,
        "spread_seconds": 1.0,
        "samples": 120,
        "histogram_edges": 1,
        "detail": FIRST_DETAIL,
    }


@pytest.fixture
def empty(request, address):
    """Where a database without any table is."""
    if "postgresql" in address:
        return request.getfixturevalue("postgres").empty()
    return address


def store_of_schema(where: str, schema: str) -> None:
    """Make what a release with that schema left, a row of usage in it."""
    engine = create_engine(where if "://" in where else f"sqlite:///{where}")
    with engine.begin() as connection:
        upgrade(connection, schema)
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        columns = old_row()
        named = ", ".join(f":{name}" for name in columns)
        connection.execute(
            text(f"INSERT INTO usage_hourly ({', '.join(columns)}) VALUES ({named})"), columns
        )
    engine.dispose()


@pytest.mark.parametrize("schema", schemas())
def test_a_store_of_every_schema_is_opened_and_used(empty, schema):
    store_of_schema(empty, schema)
    with Store.open(empty) as store:
        assert usage(store) == [row()]
        put(store, row(hour=HOUR + 3600))
        compact(store, "c1", HOUR + 10 * 86400)
        assert usage(store, HOUR, HOUR + 7200) == [row(), row(hour=HOUR + 3600)]
        assert store.check().problems == ()
        assert store.reports("c1") == []


def test_the_newest_schema_is_the_last_of_one_chain():
    assert schemas()[-1] == SCHEMA
    assert schemas() == sorted(set(schemas()))
