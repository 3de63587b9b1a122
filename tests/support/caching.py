"""A real proxy with the response cache on, a real Valkey, and a scripted backend that counts its calls.

Tests of one module share the three; each takes a model of its own, so that no test sees another's answers.
"""

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.backend import Backend, Received, Reply, as_json, sse
from tests.support.http import Answer, Headers
from tests.support.proxy import Proxy, Wire
from tests.support.rows import queued, wait_for
from tests.support.valkey import Valkey

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
MESSAGES, OLLAMA, GENERATE = "/v1/messages", "/api/chat", "/api/generate"
_numbers = itertools.count(1)


def chat(text: str = "Capital of France?", **more: Any) -> dict[str, Any]:
    """A request to chat completions."""
    return {"messages": [{"role": "user", "content": text}], **more}


def said(text: str = "Paris.", **more: Any) -> dict[str, Any]:
    """A complete answer of chat completions."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "choices": [choice],
        "usage": usage,
    } | more


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk of a streamed one; without a delta one without choices."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "choices": choices, **more}


def streamed(*words: str, finish: str | None = "stop", done: bool = True) -> Reply:
    """A streamed answer of chat completions."""
    events: list[Any] = [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": word}) for word in words),
    ]
    events += [chunk({}, finish)] if finish else []
    return sse([*events, *(["data: [DONE]\n\n"] if done else [])])


class Caching(Wire):
    """The three, and a model that only this test asks."""

    def __init__(self, backend: Backend, proxy: Proxy, valkey: Valkey) -> None:
        super().__init__(backend, proxy)
        self.valkey = valkey
        self.model = f"model-{next(_numbers)}"

    def ask(
        self, body: dict[str, Any], path: str = CHAT, control: str = "", headers: Headers | None = None
    ) -> Answer:
        """One request, with what `control` asks of the cache."""
        more = [("X-MetalAnchor-Cache-Control", control)] if control else []
        return self.proxy.chat({"model": self.model, **body}, [*(headers or []), *more], path)

    def verdicts(self, *bodies: dict[str, Any], path: str = CHAT, **how: Any) -> list[str]:
        """What the header says of each, asked in order."""
        return [self.ask(body, path, **how).ours["cache"] for body in bodies]

    @property
    def calls(self) -> list[Received]:
        """The backend's calls for this test's model."""
        posts = [received for received in self.received if received.method == "POST"]
        return [received for received in posts if self.model.encode() in received.body]

    def row(self, answer: Answer) -> dict[str, Any]:
        """The row of an answered request, as it was queued."""
        wanted = answer.ours["request-id"]

        def found() -> dict[str, Any] | None:
            return next((row for row in queued(self.valkey) if row["id"] == wanted), None)

        row = wait_for(found)
        assert row is not None
        return row


def start(folder: Any, backend: Backend, valkey: Valkey, **settings: Any) -> Proxy:
    """A proxy with the cache on, which a busy machine makes late but no different."""
    own = {"redis_url": valkey.url, "response_cache": "exact", "patient": True} | settings
    return Proxy(folder, backend.url, **own).start()


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[Caching]:
    """The three with settings of their own; the proxy ends well and has nothing to complain of."""
    valkey, backend = Valkey(folder), Backend().start()
    valkey.start()
    proxy = start(folder / "proxy", backend, valkey, **settings)
    yield Caching(backend, proxy, valkey)
    code = proxy.stop()
    backend.stop()
    valkey.stop()
    assert code == 0
    log = proxy.log.read_text()
    assert "Traceback" not in log
    assert " ERROR " not in log, log


def next_test(parts: Caching) -> Caching:
    """The three, with a model that only this test asks; the backend says `Paris.` until told otherwise."""
    parts.backend.reset()
    made = Caching(parts.backend, parts.proxy, parts.valkey)
    made.answer(as_json(said()))
    return made


@pytest.fixture(scope="module")
def cached_parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caching]:
    """The three that a module shares."""
    with running(tmp_path_factory.mktemp("cached")) as parts:
        yield parts


@pytest.fixture
def caching(cached_parts: Caching) -> Caching:
    """The shared three, as a test gets them."""
    return next_test(cached_parts)


def data_of(answer: Answer) -> list[Any]:
    """The JSON of a stream's events, or of its lines, without the mark at the end."""
    lines = [line.removeprefix(b"data: ") for line in answer.body.splitlines()]
    return [json.loads(line) for line in lines if line.startswith(b"{")]
