"""What the response cache sees of semantic matching: questions, matches, and the protocol behind them.

Pure data. Similarity only proposes which stored question to look at; whether its answer may be given is
decided by the judge (`judge.py`), and everything besides the question's own words has to be equal already:
that is the `group`.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec


class Ruling(msgspec.Struct, frozen=True, gc=False):
    """The judge's word on two questions: `same`, and the `rule` that decided.

    A rule is ``equal``, or names what differs: number, negation, order …
    """

    same: bool
    rule: str


class Question(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A question that stands for itself.

    `text` is the user's own words. `group` is a digest (letters, digits, ``-_.``) over all else that can
    change the answer: scope, namespace, backend, endpoint, model, system prompt, params. Only questions of
    one group are ever compared.
    """

    text: str
    group: str


class Match(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The stored question that asks the same. `key` is what it was added under.

    `similarity` is the cosine, None for a learned alias, whose id is `alias`.
    """

    key: str
    similarity: float | None
    rule: str
    alias: str | None = None


class Neighbour(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One stored question near another, for `cache explain`; `ruling` says what refused or admitted it."""

    key: str
    text: str
    similarity: float
    ruling: Ruling


class Matcher(Protocol):
    """Finds stored questions that ask the same. No method raises; each keeps its time budget."""

    async def start(self) -> None:
        """Connect and load in the background; returns at once."""

    def learn(self, answer_of: Callable[[str], Awaitable[str | None]]) -> None:
        """Learn aliases while the machine is idle, where a model for it is set; after `start`.

        `answer_of` gives the text of the answer under a key.
        """

    async def find(self, question: Question) -> Match | None:
        """The stored question with the same meaning, or None; also when anything is slow, away or broken.

        The caller fetches the answer under `Match.key`; where it is gone, that is a miss and a `remove`.
        """

    async def add(self, question: Question, key: str, ttl_s: float) -> None:
        """Let `question` be found, as long as its answer is kept under `key`; returns without waiting."""

    async def remove(self, keys: Sequence[str]) -> None:
        """Forget the questions added under `keys`; returns once no `find` of this process returns them."""

    async def explain(self, question: Question, limit: int = 8) -> list[Neighbour]:
        """The nearest stored questions of the group, nearest first, and what the judge says of each."""

    async def groups(self, keys: Sequence[str]) -> list[str]:
        """The groups of the questions stored under these keys, each once; for `explain`."""

    async def close(self) -> None:
        """Let go of threads and connections within a second."""

    def status(self) -> dict[str, Any]:
        """Embedding source, vector store, entries, bytes, and failures by kind, for `/status`."""
