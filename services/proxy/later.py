"""Owns the work that an ended request leaves behind: rows, causes of the past, what the shared state is told.

Whoever asked has the answer by then, and often asks again at once; the one event loop then has better to do.
So it waits a moment and is done piece by piece between the turns of the loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable

# A client that goes on at once is back within a millisecond. Longer than this nothing should be unknown to
# other processes and to those who look at the pages.
DELAY_S = 0.005


class Later:
    """Pieces of work that do not wait for anything, in the order in which they were put."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._next: asyncio.Handle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, work: Callable[[], None]) -> None:
        """Have `work` done soon."""
        self._waiting.append(work)
        if self._next is None:
            self._next = asyncio.get_running_loop().call_later(DELAY_S, self._turn)

    def flush(self) -> None:
        """Do everything now: somebody asks for what it leads to, or the process ends."""
        while self._waiting:
            self._waiting.popleft()()

    def _turn(self) -> None:
        """One piece a turn of the loop; more while they come in faster, so that there are never many."""
        try:
            for _ in range((len(self._waiting) + 1) // 2):
                self._waiting.popleft()()
        finally:
            loop = asyncio.get_running_loop()
            self._next = loop.call_soon(self._turn) if self._waiting else None
