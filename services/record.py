"""The record contract: what the proxy hands to the log for each request, and what the history stores.

The proxy writes it, the worker reads it; neither imports the other. `VERSION` rises when a field changes its
meaning or goes away; a reader accepts older versions and unknown fields, so proxy and worker may be updated
one after the other. Records hold hashes, sizes, counts and names, never prompt or answer text.
"""

from typing import Any

import msgspec

VERSION = 1
JOB = "services.logger.jobs.persist"


class Record(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """One request. Field names are the columns of table ``requests``; None is unknown, never zero.

    Times are epoch milliseconds or millisecond durations; hashes are lower-case hexadecimal.
    """

    v: int = VERSION
    id: str
    received_at: int
    scope: str | None = None
    session: str | None = None
    session_source: str | None = None
    agent: str | None = None
    agent_version: str | None = None
    backend: str | None = None
    backend_kind: str | None = None
    endpoint: str | None = None
    kind: str = "other"
    model: str | None = None
    stream: bool | None = None
    message_count: int | None = None
    tool_count: int | None = None
    chunk_count: int | None = None
    request_bytes: int | None = None
    system_hash: str | None = None
    tools_hash: str | None = None
    tools_set_hash: str | None = None
    prefix_hash: str | None = None
    request_hash: str | None = None
    raw_hash: str | None = None
    chunk_hashes: str | None = None
    new_chunks: list[str] | None = None
    hit: str | None = None
    relation: str | None = None
    parent_id: str | None = None
    lineage: str | None = None
    reused_chunks: int | None = None
    predicted_reuse: float | None = None
    predicted_tokens: int | None = None
    diverged_at: str | None = None
    byte_offset: int | None = None
    cause: str | None = None
    causes: list[dict[str, Any]] | None = None
    evicted_by: str | None = None
    lost_tokens: int | None = None
    lost_ms: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    cached_source: str | None = None
    cached_field: str | None = None
    cached_confidence: float | None = None
    completion_tokens: int | None = None
    streamed_deltas: int | None = None
    output_hash: str | None = None
    has_media: bool | None = None
    load_ms: float | None = None
    prefill_ms: float | None = None
    ttft_ms: float | None = None
    total_ms: float | None = None
    overhead_ms: float | None = None
    status: str
    http_status: int | None = None
    finish_reason: str | None = None
    error: str | None = None
    response_cache: str | None = None
    answered_by: str | None = None
    saved_tokens: int | None = None
    saved_ms: float | None = None
    fixes: list[str] | None = None
    cost_usd: float | None = None
    savings_usd: float | None = None
    written_tokens: int | None = None
    written_1h_tokens: int | None = None


HITS = ("exact", "prefix", "system+tools", "system_only", "tools_only", "none")
STATUSES = (
    "completed", "incomplete", "client_cancelled", "upstream_error", "error_midstream", "upstream_reset",
    "upstream_unreachable", "rejected", "response_cache", "proxy_stopped", "proxy_lost",
)  # fmt: skip

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(list[Record])


def encode_batch(records: list[bytes]) -> str:
    """Join encoded records into the one string argument of a queue job."""
    return "[" + b",".join(records).decode() + "]"


def encode(record: Record) -> bytes:
    """One record as compact JSON, for the buffer and the spool (one line each)."""
    return _encoder.encode(record)


def decode_batch(text: str | bytes) -> list[Record]:
    """The records of a job argument; raises `msgspec.DecodeError` on anything else."""
    return _decoder.decode(text)
