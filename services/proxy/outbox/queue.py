"""The way into the rq queue: one job a batch, and what the queue holds.

Owns a Redis client of its own with short socket time limits and no retries, used by the outbox's thread
alone: rq is blocking, and a Redis that accepts and never answers must cost a bounded time. After a failure
nothing is tried until a growing pause has passed; rows go to the spool meanwhile.

The queue is bounded too: a worker that stands still, or one whose database is away so that its jobs pile up
as failed, must not fill Redis. The bytes are estimated from a sample of the jobs, failed and waiting alike.
"""

import datetime as dt
import time
from collections.abc import Callable

import msgspec
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from services.queue import FAILURE_TTL_S, Heartbeat, open_queue, read_heartbeats, read_totals
from services.record import JOB
from services.redis_client import open_redis

SOCKET_S = 1.0
PAUSE_S = (0.25, 5.0)  # first and longest pause after a failure
MEASURE_S = 0.25
HEARTBEATS_S = 2.0  # as often as a worker beats
SAMPLE = 8
# A job hash without its payload, as `MEMORY USAGE` counts it on Valkey 9: 987 bytes.
JOB_OVERHEAD = 1_000


class Depth(msgspec.Struct, kw_only=True):
    """What waits in Redis: jobs (batches), estimated bytes, and the age of the oldest in seconds."""

    jobs: int = 0
    bytes: int = 0
    oldest_s: float | None = None
    failed: int = 0


class RecordQueue:
    """Pushes batches while the queue has room and Redis answers; `error` says why it did not."""

    def __init__(self, url: str | None, max_bytes: int) -> None:
        self._url, self._max = url, max_bytes
        self._client: redis.Redis | None = None
        self._pause, self._again_at, self._measured_at, self._beats_at = 0.0, 0.0, 0.0, 0.0
        self.depth = Depth()
        self.workers: list[Heartbeat] = []
        self.worker_seen: float | None = None
        self.totals: dict[str, int] = {}
        self.error: str | None = None if url else "no Redis is configured"

    @property
    def ready(self) -> bool:
        """Whether a push is worth trying now."""
        return self._url is not None and time.monotonic() >= self._again_at

    @property
    def full(self) -> bool:
        """Whether the queue holds as much as it may."""
        return self.depth.bytes >= self._max

    @property
    def roomy(self) -> bool:
        """Whether the spool may be replayed: not before the queue is half empty, so that it does not flap."""
        return self.depth.bytes < self._max // 2

    def push(self, batch: str, count: int, job: str = JOB) -> bool:
        """Queue a batch for `job`; False when Redis does not take it or the queue is full. Never raises."""
        if not self.ready:
            return False
        try:
            self._measure(MEASURE_S)
            if self.full:
                return False
            self._enqueue(job, batch, count)
        except (redis.RedisError, OSError) as error:
            self._failed(error)
            return False
        self._worked()
        self.depth.jobs += 1
        self.depth.bytes += JOB_OVERHEAD + len(batch)  # from above: compressed when next measured
        if self.depth.oldest_s is None:
            self.depth.oldest_s = 0.0
        return True

    def look(self) -> None:
        """Bring depth, age and workers up to date if Redis answers. Never raises."""
        if not self.ready:
            return
        try:
            self._measure(0.0)
            if time.monotonic() - self._beats_at >= HEARTBEATS_S:
                self._meet()
        except (redis.RedisError, OSError, msgspec.DecodeError) as error:
            self._failed(error)
        else:
            self._worked()

    def close(self) -> None:
        """Give the connections back."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connect(self) -> redis.Redis:
        if self._client is None:
            assert self._url is not None
            self._client = open_redis(
                self._url,
                socket_timeout=SOCKET_S,
                socket_connect_timeout=SOCKET_S,
                retry=Retry(NoBackoff(), 0),
            )
        return self._client

    def _enqueue(self, job: str, batch: str, count: int) -> None:
        queue = open_queue(self._connect())
        with queue.connection.pipeline() as pipe:
            queue.enqueue_call(
                job,
                args=(batch,),
                result_ttl=0,
                failure_ttl=FAILURE_TTL_S,
                description=f"{count} rows",
                pipeline=pipe,
            )
            pipe.execute()

    def _measure(self, age_s: float) -> None:
        now = time.monotonic()
        if now - self._measured_at < age_s:
            return
        queue = open_queue(self._connect())
        failed = queue.failed_job_registry.key
        with queue.connection.pipeline(transaction=False) as pipe:
            pipe.llen(queue.key)
            pipe.lrange(queue.key, 0, SAMPLE - 1)
            pipe.lrange(queue.key, -SAMPLE, -1)
            pipe.zcard(failed)
            pipe.zrange(failed, 0, SAMPLE - 1)
            pipe.zcard(queue.scheduled_job_registry.key)
            pipe.zcard(queue.started_job_registry.key)
            waiting, head, tail, broken, bad, later, running = pipe.execute()
        jobs = waiting + broken + later + running
        mean, oldest = self._sample(queue.job_class.key_for, [*head, *tail, *bad], [*head[:1], *bad[:1]])
        self.depth = Depth(
            jobs=jobs, bytes=jobs * (mean + JOB_OVERHEAD) if jobs else 0, oldest_s=oldest, failed=broken
        )
        self._measured_at = now

    def _sample(
        self, key_for: Callable[[str], str], ids: list[bytes], oldest: list[bytes]
    ) -> tuple[int, float | None]:
        """Mean payload bytes of some jobs, and the age of the oldest."""
        if not ids:
            return 0, None
        with self._connect().pipeline(transaction=False) as pipe:
            for job in ids:
                pipe.hstrlen(key_for(job.decode()), "data")
            for job in oldest:
                pipe.hget(key_for(job.decode()), "enqueued_at")
            answers = pipe.execute()
        sizes, stamps = answers[: len(ids)], [raw for raw in answers[len(ids) :] if raw]
        ages = [time.time() - _epoch(raw) for raw in stamps]
        return sum(sizes) // len(sizes), round(max(0.0, *ages), 1) if ages else None

    def _meet(self) -> None:
        self.workers = read_heartbeats(self._connect())
        self.totals = read_totals(self._connect())
        self.worker_seen = max((beat.last_seen for beat in self.workers), default=self.worker_seen)
        self._beats_at = time.monotonic()

    def _failed(self, error: Exception) -> None:
        low, high = PAUSE_S
        self._pause = min(high, self._pause * 2 or low)
        self._again_at = time.monotonic() + self._pause
        self.error = type(error).__name__
        self.workers = []
        self.close()

    def _worked(self) -> None:
        self._pause, self.error = 0.0, None


def _epoch(raw: bytes) -> float:
    return dt.datetime.fromisoformat(raw.decode()).timestamp()
