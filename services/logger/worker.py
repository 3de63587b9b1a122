"""The worker process: takes batches from the queue and stores them, in this very process on every platform.

It owns the process's connections, its signals and its pace. There is no fork (macOS kills forked children
that touch system libraries) and no scheduler (rq's forks). While the database is away it takes up no job at
all: one batch fails, goes back to the front of the queue, and the worker asks the database at growing
intervals.
"""

import logging
import os
import threading
import time

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from sqlalchemy.exc import SQLAlchemyError

from services.history.engine import HistoryError, open_engine
from services.logger import jobs, retention, rolling
from services.logger.pulse import Pulse
from services.logger.recovery import recover
from services.logger.rqworker import REDIS_TIMEOUT_S, LogWorker, add_totals, told
from services.logger.store import Saved, Store, Unavailable
from services.logger.telemetry import Telemetry
from services.queue import NAMESPACE, open_queue
from services.redis_client import open_redis
from services.settings import Settings
from services.signals import set_on
from services.watch.sampler import Sampler

log = logging.getLogger("metalanchor.worker")

# SIGTERM must end the process within 3 s; a batch takes far less, unless Redis or the database hangs. Leaving
# a job half done then is safe: its worker's heartbeat ends and another takes it up.
STOP_S = 2.5
# Longest wait for a job, hence for everything else the loop does.
IDLE_S = 1
# Jobs between two looks at the rest: under a second of work.
STRETCH = 50
RECOVER_S = 5.0
LATER_S = 60.0
PRUNE_S = 3_600
PRUNE_LOCK = NAMESPACE + "prune"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 10.0
REDIS_PAUSE_S = 1.0
UNUSABLE = 2


