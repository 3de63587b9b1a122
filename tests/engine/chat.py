"""Conversations with the real engine through the proxy, in the shapes that agents use."""

import json
from dataclasses import dataclass
from typing import Any

from services.probe import ask
from tests.support.http import Answer
from tests.support.proxy import Proxy
from tests.support.rows import wait_for

NEW_TOKENS = 12
PATIENCE_S = 100.0  # a cold prefill of 800 tokens takes 4 s on two quiet cores


def system_prompt(name: str, rules: int = 32) -> str:
    """About 700 tokens of instructions that no other name shares from the first word on."""
    lines = [f"{name} is the assistant of the {name} project."]
    lines += [
        f"Rule {n}: when asked about part {n * 7} of {name}, answer briefly and name it."
        for n in range(rules)
    ]
    return "\n".join(lines)


@dataclass
class Turn:
    """One answered request: what the engine said of itself, what the proxy said and recorded."""

    answer: Answer
    text: str
    cached: int
    prompt: int
    row: dict[str, Any]

    @property
    def ours(self) -> dict[str, str]:
        """The headers that the proxy added."""
        return self.answer.ours

    @property
    def measured_reuse(self) -> float:
        """The engine's own share of reused tokens."""
        return self.cached / self.prompt


@dataclass
class Stack:
    """A proxy before a real engine."""

    proxy: Proxy
    engine_url: str

    def post(self, path: str, value: dict[str, Any], headers: list[tuple[str, str]] | None = None) -> Answer:
        """One request, with patience for a cold prefill."""
        sent = [("Content-Type", "application/json"), *(headers or [])]
        with self.proxy.client(timeout=PATIENCE_S) as client:
            return client.request("POST", path, json.dumps(value).encode(), sent)

    def openai(self, messages: list[dict[str, Any]], *, stream: bool = False, **more: Any) -> Turn:
        """A chat completion."""
        body = {
            "model": "m",
            "messages": messages,
            "stream": stream,
            "max_tokens": NEW_TOKENS,
            "temperature": 0,
        }
        headers = more.pop("headers", None)
        answer = self.post("/v1/chat/completions", {**body, **more}, headers)
        assert answer.status == 200, answer.body
        parts = _events(answer.body) if stream else [json.loads(answer.body)]
        timings = parts[-1]["timings"]
        text = "".join(_text(part) for part in parts)
        return self._turn(answer, text, timings["cache_n"], timings["cache_n"] + timings["prompt_n"])

    def anthropic(self, system: str, messages: list[dict[str, Any]]) -> Turn:
        """A streamed message in Anthropic's shape."""
        body = {
            "model": "m",
            "system": system,
            "messages": messages,
            "stream": True,
            "max_tokens": NEW_TOKENS,
        }
        answer = self.post("/v1/messages", {**body, "temperature": 0})
        assert answer.status == 200, answer.body
        parts = _events(answer.body)
        usage: dict[str, int] = {}
        for part in parts:
            usage |= part.get("usage") or part.get("message", {}).get("usage") or {}
        text = "".join(part.get("delta", {}).get("text") or "" for part in parts)
        cached = usage["cache_read_input_tokens"]
        return self._turn(answer, text, cached, cached + usage["input_tokens"])

    def wait_busy(self) -> None:
        """Until a slot works."""
        wait_for(lambda: any(slot["is_processing"] for slot in self._slots()))

    def wait_idle(self) -> None:
        """Until no slot works."""
        # A batch under way is finished first: seconds on a machine that is busy with other things.
        wait_for(lambda: not any(slot["is_processing"] for slot in self._slots()), 60)

    def _slots(self) -> list[dict[str, Any]]:
        answer = ask(self.engine_url, "/slots", 30.0)
        assert answer is not None
        return list(answer.body)

    def _turn(self, answer: Answer, text: str, cached: int, prompt: int) -> Turn:
        return Turn(answer, text, cached, prompt, self.proxy.row(answer))


def _text(part: dict[str, Any]) -> str:
    choice = part["choices"][0] if part["choices"] else {}
    return (choice.get("delta") or choice.get("message") or {}).get("content") or ""


def _events(body: bytes) -> list[dict[str, Any]]:
    lines = [line[5:].strip() for line in body.split(b"\n") if line.startswith(b"data:")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]
