"""Conversations without an API, and how each API writes them: the bodies of the labelled set.

A `Talk` is what a client means; `body` says it in the words of one dialect, `answer` what the server replies.
"""

import copy
import json
from dataclasses import dataclass, field
from typing import Any

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "ollama": "/api/chat",
}
KINDS = {"chat": "llama-server", "responses": "llama-server", "anthropic": "llama-server", "ollama": "ollama"}
IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="


@dataclass
class Call:
    """A tool call: `arguments` is the JSON text as generated."""

    name: str
    arguments: str
    id: str = "call_1"


@dataclass
class Turn:
    """One message: of the user, the assistant, or a tool's result (`call_id` says of which call)."""

    role: str
    text: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    image: str = ""
    call_id: str = ""
    blocks: list[str] = field(default_factory=list)


@dataclass
class Talk:
    """A whole request in neutral form; `extra` are members of the body, set last."""

    system: list[str]
    tools: list[dict[str, Any]]
    turns: list[Turn]
    model: str = "m"
    extra: dict[str, Any] = field(default_factory=dict)

    def copy(self) -> "Talk":
        """An independent copy to be changed."""
        return copy.deepcopy(self)


def body(dialect: str, talk: Talk) -> dict[str, Any]:
    """The request body in a dialect."""
    return {**_BODIES[dialect](talk), **talk.extra}


def answer(dialect: str, turn: Turn, total: int | None, cached: int | None) -> dict[str, Any]:
    """The non-streamed answer that amounts to `turn`, with its counters."""
    return _ANSWERS[dialect](turn, total, cached)


def _chat_message(turn: Turn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": turn.role, "content": turn.text or None}
    if turn.role != "assistant":
        message["content"] = turn.text
    if turn.blocks or turn.image:
        texts = turn.blocks or [turn.text]
        message["content"] = [{"type": "text", "text": text} for text in texts]
        if turn.image:
            url = f"data:image/png;base64,{turn.image}"
            message["content"].append({"type": "image_url", "image_url": {"url": url}})
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.calls:
        message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in turn.calls
        ]
    if turn.call_id:
        message["tool_call_id"] = turn.call_id
    return message


def _chat(talk: Talk) -> dict[str, Any]:
    system = [{"role": "system", "content": text} for text in talk.system]
    made: dict[str, Any] = {
        "model": talk.model,
        "messages": system + [_chat_message(turn) for turn in talk.turns],
    }
    if talk.tools:
        made["tools"] = [{"type": "function", "function": tool} for tool in talk.tools]
    return made


def _chat_answer(turn: Turn, total: int | None, cached: int | None) -> dict[str, Any]:
    usage: dict[str, Any] = {"prompt_tokens": total, "completion_tokens": 20}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    choice = {"index": 0, "message": _chat_message(turn), "finish_reason": "stop"}
    return {"choices": [choice], **({"usage": usage} if total is not None else {})}


def _responses_items(turn: Turn) -> list[dict[str, Any]]:
    if turn.call_id:
        return [{"type": "function_call_output", "call_id": turn.call_id, "output": turn.text}]
    items: list[dict[str, Any]] = []
    if turn.reasoning:
        items.append(
            {
                "type": "reasoning",
                "content": [{"type": "reasoning_text", "text": turn.reasoning}],
                "summary": [],
            }
        )
    kind = "output_text" if turn.role == "assistant" else "input_text"
    texts = turn.blocks or ([turn.text] if turn.text else [])
    content: list[dict[str, Any]] = [{"type": kind, "text": text} for text in texts]
    if turn.image:
        content.append({"type": "input_image", "image_url": f"data:image/png;base64,{turn.image}"})
    if content:
        items.append({"type": "message", "role": turn.role, "content": content})
    items += [
        {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments}
        for c in turn.calls
    ]
    return items


