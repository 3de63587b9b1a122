"""Learned aliases: pairs that the gate cannot decide, decided by a model when the machine is idle.

A near miss is answered by the backend as ever, and noted. Later a configured model reads both questions and
the stored answer under a strict rubric, several times, both ways round. Only where every vote is yes, an
alias is kept: from then on the one question finds the other's answer as if it were its own, until the answer
or the alias runs out, or somebody revokes it. What the gate refuses for a number, a name in code, a negation
or an opposite is never put to a vote.

This module owns the aliases and the noted misses in Redis.
"""

import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from services.semantic.base import Question
from services.semantic.entries import BASE
from services.semantic.reading.read import read

ALIASES, MISSES, TRIED = (BASE + name for name in ("aliases", "misses", "tried"))
MOST_MISSES = 1_000
LIFE_S = 30 * 86_400.0
TRIED_S = 7 * 86_400  # a pair that was refused is not put to the vote again for a week
# Refusals that come of what the gate does not understand; all others come of what it does.
UNDECIDED = frozenset({"words", "question"})


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Why an alias is believed: who voted, how often, when (epoch ms), how near the two were."""

    model: str
    votes: int
    at: int
    similarity: float
    refused_by: str


class Alias(msgspec.Struct, frozen=True, kw_only=True):
    """`asked` may be answered with what `key` holds, the answer to `stored`; `until` is epoch ms."""

    id: str
    group: str
    asked: str
    stored: str
    key: str
    until: int
    evidence: Evidence


class Miss(msgspec.Struct, frozen=True, kw_only=True):
    """A near miss, to be looked at when there is time."""

    group: str
    asked: str
    stored: str
    key: str
    similarity: float
    rule: str


_encode = msgspec.msgpack.Encoder().encode
_alias = msgspec.msgpack.Decoder(Alias).decode
_miss = msgspec.msgpack.Decoder(Miss).decode


def id_of(question: Question) -> str:
    """The name of the alias of a question: of its reading, so that another spelling finds it too."""
    digest = blake2b(repr(read(question.text)).encode(), key=question.group.encode()[:64], digest_size=10)
    return digest.hexdigest()


class Aliases:
    """The aliases of an installation. Methods raise redis-py's errors."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def find(self, question: Question) -> Alias | None:
        """The live alias of a question."""
        value = await self._redis.hget(ALIASES, id_of(question))
        if not value:
            return None
        alias = _alias(value)
        fits = alias.group == question.group and alias.until > time.time() * 1e3
        return alias if fits else None

    async def note(self, miss: Miss) -> None:
        """Remember a near miss; the oldest go first."""
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.lpush(MISSES, _encode(miss))
            pipe.ltrim(MISSES, 0, MOST_MISSES - 1)
            await pipe.execute()

    async def next_miss(self) -> Miss | None:
        """The latest near miss that was not tried yet; it is taken."""
        while value := await self._redis.lpop(MISSES):
            miss = _miss(value)
            name = id_of(Question(text=miss.asked, group=miss.group))
            if await self._redis.set(f"{TRIED}:{name}:{miss.key}", 1, nx=True, ex=TRIED_S):
                return miss
        return None

    async def keep(self, miss: Miss, model: str, votes: int) -> Alias:
        """Store what was agreed on."""
        now = time.time()
        question = Question(text=miss.asked, group=miss.group)
        alias = Alias(
            id=id_of(question), group=miss.group, asked=miss.asked, stored=miss.stored, key=miss.key,
            until=round((now + LIFE_S) * 1e3),
            evidence=Evidence(model=model, votes=votes, at=round(now * 1e3), similarity=miss.similarity,
                              refused_by=miss.rule),
        )  # fmt: skip
        await self._redis.hset(ALIASES, alias.id, _encode(alias))
        return alias

    async def list(self) -> list[Alias]:
        """All live aliases, latest first; those that ran out are dropped."""
        found = [_alias(value) for value in await self._redis.hvals(ALIASES)]
        over = [alias.id for alias in found if alias.until <= time.time() * 1e3]
        await self.revoke(over)
        live = [alias for alias in found if alias.id not in over]
        return sorted(live, key=lambda alias: alias.evidence.at, reverse=True)

    async def revoke(self, ids: Sequence[str]) -> int:
        """Drop aliases; how many there were."""
        return int(await self._redis.hdel(ALIASES, *ids)) if ids else 0
