"""Which faults of devices were told, by the workload that held them."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0008"
down_revision: Final = "0007"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "fault_spells",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("workload_id", sa.Text(), nullable=False),
        sa.Column("fault", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("lasting", sa.Boolean(), nullable=False),
        sa.Column("level", sa.Double(), nullable=False),
        sa.Column("told_at", sa.Double()),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "workload_id", "fault"),
    )
