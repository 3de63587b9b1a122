"""The buffer: encoded rows between the event loop, which puts, and the outbox's thread, which takes.

Bounded in bytes; the oldest rows give way. The lock is held for a few deque operations, never for I/O.
"""

import threading
from collections import deque

Row = tuple[str, bytes]

BATCH_ROWS = 200
# rq writes a job's argument as JSON in one go, which holds up every other thread: 1.5 ms for this much.
BATCH_BYTES = 256 << 10


class Buffer:
    """Rows in order of arrival, each a request id and its encoded row."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._rows: deque[Row] = deque()
        self._lock = threading.Lock()
        self.taken: list[Row] = []
        self.bytes = 0

    def __len__(self) -> int:
        """Rows that are nowhere else yet: those that wait and those of the batch taken last."""
        with self._lock:
            return len(self._rows) + len(self.taken)

    @property
    def batch_ready(self) -> bool:
        """Whether a whole batch waits."""
        return len(self._rows) >= BATCH_ROWS or self.bytes >= BATCH_BYTES

    def put(self, row: Row) -> list[Row]:
        """Add a row; the rows that gave way to it, usually none."""
        gone: list[Row] = []
        with self._lock:
            self._rows.append(row)
            self.bytes += len(row[1])
            while self.bytes > self._max:
                gone.append(self._pop())
        return gone

    def take(self) -> list[Row]:
        """The next batch, oldest first; empty when nothing waits. It is held in `taken` until `settle`."""
        batch: list[Row] = []
        size = 0
        with self._lock:
            while self._rows and len(batch) < BATCH_ROWS:
                if batch and size + len(self._rows[0][1]) > BATCH_BYTES:
                    break
                batch.append(self._pop())
                size += len(batch[-1][1])
            self.taken = batch
        return batch

    def settle(self) -> None:
        """The batch taken last is safe elsewhere, or counted as lost."""
        self.taken = []

    def _pop(self) -> Row:
        row = self._rows.popleft()
        self.bytes -= len(row[1])
        return row
