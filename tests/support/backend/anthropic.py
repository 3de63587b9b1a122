"""Scripted Anthropic messages: named events, usage split into uncached, read and written tokens."""

from typing import Any

from tests.support.backend.engine import Counts, Engine
from tests.support.backend.script import Received, Reply, as_json, sse


class Anthropic:
    """Answers `/v1/messages` and `/v1/messages/count_tokens`; `pings` are sent before the first delta."""

    def __init__(
        self, engine: Engine | None = None, *, model: str = "claude-scripted", pings: int = 1
    ) -> None:
        self.engine = engine or Engine()
        self.model = model
        self.pings = pings

    def __call__(self, received: Received) -> Reply:
        """Answer one request."""
        if received.path == "/v1/messages/count_tokens":
            return as_json({"input_tokens": self.engine.evaluate(received.json()).prompt})
        if received.path != "/v1/messages":
            error = {"type": "not_found_error", "message": "Not found"}
            return as_json({"type": "error", "error": error}, status=404)
        request = received.json()
        counts = self.engine.evaluate(request)
        message: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": self.model}
        if not request.get("stream"):
            content = [{"type": "text", "text": self.engine.answer}]
            return as_json(
                {
                    **message,
                    "content": content,
                    "stop_reason": "end_turn",
                    "stop_sequence": None,
                    "usage": _usage(counts, counts.output),
                },
                head_delay=counts.wait,
            )
        return sse(self._events(message, counts), first=counts.wait, gap=self.engine.gap)

    def _events(self, message: dict[str, Any], counts: Counts) -> list[Any]:
        opened = {
            **message,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(counts, 1),
        }
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": opened},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        ]
        events += [{"type": "ping"}] * self.pings
        events += [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
            for word in self.engine.words()
        ]
        events += [
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": _usage(counts, counts.output),
            },
            {"type": "message_stop"},
        ]
        return [(event["type"], event) for event in events]


def _usage(counts: Counts, output: int) -> dict[str, int]:
    return {
        "input_tokens": counts.evaluated,
        "cache_read_input_tokens": counts.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": output,
    }
