"""Runs child processes and keeps them running: start, restart with back-off, stop in order.

It owns the children of ``metalanchor up`` and nothing else; one thread, no event loop, so that it has nothing
that could hang. Children get a session of their own: a Ctrl-C at the terminal reaches the supervisor alone,
which then stops them in the right order. A Python child started with ``--with-parent`` ends by itself when
the supervisor is killed; the embedded server is found by its socket at the next start.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 30.0
# A child that lived this long did start: its next end is a new trouble, told and retried anew.
HEALTHY_S = 20.0
TICK_S = 0.1
PARENT_LOOK_S = 1.0
LOG_TAIL = 2_000


class Child:
    """One supervised process. `stop_s` is how long SIGTERM may take before SIGKILL."""

    def __init__(
        self, name: str, argv: Sequence[str], env: Mapping[str, str], log: Path, stop_s: float = 5.0
    ) -> None:
        self.name = name
        self.argv = list(argv)
        self.env = dict(env)
        self.log = log
        self.stop_s = stop_s
        self.restarts = 0
        self.wanted = False
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._backoff = BACKOFF_FIRST_S
        self._due = 0.0

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start it now; its output is appended to its log file."""
        self.wanted = True
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - argv is ours, no shell
                self.argv,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._started = time.monotonic()

    def tick(self, say: Callable[[str], None]) -> None:
        """Notice its end, say so once, and start it again when its pause is over."""
        if not self.wanted or self._process is None or (code := self._process.poll()) is None:
            return
        now = time.monotonic()
        if not self._due:
            if now - self._started > HEALTHY_S:
                self._backoff = BACKOFF_FIRST_S
            if self._backoff == BACKOFF_FIRST_S:
                say(f"{self.name} ended ({_ending(code)}); starting it again. Its log: {self.log}")
            self._due = now + self._backoff
            self._backoff = min(self._backoff * 2, BACKOFF_MAX_S)
        elif now >= self._due:
            self._due = 0.0
            self.restarts += 1
            self.start()

    def stop(self) -> None:
        """End it: SIGTERM, then SIGKILL to its whole group after `stop_s`. Returns when it is gone."""
        self.wanted = False
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(self.stop_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def tail(self) -> str:
        """The end of its log, for an error message."""
        with suppress(OSError):
            return self.log.read_bytes()[-LOG_TAIL:].decode("utf-8", "replace").strip()
        return ""


class Supervisor:
    """A set of children, stopped in the reverse order of their start."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._children: list[Child] = []
        self.stopping = threading.Event()

    def add(self, child: Child) -> Child:
        """Take a child in and start it."""
        self._children.append(child)
        child.start()
        return child

    def remove(self, child: Child) -> None:
        """Stop a child for good."""
        child.stop()
        self._children.remove(child)

    def pause(self, seconds: float) -> bool:
        """Tend the children for that long; True as soon as a stop was asked for."""
        until = time.monotonic() + seconds
        while not self.stopping.is_set():
            for child in self._children:
                child.tick(self._say)
            left = until - time.monotonic()
            if left <= 0:
                break
            self.stopping.wait(min(TICK_S, left))
        return self.stopping.is_set()

    def stop(self) -> None:
        """Stop all children, last started first."""
        self.stopping.set()
        for child in reversed(self._children):
            child.stop()
        self._children.clear()


def leave_with_parent() -> None:
    """End this process by SIGTERM once the one that started it is gone, so that no orphan keeps its port."""
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_LOOK_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=look, name="leave-with-parent", daemon=True).start()


def _ending(code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return f"by {signal.Signals(-code).name}"
    return f"exit code {code}"
