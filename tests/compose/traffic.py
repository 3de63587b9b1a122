"""Steady mixed traffic through a proxy, and the client's own list of what it was answered."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import openai

from tests.support.proxy import Proxy


@dataclass
class Entry:
    """One request as the client saw it."""

    id: str
    endpoint: str
    model: str
    hit: str
    session: str
    http_status: int
    stream: bool
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    seconds: float = field(default=0.0, compare=False)


def converse(proxy: Proxy, turns: int, *, stream: bool) -> list[Entry]:
    """A conversation of the official OpenAI client: each turn repeats the ones before it."""
    entries = []
    messages: Any = [{"role": "system", "content": "You are a careful assistant. " * 40}]
    with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="sk-test", max_retries=0) as client:
        for turn in range(turns):
            messages.append({"role": "user", "content": f"Question {turn}, stream {stream}?"})
            raw = client.chat.completions.with_raw_response.create(
                model="scripted", messages=messages, stream=stream,
                stream_options={"include_usage": True} if stream else openai.NOT_GIVEN,
            )  # fmt: skip
            reply, usage = _answer(raw.parse(), stream=stream)
            messages.append({"role": "assistant", "content": reply})
            entries.append(_entry(raw, usage, stream=stream))
    return entries


def _answer(parsed: Any, *, stream: bool) -> tuple[str, Any]:
    if not stream:
        return parsed.choices[0].message.content, parsed.usage
    parts, usage = [], None
    for event in parsed:
        usage = event.usage or usage
        parts += [choice.delta.content or "" for choice in event.choices]
    return "".join(parts), usage


def _entry(raw: Any, usage: Any, *, stream: bool) -> Entry:
    ours = {name.lower().removeprefix("x-metalanchor-"): value for name, value in raw.headers.items()}
    return Entry(
        id=ours["request-id"], endpoint="/v1/chat/completions", model="scripted", hit=ours["hit"],
        session=ours["session"], http_status=raw.status_code, stream=stream,
        prompt_tokens=usage.prompt_tokens, cached_tokens=usage.prompt_tokens_details.cached_tokens,
    )  # fmt: skip


class Traffic:
    """Threads that send without pause, each a conversation in an API of its own, until told to stop."""

    BODIES: tuple[tuple[str, Callable[[list[Any]], dict[str, Any]]], ...] = (
        ("/v1/chat/completions", lambda messages: {"model": "scripted", "messages": messages}),
        (
            "/v1/chat/completions",
            lambda messages: {"model": "scripted", "messages": messages, "stream": True},
        ),
        ("/v1/completions", lambda messages: {"model": "scripted", "prompt": json.dumps(messages)}),
    )

    def __init__(self, proxy: Proxy) -> None:
        self.entries: list[Entry] = []
        self.failed: list[str] = []
        self._proxy = proxy
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(n,)) for n in range(len(self.BODIES))]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _send(self, number: int) -> None:
        path, body = self.BODIES[number]
        turn = 0
        while not self._stopping.wait(0.05):
            turn += 1
            # Twenty turns a conversation, then a new one.
            said = [f"Conversation {number}.{turn // 20}, turn {n}" for n in range(turn % 20 + 1)]
            value = body([{"role": "user", "content": text} for text in said])
            self._one(path, value)

    def _one(self, path: str, value: dict[str, Any]) -> None:
        begun = time.monotonic()
        try:
            answer = self._proxy.chat(value, path=path)
        except (OSError, AssertionError) as error:
            self.failed.append(f"{path}: {error!r}")
            return
        ours = answer.ours
        if answer.status != 200 or answer.broken:
            self.failed.append(f"{path}: {answer.status} {answer.body[:200]!r}")
        self.entries.append(
            Entry(
                id=ours["request-id"], endpoint=path, model=value["model"], hit=ours["hit"],
                session=ours["session"], http_status=answer.status, stream=bool(value.get("stream")),
                seconds=time.monotonic() - begun,
            )
        )  # fmt: skip
