"""The outbox: every request's row on its way out of the proxy, never in the way of a request.

`open` and `put` run on the event loop and only copy memory. A row goes into a bounded buffer; the courier's
thread queues it in Redis, or spools it to disk while Redis cannot take it; the journal keeps a row for each
request that is still open, for the case that this process is killed. What is lost on the way is counted.
"""

import asyncio
import logging
from typing import Any

from services.proxy.dialects.endpoint import endpoint_of
from services.proxy.flow import Flow
from services.proxy.outbox.buffer import Buffer
from services.proxy.outbox.copies import Copies
from services.proxy.outbox.courier import Courier
from services.proxy.outbox.journal import Journal
from services.proxy.outbox.queue import RecordQueue
from services.proxy.outbox.spool import Spool
from services.record import Record, encode
from services.settings import Settings

__all__ = ["Outbox"]

log = logging.getLogger("metalanchor")

# A row is 0.5 to 2 KB: some ten thousand rows, which only pile up when both Redis and the disk stand still.
BUFFER_BYTES = 16 << 20
# rq compresses a batch about fourfold: 64 MiB hold a million rows, a week without a worker for one machine.
QUEUE_BYTES = 64 << 20
# Without a spool the queue still takes some batches: a worker that restarts is back within seconds.
QUEUE_LEAST = 64 << 10
# Part of the time limit for the courier to end by itself; the rest is for writing past it.
PATIENCE = 0.7


class Outbox:
    """Rows out, in any weather. One per process."""

    def __init__(self, settings: Settings) -> None:
        data = settings.data_path
        self._spool_args = (data / "spool", settings.spool_max_bytes)
        self._buffer = Buffer(BUFFER_BYTES)
        self._journal = Journal(data / "journal")
        # A small spool asks for a small backlog, so the queue never holds more than it either.
        queue = RecordQueue(settings.redis_url, min(QUEUE_BYTES, max(QUEUE_LEAST, settings.spool_max_bytes)))
        self.copies = Copies() if settings.store_bodies else None
        self._courier = Courier(
            self._buffer, queue, Spool(*self._spool_args), self._journal, data / "journal", copies=self.copies
        )
        self._dropped = 0

    async def start(self) -> None:
        """Open the journal and begin to carry; requests that dead processes left open get their rows."""
        if self.copies is not None:
            log.warning("METALANCHOR_STORE_BODIES is on: requests and answers are written to the history.")
        await asyncio.to_thread(self._journal.start)
        self._courier.start()

    def open(self, flow: Flow) -> None:
        """Note that a request was received, so that it has a row even if this process is killed."""
        lost = Record(
            id=flow.id,
            received_at=flow.received_at,
            backend=flow.backend.name[:100],
            backend_kind=flow.backend.kind,
            endpoint=endpoint_of(flow.path),
            kind=flow.dialect.kind if flow.dialect else "other",
            status="proxy_lost",
        )
        self._journal.open(lost, encode(lost))

    def put(self, record: Record) -> None:
        """Hand over a request's row; never blocks, never raises."""
        try:
            row = encode(record)
        except (TypeError, ValueError):  # a detail that is no JSON: a bug elsewhere must not fail a request
            self._drop(record.id)
            return
        for gone, _ in self._buffer.put((record.id, row)):
            self._drop(gone)
        self._courier.wake()

    async def drain(self, timeout_s: float) -> None:
        """Queue or spool every row put so far and end, within `timeout_s` even if Redis hangs."""
        if not await asyncio.to_thread(self._courier.stop, timeout_s * PATIENCE):
            spool = Spool(*self._spool_args)
            await asyncio.to_thread(self._courier.abandon, spool)
            spool.close()
        self._journal.close()

    def status(self) -> dict[str, Any]:
        """What is on its way and what was lost; queue figures are as of the courier's last look."""
        queue, spool = self._courier.queue, self._courier.spool
        return {
            "redis": {"status": "down" if queue.error else "up", "error": queue.error},
            "buffer": {"records": len(self._buffer), "bytes": self._buffer.bytes},
            "queue": {
                "depth": queue.depth.jobs,
                "oldest_s": queue.depth.oldest_s,
                "bytes": queue.depth.bytes,
                "failed": queue.depth.failed,
                "full": queue.full,
            },
            "spool": {"records": spool.records, "bytes": spool.bytes, "error": spool.error},
            "bodies": {"kept": self.copies is not None, "waiting": len(self.copies or ())},
            "dropped": {
                "records": self._dropped + self._courier.dropped + spool.dropped,
                "bodies": self.copies.dropped if self.copies is not None else 0,
            },
            "journal": {
                "open": len(self._journal),
                "unjournalled": self._journal.unjournalled,
                "recovered": self._courier.recovered,
                "error": self._journal.error,
            },
            "workers": queue.workers,
            "worker_seen": queue.worker_seen,
            "worker_totals": queue.totals,
        }

    def _drop(self, request_id: str) -> None:
        self._dropped += 1
        self._journal.release(request_id)
