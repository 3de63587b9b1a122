"""A real proxy process for tests: started from the environment as a user starts it, on a free port.

Without Redis its rows go to the spool, where they are read here. `wire` shares one proxy and one scripted
backend between the tests of a session; tests that stop, kill or configure a proxy start their own.
"""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.backend import Backend, Received, Reply
from tests.support.http import Answer, Client, Headers

ROOT = Path(__file__).parents[2]
START_S = 30.0  # a cold start on two shared cores takes about two seconds


# Below those that systems give to outgoing connections (32768 on Linux, 49152 on macOS), which would take a
# port between its choice and its use; and none twice, for the same reason.
_PORTS = random.SystemRandom().sample(range(20_000, 32_000), 12_000)


def free_port() -> int:
    """A port nobody listens on now, never the same."""
    while True:
        port = _PORTS.pop()
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port


class Proxy:
    """One `metalanchor proxy`. Settings are given by name, as ``max_body=1000``.

    A `patient` one waits for a Redis that is late (see `tests.support.patient`).
    """

    def __init__(
        self, folder: Path, backend_url: str | None, *, patient: bool = False, **settings: Any
    ) -> None:
        self.folder = folder
        self._module = "tests.support.patient" if patient else "services.cli"
        self.port = settings.pop("port", None) or free_port()
        self.log = folder / "proxy.log"
        self._settings = {"port": self.port, "data_dir": folder / "data", "backend_url": backend_url}
        self._settings |= settings
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def spawn(self) -> "Proxy":
        """Start the process without waiting for it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("METALANCHOR_")}
        own = {
            f"METALANCHOR_{name.upper()}": str(value)
            for name, value in self._settings.items()
            if value is not None
        }
        home = {"HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder / "config")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self._module, "proxy"],
                cwd=ROOT if self._module.startswith("tests") else None,
                env={**clean, **home, **own},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def start(self) -> "Proxy":
        """Start it and wait until it answers."""
        self.spawn()
        end = time.monotonic() + START_S
        while not self._answers():
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.02)
        return self

    def stop(self) -> int:
        """SIGTERM, as a service manager does; the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(10)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, to it and its children."""
        if self.process is not None and self.process.poll() is None:  # else its number may be another's
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)

    def client(self, **options: Any) -> Client:
        """A new raw connection."""
        return Client(self.port, **options)

    def request(
        self, method: str, target: str, body: bytes = b"", headers: Headers | None = None, **more: Any
    ) -> Answer:
        """One request on a connection of its own."""
        with self.client(timeout=more.pop("timeout", 15.0)) as client:
            return client.request(method, target, body, headers, **more)

    def chat(self, value: Any, headers: Headers | None = None, path: str = "/v1/chat/completions") -> Answer:
        """A JSON request to an analysed route."""
        return self.request(
            "POST", path, json.dumps(value).encode(), [("Content-Type", "application/json"), *(headers or [])]
        )

    def json(self, target: str) -> Any:
        """One of the proxy's own JSON routes."""
        return json.loads(self.request("GET", f"/metalanchor{target}").body)

    def rows(self) -> list[dict[str, Any]]:
        """The rows in the spool, oldest first."""
        rows: dict[str, dict[str, Any]] = {}
        for path in sorted((self.folder / "data" / "spool").glob("*.rows")):
            for line in path.read_bytes().splitlines():
                row = json.loads(line)
                assert row["id"] not in rows, f"two rows of {row['id']}"
                rows[row["id"]] = row
        return [rows[key] for key in sorted(rows)]

    def wait_rows(self, count: int, where: Callable[[dict[str, Any]], bool] = bool) -> list[dict[str, Any]]:
        """The rows that `where` picks, once there are `count` of them."""
        end = time.monotonic() + 15
        while len(found := [row for row in self.rows() if where(row)]) < count:
            assert time.monotonic() < end, f"{len(found)} of {count} rows: {found}"
            time.sleep(0.02)
        assert len(found) == count
        return found

    def row(self, answer: Answer) -> dict[str, Any]:
        """The row of an answered request."""
        request_id = answer.ours["request-id"]
        return self.wait_rows(1, lambda row: row["id"] == request_id)[0]

    def memory(self) -> int:
        """Resident bytes of the process."""
        assert self.process is not None
        statm = Path(f"/proc/{self.process.pid}/statm")
        if statm.exists():
            return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
        return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(self.process.pid)])) << 10

    def _answers(self) -> bool:
        token = [("X-MetalAnchor-Token", str(self._settings["token"]))] if "token" in self._settings else []
        try:
            return self.request("GET", "/metalanchor/healthz", headers=token).status == 200
        except (OSError, AssertionError):
            return False


StartProxy = Callable[..., Proxy]


@pytest.fixture
def start_proxy(tmp_path: Path, backend: Backend) -> Iterator[StartProxy]:
    """Starts proxies in front of `backend`, or of what ``backend_url`` says; they end with the test."""
    started: list[Proxy] = []

    def start(*, wait: bool = True, **settings: Any) -> Proxy:
        url = settings.pop("backend_url", backend.url)
        folder = settings.pop("folder", tmp_path / f"proxy{len(started)}")
        proxy = Proxy(folder, url, **settings)
        started.append(proxy)
        return proxy.start() if wait else proxy.spawn()

    yield start
    for proxy in started:
        proxy.kill()


class Wire:
    """A scripted backend and a proxy in front of it."""

    def __init__(self, backend: Backend, proxy: Proxy) -> None:
        self.backend, self.proxy = backend, proxy

    def answer(self, *replies: Reply) -> None:
        """Answer requests through the proxy so, in order; the last one again and again."""
        left = deque(replies)

        def choose(received: Received) -> Reply:
            if _is_own_question(received):
                return Reply(status=404)
            return left.popleft() if len(left) > 1 else left[0]

        self.backend.answer(choose)

    @property
    def received(self) -> list[Received]:
        """What the backend received through the proxy, without the proxy's own questions."""
        return [received for received in self.backend.requests if not _is_own_question(received)]


def _is_own_question(received: Received) -> bool:
    return received.method == "GET" and received.header("accept") == "application/json"


@pytest.fixture(scope="session")
def shared_wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """One proxy and one backend for all tests that only send requests."""
    backend = Backend().start()
    proxy = Proxy(tmp_path_factory.mktemp("wire"), backend.url, max_body=80 << 20, upload_idle_s=1).start()
    yield Wire(backend, proxy)
    code = proxy.stop()
    backend.stop()
    assert code == 0
    assert "Traceback" not in proxy.log.read_text()
    assert " ERROR " not in proxy.log.read_text()


@pytest.fixture
def wire(shared_wire: Wire) -> Wire:
    """The shared pair, the backend told and asked nothing yet."""
    shared_wire.backend.reset()
    return shared_wire
