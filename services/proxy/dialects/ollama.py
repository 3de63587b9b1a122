"""Ollama's own routes: NDJSON that streams unless told not to, durations in nanoseconds, zeros left out."""

import msgspec
from msgspec import Raw

from services.proxy.chunking import cut
from services.proxy.dialects import build
from services.proxy.dialects.base import Family, Outcome, Reply
from services.proxy.dialects.content import Call, json_text
from services.proxy.dialects.envelope import Envelope, ollama_engine_of
from services.proxy.dialects.lenient import decode_answer
from services.proxy.dialects.listed import ListDialect
from services.proxy.dialects.prompted import PromptDialect
from services.proxy.dialects.reply import CALLS, REASONING, TEXT, ReplyParts
from services.proxy.dialects.tap import AnswerTap
from services.proxy.dialects.usage_fields import error_code
from services.proxy.prompt import Prompt


def _own(parts: build.Parts, envelope: Envelope, *, empty: bool) -> build.Parts:
    """Ollama's defaults: it streams, and a body without a prompt loads the model, or unloads it."""
    engine = ollama_engine_of(envelope)
    if empty:
        engine.unload = engine.keep_alive_s == 0
        engine.load = not engine.unload
    return parts._replace(
        kind="management" if empty else "generation",
        stream=cut.flag_of(envelope.stream) is not False,
        engine=engine,
    )


class OllamaChat(ListDialect):
    """``POST /api/chat``."""

    name = "ollama_chat"
    family: Family = "ollama"

    def parts(self, envelope: Envelope) -> build.Parts:
        """Everything but the messages."""
        return _own(super().parts(envelope), envelope, empty=not self.items(envelope))

    def tap(self, prompt: Prompt | None, content_type: str, content_encoding: str) -> AnswerTap:
        """A listener for the answer."""
        del content_type
        return _tap(prompt, content_encoding)


class OllamaGenerate(PromptDialect):
    """``POST /api/generate``."""

    name = "ollama_generate"
    family: Family = "ollama"

    def parts(self, envelope: Envelope) -> build.Parts:
        """Everything but the prompt."""
        empty = not cut.text_of(envelope.prompt) and not cut.is_set(envelope.images)
        parts = _own(super().parts(envelope), envelope, empty=empty)
        return parts if empty else parts._replace(system=envelope.system)

    def tap(self, prompt: Prompt | None, content_type: str, content_encoding: str) -> AnswerTap:
        """A listener for the answer."""
        del content_type
        return _tap(prompt, content_encoding)


def _tap(prompt: Prompt | None, content_encoding: str) -> AnswerTap:
    return AnswerTap(OllamaReader(), content_encoding, lines=prompt is None or prompt.stream)


class _Message(msgspec.Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[Call] | None = None


_Number = int | float | None


class _Line(msgspec.Struct, gc=False):
    message: _Message | None = None
    response: str | None = None
    thinking: str | None = None
    done: bool | None = None
    done_reason: str | None = None
    error: Raw = cut.NONE
    total_duration: _Number = None
    load_duration: _Number = None
    prompt_eval_count: _Number = None
    prompt_eval_cached_count: _Number = None
    prompt_eval_duration: _Number = None
    eval_count: _Number = None
    eval_duration: _Number = None


COUNTERS = (
    "total_duration",
    "load_duration",
    "prompt_eval_count",
    "prompt_eval_cached_count",
    "prompt_eval_duration",
    "eval_count",
    "eval_duration",
)
_decoder = msgspec.json.Decoder(_Line)


class OllamaReader:
    """Reads lines; the one with `done` carries the counters, the one with `error` ends a broken stream."""

    def __init__(self) -> None:
        self.outcome = Outcome()
        self._parts = ReplyParts()
        self._calls = 0

    def event(self, name: bytes, data: bytes) -> bool:
        """One line; whether it carried generated text, thinking or a tool call."""
        del name
        line = decode_answer(_decoder, data, halves=True)
        spoke = self._add(line)
        if cut.is_set(line.error):
            self.outcome.error = error_code(line.error)
        if line.done:
            self.outcome.terminal = True
            self.outcome.finish_reason = (line.done_reason or "")[:64] or None
        self.outcome.reported |= {
            field: float(number) for field in COUNTERS if (number := getattr(line, field)) is not None
        }
        return spoke

    def whole(self, data: bytes) -> None:
        """The answer in one piece."""
        self.event(b"", data)

    def reply(self) -> Reply | None:
        """What was said."""
        return self._parts.reply()

    def _add(self, line: _Line) -> bool:
        message = line.message or _Message()
        thinking = message.thinking or line.thinking
        text = message.content or line.response
        if thinking:
            self._parts.add(REASONING, "reasoning", thinking)
        if text:
            self._parts.add(TEXT, "text", text)
        for call in message.tool_calls or ():
            if call.function is not None:
                arguments = json_text(call.function.arguments).decode("utf-8", "replace")
                self._parts.add(CALLS + self._calls, "call", arguments, call.function.name or "")
                self._calls += 1
        return bool(thinking or text or message.tool_calls)
