"""Conversations over the real wire: a proxy process a kind of backend, which reports what it is told.

`stories` starts each pair once a session. A `Story` keeps to a model of its own, so that tests do not meet.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.backend import Backend
from tests.support.backend.script import Reply, as_json, sse
from tests.support.http import Answer
from tests.support.proxy import Proxy

CHAT, RESPONSES, MESSAGES, OLLAMA = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"
EXPLAINED_S = 5.0

Body = dict[str, Any]


@dataclass
class Told:
    """One request's answer, and what the proxy says about it."""

    answer: Answer
    explain: dict[str, Any]

    @property
    def codes(self) -> list[str]:
        """Cause codes in order."""
        return [cause["code"] for cause in self.explain["causes"]]

    @property
    def cause(self) -> str | None:
        """What the header says."""
        return self.answer.ours.get("cause")

    @property
    def hit(self) -> str | None:
        """What the header says."""
        return self.answer.ours.get("hit")

    @property
    def id(self) -> str:
        """The request's id."""
        return self.answer.ours["request-id"]

    def detail(self, code: str) -> dict[str, Any]:
        """The detail of one cause."""
        return next(dict(cause["detail"]) for cause in self.explain["causes"] if cause["code"] == code)


class Story:
    """Requests through one proxy, under a model name of their own."""

    def __init__(self, backend: Backend, proxy: Proxy, model: str) -> None:
        self.backend, self.proxy, self.model = backend, proxy, model

    def say(
        self,
        body: Body,
        *,
        path: str = CHAT,
        tokens: tuple[int | None, int | None] = (None, None),
        reply: Body | None = None,
        answer: Reply | None = None,
        headers: list[tuple[str, str]] | None = None,
        **more: Any,
    ) -> Told:
        """Send a body; the backend reports `tokens` (prompt, cached), or gives `answer`."""
        made = answer or answered(path, tokens, reply, **more)
        self.backend.queue(made)
        sent = {"model": self.model, **body}
        return self.explained(self.proxy.chat(sent, headers, path))

    def explained(self, answer: Answer) -> Told:
        """The explanation of an answered request, once it is settled."""
        end = time.monotonic() + EXPLAINED_S
        target = f"/metalanchor/api/requests/{answer.ours['request-id']}/explain"
        while True:
            found = self.proxy.request("GET", target)
            if found.status == 200 or time.monotonic() > end:
                break
            time.sleep(0.01)
        assert found.status == 200, found.body
        return Told(answer, json.loads(found.body))


def answered(
    path: str, tokens: tuple[int | None, int | None], reply: Body | None = None, **more: Any
) -> Reply:
    """A non-streamed answer of a route with its counters; `more` are members of it."""
    total, cached = tokens
    message = {"role": "assistant", **(reply or {"content": "ok"})}
    if path == OLLAMA:
        counts = {"prompt_eval_count": total, "prompt_eval_cached_count": cached, "eval_count": 3}
        told = {name: value for name, value in counts.items() if value is not None}
        return as_json(
            {"model": "m", "message": message, "done": True, "done_reason": "stop", **told, **more}
        )
    if path == MESSAGES:
        usage = {
            "input_tokens": (total or 0) - (cached or 0),
            "cache_read_input_tokens": cached or 0,
            "output_tokens": 3,
        }
        content = [{"type": "text", "text": message["content"]}]
        return as_json({"type": "message", "role": "assistant", "content": content, "usage": usage, **more})
    usage = {"prompt_tokens": total, "completion_tokens": 3}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return as_json({"choices": [choice], **({"usage": usage} if total is not None else {}), **more})


def streamed(text: str, tokens: tuple[int | None, int | None] = (None, None), first: float = 0.0) -> Reply:
    """A streamed chat answer whose first token comes after `first` seconds."""
    total, cached = tokens
    usage: Body = {"prompt_tokens": total, "completion_tokens": 3}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    events = [
        {"choices": [{"index": 0, "delta": {"content": text}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    if total is not None:
        events.append({"choices": [], "usage": usage})
    return sse([*events, "data: [DONE]\n\n"], first=first)


NewStory = Callable[..., Story]
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewStory]:
    """Makes a story for a kind of backend that is probed, as in ``stories("llama-server", slots=2)``."""
    pairs: dict[tuple[Any, ...], tuple[Backend, Proxy]] = {}

    def new(kind: str = "llama-server", *, slots: int = 1, version: str = "0.33.3", **settings: Any) -> Story:
        key = (kind, slots, version, *sorted(settings.items()))
        if key not in pairs:
            pairs[key] = _pair(tmp_path_factory.mktemp("story"), kind, slots, version, settings)
        return Story(*pairs[key], f"model-{next(_numbers)}")

    yield new
    for backend, proxy in pairs.values():
        code = proxy.stop()
        backend.stop()
        assert code == 0
        assert " failed: " not in proxy.log.read_text(), proxy.log.read_text()


def _pair(
    folder: Path, kind: str, slots: int, version: str, settings: dict[str, Any]
) -> tuple[Backend, Proxy]:
    backend = Backend().start()
    if kind == "ollama":
        backend.answer(as_json({"version": version}), "/api/version")
    if kind == "llama-server":
        props = {
            "default_generation_settings": {"n_ctx": 65_536},
            "total_slots": slots,
            "build_info": "b10472",
        }
        backend.answer(as_json(props), "/props")
    given = {} if kind in ("ollama", "llama-server", "unknown") else {"backend_kind": kind}
    proxy = Proxy(folder, backend.url, **given, **settings).start()
    end = time.monotonic() + 10
    while proxy.json("/status")["backend"].get("kind") != (None if kind == "unknown" else kind):
        assert time.monotonic() < end, proxy.json("/status")
        time.sleep(0.02)
    return backend, proxy
