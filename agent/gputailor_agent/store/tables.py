"""The tables, once, for SQLAlchemy Core. Migrations make them; a test holds both together.

What is asked for by value is a column of its own; the rest of a value travels in ``detail``
(msgpack) so that a new field of a model needs no migration. Times are Unix seconds. Unknown text
in a key is '', never NULL.
"""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

#: The schema this program writes; the name of the newest migration.
SCHEMA: Final = "0008"

metadata: Final = MetaData()


def _key(name: str) -> Column[str]:
    return Column(name, Text, primary_key=True)


def _detail() -> Column[bytes]:
    return Column("detail", LargeBinary, nullable=False)


def _whose(time: str) -> list[Column[Any]]:
    """Key of use: whose it is, and the start of its time."""
    names = ("cluster", "namespace", "pod", "pod_uid", "container", "gpu_uuid")
    when = Column(time, BigInteger, primary_key=True, autoincrement=False)
    return [*(_key(name) for name in names), when]


def _usage(name: str, time: str) -> Table:
    """One of the two tables of usage; they differ in how much time a row is of."""
    return Table(
        name,
        metadata,
        *_whose(time),
        Column("dialect", Text, nullable=False),
        Column("allocated_seconds", Double, nullable=False),
        Column("share", Double, nullable=False),
        Column("kernel_observed_seconds", Double),
        Column("kernel_active_seconds", Double),
        Column("memory_peak_bytes", BigInteger),
        Column("energy_joules", Double),
        Column("last_active", Double),
        Column("spread_seconds", Double, nullable=False),
        Column("samples", BigInteger, nullable=False),
        Column("histogram_edges", Integer, nullable=False),  # version of HISTOGRAM_EDGES
        _detail(),
        Index(f"{name}_by_{time}", "cluster", time),
    )


usage_hourly: Final = _usage("usage_hourly", "hour")

#: Sums of the hours of a UTC day that is over.
usage_daily: Final = _usage("usage_daily", "day")

#: The hours that a row of ``usage_daily`` was made of (zlib over msgpack), so that one of them can
#: still be replaced. Apart from it, since whoever reads days never needs them.
usage_day_hours: Final = Table(
    "usage_day_hours",
    metadata,
    *_whose("day"),
    Column("hours", LargeBinary, nullable=False),
    Index("usage_day_hours_by_day", "cluster", "day"),
)

#: UTC days (Unix time of their start) that have rows in ``usage_daily``. ``pending``: there may be
#: hourly rows of that day, too, which count in place of the day row's own hours.
usage_days: Final = Table(
    "usage_days",
    metadata,
    _key("cluster"),
    Column("day", BigInteger, primary_key=True, autoincrement=False),
    Column("pending", Boolean, nullable=False),
)

devices: Final = Table(
    "devices",
    metadata,
    _key("cluster"),
    _key("gpu_uuid"),
    Column("node", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("mig_profile", Text, nullable=False),
    Column("memory_total_bytes", BigInteger),
    Column("last_seen", Double, nullable=False),
    Column("up", Boolean),
    _detail(),
)

pods: Final = Table(
    "pods",
    metadata,
    _key("cluster"),
    _key("namespace"),
    _key("name"),
    _key("uid"),
    Column("node", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("started", Double),
    Column("finished", Double),
    Column("seen_at", Double, nullable=False),
    _detail(),
    Index("pods_by_seen", "cluster", "seen_at"),
)

nodes: Final = Table(
    "nodes",
    metadata,
    _key("cluster"),
    _key("name"),
    Column("seen_at", Double, nullable=False),
    _detail(),
)

owners: Final = Table(
    "owners",
    metadata,
    _key("cluster"),
    _key("namespace"),
    _key("kind"),
    _key("name"),
    _key("uid"),
    Column("seen_at", Double, nullable=False),
    _detail(),
    Index("owners_by_seen", "cluster", "seen_at"),
)

#: When the cluster's objects were last read, and last read without a problem.
inventories: Final = Table(
    "inventories",
    metadata,
    _key("cluster"),
    Column("read_at", Double, nullable=False),
    Column("complete_at", Double),
)

workloads: Final = Table(
    "workloads",
    metadata,
    _key("cluster"),
    _key("id"),
    Column("namespace", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("seen_at", Double, nullable=False),
    _detail(),
)

runs: Final = Table(
    "runs",
    metadata,
    _key("cluster"),
    _key("id"),
    Column("workload_id", Text, nullable=False),
    Column("started", Double),
    Column("finished", Double),
    Column("outcome", Text, nullable=False),
    Column("seen_at", Double, nullable=False),
    _detail(),
    Index("runs_by_workload", "cluster", "workload_id"),
)

assignments: Final = Table(
    "assignments",
    metadata,
    _key("cluster"),
    _key("namespace"),
    _key("pod"),
    _key("pod_uid"),
    _key("container"),
    Column("workload_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("seen_at", Double, nullable=False),
)

#: What was found on a UTC day, as it stood in that day's last plan that had it.
findings: Final = Table(
    "findings",
    metadata,
    _key("cluster"),
    _key("day"),
    _key("id"),
    Column("workload_id", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("primary_finding", Boolean, nullable=False),
    Column("confidence", Text, nullable=False),
    Column("gpu_hours_per_month", Double),
    Column("made_at", Double, nullable=False),
    Column("document", Text, nullable=False),  # JSON
)

#: The newest plan, by the UTC hour it was made in; its verdicts are in ``plan_parts``.
plans: Final = Table(
    "plans",
    metadata,
    _key("cluster"),
    _key("period"),
    Column("made_at", Double, nullable=False),
    Column("document", Text, nullable=False),  # JSON
)

#: A plan's verdicts, in its order: each part is zlib over JSON.
plan_parts: Final = Table(
    "plan_parts",
    metadata,
    _key("cluster"),
    _key("period"),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("verdicts", LargeBinary, nullable=False),
)

#: What was reported for a period, in the words of that day; texts are zlib over UTF-8.
reports: Final = Table(
    "reports",
    metadata,
    _key("cluster"),
    _key("period"),
    Column("made_at", Double, nullable=False),
    Column("window_start", Double, nullable=False),
    Column("window_end", Double, nullable=False),
    Column("document", LargeBinary, nullable=False),  # JSON
    Column("markdown", LargeBinary, nullable=False),
)

checkpoints: Final = Table(
    "checkpoints",
    metadata,
    _key("name"),
    Column("body", LargeBinary, nullable=False),
)

periods: Final = Table(
    "periods",
    metadata,
    _key("job"),
    _key("period"),
    Column("state", Text, nullable=False),  # "done" or "failed"
    Column("attempts", Integer, nullable=False),
    Column("changed_at", Double, nullable=False),
    Column("reason", Text, nullable=False),
)
