"""The live path from two questions to a verdict: embeddings, threshold, gate. Owns nothing but the embedder.

The matcher decides by `decide` too, so what ``metalanchor cache judge`` says is what requests meet.
"""

import msgspec

from services.semantic.base import Ruling
from services.semantic.embeddings import Embedder, EmbeddingError
from services.semantic.judge import judge

FAR = Ruling(same=False, rule="similarity")


class Verdict(msgspec.Struct, frozen=True):
    """What is said of a pair. `similarity` is the cosine, None without embeddings."""

    same: bool
    similarity: float | None
    rule: str


def decide(a: str, b: str, similarity: float | None, threshold: float) -> Ruling:
    """Whether the answer to `a` may serve `b`: similar enough, and the gate finds nothing that differs."""
    ruling = judge(a, b)
    return FAR if ruling.same and similarity is not None and similarity < threshold else ruling


class Rulings:
    """Verdicts on pairs, one after the other."""

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder

    async def ruling(self, a: str, b: str) -> Verdict:
        """The verdict on two questions; the embedding is waited for as long as it takes."""
        similarity = None
        threshold = 0.0
        if self._embedder is not None:
            threshold = self._embedder.threshold
            try:
                left, right = [await self._embedder.embed(text) for text in (a, b)]
                similarity = round(float(left @ right), 4)
            except EmbeddingError:
                similarity = None
        ruling = decide(a, b, similarity, threshold)
        return Verdict(same=ruling.same, similarity=similarity, rule=ruling.rule)

    async def close(self) -> None:
        """Let go of the embedder."""
        if self._embedder is not None:
            await self._embedder.close()
