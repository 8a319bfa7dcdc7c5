"""Everything that is read, as values of the model.

What was asked for is given as last known. An object that a later, complete reading of the cluster
no longer had is gone; its pod is given as finished when it was last seen, and its state as
``Unknown``. A reading that failed half-way proves nothing: then an object counts as gone only after
a day unseen.
"""

import zlib
from collections.abc import Iterator
from typing import Final

import msgspec
from sqlalchemy import Connection, Table, func, select

from gputailor_agent.model.inventory import (
    Inventory,
    Node,
    Owner,
    Pod,
    PodAssignment,
    Resolution,
    Run,
    Workload,
)
from gputailor_agent.model.judgement import Finding, Plan, Verdict
from gputailor_agent.model.packed import DAY_SECONDS
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import HOUR_SECONDS, Device
from gputailor_agent.store import sharing, tables

#: Not seen for so long, though every reading since was incomplete: taken as gone.
UNSEEN_SECONDS: Final = 86400.0

#: Records that are in memory as the database gave them.
_BATCH: Final = 2000

_LIVE: Final = frozenset({"Pending", "Running", "Unknown"})

_NODE: Final = msgspec.msgpack.Decoder(Node)
_OWNER: Final = msgspec.msgpack.Decoder(Owner)
_WORKLOAD: Final = msgspec.msgpack.Decoder(Workload)
_RUN: Final = msgspec.msgpack.Decoder(Run)
_PLAN: Final = msgspec.json.Decoder(Plan)
_VERDICTS: Final = msgspec.json.Decoder(list[Verdict])
_FINDING: Final = msgspec.json.Decoder(Finding)


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """How a job's period stands: ``state`` is "done" or "failed"."""

    state: str
    attempts: int
    changed_at: float
    reason: str


class KeptReport(msgspec.Struct, frozen=True, kw_only=True):
    """A report that was made: ``period`` names when it was due (``2026-01-05T07:00``)."""

    period: str
    made_at: float
    window: Window


def usage_span(connection: Connection, cluster: str) -> tuple[int, int] | None:
    """Return the first and the last hour with a row; None when there is none.

    Of a time that only days tell of: the first and the last hour of that day.
    """
    hourly, daily = tables.usage_hourly, tables.usage_daily
    query = select(func.min(hourly.c.hour), func.max(hourly.c.hour))
    first, last = connection.execute(query.where(hourly.c.cluster == cluster)).one()
    query = select(func.min(daily.c.day), func.max(daily.c.day))
    first_day, last_day = connection.execute(query.where(daily.c.cluster == cluster)).one()
    firsts = [int(at) for at in (first, first_day) if at is not None]
    lasts = [int(last)] if last is not None else []
    lasts += [int(last_day) + DAY_SECONDS - HOUR_SECONDS] if last_day is not None else []
    return (min(firsts), max(lasts)) if firsts else None


def clusters(connection: Connection) -> list[str]:
    """Return every cluster that the store has something of."""
    found: set[str] = set()
    for table in (tables.usage_hourly, tables.usage_daily, tables.inventories, tables.plans):
        found.update(_clusters_in(connection, table))
    return sorted(found)


def _clusters_in(connection: Connection, table: Table) -> Iterator[str]:
    """The clusters of a table whose key begins with them: one step in its index for each.

    ``distinct`` would read the whole index, which of a year of a large fleet takes minutes.
    """
    lowest = select(func.min(table.c.cluster))
    found = connection.scalar(lowest)
    while found is not None:
        yield found
        found = connection.scalar(lowest.where(table.c.cluster > found))


def devices(connection: Connection, cluster: str) -> list[Device]:
    """Return every device ever seen, by UUID."""
    table = tables.devices
    query = select(table.c.detail).where(table.c.cluster == cluster).order_by(table.c.gpu_uuid)
    made = sharing.devices()
    stored = connection.execution_options(yield_per=_BATCH).scalars(query)
    return [made.decoded(detail) for detail in stored]


def inventory(
    connection: Connection, cluster: str, at: float, since: float | None = None
) -> Inventory:
    """Return what was asked for as last known at ``at``.

    ``since``: leave out objects not seen after it.
    """
    gone_before = _gone_before(connection, cluster, at)
    oldest = float("-inf") if since is None else since
    pods = tables.pods
    found = select(pods.c.detail, pods.c.seen_at).where(
        pods.c.cluster == cluster, pods.c.seen_at >= oldest, pods.c.seen_at <= at
    )
    made = sharing.pods()
    return Inventory(
        cluster=cluster,
        at=at,
        pods=tuple(
            _as_last_seen(made.decoded(detail), seen_at, gone_before)
            for detail, seen_at in connection.execution_options(yield_per=_BATCH).execute(found)
        ),
        nodes=tuple(
            _NODE.decode(detail)
            for detail, seen_at in _seen(connection, tables.nodes, cluster, oldest, at)
            if seen_at >= gone_before
        ),
        owners=tuple(
            _OWNER.decode(detail)
            for detail, _ in _seen(connection, tables.owners, cluster, oldest, at)
        ),
    )


