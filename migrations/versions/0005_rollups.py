# ruff: noqa: S608 - names are our own tables and columns
"""Sums by hour, six hours and day, and the triggers that mark an hour whose rows changed."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

TIME = sa.String(23).with_variant(sa.DateTime(timezone=True), "postgresql")
COUNTED = (
    "requests", "measured", "prompt_tokens", "cached_tokens", "foreseen", "predicted_tokens",
    "completion_tokens", "lost_tokens", "lost_ms", "prefill_ms", "hit_exact", "hit_prefix",
    "hit_system_tools", "hit_system_only", "hit_tools_only", "hit_none",
)  # fmt: skip
REAL = ("predicted_tokens", "lost_ms", "prefill_ms")
BUCKETS = 128

# The start of a row's hour in epoch seconds.
SQLITE_HOUR = "CAST(strftime('%s', substr({row}.received_at, 1, 13) || ':00:00') AS INTEGER)"
POSTGRES_HOUR = "floor(extract(epoch FROM received_at) / 3600)::bigint * 3600"
# Not on INSERT: a trigger once a row is dear; who adds rows marks their hours (services.history.rollups).
SQLITE_EVENTS = {"UPDATE": ("OLD", "NEW"), "DELETE": ("OLD",)}
POSTGRES_EVENTS = {
    "INSERT": "NEW TABLE AS changed",
    "UPDATE": "OLD TABLE AS removed NEW TABLE AS changed",
    "DELETE": "OLD TABLE AS changed",
}


def upgrade() -> None:
    """Create the tables, mark every hour that has rows, and keep marking from now on."""
    op.create_table("rollups", *_columns())
    op.create_index("ix_rollups_span_part_start", "rollups", ["span_s", "part", "start_s"])
    costly = sa.text("part = 'cause' AND lost_ms > 0")
    op.create_index(
        "ix_rollups_lost", "rollups", ["span_s", "start_s", "kind", "agent", "model", "value", "lost_ms"],
        sqlite_where=costly, postgresql_where=costly,
    )  # fmt: skip
    op.create_table(
        "prompt_rollups",
        sa.Column("span_s", sa.Integer(), nullable=False),
        sa.Column("start_s", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        *(
            sa.Column(name, sa.String())
            for name in ("agent", "model", "session", "system_hash", "tools_hash")
        ),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("first_at", TIME, nullable=False),
        sa.Column("last_at", TIME, nullable=False),
    )
    op.create_index("ix_prompt_rollups_span_start", "prompt_rollups", ["span_s", "start_s"])
    op.create_table(
        "rollups_due",
        sa.Column("span_s", sa.Integer(), nullable=False),
        sa.Column("start_s", sa.BigInteger(), nullable=False),
    )
    op.create_index("ix_rollups_due_span_start", "rollups_due", ["span_s", "start_s"])
    broken = sa.text("lost_ms > 0")
    op.create_index(
        "ix_requests_lost", "requests", ["lost_ms", "received_at", "kind", "agent", "model"],
        sqlite_where=broken, postgresql_where=broken,
    )  # fmt: skip
    if op.get_bind().dialect.name == "sqlite":
        _mark_on_sqlite()
    else:
        _mark_on_postgres()


def downgrade() -> None:
    """Drop them with the triggers; the rows stay."""
    if op.get_bind().dialect.name == "sqlite":
        for event in SQLITE_EVENTS:
            op.execute(f"DROP TRIGGER requests_due_{event.lower()}")
    else:
        for event in POSTGRES_EVENTS:
            op.execute(f"DROP TRIGGER requests_due_{event.lower()} ON requests")
            op.execute(f"DROP FUNCTION requests_due_{event.lower()}()")
    op.drop_index("ix_requests_lost", table_name="requests")
    for name in ("rollups_due", "prompt_rollups", "rollups"):
        op.drop_table(name)


def _columns() -> list[sa.Column[object]]:
    columns: list[sa.Column[object]] = [
        sa.Column("span_s", sa.Integer(), nullable=False),
        sa.Column("start_s", sa.BigInteger(), nullable=False),
        sa.Column("part", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
    ]
    columns += [sa.Column(name, sa.String()) for name in ("agent", "model", "value", "temperature")]
    columns += [sa.Column(name, sa.Double() if name in REAL else sa.BigInteger()) for name in COUNTED]
    for time in ("ttft", "total"):
        columns += [sa.Column(f"{time}_{name}", sa.Integer()) for name in ("low", "high")]
    for time in ("ttft", "total"):
        columns += [sa.Column(f"{time}_{number}", sa.Integer()) for number in range(BUCKETS)]
    return columns


def _mark_on_sqlite() -> None:
    hour = SQLITE_HOUR.format(row="requests")
    op.execute(f"INSERT INTO rollups_due (span_s, start_s) SELECT DISTINCT 3600, {hour} FROM requests")
    for event, rows in SQLITE_EVENTS.items():
        marks = [
            f"INSERT INTO rollups_due (span_s, start_s) SELECT 3600, {hour} WHERE NOT EXISTS"
            f" (SELECT 1 FROM rollups_due WHERE span_s = 3600 AND start_s = {hour});"
            for hour in (SQLITE_HOUR.format(row=row) for row in rows)
        ]
        op.execute(
            f"CREATE TRIGGER requests_due_{event.lower()} AFTER {event} ON requests"
            f" BEGIN {' '.join(marks)} END"
        )


def _mark_on_postgres() -> None:
    op.execute(
        f"INSERT INTO rollups_due (span_s, start_s) SELECT DISTINCT 3600, {POSTGRES_HOUR} FROM requests"
    )
    for event, tables in POSTGRES_EVENTS.items():
        rows = "SELECT received_at FROM changed"
        if event == "UPDATE":
            rows += " UNION ALL SELECT received_at FROM removed"
        name = f"requests_due_{event.lower()}"
        op.execute(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" INSERT INTO rollups_due (span_s, start_s)"
            f" SELECT DISTINCT 3600, {POSTGRES_HOUR} FROM ({rows}) AS touched; RETURN NULL; END $$"
        )
        op.execute(
            f"CREATE TRIGGER {name} AFTER {event} ON requests REFERENCING {tables}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
        )
