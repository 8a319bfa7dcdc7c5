"""Days: sums of hourly rows, and which days have them."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0004"
down_revision: Final = "0003"


def upgrade() -> None:
    """Make the tables of days."""
    op.create_table(
        "usage_daily",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("pod", sa.Text(), nullable=False),
        sa.Column("pod_uid", sa.Text(), nullable=False),
        sa.Column("container", sa.Text(), nullable=False),
        sa.Column("gpu_uuid", sa.Text(), nullable=False),
        sa.Column("day", sa.BigInteger(), autoincrement=False, nullable=False),
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
            "cluster", "namespace", "pod", "pod_uid", "container", "gpu_uuid", "day"
        ),
    )
    op.create_index("usage_daily_by_day", "usage_daily", ["cluster", "day"], unique=False)
    op.create_table(
        "usage_day_hours",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("pod", sa.Text(), nullable=False),
        sa.Column("pod_uid", sa.Text(), nullable=False),
        sa.Column("container", sa.Text(), nullable=False),
        sa.Column("gpu_uuid", sa.Text(), nullable=False),
        sa.Column("day", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hours", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint(
            "cluster", "namespace", "pod", "pod_uid", "container", "gpu_uuid", "day"
        ),
    )
    op.create_index("usage_day_hours_by_day", "usage_day_hours", ["cluster", "day"], unique=False)
    op.create_table(
        "usage_days",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("day", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("pending", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "day"),
    )
