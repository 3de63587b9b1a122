"""A conversation with a cloud model, what went out of it, and what its turns cost by hand."""

import json
from typing import Any

from tests.support.anthropic_cache import Usage
from tests.support.http import Answer
from tests.support.proxy import Proxy

OUTPUT = 8
RULES = "Follow the rules. " * 800  # 3,600 tokens
TOOL = {"name": "run", "description": "Runs a command. " * 600, "input_schema": {"type": "object"}}
MARK = {"type": "ephemeral"}
OPEN, CONTROL = b'[{"type":"text","text":', b',"cache_control":{"type":"ephemeral"}'


def turn(number: int, **more: Any) -> dict[str, Any]:
    """The request of a conversation's nth turn, counted from 0; each adds 400 tokens and an answer."""
    messages: list[dict[str, Any]] = []
    for k in range(number):
        messages += [
            {"role": "user", "content": f"Question {k:04d}. " * 100},
            {"role": "assistant", "content": "ok"},
        ]
    messages.append({"role": "user", "content": f"Question {number:04d}. " * 100})
    return {
        "model": "claude-sonnet-5", "max_tokens": OUTPUT, "tools": [TOOL], "system": RULES,
        "messages": messages, **more,
    }  # fmt: skip


def by_hand(usage: Usage) -> tuple[float, float]:
    """Dollars with caching and without, by Sonnet 5's list prices."""
    cost = usage.fresh * 2 + usage.read * 0.2 + usage.written * 2.5 + usage.written_1h * 4 + OUTPUT * 10
    return cost / 1e6, (usage.total * 2 + OUTPUT * 10) / 1e6


def send(proxy: Proxy, value: dict[str, Any], session: str) -> Answer:
    """One request of a session, so that tests do not continue one another."""
    headers = [("X-MetalAnchor-Session", session), ("x-api-key", session)]
    answer = proxy.chat(value, headers, path="/v1/messages")
    assert answer.status == 200, answer.body
    return answer


def as_sent(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def without_marks(out: bytes) -> bytes:
    """A body that went out, less what the proxy puts in; anything else that it did would be left over."""
    left, at, opened = bytearray(), 0, False
    while True:
        marks = (OPEN, CONTROL + b"}]" if opened else CONTROL)
        found = [(out.find(mark, at), mark) for mark in marks if mark in out[at:]]
        if not found:
            return bytes(left) + out[at:]
        start, mark = min(found)
        opened = mark == OPEN or (opened and mark != marks[1])
        left += out[at:start]
        at = start + len(mark)
