"""The Responses API: a stream whose last event repeats the whole answer. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from services.proxy.answers.forms.base import Event, Object, is_json, objects

_TEXTS = {"output_text": ("response.output_text", "text"), "refusal": ("response.refusal", "refusal"),
          "reasoning_text": ("response.reasoning_text", "text")}  # fmt: skip
_CALLS = {"function_call": ("response.function_call_arguments", "arguments"),
          "custom_tool_call": ("response.custom_tool_call_input", "input")}  # fmt: skip


class ResponsesForm:
    """``response`` and its events."""

    framing: Literal["sse"] = "sse"
    end = b""

    def join(self, events: list[Event]) -> Object | None:
        """The answer that the last event repeats."""
        if any(not isinstance(data, dict) for _, data in events):
            return None
        kinds = [data.get("type") for _, data in events if data != "[DONE]"]
        if not kinds or kinds[-1] != "response.completed" or "error" in kinds:
            return None
        whole = events[-1].data.get("response")
        return whole if isinstance(whole, dict) else None

    def split(self, whole: Object) -> list[Event]:
        """The events of an answer, each text in one delta."""
        begun = whole | {"status": "in_progress", "output": [], "usage": None}
        steps = [("response.created", {"response": begun}), ("response.in_progress", {"response": begun})]
        for index, item in enumerate(objects(whole.get("output"))):
            steps += _item_steps(index, item)
        steps.append(("response.completed", {"response": whole}))
        return [
            Event(kind, {"type": kind, "sequence_number": number, **members})
            for number, (kind, members) in enumerate(steps)
        ]

    def complete(self, whole: Object, asked: Mapping[str, Any]) -> bool:  # noqa: ARG002 part of the interface
        """The whole answer and each of its items are completed, and it says something."""
        if whole.get("status") != "completed" or whole.get("error") is not None:
            return False
        items = objects(whole.get("output"))
        if whole.get("incomplete_details") is not None or any(not _whole_item(item) for item in items):
            return False
        return any(item.get("type") in _CALLS or _speaks(item) for item in items)

    def only_usage(self, event: Event) -> bool:  # noqa: ARG002 part of the interface
        """Usage stands in the last event, asked for or not."""
        return False


def _whole_item(item: Object) -> bool:
    if item.get("status") not in {None, "completed"}:
        return False
    return item.get("type") != "function_call" or bool(item.get("name") and is_json(item.get("arguments")))


def _speaks(item: Object) -> bool:
    parts = objects(item.get("content"))
    return item.get("type") == "message" and any(part.get("text") or part.get("refusal") for part in parts)


def _item_steps(index: int, item: Object) -> Iterator[tuple[str, Object]]:
    where: Object = {"output_index": index}
    place: Object = where | {"item_id": item.get("id")}
    call = _CALLS.get(str(item.get("type")))
    empty = dict(item)
    if "status" in empty:
        empty["status"] = "in_progress"
    empty |= {name: [] for name in ("content", "summary") if isinstance(item.get(name), list)}
    empty |= {call[1]: ""} if call else {}
    yield "response.output_item.added", where | {"item": empty}
    for number, part in enumerate(objects(item.get("summary"))):
        at = place | {"summary_index": number}
        yield from _part_steps(
            "response.reasoning_summary", at, part, ("response.reasoning_summary_text", "text")
        )
    for number, part in enumerate(objects(item.get("content"))):
        said = _TEXTS.get(str(part.get("type")))
        yield from _part_steps("response.content", place | {"content_index": number}, part, said)
    if call:
        kind, member = call
        yield f"{kind}.delta", place | {"delta": item.get(member) or ""}
        yield f"{kind}.done", place | {member: item.get(member) or ""}
    yield "response.output_item.done", where | {"item": item}


def _part_steps(
    kind: str, at: Object, part: Object, said: tuple[str, str] | None
) -> Iterator[tuple[str, Object]]:
    empty = part | ({said[1]: ""} if said else {})
    yield f"{kind}_part.added", at | {"part": empty}
    if said:
        name, member = said
        yield f"{name}.delta", at | {"delta": part.get(member) or ""}
        yield f"{name}.done", at | {member: part.get(member) or ""}
    yield f"{kind}_part.done", at | {"part": part}
