"""Samples the configured model servers on a schedule, beside the worker's real work and never in its way.

It owns one thread with connections of its own to Redis and the database, and what the latest samples said. Of
several workers one samples a backend: who holds its lease in Redis, which ends by itself. A server without
counters is asked again only now and then; whatever fails is told once and costs nothing but the sample.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec
from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from services.history.engine import HistoryError, open_engine
from services.queue import NAMESPACE, Sampled
from services.settings import BackendSetting, Settings
from services.watch import samples
from services.watch.reading import Interval, Reading, Unit, between
from services.watch.scrape import Unwatchable, scrape

log = logging.getLogger("metalanchor.sampler")

# Kinds that have no counters, and clouds, which nobody polls unasked.
SILENT_KINDS = frozenset({"ollama", "ds4", "lmstudio", "mlx_lm", "anthropic"})
CLOUDS = (".anthropic.com", ".openai.com")
# What the gauge and the alarm look back on: long enough to hold some turns of an agent.
WINDOW_S = 900
# An earlier sample than this is no beginning of an interval: a day's growth is not the last half minute's.
STALE_S = 600
# A server without counters may be started with them tomorrow.
AGAIN_S = 600.0
LASTING = frozenset({"unauthorized", "no_metrics", "not_prometheus", "no_counters", "too_large"})
LEASE = NAMESPACE + "sampler:"
LEASE_LEAST_S, LEASE_MOST_S = 10, 86_400
# The worker has to end within three seconds.
PATIENCE_S = 0.5


class Target(msgspec.Struct):
    """A backend to sample; `due` is on the monotonic clock, `trouble` the code told last."""

    name: str
    url: str
    due: float = 0.0
    trouble: str | None = None
    before: Reading | None = None
    mine: bool = False


def targets_of(settings: Settings) -> list[Target]:
    """The configured backends that may have counters."""
    rows = settings.named_backends
    return [Target(row.name, row.url) for row in rows if row.kind not in SILENT_KINDS and not _is_cloud(row)]


def _is_cloud(row: BackendSetting) -> bool:
    return f".{urlsplit(row.url).hostname}".endswith(CLOUDS)


class Sampler:
    """Samples between `start` and `stop`; `tell` gets what the latest samples said, after each round."""

    def __init__(self, settings: Settings, redis: Redis, tell: Callable[[tuple[Sampled, ...]], None]) -> None:
        self._interval = settings.sample_interval_s
        self._database = settings.database
        self._targets = targets_of(settings) if self._interval else []
        self._redis = redis
        self._tell = tell
        self._me = secrets.token_hex(8)
        self._ended = threading.Event()
        self._engine: Engine | None = None
        self._said: dict[str, Sampled] = {}
        self._database_trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Begin, unless there is nothing to sample."""
        if self._targets:
            self._thread.start()

    def stop(self) -> None:
        """Let the thread end and give its leases back; a scrape under way is not waited for."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        pause = min(self._interval, 1.0)
        while not self._ended.wait(pause):
            for target in self._targets:
                if time.monotonic() >= target.due and not self._ended.is_set():
                    target.due = time.monotonic() + self._interval
                    self._sample(target)
        self._release()
        if self._engine is not None:
            self._engine.dispose()

    def _release(self) -> None:
        with suppress(RedisError, OSError):
            for target in self._targets:
                if target.mine and self._holder(target) == self._me:
                    self._redis.delete(LEASE + target.name)

    def _holder(self, target: Target) -> str | None:
        holder = self._redis.get(LEASE + target.name)
        return holder.decode() if isinstance(holder, bytes) else None

    def _sample(self, target: Target) -> None:
        try:
            if not self._lead(target):
                return
            reading = scrape(target.url)
            self._keep(target, reading)
        except Unwatchable as trouble:
            self._failed(target, trouble)
        except (RedisError, OSError):
            target.mine = False  # the worker's own loop says that Redis is away
        except (SQLAlchemyError, HistoryError) as error:
            self._database_failed(error)
        else:
            target.trouble = self._database_trouble = None
        self._tell(tuple(self._said.values()))

    def _lead(self, target: Target) -> bool:
        """Whether this worker samples the backend: it holds the lease, or takes it up."""
        key, ttl = LEASE + target.name, int(min(max(LEASE_LEAST_S, 2 * self._interval), LEASE_MOST_S))
        if not self._redis.set(key, self._me, nx=True, ex=ttl):
            if self._holder(target) != self._me:
                target.mine, target.before = False, None
                self._said.pop(target.name, None)
                return False
            self._redis.expire(key, ttl)
        return True

    def _keep(self, target: Target, reading: Reading) -> None:
        self._engine = self._engine or open_engine(self._database)
        with self._engine.begin() as connection:
            if not target.mine:
                target.before = samples.latest(connection, target.name, reading.at - STALE_S)
                target.mine = True
            interval = between(_fresh(target.before, reading.at), reading)
            samples.store(connection, target.name, reading, interval)
            target.before = reading
            window = samples.recent(connection, target.name, reading.at - WINDOW_S)
        self._said[target.name] = _said(target.name, reading, interval, window)

    def _failed(self, target: Target, trouble: Unwatchable) -> None:
        self._said.pop(target.name, None)
        if trouble.code in LASTING:
            target.due = time.monotonic() + max(AGAIN_S, self._interval)
        if trouble.code != target.trouble:
            log.info("%s is not sampled: %s", target.name, trouble)
            target.trouble = trouble.code

    def _database_failed(self, error: Exception) -> None:
        kind = type(getattr(error, "orig", None) or error).__name__
        if kind != self._database_trouble:
            log.warning("a sample was not stored: %s", kind)
            self._database_trouble = kind


def _fresh(before: Reading | None, now: float) -> Reading | None:
    return before if before is not None and now - before.at <= STALE_S else None


def _said(name: str, reading: Reading, interval: Interval, window: tuple[int, int, Unit | None]) -> Sampled:
    lookups, hits, unit = window
    rate = min(1.0, hits / lookups) if lookups else interval.hit_rate if reading.unit is None else None
    return Sampled(
        backend=name,
        exporter=reading.exporter,
        sampled_at=reading.at,
        hit_rate=rate,
        lookups=lookups,
        unit=unit,
        kv_usage=reading.kv_usage,
        running=reading.running,
        waiting=reading.waiting,
    )
