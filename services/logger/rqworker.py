"""rq's in-process worker, cut down to a quiet, stoppable one that runs no job but ours.

It owns nothing beyond what rq's worker does; `services.logger.worker` owns the loop around it.
"""

import logging
import os
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from redis import Redis
from redis.exceptions import RedisError
from rq import Queue, SimpleWorker
from rq.exceptions import DeserializationError, StopRequested
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job

from services import bodies
from services.logger import jobs
from services.logger.store import Saved, Unavailable
from services.queue import SERIALIZER, TOTALS
from services.record import JOB

log = logging.getLogger("metalanchor.worker")

JOBS = frozenset({JOB, bodies.JOB})

# Longer than the longest blocking call (1 s), short enough to notice a Redis that hangs.
REDIS_TIMEOUT_S = 4


class LogWorker(SimpleWorker):
    """rq's in-process worker, without the parts that get in the way.

    Its signal handlers and command channel are not used; it logs neither arguments nor descriptions; and it
    leaves `work` as soon as a job failed, Redis is gone, or `stopping` is set. It runs no job but ours: JSON
    instead of pickle is not enough, since rq calls whatever function a job names.
    """

    def __init__(self, queue: Queue, stopping: threading.Event) -> None:
        name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        super().__init__(
            [queue], name=name, connection=queue.connection, serializer=SERIALIZER, maintenance_interval=60
        )
        self.log_job_description = False
        self.failure: BaseException | None = None
        self._lost: Exception | None = None
        self.completed = 0
        self._stopping = stopping

    @property
    def connection_timeout(self) -> int:
        """Seconds a Redis call may take."""
        return REDIS_TIMEOUT_S

    def stretch(self, *, max_jobs: int, idle_s: int, burst: bool) -> None:
        """Work off at most so many jobs; return when none came for `idle_s`, with `burst` at once.

        Raises `RedisError` or `OSError` when Redis is gone or takes no writes.
        """
        self.failure = self._lost = None
        self.work(burst=burst, logging_level="WARNING", max_jobs=max_jobs, max_idle_time=idle_s)
        if self._lost is not None:
            raise self._lost

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run one job here; leave the loop when it failed."""
        before = msgspec.structs.replace(jobs.tally)
        with self._leaving():
            if _is_ours(job):
                super().execute_job(job, queue)
            else:
                self._discard(job, queue)
            add_totals(self.connection, _since(before))
        if self.failure is not None:
            raise StopRequested
        self.completed += 1

    def _discard(self, job: Job, queue: Queue) -> None:
        log.warning("job %s is none of ours and was thrown away", job.id)
        jobs.tally.dropped += 1
        job.delete()
        IntermediateQueue(queue.key, queue.connection).remove(job.id)

    def handle_exception(self, job: Job, *exc_info: Any) -> None:
        """Note the failure; rq's own way logs the job's arguments."""
        error: BaseException = exc_info[1]
        self.failure = error
        log.warning("batch %s was not stored: %s", job.id, told(error))

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """The next job; leave the loop instead of taking one up when the process is to stop."""
        if self._stopping.is_set():
            raise StopRequested
        with self._leaving():
            return super().dequeue_job_and_maintain_ttl(timeout, max_idle_time)

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Tell rq that this worker lives."""
        with self._leaving():
            super().heartbeat(timeout, pipeline)

    def check_for_suspension(self, burst: bool) -> None:
        """Ask whether somebody suspended rq's workers."""
        with self._leaving():
            super().check_for_suspension(burst)

    def run_maintenance_tasks(self) -> None:
        """Clean rq's registries, once a minute."""
        with self._leaving():
            super().run_maintenance_tasks()  # type: ignore[no-untyped-call]

    @contextmanager
    def _leaving(self) -> Iterator[None]:
        """Leave the loop when Redis is gone: rq would log that with a traceback."""
        try:
            yield
        except (RedisError, OSError) as error:
            self._lost = error
            raise StopRequested from None

    def subscribe(self) -> None:
        """Nobody commands this worker through Redis."""

    def unsubscribe(self) -> None:
        """Nothing was subscribed."""

    def _install_signal_handlers(self) -> None:
        pass


def add_totals(connection: Redis, saved: Saved) -> None:
    """Add to the sums over all workers that Redis keeps."""
    changed = {name: getattr(saved, name) for name in Saved.__struct_fields__ if getattr(saved, name)}
    if not changed:
        return
    with connection.pipeline(transaction=False) as pipeline:
        for name, value in changed.items():
            pipeline.hincrby(TOTALS, name, value)
        pipeline.execute()


def told(error: BaseException) -> str:
    """A failure as text that holds nothing of a batch."""
    return str(error) if isinstance(error, Unavailable) else type(error).__name__


def _is_ours(job: Job) -> bool:
    try:
        return (
            job.func_name in JOBS and len(job.args) == 1 and isinstance(job.args[0], str) and not job.kwargs
        )
    except DeserializationError:
        return False


def _since(before: Saved) -> Saved:
    return Saved(*(getattr(jobs.tally, name) - getattr(before, name) for name in Saved.__struct_fields__))
