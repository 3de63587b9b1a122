"""What the response cache keeps, is asked and answers. Pure data.

An answer stands under a key that covers everything which can change it (`key.py`). It is text, the one thing
besides body storage that leaves the proxy's memory, and only because the user switched the cache on.
"""

from typing import Literal

import msgspec

Shape = Literal["json", "sse", "ndjson"]


class About(msgspec.Struct, kw_only=True, array_like=True, gc=False):
    """What is known of an answer besides its bytes; no text but `question`.

    `original` is the id of the request that the backend answered at `at` (epoch milliseconds), `question` the
    last thing the user said (bounded), `digest` the model's where the backend tells it, else empty. Tokens
    are what the backend reported (None is unreported), `total_ms` is what it took.
    """

    original: str
    at: int
    scope: str
    namespace: str
    backend: str
    endpoint: str
    dialect: str
    model: str
    digest: str = ""
    agent: str | None = None
    tags: tuple[str, ...] = ()
    question: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_ms: float = 0.0


class Stored(msgspec.Struct, kw_only=True, array_like=True, gc=False):
    """One complete answer: its body's pieces as they were received (decoded), and the headers that are kept.

    `usage` is whether a stream was asked to report its usage, which adds an event to it.
    """

    about: About
    shape: Shape
    pieces: list[bytes]
    headers: list[tuple[bytes, bytes]] = []
    usage: bool = False

    @property
    def body(self) -> bytes:
        """All of it."""
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)


class Entry(msgspec.Struct, kw_only=True):
    """A stored answer as lists show it. `id` orders entries by age; times are epoch milliseconds."""

    id: int
    key: str
    created: int
    expires: int
    used: int
    hits: int
    bytes: int
    about: About


class Page(msgspec.Struct, kw_only=True):
    """Entries, newest first, and where the next page begins (None after the last)."""

    items: list[Entry] = []
    next: str | None = None


class Selector(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Which entries are meant: those to which everything given applies; at least one thing must be.

    `keyword` is one or more words, or Chinese, Japanese or Korean text, of the question or the answer, all of
    which occur. `older_than_s` counts from when the answer was stored. `everything` stands alone.
    """

    key: str | None = None
    tag: str | None = None
    model: str | None = None
    backend: str | None = None
    namespace: str | None = None
    scope: str | None = None
    keyword: str | None = None
    older_than_s: float | None = None
    everything: bool = False


class Dropped(msgspec.Struct, kw_only=True):
    """How many entries an invalidation dropped, or would drop; `dry_run` says which."""

    count: int
    dry_run: bool


class Stats(msgspec.Struct, kw_only=True):
    """The cache as it stands, in Redis; counters since it was first used."""

    entries: int = 0
    bytes: int = 0
    max_bytes: int = 0
    hits: int = 0
    misses: int = 0
    stored: int = 0
    evicted: int = 0
    expired: int = 0
    invalidated: int = 0
    saved_tokens: int = 0
    saved_ms: int = 0


class AwayError(Exception):
    """Redis could not be asked; the text says why. Raised by what people ask, never on a request's path."""


class Looked(msgspec.Struct, kw_only=True, gc=False):
    """What a look found. `turn` counts the invalidations so far; None when Redis did not answer."""

    stored: Stored | None = None
    turn: int | None = None
