"""Anthropic messages, by Anthropic and by the local servers that speak it. `cache_control` is no content."""

from typing import Literal

import msgspec
from msgspec import Raw

from services.proxy.chunking.cut import NONE, is_set
from services.proxy.dialects import build
from services.proxy.dialects.base import Family, Outcome, Reply
from services.proxy.dialects.content import Block, json_text
from services.proxy.dialects.envelope import Envelope
from services.proxy.dialects.lenient import decode_answer
from services.proxy.dialects.listed import ListDialect
from services.proxy.dialects.reply import ReplyParts
from services.proxy.dialects.tap import AnswerTap
from services.proxy.dialects.usage_fields import counters, error_code
from services.proxy.prompt import Prompt


class Anthropic(ListDialect):
    """``POST /v1/messages``. In-band system messages are system text only before the first turn."""

    name = "anthropic"
    family: Family = "anthropic"

    def parts(self, envelope: Envelope) -> build.Parts:
        """Everything but the messages."""
        return super().parts(envelope)._replace(system=envelope.system)

    def tap(self, prompt: Prompt | None, content_type: str, content_encoding: str) -> AnswerTap:
        """A listener for the answer."""
        del prompt, content_type
        return AnswerTap(AnthropicReader(), content_encoding, lines=False)


class _Delta(msgspec.Struct, gc=False):
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _Started(msgspec.Struct, gc=False):
    usage: Raw = NONE


class _Event(msgspec.Struct, gc=False):
    """An event of a stream, or an answer in one piece."""

    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: Block | None = None
    message: _Started | None = None
    content: list[Block] | None = None
    stop_reason: str | None = None
    usage: Raw = NONE
    timings: Raw = NONE
    error: Raw = NONE


_decoder = msgspec.json.Decoder(_Event)


class AnthropicReader:
    """Reads named events by their `type`. The first usage is kept apart: Ollama's is a guess from bytes."""

    def __init__(self) -> None:
        self.outcome = Outcome()
        self._parts = ReplyParts()

    def event(self, name: bytes, data: bytes) -> bool:
        """One event; whether it carried generated text, thinking or a tool call."""
        del name
        event = decode_answer(_decoder, data, halves=True)
        if event.type == "content_block_delta" and event.delta is not None:
            return self._add(event.index, event.delta)
        if event.type == "content_block_start" and event.content_block is not None:
            return self._start(event.index, event.content_block)
        if event.type == "message_start" and event.message is not None:
            self.outcome.reported |= counters("message_start.usage", event.message.usage)
        elif event.type == "message_delta" and event.delta is not None:
            self._stopped(event.delta.stop_reason)
        elif event.type == "message_stop":
            self.outcome.terminal = True
        self._report(event)
        return False

    def whole(self, data: bytes) -> None:
        """The answer in one piece."""
        answer = decode_answer(_decoder, data)
        for index, block in enumerate(answer.content or ()):
            self._start(index, block)
        self._stopped(answer.stop_reason)
        self._report(answer)

    def reply(self) -> Reply | None:
        """What was said."""
        return self._parts.reply()

    def _start(self, index: int, block: Block) -> bool:
        if block.type == "tool_use":
            arguments = json_text(block.input)
            text = "" if arguments == b"{}" else arguments.decode("utf-8", "replace")
            self._parts.add(index, "call", text, block.name or "")
            return True
        kind: Literal["text", "reasoning"] = "reasoning" if block.type in _THOUGHTS else "text"
        text = block.text or block.thinking or block.data or ""
        self._parts.add(index, kind, text)
        return bool(text)

    def _add(self, index: int, delta: _Delta) -> bool:
        if delta.text:
            self._parts.add(index, "text", delta.text)
        elif delta.thinking:
            self._parts.add(index, "reasoning", delta.thinking)
        elif delta.partial_json:
            self._parts.add(index, "call", delta.partial_json)
        else:
            return False
        return True

    def _stopped(self, reason: str | None) -> None:
        if reason:
            self.outcome.finish_reason = reason[:64]
            self.outcome.terminal = True

    def _report(self, event: _Event) -> None:
        if event.usage:
            self.outcome.reported |= counters("usage", event.usage)
        if event.timings:
            self.outcome.reported |= counters("timings", event.timings)
        if is_set(event.error):
            self.outcome.error = error_code(event.error)


_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
