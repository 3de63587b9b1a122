"""What a request put into a cloud's prompt cache, by lifetime, so that writes can be held against reads."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Add the columns."""
    op.add_column("requests", sa.Column("written_tokens", sa.BigInteger()))
    op.add_column("requests", sa.Column("written_1h_tokens", sa.BigInteger()))


def downgrade() -> None:
    """Remove them again."""
    op.drop_column("requests", "written_1h_tokens")
    op.drop_column("requests", "written_tokens")
