"""From a finished flow to its row: names, hashes, sizes and counts, never text.

Pure. A field that is not known stays None; nothing is filled up with zeros.
"""

import re
from typing import Any

from services.proxy.dialects import kind_of
from services.proxy.dialects.endpoint import endpoint_of
from services.proxy.flow import Cached, Cause, Flow, Verdict
from services.proxy.placing.outline import outline
from services.proxy.prompt import Prompt, hex_of
from services.proxy.settling.fresh import new_chunks
from services.record import Record


def headline(causes: list[Cause]) -> Cause | None:
    """The cause that names the request in the header and in SQL: the first break or loss."""
    return next((cause for cause in causes if cause.severity in ("break", "loss")), None)


def place_of(causes: list[Cause]) -> tuple[str | None, int | None]:
    """Where the prompt diverged, as (path, byte offset): the first break's place, else the first risk's."""
    for severity in ("break", "risk", "loss"):
        for cause in causes:
            if cause.severity == severity and cause.at is not None:
                return cause.at, cause.detail.get("byte_offset")
    return None, None


def record_of(flow: Flow) -> Record:
    """The row of a flow, whatever became of it."""
    first = headline(flow.causes)
    diverged_at, offset = place_of(flow.causes)
    record = Record(
        id=flow.id,
        received_at=flow.received_at,
        backend=flow.backend.name,
        backend_kind=flow.backend.kind,
        endpoint=endpoint_of(flow.path),
        kind=flow.prompt.kind if flow.prompt else kind_of(flow.method, flow.path.partition("?")[0]),
        diverged_at=diverged_at,
        byte_offset=offset,
        cause=first.code if first else None,
        causes=[cause_json(cause) for cause in flow.causes] or None,
        evicted_by=evictor(flow.causes),
        lost_tokens=flow.lost_tokens,
        lost_ms=flow.lost_ms,
        status=flow.status,
        http_status=flow.http_status,
        error=flow.error or (flow.outcome.error if flow.outcome else None),
        fixes=flow.fixes or None,
        cost_usd=flow.cost.cost_usd if flow.cost else None,
        savings_usd=flow.cost.savings_usd if flow.cost else None,
        total_ms=_ms(flow.started, flow.ended_at),
        overhead_ms=overhead_ms(flow),
        ttft_ms=ttft_ms(flow),
    )
    _add_identity(record, flow)
    if flow.prompt is not None:
        _add_prompt(record, flow.prompt)
    if flow.verdict is not None:
        _add_verdict(record, flow.verdict)
        record.new_chunks = new_chunks(flow)
    _add_answer(record, flow)
    if flow.cached is not None:
        _add_cached(record, flow.cached)
    return record


def cause_json(cause: Cause) -> dict[str, Any]:
    """A cause as the API and SQL show it."""
    return {"code": cause.code, "at": cause.at, "detail": cause.detail, "severity": cause.severity}


def evictor(causes: list[Cause]) -> str | None:
    """The id of the request that took the engine's cache, if that was found."""
    return next((cause.detail.get("request") for cause in causes if cause.code == "evicted_by"), None)


def ttft_ms(flow: Flow) -> float | None:
    """From the last byte of the request to the first generated token, in milliseconds.

    Of an answer that was not streamed it is what the backend says it spent on load and prefill, or unknown.
    """
    outcome, measured = flow.outcome, flow.measured
    if outcome is not None and outcome.first_token_at is not None and flow.body_at is not None:
        return round((outcome.first_token_at - flow.body_at) * 1e3, 3)
    if measured is not None and measured.prefill_ms is not None and (flow.prompt and not flow.prompt.stream):
        return round((measured.load_ms or 0.0) + measured.prefill_ms, 3)
    return None


def overhead_ms(flow: Flow) -> float | None:
    """What the proxy added before the request left and before the first byte was passed on."""
    before = _ms(flow.body_at, flow.sent_at)
    if before is None:
        return None
    # A head that waits for the backend's first byte of body holds nothing up: all wait for that byte.
    first = flow.answered_at if flow.first_byte_at is None else flow.first_byte_at
    return round(before + (_ms(first, flow.relayed_at) or 0.0), 3)


def _ms(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else round(max(0.0, end - start) * 1e3, 3)


def _add_identity(record: Record, flow: Flow) -> None:
    identity, verdict = flow.identity, flow.verdict
    if identity is not None:
        record.scope, record.agent, record.agent_version = (
            identity.scope,
            identity.agent,
            identity.agent_version,
        )
        record.session, record.session_source = identity.session, identity.session_source
    if record.session is None and verdict is not None and verdict.lineage:
        record.session, record.session_source = verdict.lineage, "lineage"


def _add_prompt(record: Record, prompt: Prompt) -> None:
    record.model = prompt.model[:200] or None
    record.request_bytes, record.raw_hash = prompt.request_bytes, hex_of(prompt.raw_hash)
    if not prompt.chunks:
        return
    lines = outline(prompt)
    head = len(lines.kinds) - len(lines.kinds.lstrip("pts"))
    record.stream, record.has_media = prompt.stream, prompt.has_media
    record.message_count, record.tool_count = prompt.message_count, prompt.tool_count
    record.chunk_count = len(prompt.chunks)
    record.system_hash, record.tools_hash = hex_of(prompt.system_hash), hex_of(prompt.tools_hash)
    record.tools_set_hash, record.request_hash = hex_of(prompt.tools_set_hash), hex_of(prompt.request_hash)
    record.prefix_hash = hex_of(prompt.prefixes[head - 1]) if head else None
    record.chunk_hashes = lines.names


def _add_verdict(record: Record, verdict: Verdict) -> None:
    record.hit, record.relation, record.lineage = verdict.hit, verdict.relation, verdict.lineage or None
    record.parent_id = verdict.parent.node.id if verdict.parent else None
    record.reused_chunks, record.predicted_tokens = verdict.reused_chunks, verdict.predicted_tokens
    record.predicted_reuse = round(verdict.predicted_reuse, 4)


def _add_answer(record: Record, flow: Flow) -> None:
    outcome, measured = flow.outcome, flow.measured
    if outcome is not None:
        record.streamed_deltas, record.output_hash = outcome.streamed_deltas, outcome.output_hash
        record.finish_reason = _word(outcome.finish_reason)
    if measured is not None:
        record.prompt_tokens, record.cached_tokens = measured.prompt_tokens, measured.cached_tokens
        record.cached_source, record.cached_field = measured.source, measured.field
        record.cached_confidence, record.completion_tokens = measured.confidence, measured.completion_tokens
        record.load_ms, record.prefill_ms = measured.load_ms, measured.prefill_ms
        record.written_tokens, record.written_1h_tokens = measured.written, measured.written_1h


def _add_cached(record: Record, cached: Cached) -> None:
    record.response_cache, record.answered_by = cached.verdict, cached.answered_by
    record.saved_tokens, record.saved_ms = cached.saved_tokens, cached.saved_ms


def _word(reason: str | None) -> str | None:
    """A finish reason as it may stand in a row: the backend's word, but never a text."""
    return reason if reason is None or _WORD.fullmatch(reason) else "other"


_WORD = re.compile(r"[A-Za-z0-9._:-]{1,64}")
