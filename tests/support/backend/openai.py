"""Scripted OpenAI-compatible answers: chat, completions, responses; `timings` as llama-server adds them."""

from typing import Any

from tests.support.backend.engine import Counts, Engine
from tests.support.backend.script import Received, Reply, as_json, sse

CREATED = 1764417600


class OpenAI:
    """`details` off hides cached tokens, as LM Studio does; `timings` adds llama-server's own counters."""

    def __init__(
        self,
        engine: Engine | None = None,
        *,
        model: str = "scripted",
        details: bool = True,
        timings: bool = False,
    ) -> None:
        self.engine = engine or Engine()
        self.model = model
        self.details = details
        self.timings = timings

    def __call__(self, received: Received) -> Reply:
        """Answer one request."""
        routes = {
            "/v1/models": self._models,
            "/v1/chat/completions": self._chat,
            "/v1/completions": self._completions,
            "/v1/responses": self._responses,
            "/v1/embeddings": self._embeddings,
        }
        route = routes.get(received.path)
        if route is None:
            error = {"message": "Not found", "type": "not_found_error", "param": None, "code": None}
            return as_json({"error": error}, status=404)
        return route(received)

    def _models(self, _: Received) -> Reply:
        listed = {"id": self.model, "object": "model", "created": CREATED, "owned_by": "scripted"}
        return as_json({"object": "list", "data": [listed]})

    def _embeddings(self, _: Received) -> Reply:
        item = {"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}
        return as_json(
            {
                "object": "list",
                "data": [item],
                "model": self.model,
                "usage": {"prompt_tokens": 4, "total_tokens": 4},
            }
        )

    def _usage(self, counts: Counts) -> dict[str, Any]:
        usage: dict[str, Any] = {
            "prompt_tokens": counts.prompt,
            "completion_tokens": counts.output,
            "total_tokens": counts.prompt + counts.output,
        }
        if self.details:
            usage["prompt_tokens_details"] = {"cached_tokens": counts.cached}
        return usage

    def _extras(self, counts: Counts) -> dict[str, Any]:
        return {"timings": timings(counts, self.engine)} if self.timings else {}

    def _chat(self, received: Received) -> Reply:
        request = received.json()
        counts = self.engine.evaluate(request)
        envelope = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": self.model,
        }
        if not request.get("stream"):
            message = {"role": "assistant", "content": self.engine.answer}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return as_json(
                {
                    **envelope,
                    "object": "chat.completion",
                    "choices": [choice],
                    "usage": self._usage(counts),
                    **self._extras(counts),
                },
                head_delay=counts.wait,
            )
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
        deltas += [{"content": word} for word in self.engine.words()]
        events: list[Any] = [
            {**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        last = {**envelope, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        events.append({**last, **self._extras(counts)})
        if (request.get("stream_options") or {}).get("include_usage"):
            events.append({**envelope, "choices": [], "usage": self._usage(counts)})
        return sse([*events, "data: [DONE]\n\n"], first=counts.wait, gap=self.engine.gap)

    def _completions(self, received: Received) -> Reply:
        request = received.json()
        counts = self.engine.evaluate(request)
        envelope = {"id": "cmpl-1", "object": "text_completion", "created": CREATED, "model": self.model}
        if not request.get("stream"):
            choice = {"index": 0, "text": self.engine.answer, "finish_reason": "stop"}
            return as_json(
                {**envelope, "choices": [choice], "usage": self._usage(counts), **self._extras(counts)},
                head_delay=counts.wait,
            )
        events: list[Any] = [
            {**envelope, "choices": [{"index": 0, "text": word, "finish_reason": None}]}
            for word in self.engine.words()
        ]
        events.append(
            {
                **envelope,
                "choices": [{"index": 0, "text": "", "finish_reason": "stop"}],
                **self._extras(counts),
            }
        )
        return sse([*events, "data: [DONE]\n\n"], first=counts.wait, gap=self.engine.gap)

    def _responses(self, received: Received) -> Reply:
        request = received.json()
        counts = self.engine.evaluate(request)
        usage: dict[str, Any] = {
            "input_tokens": counts.prompt,
            "output_tokens": counts.output,
            "total_tokens": counts.prompt + counts.output,
        }
        if self.details:
            usage["input_tokens_details"] = {"cached_tokens": counts.cached}
        text = {"type": "output_text", "text": self.engine.answer, "annotations": []}
        item = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [text],
        }
        base = {
            "id": "resp_1",
            "object": "response",
            "created_at": CREATED,
            "model": self.model,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
        done = {**base, "status": "completed", "output": [item], "usage": usage}
        if not request.get("stream"):
            return as_json(done, head_delay=counts.wait)
        return sse(self._response_events(base, item, done), first=counts.wait, gap=self.engine.gap)

    def _response_events(self, base: dict[str, Any], item: dict[str, Any], done: dict[str, Any]) -> list[Any]:
        where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        steps: list[tuple[str, dict[str, Any]]] = [
            ("response.created", {"response": {**base, "status": "in_progress", "output": []}}),
            (
                "response.output_item.added",
                {"output_index": 0, "item": {**item, "status": "in_progress", "content": []}},
            ),
            (
                "response.content_part.added",
                {**where, "part": {"type": "output_text", "text": "", "annotations": []}},
            ),
        ]
        steps += [("response.output_text.delta", {**where, "delta": word}) for word in self.engine.words()]
        steps += [
            ("response.output_text.done", {**where, "text": self.engine.answer}),
            ("response.content_part.done", {**where, "part": item["content"][0]}),
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": done}),
        ]
        return [(name, {"type": name, "sequence_number": i, **data}) for i, (name, data) in enumerate(steps)]


def timings(counts: Counts, engine: Engine) -> dict[str, Any]:
    """llama-server's `timings` object."""
    prompt_ms = max(counts.wait * 1000, 0.5)
    decode_ms = engine.decode_s * counts.output * 1000
    return {
        "cache_n": counts.cached,
        "prompt_n": counts.evaluated,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_ms / counts.evaluated,
        "prompt_per_second": 1000 * counts.evaluated / prompt_ms,
        "predicted_n": counts.output,
        "predicted_ms": decode_ms,
        "predicted_per_token_ms": decode_ms / counts.output,
        "predicted_per_second": 1000 * counts.output / decode_ms,
    }
