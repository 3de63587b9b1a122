"""An index that holds all that reports sum, in place of the one on the time alone."""

from collections.abc import Sequence

from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

REPORTED = (
    "received_at", "kind", "agent", "model", "session", "cause", "hit", "prompt_tokens", "cached_tokens",
    "predicted_reuse", "completion_tokens", "lost_tokens", "lost_ms", "prefill_ms", "ttft_ms", "total_ms",
    "request_bytes",
)  # fmt: skip


def upgrade() -> None:
    """Build the index."""
    op.create_index("ix_requests_reported", "requests", list(REPORTED))
    op.drop_index("ix_requests_received_at", table_name="requests")


def downgrade() -> None:
    """Go back to the one on the time alone."""
    op.create_index("ix_requests_received_at", "requests", ["received_at"])
    op.drop_index("ix_requests_reported", table_name="requests")
