"""Everything that is written, each as an upsert by key: writing twice changes nothing.

What belongs together (rows and the checkpoint they came from) is written in one transaction.
"""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Table, case, delete, literal
from sqlalchemy.dialects import postgresql, sqlite

from gputailor_agent.model.inventory import Inventory, Resolution
from gputailor_agent.model.judgement import Finding, Plan
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import Device, UsageRow
from gputailor_agent.store import tables
from gputailor_agent.store.periods import day_name, hour_name
from gputailor_agent.store.stored import usage_columns

#: Whole plans are large; what was found on each day is kept apart.
_KEEP_PLANS_SECONDS: Final = 48 * 3600.0
_KEEP_REPORTS_SECONDS: Final = 400 * 86400.0

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
        """Write absolute hourly rows over those of the same keys."""
        self._upsert(tables.usage_hourly, [usage_columns(row) for row in rows])

    def put_devices(self, devices: Iterable[Device]) -> None:
        """Write devices as last seen; an older sight never replaces a newer one."""
        self._upsert(
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
        self._upsert(tables.pods, [_pod(pod, cluster, at) for pod in inventory.pods], "seen_at")
        self._upsert(
            tables.nodes,
            [
                {"cluster": cluster, "name": n.name, "seen_at": at, "detail": _MSGPACK.encode(n)}
                for n in inventory.nodes
            ],
            newest="seen_at",
        )
        self._upsert(
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
        self._upsert(tables.inventories, [known | {"complete_at": at} if whole else known])

    def put_resolution(self, cluster: str, resolution: Resolution, at: float) -> None:
        """Write where pods belong as resolved at ``at``; it can be resolved again at any time."""
        self._upsert(
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
        self._upsert(
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
        self._upsert(
            tables.assignments,
            [
                {**msgspec.structs.asdict(assignment), "cluster": cluster, "seen_at": at}
                for assignment in resolution.assignments
            ],
        )

    def put_checkpoint(self, name: str, body: bytes) -> None:
        """Write a named state over the former one."""
        self._upsert(tables.checkpoints, [{"name": name, "body": body}])

    def put_plan(self, plan: Plan) -> None:
        """Write the plan of its UTC hour and what it found on its UTC day."""
        cluster, made_at = plan.cluster, plan.made_at
        self._upsert(
            tables.plans,
            [
                {
                    "cluster": cluster,
                    "period": hour_name(made_at),
                    "made_at": made_at,
                    "document": _JSON.encode(plan).decode(),
                }
            ],
        )
        old = tables.plans.c.made_at < made_at - _KEEP_PLANS_SECONDS
        self._connection.execute(delete(tables.plans).where(tables.plans.c.cluster == cluster, old))
        self._upsert(
            tables.findings,
            [
                _finding(finding, made_at, primary=finding is verdict.primary)
                for verdict in plan.verdicts
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
        self._upsert(
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
        self._upsert(
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

    def _upsert(
        self,
        table: Table,
        rows: Sequence[dict[str, Any]],
        newest: str = "",
        more: dict[str, Any] | None = None,
    ) -> None:
        """Insert or replace by key; with ``newest``, never by a row older in that column."""
        if not rows:
            return
        keys = [column.name for column in table.primary_key.columns]
        given = [name for name in rows[0] if name not in keys]
        other = self._connection.dialect.name == "postgresql"
        insert = postgresql.insert(table) if other else sqlite.insert(table)
        statement = insert.on_conflict_do_update(
            index_elements=keys,
            set_={name: insert.excluded[name] for name in given} | (more or {}),
            where=(insert.excluded[newest] >= table.c[newest]) if newest else None,
        )
        # sorted by key, so that two writers never wait for each other crosswise
        ordered = sorted(rows, key=lambda row: tuple(str(row[key]) for key in keys))
        self._connection.execute(statement, ordered)


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
