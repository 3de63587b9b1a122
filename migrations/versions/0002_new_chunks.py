"""What each request added to its conversation, for reports on what was sent again."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("requests", sa.Column("new_chunks", sa.JSON().with_variant(JSONB(), "postgresql")))


def downgrade() -> None:
    """Remove it again."""
    op.drop_column("requests", "new_chunks")
