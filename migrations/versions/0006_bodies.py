"""Bodies of requests and answers, for users who want them kept."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

TIME = sa.String(23).with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Create the table, with its index by time for pruning."""
    op.create_table(
        "bodies",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("received_at", TIME, nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("request_bytes", sa.BigInteger(), nullable=False),
        sa.Column("request_cut", sa.Boolean(), nullable=False),
        sa.Column("answer", sa.LargeBinary()),
        sa.Column("answer_bytes", sa.BigInteger(), nullable=False),
        sa.Column("answer_cut", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_bodies"),
    )
    op.create_index("ix_bodies_received_at", "bodies", ["received_at"])


def downgrade() -> None:
    """Drop it, and every body with it."""
    op.drop_table("bodies")
