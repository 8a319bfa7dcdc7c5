"""Weekly profiles of many workloads out of a store of days, on SQLite and on PostgreSQL.

Days of a few containers are summed up for real and then written under 20,000 names: what is read is
as much as it would be, without an hour of making it. ``python tests/benchmarks/test_bench_weeks.py
URL WORKLOADS`` prints one line of JSON.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputailor_agent.assessment import AssessmentSettings
from gputailor_agent.model.collecting import rare_collections
from gputailor_agent.model.inventory import Inventory, Resolution
from gputailor_agent.model.packed import DAY_SECONDS, hour_of, place_of
from gputailor_agent.model.profile import Profile, Window
from gputailor_agent.profiles.building import profiles_among
from gputailor_agent.profiles.sharding import shards
from gputailor_agent.profiles.surroundings import Surroundings
from gputailor_agent.store import Store, tables
from gputailor_agent.store.stored import day_columns, hours_columns
from tests.benchmarks import usage_history as history
from tests.postgres import postgres

__all__ = ["postgres"]

ROOT = Path(__file__).resolve().parents[2]
START = 1_799_971_200 // DAY_SECONDS * DAY_SECONDS
DAYS, PATTERNS = 7, 60
WORKLOADS, MOST_SECONDS = 20_000, 15.0


Columns = tuple[dict[str, Any], dict[str, Any]]


def patterns(day: int) -> list[Columns]:
    """The day of some containers as compaction writes it: its sums, and its hours."""
    hours = [
        list(history.hour_rows(PATTERNS, hour)) for hour in range(day, day + DAY_SECONDS, 3600)
    ]
    made = []
    for rows in zip(*hours, strict=True):
        given = (history.CLUSTER, day, place_of(rows[0].key), [hour_of(row) for row in rows])
        made.append((day_columns(*given), hours_columns(*given)))
    return made


def fill(store: Store, workloads: int) -> None:
    """Write a week of days under the names of many workloads, two of them on each GPU."""
    for day in range(START, START + DAYS * DAY_SECONDS, DAY_SECONDS):
        made = patterns(day)
        with store.transaction() as tx:
            for at in range(0, workloads, 5000):
                some = range(at, min(workloads, at + 5000))
                for which, table in enumerate((tables.usage_daily, tables.usage_day_hours)):
                    tx.upsert(table, [made[one % PATTERNS][which] | named(one) for one in some])
            noted = {"cluster": history.CLUSTER, "day": day, "pending": False}
            tx.upsert(tables.usage_days, [noted])


def named(place: int) -> dict[str, str]:
    """Whose a row is."""
    return {
        "pod": f"job-{place}",
        "pod_uid": history.pod_uid(place),
        "gpu_uuid": f"GPU-{place // 2:08x}-1f2e-3d4c-5b6a-0123456789ab",
    }


def weekly(url: str, workloads: int) -> dict[str, float]:
    """Fill a store and build the week's profiles; CPU is this process's, seconds are by the wall."""
    window = Window(start=float(START), end=float(START + DAYS * DAY_SECONDS))
    known = Inventory(cluster=history.CLUSTER, at=window.end)
    made = 0
    with Store.open(url) as store:
        fill(store, workloads)
        size = store_size(store)
        cpu, wall = time.process_time(), time.perf_counter()
        for some in profiles(store, known, window):
            made += sum(one.full_days == DAYS for one in some)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {
        "workloads": made,
        "cpu_seconds": round(cpu, 1),
        "seconds": round(wall, 1),
        "bytes_per_workload_week": round(size / workloads),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def profiles(store: Store, known: Inventory, window: Window) -> Iterator[list[Profile]]:
    """The profiles of everything in the store, shard by shard, as a plan is made of them."""
    size = AssessmentSettings().shard_pods
    with rare_collections(), store.reading_usage(history.CLUSTER) as usage:
        around = Surroundings.of(known, store.devices(history.CLUSTER), window)
        used = usage.pods(window.start, window.end)
        for shard in shards(known, Resolution(), used, size):
            parts = usage.parts(window.start, window.end, shard.names)
            yield profiles_among(parts, around, shard.pods, shard.resolution)


def store_size(store: Store) -> int:
    """Bytes on disk."""
    with store._engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            return pages * connection.exec_driver_sql("PRAGMA page_size").scalar_one()
        return connection.exec_driver_sql(
            "SELECT pg_database_size(current_database())"
        ).scalar_one()


@pytest.mark.bench
@pytest.mark.timeout(600)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_the_weekly_profiles_of_20000_workloads_take_15_seconds(
    request, tmp_path, capsys, database
):
    url = f"sqlite:///{tmp_path}/weeks.db"
    if database == "postgresql":
        url = request.getfixturevalue("postgres").database()
    run = subprocess.run(
        [sys.executable, __file__, url, str(WORKLOADS)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.returncode == 0, run.stderr
    with capsys.disabled():
        sys.stdout.write(f"{database} {run.stdout}")
    figures = json.loads(run.stdout)
    assert figures["workloads"] == WORKLOADS
    assert figures["cpu_seconds"] <= MOST_SECONDS  # the wall clock tells of other work, too


if __name__ == "__main__":
    sys.stdout.write(json.dumps(weekly(sys.argv[1], int(sys.argv[2]))) + "\n")