def run(settings: Settings) -> int:
    """Be the worker, in the foreground, until SIGTERM or Ctrl-C; answers the process's exit code.

    0 after a stop, 2 when the settings do not allow a start; then the log says why.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    if settings.redis_url is None:
        log.error(
            "METALANCHOR_REDIS_URL is not set. Name the Redis that the proxy uses, or start `metalanchor up`."
        )
        return UNUSABLE
    stopping = threading.Event()
    try:
        service = Service(settings, stopping)
    except (HistoryError, ValueError) as error:
        log.error("%s", error)  # noqa: TRY400 - the text is for the user; a traceback would not help
        return UNUSABLE
    set_on(stopping, then=_end_in_time)
    try:
        service.run()
    finally:
        service.close()
    return 0


class Service:
    """One run of the worker: short stretches of work, recovery and pruning in turn, until `stopping`."""

    def __init__(self, settings: Settings, stopping: threading.Event) -> None:
        assert settings.redis_url is not None
        self._stopping = stopping
        self._redis = _connect(settings.redis_url)
        self._queue = open_queue(self._redis)
        self._pulse = Pulse(_connect(settings.redis_url))
        self._sampler = Sampler(settings, _connect(settings.redis_url), self._pulse.tell)
        self._engine = open_engine(settings.database)
        self._store = Store(self._engine)
        self._telemetry = Telemetry(settings.otel_endpoint) if settings.otel_endpoint else None
        self._keep_days = settings.retention_days
        self._worker: LogWorker | None = None
        self._pause = FIRST_PAUSE_S
        self._recover_at = 0.0
        self._tend_at = 0.0
        self._prune_at = 0.0
        self._pruning = False
        self._rolling = False
        self._busy = False
        self._roll_at = 0.0
        self._redis_lost = False

    def run(self) -> None:
        """Work until `stopping`; whatever fails outside is waited for."""
        jobs.use(self._store, self._telemetry)
        self._pulse.start()
        self._sampler.start()
        while not self._stopping.is_set():
            try:
                self._turn(self._worker or self._begin())
            except Unavailable as error:
                self._wait_for_database(error)
            except (RedisError, OSError) as error:
                self._wait_for_redis(error)
        self._pulse.say("stopping")

    def close(self) -> None:
        """Give the connections back."""
        self._sampler.stop()
        self._pulse.stop()
        jobs.use(None)
        if self._telemetry is not None:
            self._telemetry.close()
        self._redis.close()

    def _begin(self) -> LogWorker:
        # A new name each time: what the old one left in Redis counts as orphaned once its heartbeat ends.
        self._worker = worker = LogWorker(self._queue, self._stopping)
        self._pulse.rename(worker.name)
        self._recover_at = 0.0
        if self._redis_lost:
            log.info("Redis is back")
        self._redis_lost = False
        return worker

    def _turn(self, worker: LogWorker) -> None:
        if time.monotonic() >= self._recover_at:
            self._recover(worker)
        if time.monotonic() >= self._tend_at:
            self._tend()
        before = worker.completed
        self._pulse.say("working")
        worker.stretch(max_jobs=STRETCH, idle_s=IDLE_S, burst=self._pruning or self._rolling)
        self._pulse.beat.jobs = worker.completed
        self._busy = worker.completed > before
        if self._busy:
            self._pause = FIRST_PAUSE_S
        if worker.failure is not None:
            self._recover(worker)
            raise Unavailable(told(worker.failure))
        self._redis.ping()

    def _recover(self, worker: LogWorker) -> None:
        found = recover(self._queue, worker.name)
        if found.jobs:
            log.info("%d batches queued again", found.jobs)
        if found.expired:
            log.warning("%d failed batches had expired", found.expired)
            jobs.tally.dropped += found.expired
            add_totals(self._redis, Saved(dropped=found.expired))
        self._recover_at = time.monotonic() + RECOVER_S

    def _tend(self) -> None:
        """Prune, and renew the sums; rows come first, so what fails of this alone is left for later."""
        try:
            self._prune()
            self._roll()
        except SQLAlchemyError as error:
            self._store.probe()  # raises what is wrong where rows are not taken either
            log.warning("old rows and sums are left for later: %s", type(error).__name__)
            self._pruning = self._rolling = False
            self._tend_at = time.monotonic() + LATER_S

    def _prune(self) -> None:
        now = time.monotonic()
        if not self._pruning and now >= self._prune_at:
            self._prune_at = now + PRUNE_S
            self._pruning = bool(self._redis.set(PRUNE_LOCK, "1", nx=True, ex=PRUNE_S - 60))
        if not self._pruning:
            return
        before = retention.cutoff(self._keep_days)
        more = retention.prune_step(self._engine, before) == retention.BATCH
        more |= retention.prune_bodies_step(self._engine, before) == retention.BODIES
        self._pruning = more or retention.prune_samples_step(self._engine, before) >= retention.BATCH

    def _roll(self) -> None:
        # One step a turn: a long history that has no sums yet gets them beside the rows that come in. While
        # batches wait, as when a spool is replayed into hours long past, a tenth of the time at most.
        began = time.monotonic()
        if began < self._roll_at and self._busy:
            return
        self._rolling = rolling.roll_step(self._engine, time.time())
        ended = time.monotonic()
        self._roll_at = ended + 9 * (ended - began)

    def _wait_for_database(self, error: Unavailable) -> None:
        log.warning("the history takes no rows: %s; batches stay queued", error)
        while not self._stopping.is_set():
            self._pulse.say("waiting", str(error))
            self._stopping.wait(self._pause)
            self._pause = min(self._pause * 2, LONGEST_PAUSE_S)
            try:
                self._store.probe()
            except Unavailable as again:
                error = again
            else:
                log.info("the history answers again")
                return

    def _wait_for_redis(self, error: Exception) -> None:
        if not self._redis_lost:
            log.warning("Redis is away (%s); waiting", type(error).__name__)
        self._redis_lost = True
        self._worker = None
        self._stopping.wait(REDIS_PAUSE_S)


def _connect(url: str) -> Redis:
    # No retries below: a blocking move that is sent twice takes two jobs.
    return open_redis(
        url,
        socket_timeout=REDIS_TIMEOUT_S,
        socket_connect_timeout=REDIS_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


def _end_in_time() -> None:
    """Whatever still runs by then is left."""
    time.sleep(STOP_S)
    os._exit(0)
