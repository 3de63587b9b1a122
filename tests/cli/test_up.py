"""`metalanchor up`: everything from one command, and nothing left behind."""

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from services import private_redis
from tests.support.http import Client
from tests.support.proxy import free_port
from tests.support.rows import wait_for

pytestmark = pytest.mark.process

CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()
STOP_S = 15.0  # generous: the children stop within 3 s each, on an idle machine in well under one


class Up:
    """One `metalanchor up` with its data folder, port and everything it said."""

    def __init__(self, folder: Path, backend_url: str, port: int) -> None:
        self.folder, self.port, self.log = folder, port, folder / "up.txt"
        folder.mkdir(parents=True, exist_ok=True)
        self.data = folder / "data"
        self.env = {
            **os.environ,
            "METALANCHOR_DATA_DIR": str(self.data),
            "METALANCHOR_PORT": str(port),
            "METALANCHOR_BACKEND_URL": backend_url,
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "services.cli", "up"], env=self.env, stdout=log, stderr=log
            )

    def serving(self) -> "Up":
        """Wait until it has said that it serves."""
        wait_for(lambda: self.process.poll() is not None or "serves at" in self.said(), 60)
        assert self.process.poll() is None, self.said()
        return self

    def said(self) -> str:
        """What the user saw."""
        return self.log.read_text()

    def children(self) -> dict[str, psutil.Process]:
        """The running children by name."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            line = " ".join(child.cmdline())
            name = next((n for n in ("proxy", "worker") if f"services.cli {n}" in line), "redis")
            found[name] = child
        return found

    def chat(self) -> int:
        """The status of one request through the proxy."""
        with Client(self.port) as client:
            return client.request("POST", "/v1/chat/completions", CHAT).status

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Another command with the same settings."""
        line = [sys.executable, "-m", "services.cli", *arguments]
        return subprocess.run(line, env=self.env, capture_output=True, text=True, check=False, timeout=60)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(STOP_S)


@pytest.fixture
def start_up(tmp_path: Path, backend) -> Iterator[Callable[..., Up]]:
    """Starts stacks in front of the scripted backend; what is left of them is killed at the end."""
    started: list[Up] = []

    def start(name: str = "one", port: int | None = None) -> Up:
        started.append(Up(tmp_path / name, backend.url, port or free_port()))
        return started[-1]

    yield start
    for up in started:
        if up.process.poll() is None:
            up.process.kill()
            up.process.wait()
        if (up.data / "redis").exists():
            private_redis.shut_down(private_redis.socket_path(up.data / "redis"))


def test_one_command_serves_records_and_stops(start_up):
    """It says where it serves and how to point agents there; requests are rows; a signal ends all."""
    up = start_up().serving()
    assert f"http://127.0.0.1:{up.port}/v1" in up.said()
    assert "as configured" in up.said()
    assert f"dashboard at http://127.0.0.1:{up.port}/metalanchor/" in up.said()
    named = re.search(r"Other agents: `(.+?) env`", up.said())
    assert named is not None
    assert shutil.which(named[1]) is not None  # what it tells people to type is there
    assert up.chat() == 200
    children = up.children()
    assert set(children) == {"proxy", "worker", "redis"}
    wait_for(lambda: json.loads(up.command("requests", "--json").stdout)["items"])
    assert up.command("status").returncode == 0

    assert up.stop(signal.SIGINT) == 0

    assert not [name for name, child in children.items() if child.is_running()]


def test_a_killed_proxy_is_started_again(start_up):
    """It is said once, and requests pass again."""
    up = start_up().serving()
    up.children()["proxy"].kill()

    wait_for(functools.partial(_passes, up), 30)

    assert up.said().count("proxy ended (by SIGKILL)") == 1
    assert up.stop() == 0


def test_a_second_one_is_told_what_to_do(start_up):
    """Neither a data folder nor a port is used twice; both errors name the setting."""
    up = start_up().serving()
    same = up.command("up")
    assert same.returncode == 1
    assert "already runs" in same.stderr
    assert f"process {up.process.pid}" in same.stderr
    assert "METALANCHOR_DATA_DIR" in same.stderr

    other = start_up("two", up.port)
    assert other.process.wait(30) == 1
    assert f"Port {up.port} on 127.0.0.1 is taken" in other.said()
    assert up.chat() == 200
    assert up.stop() == 0


def test_a_killed_one_leaves_nothing_that_stops_the_next(start_up):
    """After kill -9 the children leave, and the same command starts again on the same data."""
    first = start_up().serving()
    assert first.chat() == 200
    children = first.children()
    first.process.kill()
    first.process.wait()
    wait_for(lambda: not any(children[name].is_running() for name in ("proxy", "worker")))

    second = start_up(port=first.port).serving()

    assert "had left behind" in second.said()
    wait_for(lambda: json.loads(second.command("requests", "--json").stdout)["items"])
    assert second.stop() == 0
    assert not children["redis"].is_running()


def test_a_stop_while_starting_is_obeyed(start_up):
    """Ctrl-C in the first second leaves no child and no lock."""
    up = start_up()
    wait_for((up.data / "up.lock").exists)
    time.sleep(0.3)
    up.stop()
    again = start_up(port=up.port).serving()
    assert again.stop() == 0


def _passes(up: Up) -> bool:
    try:
        return up.chat() == 200
    except (OSError, AssertionError):
        return False
