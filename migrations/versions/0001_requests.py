"""The request history: one row a request."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

# A revision states the types as they were when it was written; it does not follow the tables module.
TIME = sa.String(23).with_variant(sa.DateTime(timezone=True), "postgresql")
DOCUMENT = sa.JSON().with_variant(JSONB(), "postgresql")

INDEXES = {
    "ix_requests_session_received_at": ["session", "received_at"],
    "ix_requests_model_received_at": ["model", "received_at"],
    "ix_requests_system_hash": ["system_hash"],
    "ix_requests_tools_hash": ["tools_hash"],
    "ix_requests_hit_received_at": ["hit", "received_at"],
    "ix_requests_received_at": ["received_at"],
    "ix_requests_parent_id": ["parent_id"],
    "ix_requests_lineage": ["lineage"],
    "ix_requests_model_id": ["model", "id"],
    "ix_requests_agent_id": ["agent", "id"],
    "ix_requests_hit_id": ["hit", "id"],
}
PARTIAL = {
    "ix_requests_cause_id": (["cause", "id"], sa.text("cause IS NOT NULL")),
    "ix_requests_status_id": (["status", "id"], sa.text("status <> 'completed'")),
}


def upgrade() -> None:
    """Create the table and its indexes."""
    op.create_table(
        "requests",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("received_at", TIME, nullable=False),
        sa.Column("scope", sa.String()),
        sa.Column("session", sa.String()),
        sa.Column("session_source", sa.String()),
        sa.Column("agent", sa.String()),
        sa.Column("agent_version", sa.String()),
        sa.Column("backend", sa.String()),
        sa.Column("backend_kind", sa.String()),
        sa.Column("endpoint", sa.String()),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("model", sa.String()),
        sa.Column("stream", sa.Boolean()),
        sa.Column("message_count", sa.Integer()),
        sa.Column("tool_count", sa.Integer()),
        sa.Column("chunk_count", sa.Integer()),
        sa.Column("request_bytes", sa.BigInteger()),
        sa.Column("system_hash", sa.String()),
        sa.Column("tools_hash", sa.String()),
        sa.Column("tools_set_hash", sa.String()),
        sa.Column("prefix_hash", sa.String()),
        sa.Column("request_hash", sa.String()),
        sa.Column("raw_hash", sa.String()),
        sa.Column("chunk_hashes", sa.Text()),
        sa.Column("hit", sa.String()),
        sa.Column("relation", sa.String()),
        sa.Column("parent_id", sa.String(36)),
        sa.Column("lineage", sa.String()),
        sa.Column("reused_chunks", sa.Integer()),
        sa.Column("predicted_reuse", sa.Double()),
        sa.Column("predicted_tokens", sa.BigInteger()),
        sa.Column("diverged_at", sa.String()),
        sa.Column("byte_offset", sa.BigInteger()),
        sa.Column("cause", sa.String()),
        sa.Column("causes", DOCUMENT),
        sa.Column("evicted_by", sa.String()),
        sa.Column("lost_tokens", sa.BigInteger()),
        sa.Column("lost_ms", sa.Double()),
        sa.Column("prompt_tokens", sa.BigInteger()),
        sa.Column("cached_tokens", sa.BigInteger()),
        sa.Column("cached_source", sa.String()),
        sa.Column("cached_field", sa.String()),
        sa.Column("cached_confidence", sa.Double()),
        sa.Column("completion_tokens", sa.BigInteger()),
        sa.Column("streamed_deltas", sa.BigInteger()),
        sa.Column("output_hash", sa.String()),
        sa.Column("has_media", sa.Boolean()),
        sa.Column("load_ms", sa.Double()),
        sa.Column("prefill_ms", sa.Double()),
        sa.Column("ttft_ms", sa.Double()),
        sa.Column("total_ms", sa.Double()),
        sa.Column("overhead_ms", sa.Double()),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("http_status", sa.Integer()),
        sa.Column("finish_reason", sa.String()),
        sa.Column("error", sa.String()),
        sa.Column("response_cache", sa.String()),
        sa.Column("fixes", DOCUMENT),
        sa.Column("cost_usd", sa.Double()),
        sa.Column("savings_usd", sa.Double()),
        sa.PrimaryKeyConstraint("id", name="pk_requests"),
    )
    for name, columns in INDEXES.items():
        op.create_index(name, "requests", columns)
    for name, (columns, where) in PARTIAL.items():
        op.create_index(name, "requests", columns, sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    """Drop the table with its rows."""
    for name in (*PARTIAL, *INDEXES):
        op.drop_index(name, table_name="requests")
    op.drop_table("requests")
