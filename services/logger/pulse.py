"""The worker's heartbeat: a thread that says every two seconds that this process lives, and what it does.

It owns the heartbeat's contents. It beats from its own thread and its own Redis connection, so that a batch
which waits for a locked database does not make the worker look dead and its job be taken for orphaned.
"""

import os
import socket
import threading
import time

import msgspec
from redis import Redis
from redis.exceptions import RedisError

from services.logger import jobs
from services.queue import HEARTBEAT_PREFIX, HEARTBEAT_S, HEARTBEAT_TTL_S, Heartbeat, Sampled


class Pulse:
    """Beats between `start` and `stop`. `name` changes when the worker begins anew after losing Redis."""

    def __init__(self, connection: Redis) -> None:
        self._connection = connection
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
        now = time.time()
        self.beat = Heartbeat(
            name="", pid=os.getpid(), host=socket.gethostname(), started=now, last_seen=now, state="idle"
        )

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Say that this worker is gone, as far as Redis hears it, and end the thread."""
        self._ended.set()
        self._thread.join(timeout=HEARTBEAT_S)
        self._forget(self.beat.name)

    def rename(self, name: str) -> None:
        """Beat as `name` from now on, at once."""
        old, self.beat.name = self.beat.name, name
        if old:
            self._forget(old)
        self._send()

    def say(self, state: str, database: str | None = None) -> None:
        """What the next beats tell."""
        self.beat.state, self.beat.database = state, database

    def tell(self, sampled: tuple[Sampled, ...]) -> None:
        """What the next beats tell of the model servers."""
        self.beat.sampled = sampled

    def _run(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            self._send()

    def _send(self) -> None:
        beat = self.beat
        beat.last_seen = time.time()
        for field in ("stored", "repeated", "refused", "dropped"):
            setattr(beat, field, getattr(jobs.tally, field))
        try:
            self._connection.set(HEARTBEAT_PREFIX + beat.name, msgspec.json.encode(beat), ex=HEARTBEAT_TTL_S)
        except (RedisError, OSError):
            return

    def _forget(self, name: str) -> None:
        try:
            self._connection.delete(HEARTBEAT_PREFIX + name)
        except (RedisError, OSError):
            return
