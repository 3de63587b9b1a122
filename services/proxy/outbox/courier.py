"""The courier: the outbox's one thread, which carries rows from the buffer to the queue, else to the spool.

It alone touches Redis (through rq) and the spool, so a Redis that hangs or a slow disk holds up this thread
and nothing else. A request's journal slot is freed only when its row was queued, spooled, or counted as lost.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from services import bodies
from services.proxy.outbox.buffer import BATCH_BYTES, BATCH_ROWS, Buffer, Row
from services.proxy.outbox.copies import Copies
from services.proxy.outbox.journal import Journal, leftovers
from services.proxy.outbox.queue import RecordQueue
from services.proxy.outbox.spool import Spool
from services.record import encode, encode_batch

log = logging.getLogger("metalanchor")

GATHER_S = 0.25  # rows wait this long for company: one job costs the worker ~60 commands, whatever it holds
IDLE_S = 1.0  # between looks at the queue and the spool


class Courier:
    """Runs until `stop`; `dropped` counts rows it could neither queue nor spool."""

    def __init__(
        self,
        buffer: Buffer,
        queue: RecordQueue,
        spool: Spool,
        journal: Journal,
        folder: Path,
        *,
        copies: Copies | None,
    ) -> None:
        self._buffer, self.queue, self.spool = buffer, queue, spool
        self._journal, self._folder, self._copies = journal, folder, copies
        self._some, self._full, self._stopping = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._looked_at = 0.0
        self.dropped = 0
        self.recovered = 0

    def start(self) -> None:
        """Begin to carry."""
        self._thread.start()

    def wake(self) -> None:
        """Rows were put. An event that is set is left alone: setting it takes its lock and wakes nobody."""
        if not self._some.is_set():
            self._some.set()
        if self._buffer.batch_ready and not self._full.is_set():
            self._full.set()

    def stop(self, timeout_s: float) -> bool:
        """Carry what is left, end the thread; False when it is still held up after `timeout_s`."""
        self._stopping.set()
        self._some.set()
        self._full.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def abandon(self, spool: Spool) -> None:
        """The thread is held up at the end of the process: spool what it holds, past it, by `spool`."""
        rows = [*self._buffer.taken]
        while batch := self._buffer.take():
            rows.extend(batch)
        for batch in batches(rows):
            self._keep(batch, spool)

    def _run(self) -> None:
        self._try(self._recover)
        while not self._stopping.is_set():
            self._try(self._round)
        self._try(lambda: self._carry(whole=False))
        self._try(self._carry_copies)
        self.spool.close()
        self.queue.close()

    def _round(self) -> None:
        self._look()
        self._replay()
        if not self._buffer:
            self._some.wait(IDLE_S)
        self._some.clear()
        whole = bool(self._buffer) and self._full.wait(GATHER_S)
        self._full.clear()
        self._carry(whole=whole)
        self._carry_copies()

    def _try(self, work: Callable[[], None]) -> None:
        """Whatever goes wrong must not end the thread, with which every later row would be lost."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 nobody above would hear of it
            log.warning("The outbox failed: %s. It goes on.", type(error).__name__)
            if self._buffer.taken:
                self._keep(self._buffer.taken, self.spool)
                self._buffer.settle()
            self._stopping.wait(IDLE_S)

    def _carry(self, *, whole: bool) -> None:
        """Carry the rows that wait; with `whole` only full batches, the rest waits for company."""
        while (not whole or self._buffer.batch_ready) and (batch := self._buffer.take()):
            if self._push([row for _, row in batch]):
                self._release(batch)
            else:
                self._keep(batch, self.spool)
            self._buffer.settle()

    def _carry_copies(self) -> None:
        """Queue the bodies that wait, while the queue is less than half full and no batch of rows waits."""
        copies = self._copies
        if copies is None:
            return
        while copies and self.queue.ready and self.queue.roomy and not self._buffer.batch_ready:
            batch = copies.take()
            if not self.queue.push(encode_batch(batch), len(batch), bodies.JOB):
                copies.dropped += len(batch)
                return

    def _keep(self, batch: list[Row], spool: Spool) -> None:
        if not spool.write([row for _, row in batch]):
            self.dropped += len(batch)
        self._release(batch)

    def _push(self, rows: list[bytes]) -> bool:
        return self.queue.push(encode_batch(rows), len(rows))

    def _release(self, batch: list[Row]) -> None:
        for request_id, _ in batch:
            self._journal.release(request_id)

    def _look(self) -> None:
        if time.monotonic() - self._looked_at >= IDLE_S:
            self.queue.look()
            self.spool.measure()
            self._looked_at = time.monotonic()

    def _replay(self) -> None:
        """Queue the spool's rows, oldest first, while Redis takes them and no newer batch waits."""
        while self.spool.segments and self.queue.error is None and self.queue.roomy:
            with self.spool.oldest() as segment:
                if segment is None:
                    return
                rows, path = segment
                if not all(
                    self._push([row for _, row in part]) for part in batches([("", row) for row in rows])
                ):
                    return
                path.unlink(missing_ok=True)
            self.spool.measure()
            if self._buffer.batch_ready or self._stopping.is_set():
                return

    def _recover(self) -> None:
        """Give requests that dead processes left open their rows; after the spool's, which may be theirs."""
        with leftovers(self._folder) as (records, paths):
            for batch in batches([(record.id, encode(record)) for record in records]):
                rows = [row for _, row in batch]
                if not (self.spool.write(rows) or self._push(rows)):
                    return
            for path in paths:
                path.unlink(missing_ok=True)
            self.recovered += len(records)


def batches(rows: list[Row]) -> Iterator[list[Row]]:
    """Cut rows into batches of at most 200 rows and 256 KiB."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        if batch and (len(batch) >= BATCH_ROWS or size + len(row[1]) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(row[1])
    if batch:
        yield batch
