"""Vectors of this process, by group: owns one bounded matrix a group. Not for two threads at once.

A short group is compared in full. In a long one, a sketch of 64 numbers a vector (a random projection of what
it has beyond the group's mean) names the candidates, and only these are compared in full: reading a tenth of
the bytes is what keeps 100,000 entries within twice the time of 1,000.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from services.semantic.embeddings import Vector

SKETCH = 64
BLOCK = 4_096  # rows; up to here comparing all takes under 3 ms, and a new block copies nothing
CANDIDATES = (
    512  # of 100,000 the nearest by the sketch held the nearest by the vector each time (bench/semantic)
)


class _Group:
    """The vectors of one group, in blocks of rows; a row whose key is None is free."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows: dict[str, int] = {}
        self._keys: list[str | None] = []
        self._free: list[int] = []
        self._full: list[np.ndarray] = []
        self._sketches: list[np.ndarray] = []
        self._mean: np.ndarray | None = None
        self._project = np.random.default_rng(6).standard_normal((size, SKETCH), np.float32) / SKETCH**0.5

    def put(self, key: str, vector: "Vector") -> None:
        row = self.rows[key] if key in self.rows else self._room()
        self.rows[key], self._keys[row] = row, key
        block, at = divmod(row, BLOCK)
        self._full[block][at] = vector
        if self._mean is not None:
            self._sketches[block][at] = (vector - self._mean) @ self._project
        elif row == BLOCK - 1:
            self._begin_sketches()

    def drop(self, key: str) -> None:
        row = self.rows.pop(key, None)
        if row is not None:
            self._keys[row] = None
            self._free.append(row)

    def near(self, vector: "Vector", limit: int) -> list[tuple[str, float]]:
        used = np.fromiter(self.rows.values(), np.intp, len(self.rows))
        if self._mean is not None and len(used) > CANDIDATES:
            sketch = self._project.T @ (vector - self._mean)
            scores = np.concatenate([block @ sketch for block in self._sketches])[used]
            used = used[np.argpartition(scores, len(used) - CANDIDATES)[len(used) - CANDIDATES :]]
        similar = self._rows(used) @ vector
        order = np.argsort(similar)[::-1][:limit]
        return [(self._keys[int(used[at])] or "", float(similar[at])) for at in order]

    def _rows(self, rows: np.ndarray) -> np.ndarray:
        blocks = [self._full[block][rows[rows // BLOCK == block] % BLOCK] for block in range(len(self._full))]
        order = np.argsort(rows // BLOCK, kind="stable")
        found = np.empty((len(rows), self.size), np.float32)
        found[order] = np.concatenate(blocks)
        return found

    def _room(self) -> int:
        if self._free:
            return self._free.pop()
        if len(self._keys) == len(self._full) * BLOCK:
            self._full.append(np.zeros((BLOCK, self.size), np.float16))
            self._sketches.append(np.zeros((BLOCK, SKETCH), np.float32))
        self._keys.append(None)
        return len(self._keys) - 1

    def _begin_sketches(self) -> None:
        """The first block is full: its mean is the group's from now on."""
        known = self._full[0].astype(np.float32)
        self._mean = known.mean(axis=0)
        self._sketches[0] = (known - self._mean) @ self._project


class Matrix:
    """All groups. `most` bounds the vectors of all of them; the oldest go first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[str, str] = {}  # in the order in which they came

    def __len__(self) -> int:
        """Vectors held."""
        return len(self._group_of)

    def put(self, key: str, group: str, vector: "Vector") -> None:
        """Hold a vector; one of another length than its group's is left out (the model was changed)."""
        held = self._groups.get(group)
        if held is None:
            held = self._groups[group] = _Group(len(vector))
        if len(vector) != held.size:
            self.drop([key])
            return
        held.put(key, vector)
        self._group_of[key] = group
        if len(self) > self._most:
            self.drop([next(iter(self._group_of))])

    def drop(self, keys: Iterable[str]) -> None:
        """Forget vectors."""
        for key in keys:
            group = self._group_of.pop(key, None)
            if group is not None:
                self._groups[group].drop(key)
                if not self._groups[group].rows:
                    del self._groups[group]

    def near(self, vector: "Vector", group: str, limit: int) -> list[tuple[str, float]]:
        """The nearest of a group, nearest first, with their cosines."""
        held = self._groups.get(group)
        return held.near(vector, limit) if held is not None and len(vector) == held.size else []

    def clear(self) -> None:
        """Forget all."""
        self._groups.clear()
        self._group_of.clear()
