"""Gives jobs back to the queue: those that failed, and those whose worker died over them.

It owns no state. Running a batch twice is harmless (rows are stored once by id), so whatever is in doubt is
queued again; what must never happen is that a batch expires unseen.
"""

import logging
import os
import socket

import msgspec
from redis import Redis
from rq import Queue
from rq.exceptions import NoSuchJobError
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job

from services.queue import read_heartbeats

log = logging.getLogger("metalanchor.worker")


class Recovered(msgspec.Struct):
    """Jobs queued again, and failed ones that had expired in Redis before anyone could."""

    jobs: int = 0
    expired: int = 0


def recover(queue: Queue, name: str) -> Recovered:
    """Queue again what failed and what dead workers left; `name` is the worker that asks, idle itself."""
    found = Recovered()
    others = _others(queue.connection, name)
    _from_failed(queue, found)
    _from_started(queue, others, found)
    if not others:
        _from_intermediate(queue, found)
    return found


def _others(connection: Redis, name: str) -> set[str]:
    """The other workers alive. One of this host whose process is gone is dead, though it beat lately."""
    beats = [beat for beat in read_heartbeats(connection) if beat.name != name]
    here = socket.gethostname()
    return {beat.name for beat in beats if beat.host != here or _runs(beat.pid)}


def _runs(pid: int) -> bool:
    # In a container that was started again, the dead worker had the number that this process has now.
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _from_failed(queue: Queue, found: Recovered) -> None:
    registry = queue.failed_job_registry
    for job_id in registry.get_job_ids(cleanup=False):
        job = _fetch(queue, job_id)
        _put_back(queue, job, registry.key, job_id, found)
        found.expired += job is None


def _from_started(queue: Queue, others: set[str], found: Recovered) -> None:
    registry = queue.started_job_registry
    for job_id, execution_id in registry.get_job_and_execution_ids(cleanup=False):
        job = _fetch(queue, job_id)
        if job is None or job.worker_name not in others:
            _put_back(queue, job, registry.key, f"{job_id}:{execution_id}", found)


def _from_intermediate(queue: Queue, found: Recovered) -> None:
    # Taken from the queue by a worker that died before it began; only certain when no other worker lives.
    waiting = IntermediateQueue(queue.key, queue.connection)
    for job_id in waiting.get_job_ids():
        job = _fetch(queue, job_id)
        if job is not None:
            queue.enqueue_job(job, at_front=True)
            found.jobs += 1
        waiting.remove(job_id)


def _put_back(queue: Queue, job: Job | None, registry: str, member: str, found: Recovered) -> None:
    with queue.connection.pipeline() as pipeline:
        if job is not None:
            job.started_at = job.ended_at = None
            queue.enqueue_job(job, pipeline=pipeline, at_front=True)
            # A failed job's key expires; a queued one's must not.
            pipeline.persist(job.key)
            found.jobs += 1
        pipeline.zrem(registry, member)
        pipeline.execute()


def _fetch(queue: Queue, job_id: str) -> Job | None:
    try:
        return Job.fetch(job_id, connection=queue.connection, serializer=queue.serializer)
    except NoSuchJobError:
        return None
    except Exception as error:  # noqa: BLE001 - a garbled job must not hold up the others
        log.warning("job %s cannot be read: %s", job_id, type(error).__name__)
        return None
