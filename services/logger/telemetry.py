"""One OpenTelemetry span a request, by the semantic conventions for generative AI (extra `otel`).

It owns the exporter's queue and thread: the SDK's batch processor, which holds a bounded number of spans and
drops the newest when a collector does not keep up. It lives in the worker, which has every row, those of
killed proxies too, and is on nobody's way; a collector that is away or slow costs spans, never rows.

Ids are made from the request's own, so a batch that is stored twice is the same spans again, not more of
them. Attributes are what the row holds: names, counts, times and hashes, never text.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import UUID

from services.history.engine import HistoryError
from services.record import Record

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

OPERATIONS = dict.fromkeys(("/v1/completions", "/api/generate", "/completion"), "text_completion")
# Columns that are told as ``metalanchor.NAME``; the conventions have no word for them.
OWN = (
    "session_source", "agent_version", "backend_kind", "endpoint", "stream", "message_count", "tool_count",
    "hit", "relation", "lineage", "predicted_reuse", "predicted_tokens", "cached_source", "cause",
    "diverged_at", "lost_tokens", "lost_ms", "load_ms", "prefill_ms", "ttft_ms", "overhead_ms", "status",
    "response_cache",
)  # fmt: skip
LARGEST_QUEUE = 16_384
BATCH = 512
EXPORT_S = 5
STOP_S = 1.0


class Telemetry:
    """Spans on their way to a collector. Raises `HistoryError` where the extra is not installed."""

    def __init__(self, endpoint: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - an extra
                OTLPSpanExporter,
            )
            from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
            from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise HistoryError(
                f"METALANCHOR_OTEL_ENDPOINT needs pip install 'metalanchor[otel]' ({error})."
            ) from None
        self._resource = Resource.create({"service.name": "metalanchor"})
        exporter = OTLPSpanExporter(endpoint=traces_url(endpoint), timeout=EXPORT_S)
        self._processor = BatchSpanProcessor(
            exporter, max_queue_size=LARGEST_QUEUE, max_export_batch_size=BATCH, schedule_delay_millis=1_000
        )

    def put(self, records: Sequence[Record]) -> None:
        """Have the spans of generations and embeddings sent soon; never waits."""
        for record in records:
            if record.kind in {"generation", "embedding"}:
                self._processor.on_end(span_of(record, self._resource))

    def close(self) -> None:
        """Send what is left, for a second at most: the SDK's own limit is half a minute."""
        ending = threading.Thread(target=self._processor.shutdown, name="spans", daemon=True)
        ending.start()
        ending.join(STOP_S)


def traces_url(endpoint: str) -> str:
    """Where spans are posted: the endpoint itself when it names a path, else its ``/v1/traces``."""
    parts = urlsplit(endpoint)
    return endpoint if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/v1/traces"


def span_of(record: Record, resource: Any) -> "ReadableSpan":
    """The span of a row: it begins when the request was received, and ends with its answer."""
    from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415 - an extra
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode  # noqa: PLC0415

    failed = record.status not in {"completed", "response_cache"}
    operation = operation_of(record)
    began = record.received_at * 1_000_000
    return ReadableSpan(
        name=f"{operation} {record.model}" if record.model else operation,
        context=_context(record.id),
        resource=resource,
        kind=SpanKind.CLIENT,
        attributes=dict(attributes_of(record)),
        links=[Link(_context(record.parent_id))] if record.parent_id else (),
        status=Status(StatusCode.ERROR, record.status) if failed else Status(StatusCode.UNSET),
        start_time=began,
        end_time=began + round((record.total_ms or 0.0) * 1e6),
    )


def operation_of(record: Record) -> str:
    """``chat``, ``text_completion`` or ``embeddings``."""
    if record.kind == "embedding":
        return "embeddings"
    return OPERATIONS.get(record.endpoint or "", "chat")


def attributes_of(record: Record) -> Iterator[tuple[str, Any]]:
    """Name and value of each attribute that is known; unknown ones are left out, as the conventions ask."""
    host, _, port = (record.backend or "").rpartition(":")
    named = {
        "gen_ai.operation.name": operation_of(record),
        "gen_ai.provider.name": record.backend_kind,
        "gen_ai.request.model": record.model,
        "gen_ai.conversation.id": record.session,
        "gen_ai.agent.name": record.agent,
        "gen_ai.response.finish_reasons": [record.finish_reason] if record.finish_reason else None,
        "gen_ai.usage.input_tokens": record.prompt_tokens,
        "gen_ai.usage.cache_read.input_tokens": record.cached_tokens,
        "gen_ai.usage.output_tokens": record.completion_tokens,
        "server.address": host if port.isdigit() else record.backend,
        "server.port": int(port) if port.isdigit() else None,
        "http.response.status_code": record.http_status,
        "error.type": (record.error or record.status) if record.status != "completed" else None,
        **{f"metalanchor.{name}": getattr(record, name) for name in OWN},
        "metalanchor.request_id": record.id,
    }
    return ((name, value) for name, value in named.items() if value is not None)


def _context(request_id: str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags  # noqa: PLC0415 - an extra

    whole = UUID(request_id).int
    return SpanContext(
        whole, whole & ((1 << 64) - 1), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )
