"""Several proxy processes on one port, and the parent that watches over them.

Children are spawned, never forked. Each holds the reading end of a pipe whose writing end only the parent
has: a parent that is gone, however it went, takes its children along. A child that dies is replaced; SIGHUP
replaces them one after the other, the old one ending when the new one serves.
"""

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from services.settings import Settings

_SPAWN = multiprocessing.get_context("spawn")
START_S = 20.0  # a child that serves nothing by then, on a machine under load, never will
STOP_S = 3.0
CRASH_S = 5.0  # a child that lives shorter was not hit by chance: the parent gives up instead of spinning


class Child:
    """One serving process."""

    def __init__(self, settings: Settings, leash: Connection) -> None:
        self.born = time.monotonic()
        self._ready, ready = _SPAWN.Pipe(duplex=False)
        self.process: SpawnProcess = _SPAWN.Process(target=_child, args=(settings, leash, ready))
        self.process.start()
        ready.close()

    def wait_ready(self) -> bool:
        """Whether it serves now; False when it died instead."""
        try:
            return self._ready.poll(START_S) and bool(self._ready.recv())
        except EOFError:
            return False

    def stop(self) -> None:
        """Ask it to end."""
        if self.process.is_alive():
            self.process.terminate()

    def reap(self, timeout_s: float) -> None:
        """Wait for its end; one that does not come is forced."""
        self.process.join(max(0.0, timeout_s))
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _child(settings: Settings, leash: Connection, ready: Connection) -> None:
    from services.proxy.server import serve  # noqa: PLC0415  # only children serve

    serve(settings, leash=leash.fileno(), ready=lambda: ready.send(True))


def supervise(settings: Settings) -> int:
    """Keep `settings.workers` processes serving until told to stop; the exit code."""
    return _Supervisor(settings).run()


class _Supervisor:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._leash, self._hold = _SPAWN.Pipe(duplex=False)
        self._children: list[Child] = []
        self._wake, self._waker = os.pipe()
        self._stopping = False
        self._reload = False

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGHUP, self._on_reload)
        code = 0
        try:
            self._children = [self._start() for _ in range(self._settings.workers)]
            code = self._watch()
        finally:
            self._stop_all()
        return code

    def _start(self) -> Child:
        return Child(self._settings, self._leash)

    def _watch(self) -> int:
        while True:
            wait([self._wake, *(child.process.sentinel for child in self._children)])
            if self._stopping:
                return 0
            if self._reload:
                self._replace_all()
            for index, child in enumerate(self._children):
                if child.process.is_alive():
                    continue
                if time.monotonic() - child.born < CRASH_S:
                    return child.process.exitcode or 1
                self._children[index] = self._start()

    def _replace_all(self) -> None:
        self._reload = False
        os.read(self._wake, 1024)
        for index, old in enumerate(self._children):
            if self._stopping:
                return
            new = self._start()
            if not new.wait_ready():
                new.reap(0)
                return
            self._children[index] = new
            old.stop()
            threading.Thread(target=old.reap, args=(STOP_S,)).start()

    def _stop_all(self) -> None:
        until = time.monotonic() + STOP_S
        for child in self._children:
            child.stop()
        for child in self._children:
            child.reap(until - time.monotonic())

    def _on_stop(self, *_: object) -> None:
        self._stopping = True
        os.write(self._waker, b".")

    def _on_reload(self, *_: object) -> None:
        self._reload = True
        os.write(self._waker, b".")
