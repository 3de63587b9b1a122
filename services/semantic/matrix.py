"""Vectors of this process, by group: owns one bounded matrix a group. Not for two threads at once.

Vectors are kept in 8 bits a number, which moves a cosine by a thousandth. A short group is compared in full.
In a long one, a sketch of 64 numbers a vector (a random projection of what it has beyond the group's mean)
names the candidates, and only these are compared in full: reading less is what keeps 100,000 entries within
twice the time of 1,000.
"""

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from services.semantic.embeddings import Vector

SKETCH = 64
BLOCK = 2_048  # rows; up to here comparing all takes some 1 ms, and a new block copies nothing
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
        self._steps: list[np.ndarray] = []  # what one step of an 8-bit number is worth, by row
        self._sketches: list[np.ndarray] = []
        self._mean: np.ndarray | None = None
        self._project = np.random.default_rng(6).standard_normal((size, SKETCH), np.float32) / SKETCH**0.5

    def put(self, key: str, vector: "Vector") -> None:
        row = self.rows[key] if key in self.rows else self._room()
        self.rows[key], self._keys[row] = row, key
        block, at = divmod(row, BLOCK)
        step = max(float(np.abs(vector).max()), 1e-6) / 127
        self._full[block][at], self._steps[block][at] = np.rint(vector / step), step
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
        rows = np.arange(len(self._keys))
        if self._mean is not None:
            sketch = self._project.T @ (vector - self._mean)
            scores = np.concatenate([block @ sketch for block in self._sketches])[: len(rows)]
            scores[self._free] = -np.inf
            rows = np.argpartition(scores, len(rows) - CANDIDATES)[len(rows) - CANDIDATES :]
        similar = self._similar(rows, vector)
        nearest = ((self._keys[int(rows[at])], float(similar[at])) for at in np.argsort(similar)[::-1])
        return list(itertools.islice(((key, cosine) for key, cosine in nearest if key is not None), limit))

    def _similar(self, rows: np.ndarray, vector: "Vector") -> np.ndarray:
        """The cosines of some rows."""
        found = np.empty(len(rows), np.float32)
        blocks = rows // BLOCK
        for number, (full, steps) in enumerate(zip(self._full, self._steps, strict=True)):
            here = np.flatnonzero(blocks == number)
            at = rows[here] % BLOCK
            found[here] = (full[at].astype(np.float32) @ vector) * steps[at]
        return found

    def _room(self) -> int:
        if self._free:
            return self._free.pop()
        if len(self._keys) == len(self._full) * BLOCK:
            self._full.append(np.zeros((BLOCK, self.size), np.int8))
            self._steps.append(np.zeros(BLOCK, np.float32))
            self._sketches.append(np.zeros((BLOCK, SKETCH), np.float32))
        self._keys.append(None)
        return len(self._keys) - 1

    def _begin_sketches(self) -> None:
        """The first block is full: its mean is the group's from now on."""
        known = self._full[0].astype(np.float32) * self._steps[0][:, None]
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