def _seen(
    connection: Connection, table: Table, cluster: str, oldest: float, at: float
) -> list[tuple[bytes, float]]:
    query = select(table.c.detail, table.c.seen_at).where(
        table.c.cluster == cluster, table.c.seen_at >= oldest, table.c.seen_at <= at
    )
    return [(detail, seen_at) for detail, seen_at in connection.execute(query)]


def _gone_before(connection: Connection, cluster: str, at: float) -> float:
    """Return the time: what was last seen before it is gone."""
    table = tables.inventories
    query = select(table.c.read_at, table.c.complete_at).where(table.c.cluster == cluster)
    record = connection.execute(query).one_or_none()
    if record is None:
        return float("-inf")
    complete = float("-inf") if record.complete_at is None else float(record.complete_at)
    return min(at, max(complete, float(record.read_at) - UNSEEN_SECONDS))


def _as_last_seen(pod: Pod, seen_at: float, gone_before: float) -> Pod:
    if seen_at >= gone_before or pod.template or pod.finished is not None:
        return pod
    if pod.phase not in _LIVE:
        return pod
    return msgspec.structs.replace(
        pod, phase="Unknown", finished=seen_at, reason=pod.reason or "NoLongerSeen"
    )


def resolution(connection: Connection, cluster: str) -> Resolution:
    """Return where every pod belonged when it was last resolved."""
    workloads, runs, assignments = tables.workloads, tables.runs, tables.assignments
    return Resolution(
        workloads=tuple(
            _WORKLOAD.decode(detail)
            for detail in connection.scalars(
                select(workloads.c.detail).where(workloads.c.cluster == cluster)
            )
        ),
        runs=tuple(
            _RUN.decode(detail)
            for detail in connection.scalars(select(runs.c.detail).where(runs.c.cluster == cluster))
        ),
        assignments=tuple(
            PodAssignment(
                cluster=cluster,
                namespace=record.namespace,
                pod=record.pod,
                pod_uid=record.pod_uid,
                container=record.container,
                workload_id=record.workload_id,
                run_id=record.run_id,
            )
            for record in connection.execute(
                select(assignments).where(assignments.c.cluster == cluster)
            )
        ),
    )


def checkpoint(connection: Connection, name: str) -> bytes | None:
    """Return a named state; None when there is none."""
    table = tables.checkpoints
    return connection.scalar(select(table.c.body).where(table.c.name == name))


def latest_plan(connection: Connection, cluster: str) -> Plan | None:
    """Return the plan made last; None before the first one.

    Before schema 0006 a plan's verdicts were in its document.
    """
    table, parts = tables.plans, tables.plan_parts
    query = select(table.c.period, table.c.document).where(table.c.cluster == cluster)
    record = connection.execute(query.order_by(table.c.made_at.desc()).limit(1)).one_or_none()
    if record is None:
        return None
    plan = _PLAN.decode(record.document)
    stored = select(parts.c.verdicts).where(
        parts.c.cluster == cluster, parts.c.period == record.period
    )
    found = connection.execution_options(yield_per=1).scalars(stored.order_by(parts.c.place))
    verdicts = [one for part in found for one in _VERDICTS.decode(zlib.decompress(part))]
    return msgspec.structs.replace(plan, verdicts=(*plan.verdicts, *verdicts))


def findings(connection: Connection, cluster: str, day: str) -> list[Finding]:
    """Return what was found on a UTC day (``2026-01-05``), by id."""
    table = tables.findings
    query = select(table.c.document).where(table.c.cluster == cluster, table.c.day == day)
    return [_FINDING.decode(text) for text in connection.scalars(query.order_by(table.c.id))]


def reports(connection: Connection, cluster: str) -> list[KeptReport]:
    """Return which reports are kept, newest first."""
    table = tables.reports
    query = select(table.c.period, table.c.made_at, table.c.window_start, table.c.window_end)
    newest_first = query.where(table.c.cluster == cluster).order_by(table.c.period.desc())
    return [
        KeptReport(
            period=record.period,
            made_at=record.made_at,
            window=Window(start=record.window_start, end=record.window_end),
        )
        for record in connection.execute(newest_first)
    ]


def report(connection: Connection, cluster: str, name: str) -> tuple[str, str] | None:
    """Return a period's report as (JSON, Markdown); None when it is not kept."""
    table = tables.reports
    query = select(table.c.document, table.c.markdown)
    record = connection.execute(
        query.where(table.c.cluster == cluster, table.c.period == name)
    ).one_or_none()
    if record is None:
        return None
    return zlib.decompress(record.document).decode(), zlib.decompress(record.markdown).decode()


def period(connection: Connection, job: str, name: str) -> Period | None:
    """Return how a job's period stands; None when it was never tried."""
    table = tables.periods
    query = select(table).where(table.c.job == job, table.c.period == name)
    record = connection.execute(query).one_or_none()
    if record is None:
        return None
    return Period(
        state=record.state,
        attempts=record.attempts,
        changed_at=record.changed_at,
        reason=record.reason,
    )
