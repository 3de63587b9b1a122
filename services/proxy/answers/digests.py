"""Which weights stand behind a model's name, as far as the backend tells; owns what it last told of each.

A name stays when a model is pulled anew, or when another file is served under it; answers of the old one must
not. Asked in the background while there is traffic: only the first request may wait, and not for long.
"""

import asyncio
import time
from typing import Any

from services.probe import ask
from services.proxy.backends.backend import Backend

FRESH_S = 10.0  # how long a changed model may go unnoticed, unless the change came through this proxy
WAIT_S = 0.04  # for the very first answer; Ollama gives it in 1 to 5 ms
# Calls after which a name may stand for something else.
CHANGING = ("/api/pull", "/api/create", "/api/copy", "/api/delete")


class Digests:
    """The models of each backend by name."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, dict[str, str]]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def of(self, backend: Backend, model: str) -> str:
        """The digest of a model; empty where the backend does not tell."""
        if backend.kind not in {None, "ollama", "llama-server"}:
            return ""
        at, models = self._known.get(backend.url, (0.0, None))
        if models is None or time.monotonic() - at > FRESH_S:
            task = self._asking.get(backend.url)
            if task is None or task.done():
                task = self._asking[backend.url] = asyncio.create_task(self._ask(backend))
            if models is None:
                await asyncio.wait({task}, timeout=WAIT_S)
                _, models = self._known.get(backend.url, (0.0, {}))
        return models.get(model) or models.get(f"{model}:latest") or models.get("", "")

    def changed(self, backend: Backend) -> None:
        """What was told of a backend may be true no more: the next request waits for news."""
        self._known.pop(backend.url, None)

    async def close(self) -> None:
        """Let go of questions under way."""
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)

    async def _ask(self, backend: Backend) -> None:
        models = await asyncio.to_thread(_models, backend.url, backend.kind)
        if models is not None:
            self._known[backend.url] = time.monotonic(), models
        elif backend.url in self._known:  # it does not answer now; it is the same server for all we know
            self._known[backend.url] = time.monotonic(), self._known[backend.url][1]


def _models(url: str, kind: str | None) -> dict[str, str] | None:
    """Digests by name, under an empty name what serves all; None where nobody answers. Blocking."""
    if kind == "llama-server":
        props = ask(url, "/props")
        path = _field(props.body, "model_path") if props else None
        return None if props is None else {"": str(path)} if path else {}
    tags = ask(url, "/api/tags")
    if tags is None:
        return None
    listed = _field(tags.body, "models")
    models = [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else []
    return {str(model.get("name")): str(model["digest"]) for model in models if model.get("digest")}


def _field(body: Any, name: str) -> Any:
    return body.get(name) if isinstance(body, dict) else None
