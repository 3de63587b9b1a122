"""Anthropic messages: content blocks by index, each started, grown and stopped. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from services.proxy.answers.forms.base import BrokenError, Event, Object, is_json, objects, overlay

FINISHED = frozenset({"end_turn", "tool_use", "stop_sequence"})
# How a block's own member is called in its deltas: (type of the delta, member of the delta, of the block).
_DELTAS = (
    ("text_delta", "text", "text"),
    ("thinking_delta", "thinking", "thinking"),
    ("signature_delta", "signature", "signature"),
)
_ARGUMENTS = "\0arguments"  # where a call's JSON grows until its block stops; no member is called so


class AnthropicForm:
    """``message`` and its events."""

    framing: Literal["sse"] = "sse"
    end = b""

    def join(self, events: list[Event]) -> Object | None:
        """The message that a stream amounts to."""
        whole: Object = {}
        blocks: dict[int, Object] = {}
        open_: set[int] = set()
        ended = False
        try:
            for _, data in events:
                kind = data["type"]
                if kind == "error" or (ended and kind != "ping"):
                    return None
                if kind == "message_start":
                    whole = dict(data["message"])
                elif kind == "content_block_start":
                    blocks[data["index"]] = dict(data["content_block"])
                    open_.add(data["index"])
                elif kind == "content_block_delta":
                    _grow_block(blocks[data["index"]], data["delta"])
                elif kind == "content_block_stop":
                    open_.remove(data["index"])
                    _close_block(blocks[data["index"]])
                elif kind == "message_delta":
                    _end(whole, data)
                ended |= kind == "message_stop"
        except (KeyError, TypeError, ValueError):
            return None
        if not whole or not ended or open_:
            return None
        whole["content"] = [blocks[index] for index in sorted(blocks)]
        return whole

    def split(self, whole: Object) -> list[Event]:
        """Each block with one delta a member."""
        ends = {"stop_reason": whole.get("stop_reason"), "stop_sequence": whole.get("stop_sequence")}
        usage = whole.get("usage") or {}
        started = whole | {"content": [], "stop_reason": None, "stop_sequence": None}
        events = [_event("message_start", message=started)]
        for index, block in enumerate(objects(whole.get("content"))):
            empty, deltas = _opened(block)
            events.append(_event("content_block_start", index=index, content_block=empty))
            events += [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
            events.append(_event("content_block_stop", index=index))
        events.append(_event("message_delta", delta=ends, usage=usage))
        events.append(_event("message_stop"))
        return events

    def complete(self, whole: Object, asked: Mapping[str, Any]) -> bool:  # noqa: ARG002 part of the interface
        """It stopped by itself, and says something."""
        if whole.get("type") == "error" or whole.get("error") is not None:
            return False
        if whole.get("stop_reason") not in FINISHED:
            return False
        blocks = objects(whole.get("content"))
        calls = [block for block in blocks if block.get("type") == "tool_use"]
        if not all(call.get("name") and is_json(call.get("input")) for call in calls):
            return False
        if whole["stop_reason"] == "tool_use" and not calls:
            return False  # its calls were lost on the way
        return bool(calls) or any(block.get("type") == "text" and block.get("text") for block in blocks)

    def only_usage(self, event: Event) -> bool:  # noqa: ARG002 part of the interface
        """Usage stands in events that are needed anyway."""
        return False


def _grow_block(block: Object, delta: Object) -> None:
    kind = delta["type"]
    for name, member, target in _DELTAS:
        if kind == name:
            block[target] = (block.get(target) or "") + delta[member]
            return
    if kind == "input_json_delta":
        block[_ARGUMENTS] = block.get(_ARGUMENTS, "") + delta["partial_json"]
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or []), delta["citation"]]
    else:
        raise BrokenError(kind)


def _close_block(block: Object) -> None:
    """Raises `ValueError` where a call's arguments are no JSON."""
    arguments = block.pop(_ARGUMENTS, "")
    if arguments:
        block["input"] = json.loads(arguments)


def _end(whole: Object, data: Object) -> None:
    usage = dict(whole.get("usage") or {})
    overlay(usage, data.get("usage") or {})
    overlay(whole, {**data["delta"], "usage": usage})


def _opened(block: Object) -> tuple[Object, list[Object]]:
    """The block as it starts, and the deltas that complete it."""
    if block.get("type") in {"tool_use", "server_tool_use"}:
        text = json.dumps(block.get("input") or {}, ensure_ascii=False, separators=(",", ":"))
        return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": text}]
    started, deltas = dict(block), []
    if block.get("type") in {"text", "thinking"}:
        for name, member, target in _DELTAS:
            if block.get(target):
                started[target] = ""
                deltas.append({"type": name, member: block[target]})
        citations = objects(started.pop("citations", None))
        deltas += [{"type": "citations_delta", "citation": citation} for citation in citations]
    return started, deltas


def _event(kind: str, **members: object) -> Event:
    return Event(kind, {"type": kind, **members})
