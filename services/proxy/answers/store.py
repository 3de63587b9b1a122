"""Owns the way to the stored answers, and nothing else: they are in Redis, over the proxy's one connection.

Whatever a request waits for has a budget of milliseconds and counts as a miss when it is late; what people
ask for (`stats`, `list`, `invalidate`) may take longer and says when Redis is away.
"""

from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

import msgspec

from services.proxy.answers import codec, selection
from services.proxy.answers.base import (
    About,
    AwayError,
    Dropped,
    Entry,
    Looked,
    Page,
    Selector,
    Stats,
    Stored,
)
from services.proxy.state.client import BUDGET_S, Client

BASE = b"metalanchor:answers:{a}:"
PUT_S = 1.0  # nobody waits for it; longer, and the connection is taken for dead (`connection.SILENT_S`)
ASK_S = 1.0
REAP = 200  # entries a step: some 4 ms of Redis's time
# Beside its value an entry takes its fields and its places in indexes, in bytes; both measured on Valkey 9.
ENTRY_COST, TERM_COST = 1_100, 45

_about = msgspec.msgpack.Encoder().encode
_read_about = msgspec.msgpack.Decoder(About).decode


class RedisStore:
    """The answers of an installation. `secret` is its hashing key, `max_bytes` the cap on all of it."""

    def __init__(self, client: Client, secret: bytes, max_bytes: int) -> None:
        self._client, self._secret, self._max_bytes = client, secret, max_bytes
        self._sha = client.script(files(__package__).joinpath("script.lua").read_bytes())
        self._told: list[Callable[[Sequence[str]], None]] = []

    @property
    def away(self) -> bool:
        """Whether Redis is not asked at present."""
        return self._client.connection is None

    async def get(self, key: str, *, counted: bool = True, missed: bool = False) -> Looked:
        """The live answer under a key, if any; where `counted`, a hit or a miss in the statistics.

        `missed`: the same request counted as a miss just now, under another key; found, it is a hit instead.
        """
        counting = 2 if counted and missed else int(counted)
        reply = await self._ask(BUDGET_S, True, b"get", bytes.fromhex(key), counting)
        if reply is None:
            return Looked()
        turn, value = reply
        return Looked(stored=codec.unpack(self._secret, key, value) if value else None, turn=turn)

    async def put(
        self, key: str, stored: Stored, ttl_s: float, words: Sequence[bytes], turn: int | None
    ) -> bool:
        """Keep an answer, in place of an earlier one; whether it was kept. `words` as of `terms.terms_of`.

        Refused where anything was invalidated since the look whose `turn` this is, as the answer may be
        older; and where it takes over an eighth of the cap.
        """
        if turn is None or self.away:
            return False
        about = _about(stored.about)
        value = codec.pack(self._secret, key, stored)
        names = [*selection.indexes(self._secret, stored.about), *words]
        size = len(value) + len(about) + ENTRY_COST + TERM_COST * len(names)
        if size > self._max_bytes / 8:
            return False
        saved = (stored.about.prompt_tokens or 0) + (stored.about.completion_tokens or 0)
        kept = await self._ask(
            PUT_S, False, b"put", bytes.fromhex(key), stored.about.namespace, turn, round(ttl_s * 1e3), size,
            self._max_bytes, saved, round(stored.about.total_ms), about, b"".join(names), value,
        )  # fmt: skip
        if kept == 2:
            await self._reap()
        return bool(kept)

    async def stats(self) -> Stats:
        """The cache as it stands. Raises `AwayError`."""
        entries, pairs = await self._must(b"stats")
        told = {name.decode(): int(value) for name, value in zip(pairs[::2], pairs[1::2], strict=True)}
        known = {name: told.get(name, 0) for name in Stats.__struct_fields__}
        return Stats(**known | {"entries": entries, "max_bytes": self._max_bytes})

    async def list(self, cursor: str | None = None, limit: int = 100) -> Page:
        """Entries, newest first. Raises `AwayError`, and `ValueError` for a cursor that is none."""
        below = "+inf" if cursor is None else f"({int(cursor)}"
        found, more = await self._must(b"list", below, limit)
        return Page(items=[_entry(*row) for row in found], next=more.decode() if more else None)

    async def invalidate(self, selector: Selector, *, dry_run: bool) -> Dropped:
        """Drop what is selected: none of it is served from the first moment on, all of it is counted.

        A namespace alone also begins that namespace's next version. Raises `AwayError`, and `ValueError` for
        a selector that selects nothing in particular.
        """
        arguments = selection.arguments(self._secret, selector)
        await self._reap()  # else what was dropped or has ended would be counted
        count = await self._must(b"drop", int(dry_run), *arguments)
        if not dry_run:
            await self._reap()
        return Dropped(count=count, dry_run=dry_run)

    def on_drop(self, told: Callable[[Sequence[str]], None]) -> None:
        """Have `told` called with the keys that were dropped, for what is kept beside the answers."""
        self._told.append(told)

    async def _reap(self) -> None:
        """Let go of what is dropped, has ended, or is too much, in steps between which others are served."""
        more = True
        while more and not self.away:
            reply = await self._ask(ASK_S, False, b"reap", REAP, self._max_bytes)
            left, keys = reply or (0, [])
            more = bool(left)
            if keys:
                for told in self._told:
                    told([key.hex() for key in keys])

    async def _ask(self, budget_s: float, trips: bool, *words: Any) -> Any:
        connection = self._client.connection
        if connection is None:
            return None
        asked = connection.ask(b"EVALSHA", self._sha, 1, BASE, *words)
        return await self._client.within(budget_s, asked, trips=trips)

    async def _must(self, *words: Any) -> Any:
        reply = await self._ask(ASK_S, False, *words)
        if reply is None:
            raise AwayError(self._client.breaker.reason or "Redis did not answer")
        return reply


def _entry(  # noqa: PLR0917 as the script gives them
    number: bytes, key: bytes, expires: bytes, used: bytes, hits: bytes, size: bytes, about: bytes
) -> Entry:
    return Entry(
        id=int(number), key=key.hex(), created=int(number) // 1000, expires=int(expires), used=int(used),
        hits=int(hits), bytes=int(size), about=_read_about(about),
    )  # fmt: skip
