"""All processes of an installation, each to be killed, frozen and started again by the test."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from services.history.migrate import upgrade
from tests.support.proxy import Proxy, free_port
from tests.support.valkey import Valkey

PATIENCE_S = 30.0


def until(condition: Callable[[], Any], seconds: float = PATIENCE_S, what: str = "it") -> float:
    """Wait for something to come true; the seconds it took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, f"{what} did not come true within {seconds} s"
        time.sleep(0.03)
    return time.monotonic() - started


class Part:
    """One process of ours by command; its output goes to a log."""

    def __init__(self, log: Path, command: list[str], env: dict[str, str]) -> None:
        self._log, self._command, self._env = log, command, env
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, env=self._env, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL, to it and its children."""
        if self.process is not None and self.process.poll() is None:  # else its number may be another's
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)

    def text(self) -> str:
        return self._log.read_text() if self._log.exists() else ""


class Stack:
    """Model server, Redis, worker and proxy over one database."""

    def __init__(self, folder: Path, database: str, **settings: Any) -> None:
        self.folder, self.database = folder, database
        folder.mkdir(parents=True)
        self.seen = folder / "seen"
        self.seen.touch()
        self.valkey: Valkey = settings.pop("valkey", None) or Valkey(_made(folder / "redis"))
        self.model_port = free_port()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("METALANCHOR_")}
        command = [sys.executable, "-m", "tests.faults.model", str(self.model_port), str(self.seen)]
        self.model = Part(folder / "model.log", command, clean)
        self.redis_url = settings.pop("redis_url", self.valkey.url)
        self._files: int | None = settings.pop("files", None)
        home = {"HOME": str(folder), "METALANCHOR_REDIS_URL": self.redis_url}
        home |= {"METALANCHOR_DATABASE_URL": database, "METALANCHOR_DATA_DIR": str(folder / "worker")}
        command = [sys.executable, "-m", "services.cli", "worker"]
        self.worker = Part(folder / "worker.log", command, {**clean, **home})
        self.proxy = Proxy(
            folder / "proxy", f"http://127.0.0.1:{self.model_port}", redis_url=self.redis_url,
            database_url=database, **settings,
        )  # fmt: skip

    def start(self) -> "Stack":
        """Start everything and wait until all of it is in use."""
        upgrade(self.database)
        self.model.start()
        self.valkey.start()
        self.worker.start()
        self.proxy.spawn()
        if self._files is not None:  # long before it listens
            limit_files(self.proxy.process.pid, self._files)
        until(self.healthy, what="a healthy start")
        return self

    def stop(self) -> None:
        """Kill what is left."""
        for kill in (self.proxy.kill, self.worker.kill, self.model.kill, self.valkey.stop):
            kill()

    def status(self) -> dict[str, Any]:
        """What the proxy says of itself; empty while it does not answer."""
        try:
            return dict(self.proxy.json("/status"))
        except (OSError, AssertionError, ValueError):
            return {}

    def healthy(self) -> bool:
        """Whether every part is up and in use."""
        status = self.status()
        return status.get("status") == "ok" and status["state"]["mode"] == "redis"

    def memory(self) -> int:
        """Resident bytes of the proxy."""
        return self.proxy.memory()

    def received(self) -> set[int]:
        """Numbers of the requests that reached the model server."""
        return {int(line) for line in self.seen.read_text().split()}


def limit_files(pid: int, count: int) -> None:
    """So many descriptors, and no right to more."""
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, count))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def family(pid: int) -> list[psutil.Process]:
    """A process and its children."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """SIGSTOP to a process and its children for the length of the block."""
    stopped = family(pid)
    for process in stopped:
        process.suspend()
    try:
        yield
    finally:
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
