"""Records as the proxy would hand them over, for tests of the log and the history."""

import random
from typing import Any

from services.ids import new_id
from services.record import Record, encode, encode_batch

START_MS = 1_764_400_000_000


def make_record(**changes: Any) -> Record:
    """A plausible analysed chat turn; any field may be set by name."""
    values: dict[str, Any] = {
        "id": new_id(), "received_at": START_MS, "scope": "5c0e" * 4, "session": "s-1", "session_source":
        "header", "agent": "hermes", "agent_version": "0.9", "backend": "default", "backend_kind": "ollama",
        "endpoint": "/api/chat", "kind": "generation", "model": "qwen3:8b", "stream": True, "message_count":
        4, "tool_count": 12, "chunk_count": 6, "request_bytes": 8_192, "system_hash": "a" * 40,
        "tools_hash": "b" * 40, "tools_set_hash": "c" * 40, "prefix_hash": "d" * 40, "request_hash": "e" *
        40, "raw_hash": "f" * 40, "chunk_hashes": "0123456789ab" * 6, "hit": "prefix", "relation": "append",
        "lineage": "l-1", "reused_chunks": 5, "predicted_reuse": 0.9375, "predicted_tokens": 1_875,
        "prompt_tokens": 2_000, "cached_tokens": 1_870, "cached_source": "ollama", "cached_field":
        "prompt_eval_count", "completion_tokens": 120, "streamed_deltas": 118, "has_media": False,
        "load_ms": 0.0, "prefill_ms": 41.5, "ttft_ms": 55.25, "total_ms": 2_250.5, "overhead_ms": 0.5,
        "status": "completed", "http_status": 200, "finish_reason": "stop", "causes": [{"code": "timestamp",
        "severity": "break", "at": "system", "detail": {"inserted": 5}}], "cause": "timestamp", "fixes":
        ["pin_clock"],
    }  # fmt: skip
    return Record(**{**values, **changes})


def make_records(count: int, **changes: Any) -> list[Record]:
    """Distinct records a second apart, spread over a few sessions, models and hits."""
    pick = random.Random(count)
    return [
        make_record(
            **{
                "received_at": START_MS + number * 1000,
                "session": f"s-{number % 7}",
                "model": pick.choice(["qwen3:8b", "gemma3:270m"]),
                "hit": pick.choice(["exact", "prefix", "none"]),
                **changes,
            }
        )
        for number in range(count)
    ]


def batch_of(records: list[Record]) -> str:
    """The one argument of a queue job."""
    return encode_batch([encode(record) for record in records])
