"""llama-server's own ``/completion``: one prompt in, `content` out; owns the reply of one answer."""

import msgspec
from msgspec import Raw

from services.proxy.chunking.cut import NONE
from services.proxy.dialects.base import Family
from services.proxy.dialects.lenient import decode_answer
from services.proxy.dialects.openai_answer import OpenAIReader
from services.proxy.dialects.prompted import PromptDialect
from services.proxy.dialects.tap import AnswerTap
from services.proxy.dialects.usage_fields import counters
from services.proxy.prompt import Prompt


class Llama(PromptDialect):
    """``POST /completion`` and ``/completions``."""

    name = "llama"
    family: Family = "openai"

    def tap(self, prompt: Prompt | None, content_type: str, content_encoding: str) -> AnswerTap:
        """A listener for the answer."""
        del prompt, content_type
        return AnswerTap(LlamaReader(), content_encoding, lines=False)


class _Piece(msgspec.Struct, gc=False):
    content: str | None = None
    stop: bool | None = None
    stop_type: str | None = None
    tokens_cached: int | None = None
    tokens_evaluated: int | None = None
    tokens_predicted: int | None = None
    timings: Raw = NONE
    prompt_progress: Raw = NONE


_decoder = msgspec.json.Decoder(_Piece)
_COUNTS = ("tokens_cached", "tokens_evaluated", "tokens_predicted")


class LlamaReader(OpenAIReader):
    """Reads `content` pieces; other servers answer on this path in OpenAI's shape, which is read as well."""

    def event(self, name: bytes, data: bytes) -> bool:
        """One piece; the last one has `stop` and the counters."""
        if b'"content"' not in data:
            return super().event(name, data)
        piece = decode_answer(_decoder, data, halves=True)
        self._finish(piece)
        if piece.content:
            self.keep_text(piece.content)
        return bool(piece.content)

    def whole(self, data: bytes) -> None:
        """The answer in one piece."""
        if self.event(b"", data):
            self.outcome.terminal = True
        elif not self.outcome.terminal:
            super().whole(data)

    def _finish(self, piece: _Piece) -> None:
        outcome = self.outcome
        if piece.prompt_progress:
            self.take_progress(piece.prompt_progress)
        if piece.timings:
            outcome.reported |= counters("timings", piece.timings)
        if piece.stop:
            outcome.terminal = True
            outcome.finish_reason = (piece.stop_type or "")[:64] or None
            counts = ((name, getattr(piece, name)) for name in _COUNTS)
            outcome.reported |= {name: float(count) for name, count in counts if count is not None}
