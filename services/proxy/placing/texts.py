"""Owns the text this process remembers: raw chunks by content hash and latest answers, in memory only.

It serves one purpose, to show where a prompt broke. It is bounded in bytes and in time, can be switched off,
and never leaves the process. What is shared between requests (system prompts, tools, history) is kept once.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from services.proxy.dialects.base import Dialect
from services.proxy.placing.marks import MarkCache
from services.proxy.prompt import Chunk, ChunkKind, Prompt, Section
from services.proxy.state.base import HASH_BYTES

ENTRY_COST = 250  # bytes of the dictionary entry, key and tuple beside the text (sys.getsizeof, CPython 3.11)
FRESH_S = 60.0  # a conversation's old messages become recent again once in that time, not on every turn
FRESH_CHAINS = 512
SWEEP_S = 60.0  # between looks for expired text when nothing arrives
MARKS_BYTES = 16 << 20  # of block digests: those of some 20,000 messages


_ANSWER = b"answer to "  # before a request's id; the names of chunks are hashes, and shorter
_answers = msgspec.msgpack.Encoder()
_sections = msgspec.msgpack.Decoder(list[Section])


class Texts:
    """Content-addressed chunk texts; what was used longest ago goes first."""

    def __init__(
        self, max_bytes: int, ttl_s: float, enabled: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.max_bytes = max_bytes
        self.ttl_s = ttl_s
        self.enabled = enabled
        self.bytes = 0
        self._clock = clock
        self._dialects: dict[str, Dialect] = {}
        self._mark_cache: MarkCache | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._chains: OrderedDict[bytes, float] = OrderedDict()
        self._held: OrderedDict[bytes, tuple[float, str, bytes]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def put(self, prompt: Prompt, dialect: Dialect) -> None:
        """Remember the chunks of `prompt`; those already held only become recent again."""
        self._dialects[dialect.name] = dialect
        if not self.enabled:
            return
        now, held = self._clock(), self._held
        for chunk in prompt.chunks[self._fresh(prompt.prefixes, now) :]:
            name = chunk.hash[:HASH_BYTES]
            known = held.pop(name, None)
            if known is None:
                known = (now, prompt.dialect, chunk.raw)
                self.bytes += ENTRY_COST + len(known[2])
            held[name] = (now, known[1], known[2])
        self._trim(now)

    def put_answer(self, request: str, sections: list[Section]) -> None:
        """Remember what a request was answered, to compare with what its client sends back."""
        if self.enabled and sections:
            now, raw = self._clock(), _answers.encode(sections)
            self._held[_ANSWER + request.encode()] = (now, "", raw)
            self.bytes += ENTRY_COST + len(raw)
            self._trim(now)

    def answer(self, request: str) -> list[Section] | None:
        """What a request was answered, or None where the text is gone."""
        found = self._held.get(_ANSWER + request.encode())
        if found is None or found[0] < self._clock() - self.ttl_s:
            return None
        return _sections.decode(found[2])

    def _fresh(self, prefixes: list[bytes], now: float) -> int:
        """How many leading chunks were put a short while ago; the whole chain counts from then on."""
        count, since = 0, now
        for length in range(len(prefixes), 0, -1):
            at = self._chains.get(prefixes[length - 1])
            if at is not None and now - at < FRESH_S:
                count, since = length, at
                break
        if prefixes:
            self._chains[prefixes[-1]] = since
            self._chains.move_to_end(prefixes[-1])
            if len(self._chains) > FRESH_CHAINS:
                self._chains.popitem(last=False)
        return count

    def get(self, chunk_hash: bytes) -> tuple[str, bytes] | None:
        """The dialect's name and the raw JSON of a chunk, by its hash or the first 12 bytes of it."""
        found = self._held.get(chunk_hash[:HASH_BYTES])
        if found is None or found[0] < self._clock() - self.ttl_s:
            return None
        return found[1], found[2]

    def sections(self, kind: ChunkKind, chunk_hash: bytes) -> list[Section] | None:
        """The sections of an earlier chunk, or None where its text is gone."""
        found = self.get(chunk_hash)
        return self._dialects[found[0]].sections(kind, found[1]) if found else None

    def sections_of(self, prompt: Prompt, chunk: Chunk) -> list[Section]:
        """The sections of a chunk of `prompt`, which was put here before."""
        return self._dialects[prompt.dialect].sections(chunk.kind, chunk.raw)

    def mark_cache(self, key: bytes) -> MarkCache:
        """Where the block digests of chunks are made and remembered, whether text is kept or not."""
        if self._mark_cache is None:
            self._mark_cache = MarkCache(key, MARKS_BYTES)
        return self._mark_cache

    def expire(self) -> None:
        """Let go of what is older than the time limit, also while nothing arrives."""
        self._trim(self._clock())

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have `expire` called while anything is held: text goes in time also when nothing arrives."""
        if self._timer is None and self._held:
            self._timer = loop.call_later(min(self.ttl_s, SWEEP_S), self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self.expire()
        self.watch(loop)

    def _trim(self, now: float) -> None:
        oldest = now - self.ttl_s
        while self._held:
            name, (at, _, raw) = next(iter(self._held.items()))
            if self.bytes <= self.max_bytes and at >= oldest:
                return
            del self._held[name]
            self._chains.clear()
            self.bytes -= ENTRY_COST + len(raw)
