"""Reads request bodies into prompts, from nothing or from where a known conversation ended.

Owns the trails: recent bodies, by their first bytes, most recently used first. They hold prompt text, so they
are bounded in bytes and time, and given no bytes (where text may not be kept) nothing is remembered and every
body is read from its beginning. Large bodies are read in threads, hence the lock; trails never change.
"""

from collections import OrderedDict
from hashlib import sha1
from threading import Lock

import msgspec

from services.proxy.chunking.reading import cold, new_rest, same_rest
from services.proxy.chunking.trail import Match, Trail, match
from services.proxy.dialects.base import Dialect
from services.proxy.dialects.listed import ListDialect
from services.proxy.prompt import Prompt

RESUME_FROM = 4 << 10  # below it a cold reading takes less than 50 µs, and remembering costs 20
KEY_BYTES = 256  # bodies of one agent begin alike; those of another, or of another model, do not
PER_KEY = 16  # sessions of one agent at a time; more of them take turns in being read cold


class Analyser:
    """Reads bodies; safe to use from several threads."""

    def __init__(self, memory_bytes: int, ttl_s: float = 24 * 3600) -> None:
        self._memory_bytes = memory_bytes
        self._ttl_s = ttl_s
        self._lock = Lock()
        self._trails: OrderedDict[int, OrderedDict[int, Trail]] = OrderedDict()
        self._bytes = 0

    def read(self, dialect: Dialect, body: bytes, backend_name: str) -> Prompt:
        """Understand a body sent to a backend; raises `UnparsedError`."""
        if isinstance(dialect, ListDialect) and RESUME_FROM <= len(body) < self._memory_bytes:
            return self._read_large(dialect, body, backend_name)
        prompt = dialect.read(body, backend_name)
        prompt.raw_hash = sha1(body).digest()
        prompt.request_bytes = len(body)
        return prompt

    def resume(self, dialect: Dialect, body: bytes, backend_name: str, most: int) -> Prompt | None:
        """The next turn of a known conversation that adds at most `most` bytes to it; else None, soon.

        It costs one SHA-1 pass over the body and what is new, so it needs no thread where `read` would.
        """
        if not isinstance(dialect, ListDialect) or not RESUME_FROM <= len(body) < self._memory_bytes:
            return None
        key, found = self._match(dialect, body, backend_name)
        if found is None or len(body) - found.checkpoint.offset - len(found.trail.rest) > most:
            return None
        trail = _continued(dialect, body, found)
        if trail is None:
            return None
        self._remember(key, trail, found.trail)
        return _copy(trail.prompt)

    def _read_large(self, dialect: ListDialect, body: bytes, backend: str) -> Prompt:
        key, found = self._match(dialect, body, backend)
        trail = _continued(dialect, body, found) if found else None
        parent = found.trail if found and trail else None
        if trail is None:
            trail = cold(dialect, body, backend)
        self._remember(key, trail, parent)
        return _copy(trail.prompt)

    def _match(self, dialect: ListDialect, body: bytes, backend: str) -> tuple[int, Match | None]:
        """Under which key such bodies are known, and the known conversation that this one goes on with."""
        key = hash((dialect.name, backend, body[:KEY_BYTES]))
        with self._lock:
            trails = list(reversed(self._trails.get(key, {}).values()))
        return key, match(trails, body) if trails else None

    def _remember(self, key: int, trail: Trail, parent: Trail | None) -> None:
        """Keep a trail in place of the one it continues; a fork far back leaves that one alone."""
        if not trail.checkpoints:
            return
        with self._lock:
            siblings = self._trails.setdefault(key, OrderedDict())
            self._trails.move_to_end(key)
            if parent is not None and trail.prompt.message_count >= parent.prompt.message_count:
                self._forget(key, id(parent))
            siblings[id(trail)] = trail
            self._bytes += trail.weight
            while len(siblings) > PER_KEY:
                self._forget(key, next(iter(siblings)))
            self._shrink(trail.at)

    def _forget(self, key: int, number: int) -> None:
        gone = self._trails[key].pop(number, None)
        if gone is not None:
            self._bytes -= gone.weight

    def _shrink(self, now: float) -> None:
        while self._trails:
            key, siblings = next(iter(self._trails.items()))
            oldest = next(iter(siblings.values()), None)
            if oldest is None:
                del self._trails[key]
            elif self._bytes > self._memory_bytes or oldest.at < now - self._ttl_s:
                self._forget(key, id(oldest))
            else:
                return


def _continued(dialect: ListDialect, body: bytes, found: Match) -> Trail | None:
    return same_rest(dialect, body, found) or new_rest(dialect, body, found)


def _copy(prompt: Prompt) -> Prompt:
    """A prompt that its flow may do with as it likes; chunks and hashes are shared."""
    return msgspec.structs.replace(
        prompt,
        chunks=prompt.chunks.copy(),
        prefixes=prompt.prefixes.copy(),
        hints=msgspec.structs.replace(prompt.hints),
        engine=msgspec.structs.replace(prompt.engine),
    )
