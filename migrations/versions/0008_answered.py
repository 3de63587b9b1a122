"""Which earlier request's answer the response cache gave, and what that saved."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Add the columns."""
    op.add_column("requests", sa.Column("answered_by", sa.String(36)))
    op.add_column("requests", sa.Column("saved_tokens", sa.BigInteger()))
    op.add_column("requests", sa.Column("saved_ms", sa.Double()))


def downgrade() -> None:
    """Remove them again."""
    op.drop_column("requests", "saved_ms")
    op.drop_column("requests", "saved_tokens")
    op.drop_column("requests", "answered_by")
