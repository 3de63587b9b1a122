"""Answers of the Responses API, streamed and not; owns the reply of one answer."""

from collections.abc import Callable

import msgspec
from msgspec import Raw

from services.proxy.chunking.cut import NONE, is_set, text_of
from services.proxy.dialects.base import Outcome, Reply
from services.proxy.dialects.lenient import decode_answer
from services.proxy.dialects.reply import MAX_REPLY, Part, PartKind, ReplyParts
from services.proxy.dialects.usage_fields import counters, error_code
from services.proxy.prompt import Section

_STRIDE = 64  # keys of parts: output index × 64 + content index


class _Response(msgspec.Struct, gc=False):
    status: Raw = NONE
    output: list[Raw] | None = None
    usage: Raw = NONE
    error: Raw = NONE


class _Item(msgspec.Struct, gc=False):
    type: str = ""
    name: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    delta: Raw = NONE
    output_index: int = 0
    content_index: int = 0
    item: _Item | None = None
    response: _Response | None = None
    error: Raw = NONE
    timings: Raw = NONE


_decoder = msgspec.json.Decoder(_Event)
_whole = msgspec.json.Decoder(_Response)

_DELTAS: dict[str, PartKind] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.function_call_arguments.delta": "call",
    "response.custom_tool_call_input.delta": "call",
}
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.done"})

EntryReader = Callable[[Raw], tuple[str, list[Section]]]


class ResponsesReader:
    """Reads typed events; the final one repeats the whole output, which then is the reply."""

    def __init__(self, read_item: EntryReader) -> None:
        self.outcome = Outcome()
        self._parts = ReplyParts()
        self._read_item = read_item
        self._output: list[Raw] | None = None

    def event(self, name: bytes, data: bytes) -> bool:
        """One event; whether it carried generated text, reasoning or a tool call."""
        if data[:6] == b"[DONE]":
            return False
        event = decode_answer(_decoder, data, halves=True)
        key = event.output_index * _STRIDE + event.content_index
        if event.type in _DELTAS:
            text = text_of(event.delta) or ""
            self._parts.add(key, _DELTAS[event.type], text)
            return bool(text)
        if event.type == "response.output_item.added" and event.item and event.item.type in _CALLS:
            self._parts.add(key, "call", "", event.item.name or "")
            return True
        if event.type == "error" or name == b"error" or is_set(event.error):
            self.outcome.error = error_code(event.error if is_set(event.error) else data)
        if event.timings:
            self.outcome.reported |= counters("timings", event.timings)
        if event.type in _ENDS and event.response is not None:
            self._finish(event.response)
        return False

    def whole(self, data: bytes) -> None:
        """The answer in one piece."""
        self._finish(decode_answer(_whole, data))

    def _finish(self, response: _Response) -> None:
        outcome = self.outcome
        outcome.terminal = True
        outcome.finish_reason = (text_of(response.status) or "")[:64] or None
        outcome.reported |= counters("usage", response.usage)
        if is_set(response.error):
            outcome.error = error_code(response.error)
        if response.output and sum(len(bytes(item)) for item in response.output) <= MAX_REPLY:
            self._output = response.output

    def reply(self) -> Reply | None:
        """What was said. Paths begin with the output item's index, because items are replayed one by one."""
        if self._output is None:
            return self._from_deltas()
        sections = []
        for k, item in enumerate(self._output):
            sections += [part._replace(path=f"[{k}]{part.path}") for part in self._read_item(item)[1]]
        return Reply(sections=sections) if sections else None

    def _from_deltas(self) -> Reply | None:
        parts = self._parts.parts
        sections = []
        for key in sorted(parts):
            sections += _sections(f"[{key // _STRIDE}]", parts[key])
        sections = [section for section in sections if section.text]
        return Reply(sections=sections, truncated=self._parts.truncated) if sections else None


_CALLS = frozenset({"function_call", "custom_tool_call"})


def _sections(path: str, part: Part) -> list[Section]:
    if part.kind == "reasoning":
        return [Section(f"{path}.reasoning", "reasoning", part.text)]
    if part.kind == "text":
        return [Section(path, "text", part.text)]
    return [
        Section(f"{path}.name", "name", part.name.encode("utf-8", "replace")),
        Section(f"{path}.arguments", "json", part.text),
    ]
