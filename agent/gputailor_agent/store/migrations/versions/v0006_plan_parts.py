"""Plans in parts: a large cluster's is hundreds of megabytes as one text."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0006"
down_revision: Final = "0005"


def upgrade() -> None:
    """Make the table of the parts; plans that are there stay as they are, in one piece."""
    op.create_table(
        "plan_parts",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("place", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("verdicts", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "period", "place"),
    )
