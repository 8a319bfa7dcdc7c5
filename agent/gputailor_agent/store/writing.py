"""Everything that is written, each as an upsert by key: writing twice changes nothing.

What belongs together (rows and the checkpoint they came from) is written in one transaction.
"""

import zlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Table, case, delete, literal, update

from gputailor_agent.model.collecting import rare_collections
from gputailor_agent.model.inventory import Inventory, Resolution
from gputailor_agent.model.judgement import Finding, Plan
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import Device, UsageRow
from gputailor_agent.store import tables
from gputailor_agent.store.loading import upsert
from gputailor_agent.store.periods import day_name, day_of, hour_name
from gputailor_agent.store.stored import usage_columns

#: Verdicts that are encoded in one go, some 10 kB each.
_VERDICTS_AT_ONCE: Final = 500
_KEEP_REPORTS_SECONDS: Final = 400 * 86400.0
#: Rows of usage that are turned into columns and handed to the database in one go.
_ROWS_AT_ONCE: Final = 10_000

_MSGPACK: Final = msgspec.msgpack.Encoder()
_JSON: Final = msgspec.json.Encoder()


class Transaction:
    """Writes of one transaction; all of them count, or none."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def connection(self) -> Connection:
        """Where parts with tables of their own write, inside this transaction."""
        return self._connection

    def put_usage(self, rows: Iterable[UsageRow]) -> None:
        """Write absolute hourly rows over those of the same keys, summed up to days or not."""
        touched: set[tuple[str, int]] = set()
        left = iter(rows)
        with rare_collections():
            while some := list(islice(left, _ROWS_AT_ONCE)):
                self.upsert(tables.usage_hourly, [usage_columns(row) for row in some])
                touched.update((row.key.cluster, day_of(row.key.hour)) for row in some)
        days = tables.usage_days
        for cluster, day in sorted(touched):
            late = update(days).where(days.c.cluster == cluster, days.c.day == day)
            self._connection.execute(late.values(pending=True))

    def put_devices(self, devices: Iterable[Device]) -> None:
        """Write devices as last seen; an older sight never replaces a newer one."""
        self.upsert(
            tables.devices,
            [
                {
                    "cluster": device.cluster,
                    "gpu_uuid": device.gpu_uuid,
                    "node": device.node,
                    "model": device.model,
                    "mig_profile": device.mig_profile,
                    "memory_total_bytes": device.memory_total_bytes,
                    "last_seen": device.last_seen,
                    "up": device.up,
                    "detail": _MSGPACK.encode(device),
                }
                for device in devices
            ],
            newest="last_seen",
        )

    def put_inventory(self, inventory: Inventory) -> None:
        """Write every object as seen at ``inventory.at``; what is not in it stays as it was.

        After a complete inventory objects that were not in it are gone.
        """
        at, cluster = inventory.at, inventory.cluster
        self.upsert(tables.pods, [_pod(pod, cluster, at) for pod in inventory.pods], "seen_at")
        self.upsert(
            tables.nodes,
            [
                {"cluster": cluster, "name": n.name, "seen_at": at, "detail": _MSGPACK.encode(n)}
                for n in inventory.nodes
            ],
            newest="seen_at",
        )
        self.upsert(
            tables.owners,
            [
                {
                    "cluster": cluster,
                    "namespace": owner.namespace,
                    "kind": owner.kind,
                    "name": owner.name,
                    "uid": owner.uid,
                    "seen_at": at,
                    "detail": _MSGPACK.encode(owner),
                }
                for owner in inventory.owners
            ],
            newest="seen_at",
        )
        complete = inventory.complete
        whole = not inventory.problems if complete is None else complete
        known = {"cluster": cluster, "read_at": at}
        self.upsert(tables.inventories, [known | {"complete_at": at} if whole else known])

    def put_resolution(self, cluster: str, resolution: Resolution, at: float) -> None:
        """Write where pods belong as resolved at ``at``; it can be resolved again at any time."""
        self.upsert(
            tables.workloads,
            [
                {
                    "cluster": cluster,
                    "id": workload.id,
                    "namespace": workload.namespace,
                    "kind": workload.kind,
                    "name": workload.name,
                    "seen_at": at,
                    "detail": _MSGPACK.encode(workload),
                }
                for workload in resolution.workloads
            ],
        )
        self.upsert(
            tables.runs,
            [
                {
                    "cluster": cluster,
                    "id": run.id,
                    "workload_id": run.workload_id,
                    "started": run.started,
                    "finished": run.finished,
                    "outcome": str(run.outcome),
                    "seen_at": at,
                    "detail": _MSGPACK.encode(run),
                }
                for run in resolution.runs
            ],
        )
        self.upsert(
            tables.assignments,
            [
                {**msgspec.structs.asdict(assignment), "cluster": cluster, "seen_at": at}
                for assignment in resolution.assignments
            ],
        )

    def put_checkpoint(self, name: str, body: bytes) -> None:
        """Write a named state over the former one."""
        self.upsert(tables.checkpoints, [{"name": name, "body": body}])

    def put_plan(self, plan: Plan) -> None:
        """Write the plan over the cluster's former one, and what it found on its UTC day."""
        cluster, made_at = plan.cluster, plan.made_at
        head = msgspec.structs.replace(plan, verdicts=())
        named = {"cluster": cluster, "period": hour_name(made_at)}
        for table in (tables.plans, tables.plan_parts):
            self._connection.execute(delete(table).where(table.c.cluster == cluster))
        document = _JSON.encode(head).decode()
        self.upsert(tables.plans, [named | {"made_at": made_at, "document": document}])
        for place, at in enumerate(range(0, len(plan.verdicts), _VERDICTS_AT_ONCE)):
            some = plan.verdicts[at : at + _VERDICTS_AT_ONCE]
            packed = zlib.compress(_JSON.encode(some), 1)
            self.upsert(tables.plan_parts, [named | {"place": place, "verdicts": packed}])
            self.upsert(
                tables.findings,
                [
                    _finding(finding, made_at, primary=finding is verdict.primary)
                    for verdict in some
                    for finding in (verdict.primary, *verdict.alternatives)
                    if finding is not None
                ],
            )

    def put_report(
        self,
        cluster: str,
        period: str,
        *,
        made_at: float,
        window: Window,
        document: str,
        markdown: str,
    ) -> None:
        """Keep a period's report (JSON and Markdown) as it was made; drop those of 400 days ago."""
        table = tables.reports
        self.upsert(
            table,
            [
                {
                    "cluster": cluster,
                    "period": period,
                    "made_at": made_at,
                    "window_start": window.start,
                    "window_end": window.end,
                    "document": zlib.compress(document.encode()),
                    "markdown": zlib.compress(markdown.encode()),
                }
            ],
        )
        old = table.c.made_at < made_at - _KEEP_REPORTS_SECONDS
        self._connection.execute(delete(table).where(table.c.cluster == cluster, old))

    def mark_period(
        self, job: str, period: str, *, at: float, state: str = "done", reason: str = ""
    ) -> None:
        """Note how a job's period went at ``at``; attempts count from when it was last done."""
        self.upsert(
            tables.periods,
            [
                {
                    "job": job,
                    "period": period,
                    "state": state,
                    "attempts": 1,
                    "changed_at": at,
                    "reason": reason,
                }
            ],
            more={
                "attempts": case(
                    (tables.periods.c.state == "done", literal(1)),
                    else_=tables.periods.c.attempts + literal(1),
                )
            },
        )

    def upsert(
        self,
        table: Table,
        rows: Sequence[dict[str, Any]],
        newest: str = "",
        more: dict[str, Any] | None = None,
    ) -> None:
        """Insert or replace by key; with ``newest``, never by a row older in that column."""
        upsert(self._connection, table, rows, newest, more)


def _pod(pod: Any, cluster: str, at: float) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "node": pod.node or "",
        "phase": pod.phase,
        "started": pod.started,
        "finished": pod.finished,
        "seen_at": at,
        "detail": _MSGPACK.encode(pod),
    }


def _finding(finding: Finding, made_at: float, *, primary: bool) -> dict[str, Any]:
    return {
        "cluster": finding.cluster,
        "day": day_name(made_at),
        "id": finding.id,
        "workload_id": finding.workload_id,
        "rule": finding.rule,
        "primary_finding": primary,
        "confidence": str(finding.confidence),
        "gpu_hours_per_month": finding.saving.gpu_hours_per_month,
        "made_at": made_at,
        "document": _JSON.encode(finding).decode(),
    }