def _responses(talk: Talk) -> dict[str, Any]:
    developer = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}
        for text in talk.system
    ]
    items = [item for turn in talk.turns for item in _responses_items(turn)]
    made: dict[str, Any] = {"model": talk.model, "input": developer + items, "store": False}
    if talk.tools:
        made["tools"] = [{"type": "function", **tool} for tool in talk.tools]
    return made


def _responses_answer(turn: Turn, total: int | None, cached: int | None) -> dict[str, Any]:
    usage: dict[str, Any] = {"input_tokens": total, "output_tokens": 20}
    if cached is not None:
        usage["input_tokens_details"] = {"cached_tokens": cached}
    output = _responses_items(turn)
    return {
        "object": "response",
        "status": "completed",
        "output": output,
        **({"usage": usage} if total else {}),
    }


def _anthropic_message(turn: Turn) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    if turn.call_id:
        return {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": turn.call_id, "content": turn.text}],
        }
    if turn.reasoning:
        blocks.append({"type": "thinking", "thinking": turn.reasoning, "signature": "s"})
    blocks += [{"type": "text", "text": text} for text in (turn.blocks or ([turn.text] if turn.text else []))]
    if turn.image:
        blocks.append(
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": turn.image}}
        )
    blocks += [
        {"type": "tool_use", "id": c.id, "name": c.name, "input": _Verbatim.of(c.arguments)}
        for c in turn.calls
    ]
    return {"role": turn.role, "content": blocks}


class _Verbatim:
    """An argument object whose key order is that of its text (spacing is the serialiser's)."""

    @staticmethod
    def of(text: str) -> Any:
        return json.loads(text)


def _anthropic(talk: Talk) -> dict[str, Any]:
    made: dict[str, Any] = {
        "model": talk.model,
        "messages": [_anthropic_message(turn) for turn in talk.turns],
    }
    if talk.system:
        made["system"] = [{"type": "text", "text": text} for text in talk.system]
    if talk.tools:
        made["tools"] = [
            {"name": t["name"], "description": t["description"], "input_schema": t["parameters"]}
            for t in talk.tools
        ]
    return {**made, "max_tokens": 4096}


def _anthropic_answer(turn: Turn, total: int | None, cached: int | None) -> dict[str, Any]:
    usage: dict[str, Any] = {"output_tokens": 20}
    if total is not None:
        usage["input_tokens"] = total - (cached or 0)
    if cached is not None:
        usage["cache_read_input_tokens"] = cached
    content = _anthropic_message(turn)["content"]
    return {
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": "end_turn",
        "usage": usage,
    }


def _ollama_message(turn: Turn) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": turn.role,
        "content": "\n".join(turn.blocks) if turn.blocks else turn.text,
    }
    if turn.reasoning:
        message["thinking"] = turn.reasoning
    if turn.image:
        message["images"] = [turn.image]
    if turn.calls:
        message["tool_calls"] = [
            {"function": {"name": c.name, "arguments": json.loads(c.arguments)}} for c in turn.calls
        ]
    if turn.call_id:
        message["tool_name"] = "read_file"
    return message


def _ollama(talk: Talk) -> dict[str, Any]:
    system = [{"role": "system", "content": text} for text in talk.system]
    messages = system + [_ollama_message(turn) for turn in talk.turns]
    made: dict[str, Any] = {"model": talk.model, "messages": messages, "stream": False}
    if talk.tools:
        made["tools"] = [{"type": "function", "function": tool} for tool in talk.tools]
    return made


def _ollama_answer(turn: Turn, total: int | None, cached: int | None) -> dict[str, Any]:
    told = {"prompt_eval_count": total, "prompt_eval_cached_count": cached, "eval_count": 20}
    counts = {name: value for name, value in told.items() if value is not None}
    return {"model": "m", "message": _ollama_message(turn), "done": True, "done_reason": "stop", **counts}


_BODIES = {"chat": _chat, "responses": _responses, "anthropic": _anthropic, "ollama": _ollama}
_ANSWERS = {
    "chat": _chat_answer,
    "responses": _responses_answer,
    "anthropic": _anthropic_answer,
    "ollama": _ollama_answer,
}
