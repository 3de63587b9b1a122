"""The one small interface behind which every request and answer shape lives: one dialect, one module.

A dialect is stateless. It cuts a body into a `Prompt`, derives sections from a chunk's raw JSON, and makes a
`Tap` that listens to one answer. It never changes a byte.
"""

from typing import Literal, Protocol

import msgspec

from services.proxy.chunking.cut import UnparsedError as UnparsedError  # noqa: PLC0414 part of this interface
from services.proxy.prompt import ChunkKind, Prompt, RequestKind, Section

Family = Literal["openai", "ollama", "anthropic"]


class Reply(msgspec.Struct, kw_only=True):
    """The assistant message an answer amounted to, as sections of a message chunk (bounded in bytes).

    Compared with the message the client replays next turn. `truncated` says that the bound cut it.
    """

    sections: list[Section] = []
    truncated: bool = False


class Outcome(msgspec.Struct, kw_only=True):
    """What one answer told. `reported` maps dotted field paths to numbers as received; absent is unreported.

    `first_token_at` is a `time.perf_counter` value. `terminal` is whether the dialect's own end marker or a
    finish reason was seen. `error` is a short code, never message text. `unparsed` says why there are no
    counters (``encoding_br``, ``not_json`` …).
    """

    reported: dict[str, float] = {}
    first_token_at: float | None = None
    streamed_deltas: int = 0
    finish_reason: str | None = None
    terminal: bool = False
    error: str | None = None
    output_hash: str | None = None
    reply: Reply | None = None
    unparsed: str | None = None
    progress: tuple[int, int] | None = None


class Tap(Protocol):
    """Listens to one answer's bytes as they pass; bounded in memory, never raises."""

    outcome: Outcome

    def feed(self, data: bytes, now: float) -> None:
        """Take the next raw body bytes, received at `now` (`time.perf_counter`)."""

    def close(self, now: float) -> Outcome:
        """The body ended (in whichever way); the final outcome."""


class Dialect(Protocol):
    """One request and answer shape."""

    name: str
    family: Family
    kind: RequestKind
    list_name: str

    def read(self, body: bytes, backend: str) -> Prompt:
        """Understand a body sent to `backend` (its name, for P(0)); raises `UnparsedError`."""

    def sections(self, kind: ChunkKind, raw: bytes) -> list[Section]:
        """The sections of a chunk in prompt order, from the raw JSON it was cut from."""

    def tap(self, prompt: Prompt | None, content_type: str, content_encoding: str) -> Tap:
        """A listener for the answer to `prompt` (None when the body was unparsed)."""
