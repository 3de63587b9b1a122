"""The schema of the request history, the same on SQLite and PostgreSQL. Alembic's revisions build it.

It owns no state. The columns are the fields of `services.record.Record`, by name.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    }
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UtcTime(TypeDecorator[datetime]):
    """An instant in milliseconds: timestamptz; on SQLite text that sorts and that its date functions read.

    Values are aware datetimes; a naive one is refused.
    """

    impl = String(23)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """The database's own type."""
        native = DateTime(timezone=True) if dialect.name == "postgresql" else String(23)
        return dialect.type_descriptor(native)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """What is sent to the database."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a zone is ambiguous; pass an aware one")
        return value.astimezone(UTC) if dialect.name == "postgresql" else text_of(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """An aware datetime in UTC."""
        if value is None:
            return None
        stamp = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return stamp.astimezone(UTC) if stamp.tzinfo else stamp.replace(tzinfo=UTC)


def time_of(milliseconds: int) -> datetime:
    """The aware UTC time of a record's epoch milliseconds."""
    return EPOCH + timedelta(milliseconds=milliseconds)


def text_of(value: datetime) -> str:
    """The form kept in SQLite: ``2026-11-29 22:17:00.123``, always UTC."""
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")


_json = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")

requests = Table(
    "requests",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("received_at", UtcTime, nullable=False),
    Column("scope", String),
    Column("session", String),
    Column("session_source", String),
    Column("agent", String),
    Column("agent_version", String),
    Column("backend", String),
    Column("backend_kind", String),
    Column("endpoint", String),
    Column("kind", String, nullable=False),
    Column("model", String),
    Column("stream", Boolean),
    Column("message_count", Integer),
    Column("tool_count", Integer),
    Column("chunk_count", Integer),
    Column("request_bytes", BigInteger),
    Column("system_hash", String),
    Column("tools_hash", String),
    Column("tools_set_hash", String),
    Column("prefix_hash", String),
    Column("request_hash", String),
    Column("raw_hash", String),
    Column("chunk_hashes", Text),
    Column("hit", String),
    Column("relation", String),
    Column("parent_id", String(36)),
    Column("lineage", String),
    Column("reused_chunks", Integer),
    Column("predicted_reuse", Double),
    Column("predicted_tokens", BigInteger),
    Column("diverged_at", String),
    Column("byte_offset", BigInteger),
    Column("cause", String),
    Column("causes", _json),
    Column("evicted_by", String),
    Column("lost_tokens", BigInteger),
    Column("lost_ms", Double),
    Column("prompt_tokens", BigInteger),
    Column("cached_tokens", BigInteger),
    Column("cached_source", String),
    Column("cached_field", String),
    Column("cached_confidence", Double),
    Column("completion_tokens", BigInteger),
    Column("streamed_deltas", BigInteger),
    Column("output_hash", String),
    Column("has_media", Boolean),
    Column("load_ms", Double),
    Column("prefill_ms", Double),
    Column("ttft_ms", Double),
    Column("total_ms", Double),
    Column("overhead_ms", Double),
    Column("status", String, nullable=False),
    Column("http_status", Integer),
    Column("finish_reason", String),
    Column("error", String),
    Column("response_cache", String),
    Column("fixes", _json),
    Column("cost_usd", Double),
    Column("savings_usd", Double),
    Column("new_chunks", _json),
    Column("written_tokens", BigInteger),
    Column("written_1h_tokens", BigInteger),
    Column("answered_by", String(36)),
    Column("saved_tokens", BigInteger),
    Column("saved_ms", Double),
)

# The questions people ask: a session or a model over time, who else sent this system prompt or these tools,
# how hits developed. Then pruning and reports by time, children of a request, and sums over a lineage.
Index("ix_requests_session_received_at", requests.c.session, requests.c.received_at)
Index("ix_requests_model_received_at", requests.c.model, requests.c.received_at)
Index("ix_requests_system_hash", requests.c.system_hash)
Index("ix_requests_tools_hash", requests.c.tools_hash)
Index("ix_requests_hit_received_at", requests.c.hit, requests.c.received_at)
# All that reports sum, in the order of time: rows are some 2 KB, and a week of a million is 78,000 of them.
REPORTED = (
    "received_at", "kind", "agent", "model", "session", "cause", "hit", "prompt_tokens", "cached_tokens",
    "predicted_reuse", "completion_tokens", "lost_tokens", "lost_ms", "prefill_ms", "ttft_ms", "total_ms",
    "request_bytes",
)  # fmt: skip
Index("ix_requests_reported", *(requests.c[name] for name in REPORTED))
Index("ix_requests_parent_id", requests.c.parent_id)
Index("ix_requests_lineage", requests.c.lineage)
# The longest losses of all, without reading those that lost little: 20 of a million are found in a few steps.
_lossy = text("lost_ms > 0")
Index(
    "ix_requests_lost",
    *(requests.c[name] for name in ("lost_ms", "received_at", "kind", "agent", "model")),
    sqlite_where=_lossy,
    postgresql_where=_lossy,
)
# Lists order by id. Without these, a filter on a million rows either sorts all that match (measured: 5 s for
# a model, 3.7 s for a hit kind) or walks through all to find few (3 s for an agent, 2 s for a status).
Index("ix_requests_model_id", requests.c.model, requests.c.id)
Index("ix_requests_agent_id", requests.c.agent, requests.c.id)
Index("ix_requests_hit_id", requests.c.hit, requests.c.id)
_broken = requests.c.cause.is_not(None)
_unusual = text("status <> 'completed'")
Index("ix_requests_cause_id", requests.c.cause, requests.c.id, sqlite_where=_broken, postgresql_where=_broken)
Index(
    "ix_requests_status_id",
    requests.c.status,
    requests.c.id,
    sqlite_where=_unusual,
    postgresql_where=_unusual,
)

# What model servers count of themselves, a row a sample. Totals are the server's own since it started; the
# figures without `_total` are those of the `interval_s` before the sample, where there was an earlier one.
# Totals make the next interval, also for another worker; intervals make charts without looking back.
samples = Table(
    "backend_samples",
    metadata,
    Column("backend", String, primary_key=True),
    Column("sampled_at", UtcTime, primary_key=True),
    Column("exporter", String, nullable=False),
    Column("model", String),
    Column("started_at", UtcTime),
    Column("restarted", Boolean, nullable=False),
    Column("running", Double),
    Column("waiting", Double),
    Column("kv_usage", Double),
    Column("unit", String),
    Column("lookups_total", BigInteger),
    Column("hits_total", BigInteger),
    Column("prompt_tokens_total", BigInteger),
    Column("generation_tokens_total", BigInteger),
    Column("interval_s", Double),
    Column("lookups", BigInteger),
    Column("hits", BigInteger),
    Column("prompt_tokens", BigInteger),
    Column("generation_tokens", BigInteger),
    Column("hit_rate", Double),
    Column("hit_rate_source", String),
)
Index("ix_backend_samples_sampled_at", samples.c.sampled_at)
