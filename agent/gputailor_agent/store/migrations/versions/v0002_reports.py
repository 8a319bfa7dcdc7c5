"""Reports as they were made, kept."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0002"
down_revision: Final = "0001"


def upgrade() -> None:
    """Make the table of reports."""
    op.create_table(
        "reports",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("made_at", sa.Double(), nullable=False),
        sa.Column("window_start", sa.Double(), nullable=False),
        sa.Column("window_end", sa.Double(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("markdown", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "period"),
    )
