"""A scripted llama-server: its own routes, and the API-compatible ones with `timings`."""

from typing import Any

from tests.support.backend.anthropic import Anthropic
from tests.support.backend.engine import Engine
from tests.support.backend.openai import OpenAI, timings
from tests.support.backend.script import Received, Reply, as_json, sse


class Llama:
    """One engine behind all of llama-server's APIs."""

    def __init__(
        self, engine: Engine | None = None, *, model: str = "scripted.gguf", n_ctx: int = 8192
    ) -> None:
        self.engine = engine or Engine()
        self.n_ctx = n_ctx
        self.model = model
        self._openai = OpenAI(self.engine, model=model, timings=True)
        self._anthropic = Anthropic(self.engine, model=model, pings=0)

    def __call__(self, received: Received) -> Reply:
        """Answer one request."""
        if received.path in {"/completion", "/completions"}:
            return self._completion(received.json())
        if received.path in {"/health", "/v1/health"}:
            return as_json({"status": "ok"})
        if received.path == "/props":
            return as_json(
                {
                    "default_generation_settings": {"n_ctx": self.n_ctx},
                    "total_slots": 1,
                    "model_path": self.model,
                    "build_info": "b10472-d32676d7",
                }
            )
        if received.path == "/slots":
            return as_json([{"id": 0, "n_ctx": self.n_ctx, "is_processing": False}])
        if received.path.startswith("/v1/messages"):
            return self._anthropic(received)
        return self._openai(received)

    def _completion(self, request: dict[str, Any]) -> Reply:
        counts = self.engine.evaluate(request)
        final = {
            "index": 0,
            "content": "",
            "tokens": [],
            "stop": True,
            "stop_type": "eos",
            "truncated": False,
            "model": self.model,
            "tokens_cached": counts.prompt + counts.output - 1,
            "tokens_evaluated": counts.prompt,
            "timings": timings(counts, self.engine),
        }
        if not request.get("stream"):
            return as_json({**final, "content": self.engine.answer}, head_delay=counts.wait)
        parts = [{"index": 0, "content": word, "tokens": [], "stop": False} for word in self.engine.words()]
        return sse([*parts, final], first=counts.wait, gap=self.engine.gap)
