"""A scripted Ollama: native routes here, `/v1` ones from the other personalities."""

from typing import Any

from tests.support.backend.anthropic import Anthropic
from tests.support.backend.engine import Counts, Engine
from tests.support.backend.openai import OpenAI
from tests.support.backend.script import Received, Reply, as_json, body, ndjson

DIGEST = "0a109f422b47e3a30ba2b10eca18548e944e8a23073ee3f3e947efcf3c45e59f"
CREATED = "2026-11-29T12:00:00.000000000Z"


class Ollama:
    """Answers as the given version does; `metrics` overrides or (with None) removes final fields."""

    def __init__(
        self,
        engine: Engine | None = None,
        *,
        version: str = "0.40.1",
        models: tuple[str, ...] = ("qwen3:8b",),
        num_ctx: int = 4096,
        metrics: dict[str, Any] | None = None,
    ) -> None:
        self.engine = engine or Engine()
        self.version = version
        self.models = models
        self.num_ctx = num_ctx
        self.metrics = metrics or {}
        self.loaded: dict[str, int] = {}
        self._openai = OpenAI(self.engine, model=models[0], details=self._since(0, 33, 3))
        self._anthropic = Anthropic(self.engine, model=models[0])

    def __call__(self, received: Received) -> Reply:
        """Answer one request."""
        route = self._routes().get(received.path)
        if route is not None:
            return route(received)
        if received.path.startswith("/v1/messages"):
            return self._anthropic(received)
        return (
            self._openai(received)
            if received.path.startswith("/v1/")
            else body("404 page not found", status=404)
        )

    def _routes(self) -> dict[str, Any]:
        return {
            "/": lambda _: body("Ollama is running"),
            "/api/version": lambda _: as_json({"version": self.version}),
            "/api/tags": lambda _: as_json({"models": [self._model(name) for name in self.models]}),
            "/api/ps": lambda _: as_json({"models": [self._running(name) for name in self.loaded]}),
            "/api/show": self._show,
            "/api/chat": self._chat,
            "/api/generate": self._generate,
            "/api/embed": self._embed,
            "/v1/models": lambda _: as_json(
                {"object": "list", "data": [_listed(name) for name in self.models]}
            ),
        }

    def _model(self, name: str) -> dict[str, Any]:
        details = {
            "format": "gguf",
            "family": "qwen3",
            "parameter_size": "8.2B",
            "quantization_level": "Q4_K_M",
        }
        return {
            "name": name,
            "model": name,
            "modified_at": CREATED,
            "size": 5225388164,
            "digest": DIGEST,
            "details": details,
        }

    def _running(self, name: str) -> dict[str, Any]:
        return {
            **self._model(name),
            "expires_at": CREATED,
            "size_vram": 5225388164,
            "context_length": self.loaded[name],
        }

    def _show(self, received: Received) -> Reply:
        name = received.json().get("model", self.models[0])
        if name not in self.models:
            return as_json({"error": f"model '{name}' not found"}, status=404)
        info = {"general.architecture": "qwen3", "qwen3.context_length": 40960, "qwen3.block_count": 36}
        return as_json(
            {
                "template": "{{ .Prompt }}",
                "parameters": "",
                "details": self._model(name)["details"],
                "model_info": info,
                "capabilities": ["completion", "tools"],
            }
        )

    def _load(self, request: dict[str, Any]) -> bool:
        """Note the model as loaded; whether that took a load."""
        name = str(request.get("model"))
        wanted = int((request.get("options") or {}).get("num_ctx") or self.loaded.get(name, self.num_ctx))
        reloaded = self.loaded.get(name) != wanted
        if reloaded:
            self.engine.forget()
        self.loaded[name] = wanted
        return reloaded

    def _empty(self, request: dict[str, Any]) -> Reply:
        reason = "unload" if request.get("keep_alive") in (0, "0") else "load"
        if reason == "unload":
            self.loaded.pop(str(request.get("model")), None)
            self.engine.forget()
        else:
            self._load(request)
        return as_json(
            {
                "model": request.get("model"),
                "created_at": CREATED,
                "done": True,
                "done_reason": reason,
                "message": {"role": "assistant", "content": ""},
            }
        )

    def _chat(self, received: Received) -> Reply:
        request = received.json()
        if not request.get("messages"):
            return self._empty(request)
        return self._stream(request, lambda text: {"message": {"role": "assistant", "content": text}})

    def _generate(self, received: Received) -> Reply:
        request = received.json()
        if not request.get("prompt"):
            return self._empty(request)
        return self._stream(request, lambda text: {"response": text})

    def _stream(self, request: dict[str, Any], part: Any) -> Reply:
        model = request.get("model")
        if model not in self.models:
            return as_json({"error": f"model '{model}' not found"}, status=404)
        reloaded = self._load(request)
        counts = self.engine.evaluate(request)
        envelope = {"model": model, "created_at": CREATED}
        final = {"done": True, "done_reason": "stop", **self._final(counts, reloaded=reloaded)}
        if request.get("stream") is False:
            return as_json({**envelope, **part(self.engine.answer), **final}, head_delay=counts.wait)
        lines = [{**envelope, **part(word), "done": False} for word in self.engine.words()]
        return ndjson([*lines, {**envelope, **part(""), **final}], first=counts.wait, gap=self.engine.gap)

    def _final(self, counts: Counts, *, reloaded: bool) -> dict[str, Any]:
        prefill = max(1000, int(counts.wait * 1e9))
        load = 900_000_000 if reloaded else 20_000_000
        decode = int(self.engine.decode_s * counts.output * 1e9)
        fields: dict[str, Any] = {
            "total_duration": load + prefill + decode,
            "load_duration": load,
            "prompt_eval_count": counts.prompt,
            "prompt_eval_cached_count": counts.cached,
            "prompt_eval_duration": prefill,
            "eval_count": counts.output,
            "eval_duration": decode,
        }
        if not self._since(0, 33, 3):
            del fields["prompt_eval_cached_count"]
        return {name: value for name, value in {**fields, **self.metrics}.items() if value is not None}

    def _since(self, *version: int) -> bool:
        return tuple(map(int, self.version.split("."))) >= version

    def _embed(self, received: Received) -> Reply:
        request = received.json()
        inputs = request.get("input")
        count = len(inputs) if isinstance(inputs, list) else 1
        self._load(request)
        return as_json(
            {
                "model": request.get("model"),
                "embeddings": [[0.5, 0.25]] * count,
                "total_duration": 1000000,
                "load_duration": 1000,
                "prompt_eval_count": 4 * count,
            }
        )


def _listed(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1764417600, "owned_by": "library"}
