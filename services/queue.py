"""The queue contract: the names under which the proxy and the worker meet in Redis, and nothing else.

It owns no state. All of it, rq's own keys too, lives under `NAMESPACE`, so that a Redis shared with other
programs stays legible and one pattern finds what is ours. rq reads its prefix from the environment while it
is imported; therefore rq is imported from here by both sides.
"""

import os

import msgspec

NAMESPACE = "metalanchor:"
RQ_PREFIX = NAMESPACE + "rq"
QUEUE = "metalanchor"
SERIALIZER = "json"
HEARTBEAT_PREFIX = NAMESPACE + "worker:"
TOTALS = NAMESPACE + "log"
# A worker beats every 2 s; five missed beats and it is dead: its unfinished jobs go back to the queue.
HEARTBEAT_S = 2.0
HEARTBEAT_TTL_S = 10
# No failed payload stays in Redis over a day.
FAILURE_TTL_S = 86_400
# A batch stores in well under a second; a SQLite file locked by another writer may hold it for 30 s.
JOB_TIMEOUT_S = 60

os.environ["RQ_KEY_PREFIX"] = RQ_PREFIX

import rq  # noqa: E402
import rq.defaults  # noqa: E402
from redis import Redis  # noqa: E402

if rq.defaults.RQ_KEY_PREFIX != RQ_PREFIX:
    raise RuntimeError(
        "rq was imported before services.queue and uses another key prefix. Import this first."
    )


class Sampled(msgspec.Struct, kw_only=True, frozen=True):
    """What a worker last sampled of a model server's own counters; it travels in its heartbeat.

    `sampled_at` is in epoch seconds. `hit_rate` (0 to 1) is that of the last quarter of an hour, in which
    `lookups` were counted in `unit` (``tokens`` or ``lookups``); with no unit it is the server's own mean.
    None is unknown.
    """

    backend: str
    exporter: str
    sampled_at: float
    hit_rate: float | None = None
    lookups: int = 0
    unit: str | None = None
    kv_usage: float | None = None
    running: float | None = None
    waiting: float | None = None


class Heartbeat(msgspec.Struct, kw_only=True):
    """What a worker says of itself under `HEARTBEAT_PREFIX` + its name, as JSON that expires on its own.

    `last_seen` and `started` are epoch seconds; `state` is ``idle``, ``working``, ``waiting`` (the database
    does not answer; jobs stay queued) or ``stopping``; `database` the error's short text while waiting. The
    counters are this process's: rows stored, rows that were there before, rows stored bare because the
    database refused them, rows lost.
    """

    name: str
    pid: int
    host: str
    started: float
    last_seen: float
    state: str
    database: str | None = None
    jobs: int = 0
    stored: int = 0
    repeated: int = 0
    refused: int = 0
    dropped: int = 0
    sampled: tuple[Sampled, ...] = ()


def open_queue(connection: Redis) -> rq.Queue:
    """The one queue, with JSON instead of pickle: whoever can write to Redis must not run code here."""
    return rq.Queue(QUEUE, connection=connection, serializer=SERIALIZER, default_timeout=JOB_TIMEOUT_S)


def read_heartbeats(connection: Redis) -> list[Heartbeat]:
    """The workers alive now, oldest first."""
    found = [connection.get(key) for key in connection.scan_iter(match=HEARTBEAT_PREFIX + "*", count=500)]
    beats = [msgspec.json.decode(raw, type=Heartbeat) for raw in found if isinstance(raw, bytes | str)]
    return sorted(beats, key=lambda beat: (beat.started, beat.name))


def read_totals(connection: Redis) -> dict[str, int]:
    """What all workers did since this Redis has its data: stored, repeated, refused, dropped (rows)."""
    stored = connection.hgetall(TOTALS)
    return {_text(name): int(value) for name, value in stored.items()}


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
