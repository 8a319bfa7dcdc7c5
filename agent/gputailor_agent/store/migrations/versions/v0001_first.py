"""First schema: usage, devices, inventory, identity, findings, checkpoints, periods."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0001"
down_revision: Final = None


def upgrade() -> None:
    """Make the tables of schema 0001."""
    _usage()
    _inventory()
    _identity()
    _judgement()
    _bookkeeping()


def _usage() -> None:
    """What was used."""
    op.create_table(
        "usage_hourly",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("pod", sa.Text(), nullable=False),
        sa.Column("pod_uid", sa.Text(), nullable=False),
        sa.Column("container", sa.Text(), nullable=False),
        sa.Column("gpu_uuid", sa.Text(), nullable=False),
        sa.Column("hour", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("dialect", sa.Text(), nullable=False),
        sa.Column("allocated_seconds", sa.Double(), nullable=False),
        sa.Column("share", sa.Double(), nullable=False),
        sa.Column("kernel_observed_seconds", sa.Double(), nullable=True),
        sa.Column("kernel_active_seconds", sa.Double(), nullable=True),
        sa.Column("memory_peak_bytes", sa.BigInteger(), nullable=True),
        sa.Column("energy_joules", sa.Double(), nullable=True),
        sa.Column("last_active", sa.Double(), nullable=True),
        sa.Column("spread_seconds", sa.Double(), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("histogram_edges", sa.Integer(), nullable=False),
        sa.Column("detail", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint(
            "cluster", "namespace", "pod", "pod_uid", "container", "gpu_uuid", "hour"
        ),
    )
    op.create_index("usage_hourly_by_hour", "usage_hourly", ["cluster", "hour"], unique=False)
    op.create_table(
        "devices",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("gpu_uuid", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("mig_profile", sa.Text(), nullable=False),
        sa.Column("memory_total_bytes", sa.BigInteger(), nullable=True),
        sa.Column("last_seen", sa.Double(), nullable=False),
        sa.Column("up", sa.Boolean(), nullable=True),
        sa.Column("detail", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "gpu_uuid"),
    )


def _inventory() -> None:
    """What was asked for, as last seen."""
    op.create_table(
        "pods",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("finished", sa.Double(), nullable=True),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("detail", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "namespace", "name", "uid"),
    )
    op.create_index("pods_by_seen", "pods", ["cluster", "seen_at"], unique=False)
    op.create_table(
        "nodes",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("detail", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "name"),
    )
    op.create_table(
        "owners",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("detail", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "namespace", "kind", "name", "uid"),
    )
    op.create_index("owners_by_seen", "owners", ["cluster", "seen_at"], unique=False)
    op.create_table(
        "inventories",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("read_at", sa.Double(), nullable=False),
        sa.Column("complete_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("cluster"),
    )


def _identity() -> None:
    """Where pods belong."""
    op.create_table(
        "workloads",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("detail", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "id"),
    )
    op.create_table(
        "runs",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("finished", sa.Double(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("detail", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "id"),
    )
    op.create_index("runs_by_workload", "runs", ["cluster", "workload_id"], unique=False)
    op.create_table(
        "assignments",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("pod", sa.Text(), nullable=False),
        sa.Column("pod_uid", sa.Text(), nullable=False),
        sa.Column("container", sa.Text(), nullable=False),
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "namespace", "pod", "pod_uid", "container"),
    )


def _judgement() -> None:
    """What was found."""
    op.create_table(
        "findings",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("primary_finding", sa.Boolean(), nullable=False),
        sa.Column("confidence", sa.Text(), nullable=False),
        sa.Column("gpu_hours_per_month", sa.Double(), nullable=True),
        sa.Column("made_at", sa.Double(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "day", "id"),
    )
    op.create_table(
        "plans",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("made_at", sa.Double(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "period"),
    )


def _bookkeeping() -> None:
    """Where the agent stands."""
    op.create_table(
        "checkpoints",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "periods",
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("changed_at", sa.Double(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job", "period"),
    )
