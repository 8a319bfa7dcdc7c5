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
from pathlib import Path
from typing import Any

import pytest

from gputailor_agent.model.inventory import Inventory, Resolution
from gputailor_agent.model.packed import DAY_SECONDS, hour_of, place_of
from gputailor_agent.model.profile import Window
from gputailor_agent.profiles import build_profiles
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
    with Store.open(url) as store:
        fill(store, workloads)
        size = store_size(store)
        window = Window(start=float(START), end=float(START + DAYS * DAY_SECONDS))
        known = Inventory(cluster=history.CLUSTER, at=window.end)
        cpu, wall = time.process_time(), time.perf_counter()
        made = build_profiles(
            store.usage_parts(history.CLUSTER, window.start, window.end),
            history.devices(workloads // 2),
            known,
            Resolution(),
            window,
        )
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    assert all(one.full_days == DAYS for one in made)
    return {
        "workloads": len(made),
        "cpu_seconds": round(cpu, 1),
        "seconds": round(wall, 1),
        "bytes_per_workload_week": round(size / workloads),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


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
