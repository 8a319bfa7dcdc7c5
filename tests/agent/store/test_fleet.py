"""Several clusters in one store: found by name, and asked by the queries of docs/store.md."""

import re
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import text

from gputailor_agent.model.containers import CONTAINER_ITSELF
from gputailor_agent.store.compacting import compact
from tests.agent.factories import DAY, NOW, rows
from tests.agent.reports.plans import sample_plan

PAGE = Path(__file__).resolve().parents[3] / "docs" / "store.md"
LATE = NOW + 3 * DAY


def of_cluster(cluster, usage):
    return [
        msgspec.structs.replace(one, key=msgspec.structs.replace(one.key, cluster=cluster))
        for one in usage
    ]


@pytest.fixture
def filled(store):
    """A day of one GPU in one cluster, of half a GPU and an unmeasured one in another."""
    half = [
        msgspec.structs.replace(one, share=0.5)
        for one in rows(NOW, NOW + DAY, kernel=0.5, namespace="team-b")
    ]
    dark = rows(NOW, NOW + DAY, gpu="GPU-1", signals={}, namespace="team-b")
    itself = rows(NOW, NOW + DAY, gpu=CONTAINER_ITSELF, signals={})
    with store.transaction() as tx:
        for cluster, usage in (
            ("east", [*rows(NOW, NOW + DAY, kernel=0.25), *itself]),
            ("west", [*half, *dark]),
        ):
            tx.put_usage(of_cluster(cluster, usage))
        tx.put_plan(sample_plan(cluster="west", made_at=5.0))
        tx.put_plan(sample_plan(cluster="planned", made_at=3.0))
    for cluster in ("east", "west"):
        compact(store, cluster, LATE)
    return store


def documented():
    """The queries that the page shows, in its order."""
    found = re.findall(r"```sql\n(SELECT .*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return [one.strip() for block in found for one in block.split(";") if one.strip()]


def test_every_cluster_that_there_is_anything_of_is_found_once(filled):
    assert filled.clusters() == ["east", "planned", "west"]


def test_the_queries_of_the_page_tell_what_was_written(filled):
    by_day, by_namespace, plans = documented()
    with filled.transaction() as tx:
        told = [[tuple(row) for row in tx.connection.execute(text(one))]
                for one in (by_day, by_namespace, plans)]  # fmt: skip
    assert told[0] == [
        ("east", NOW, 24.0, 6.0, 1.0),
        ("west", NOW, 36.0, 6.0, pytest.approx(1 / 3)),
    ]
    assert told[1] == [("team-b", 1, 36.0), ("team-a", 1, 24.0)]
    assert told[2] == [("planned", 3.0), ("west", 5.0)]
