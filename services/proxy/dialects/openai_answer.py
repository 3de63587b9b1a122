"""Answers of chat completions and of completions, streamed and not; owns the reply of one answer."""

import msgspec
from msgspec import Raw

from services.proxy.chunking.cut import NONE, is_set
from services.proxy.dialects.base import Outcome, Reply
from services.proxy.dialects.content import Block, json_text
from services.proxy.dialects.lenient import decode_answer
from services.proxy.dialects.reply import CALLS, REASONING, TEXT, ReplyParts
from services.proxy.dialects.usage_fields import counters, error_code


class _FunctionDelta(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: Raw = NONE


class _CallDelta(msgspec.Struct, gc=False):
    index: int | None = None
    function: _FunctionDelta | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | list[Block] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    thinking: str | None = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None
    function_call: _FunctionDelta | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    message: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    index: int = 0


class _Answer(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Raw = NONE
    timings: Raw = NONE
    stats: Raw = NONE
    prompt_progress: Raw = NONE
    error: Raw = NONE


_decoder = msgspec.json.Decoder(_Answer)


class OpenAIReader:
    """Reads ``choices`` with deltas, messages or texts; several choices count, the first is the reply."""

    def __init__(self) -> None:
        self.outcome = Outcome()
        self._parts = ReplyParts()

    def event(self, name: bytes, data: bytes) -> bool:
        """One chunk; ``[DONE]`` ends the stream."""
        if data[:6] == b"[DONE]":
            self.outcome.terminal = True
            return False
        if name == b"error":
            self.outcome.error = error_code(data)
            return False
        try:  # two calls less an event of a stream
            answer = _decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            answer = decode_answer(_decoder, data, halves=True)
        spoke = False
        for choice in answer.choices or ():
            if choice.finish_reason:
                self._finished(choice.finish_reason)
            if choice.delta is not None:
                spoke |= self._add(choice.delta, keep=choice.index == 0)
            elif choice.text:
                spoke = True
                self.keep_text(choice.text, choice.index)
        if answer.usage or answer.timings or answer.stats or answer.prompt_progress or answer.error:
            self._report(answer)
        return spoke

    def whole(self, data: bytes) -> None:
        """The answer in one piece."""
        answer = decode_answer(_decoder, data)
        for choice in answer.choices or ():
            self._finished(choice.finish_reason or self.outcome.finish_reason)
            if choice.message is not None:
                self._add(choice.message, keep=choice.index == 0)
            elif choice.text:
                self.keep_text(choice.text, choice.index)
        self._report(answer)

    def reply(self) -> Reply | None:
        """What was said."""
        return self._parts.reply()

    def _finished(self, reason: str | None) -> None:
        self.outcome.terminal = True
        self.outcome.finish_reason = self.outcome.finish_reason or (reason and reason[:64])

    def keep_text(self, text: str, index: int = 0) -> None:
        """Add to the text of the first choice."""
        if index == 0:
            self._parts.add(TEXT, "text", text)

    def _add(self, delta: _Delta, *, keep: bool) -> bool:
        """Whether the delta carried a token; role-only and empty ones do not."""
        parts = self._parts if keep else ReplyParts()
        spoke = False
        if reasoning := delta.reasoning_content or delta.reasoning or delta.thinking:
            parts.add(REASONING, "reasoning", reasoning)
            spoke = True
        if content := delta.content or delta.refusal:
            for text in [content] if isinstance(content, str) else [block.text or "" for block in content]:
                parts.add(TEXT, "text", text)
                spoke |= bool(text)
        if delta.function_call is not None:
            spoke |= _add_call(parts, CALLS, delta.function_call)
        for k, call in enumerate(delta.tool_calls or ()):
            if call.function is not None:
                spoke |= _add_call(parts, CALLS + (k if call.index is None else call.index), call.function)
        return spoke

    def _report(self, answer: _Answer) -> None:
        outcome = self.outcome
        if answer.usage:
            outcome.reported |= counters("usage", answer.usage)
        if answer.timings:
            outcome.reported |= counters("timings", answer.timings)
        if answer.stats:
            outcome.reported |= counters("stats", answer.stats)
        if answer.prompt_progress:
            self.take_progress(answer.prompt_progress)
        if is_set(answer.error):
            outcome.error = error_code(answer.error)

    def take_progress(self, raw: Raw) -> None:
        """llama-server's ``prompt_progress``: prompt tokens done and to do, cached ones left out of both."""
        found = counters("prompt_progress", raw)
        self.outcome.reported |= found
        done, total = found.get("prompt_progress.processed"), found.get("prompt_progress.total")
        if done is not None and total is not None:
            cached = found.get("prompt_progress.cache", 0)
            self.outcome.progress = int(done - cached), int(total - cached)


def _add_call(parts: ReplyParts, key: int, function: _FunctionDelta) -> bool:
    arguments = json_text(function.arguments).decode("utf-8", "replace")
    parts.add(key, "call", arguments, function.name or "")
    return bool(arguments or function.name)
