"""What model servers count of themselves, sampled by the worker: hits, load, KV use over time."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

TIME = sa.String(23).with_variant(sa.DateTime(timezone=True), "postgresql")


def upgrade() -> None:
    """Create the table, with its index by time for pruning and charts over all backends."""
    op.create_table(
        "backend_samples",
        sa.Column("backend", sa.String(), nullable=False),
        sa.Column("sampled_at", TIME, nullable=False),
        sa.Column("exporter", sa.String(), nullable=False),
        sa.Column("model", sa.String()),
        sa.Column("started_at", TIME),
        sa.Column("restarted", sa.Boolean(), nullable=False),
        sa.Column("running", sa.Double()),
        sa.Column("waiting", sa.Double()),
        sa.Column("kv_usage", sa.Double()),
        sa.Column("unit", sa.String()),
        sa.Column("lookups_total", sa.BigInteger()),
        sa.Column("hits_total", sa.BigInteger()),
        sa.Column("prompt_tokens_total", sa.BigInteger()),
        sa.Column("generation_tokens_total", sa.BigInteger()),
        sa.Column("interval_s", sa.Double()),
        sa.Column("lookups", sa.BigInteger()),
        sa.Column("hits", sa.BigInteger()),
        sa.Column("prompt_tokens", sa.BigInteger()),
        sa.Column("generation_tokens", sa.BigInteger()),
        sa.Column("hit_rate", sa.Double()),
        sa.Column("hit_rate_source", sa.String()),
        sa.PrimaryKeyConstraint("backend", "sampled_at", name="pk_backend_samples"),
    )
    op.create_index("ix_backend_samples_sampled_at", "backend_samples", ["sampled_at"])


def downgrade() -> None:
    """Drop it with its rows."""
    op.drop_table("backend_samples")
