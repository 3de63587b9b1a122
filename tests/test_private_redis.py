"""The private Redis of `up`: on a socket of its own, durable, and found again when left behind."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from services import private_redis

pytestmark = pytest.mark.process


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Starts the embedded server in the test's folder and answers its socket."""
    running: list[subprocess.Popen[bytes]] = []
    folder = tmp_path / "data with blanks" / "redis"
    folder.mkdir(parents=True)

    def run() -> Path:
        server = private_redis.find_server()
        assert server
        place = private_redis.socket_path(folder)
        running.append(
            subprocess.Popen(private_redis.arguments(server, folder, place), stdout=subprocess.DEVNULL)
        )
        assert private_redis.wait_ready(place)
        return place

    yield run
    for process in running:
        process.kill()
        process.wait()


def test_it_keeps_its_data_over_a_restart(start):
    """What was written is there after the server was shut down and started again."""
    place = start()
    with redis.Redis.from_url(private_redis.url_of(place)) as client:
        client.set("key", "value")
    assert private_redis.shut_down(place)

    with redis.Redis.from_url(private_redis.url_of(start())) as client:
        assert client.get("key") == b"value"


def test_only_this_user_can_open_it(start):
    """The socket is private and there is no port."""
    place = start()
    assert place.stat().st_mode & 0o077 == 0
    with redis.Redis.from_url(private_redis.url_of(place)) as client:
        assert client.config_get("port") == {"port": "0"}


def test_a_long_folder_gets_a_short_socket(tmp_path: Path):
    """A data folder whose path is too long for a socket gets a short private one, always the same."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    first, second = private_redis.socket_path(folder), private_redis.socket_path(folder)
    assert first == second
    assert len(str(first)) <= private_redis.SOCKET_PATH_MAX
    assert first.parent.stat().st_mode & 0o077 == 0
    first.parent.rmdir()


def test_nothing_to_shut_down_is_no_error(tmp_path: Path):
    """Neither a missing socket nor a dead one is taken for a server."""
    assert not private_redis.shut_down(tmp_path / "none.sock")


def test_a_server_on_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An installed valkey-server or redis-server is preferred to the embedded one."""
    (tmp_path / "redis-server").write_text("#!/bin/sh\n")
    (tmp_path / "redis-server").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert private_redis.find_server() == str(tmp_path / "redis-server")
