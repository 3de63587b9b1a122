"""`/healthz` and `/status`: what is said of each dependency when it is up, away or hung."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from services.history.migrate import upgrade
from services.proxy.admin.health import backend_status, overall
from services.proxy.backends.backend import Backend as Known
from tests.support.backend import Engine, Ollama
from tests.support.rows import wait_for

SHAPE = {
    "status": str,
    "version": str,
    "redis": {"status": str},
    "state": {"mode": str},
    "queue": {"depth": int},
    "worker": {"alive": bool},
    "spool": {"records": int, "bytes": int},
    "dropped": {"records": int, "bodies": int},
    "database": {"status": str},
    "backend": {"url": str, "status": str},
}


def assert_shape(found, shape):
    for name, kind in shape.items():
        if isinstance(kind, dict):
            assert_shape(found[name], kind)
        else:
            assert isinstance(found[name], kind), name


@contextmanager
def running_worker(redis_url, database_url, folder):
    environ = {**os.environ, "METALANCHOR_REDIS_URL": redis_url, "METALANCHOR_DATABASE_URL": database_url}
    environ["METALANCHOR_DATA_DIR"] = str(folder)
    with (folder / "worker.log").open("ab") as log:
        command = [sys.executable, "-m", "services.cli", "worker"]
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.process
def test_with_everything_up_the_status_is_ok(start_proxy, backend, valkey, tmp_path):
    """Each dependency says `up`, in the shape of the contract, and then what happens when the worker dies."""
    backend.answer(Ollama(Engine()))
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    upgrade(url)
    proxy = start_proxy(redis_url=valkey.url, database_url=url)
    with running_worker(valkey.url, url, tmp_path) as worker:
        status = wait_for(lambda: (s := proxy.json("/status"))["status"] == "ok" and s)
        assert_shape(status, SHAPE)
        assert (
            status["redis"]["status"] == status["database"]["status"] == status["backend"]["status"] == "up"
        )
        assert status["state"]["mode"] == "redis"
        assert status["backend"]["kind"] == "ollama"
        assert status["worker"]["last_seen"].endswith("Z")
        proxy.chat({"model": "m", "messages": []})
        wait_for(lambda: len(proxy.json("/api/requests")["items"]) == 1)

        worker.send_signal(signal.SIGKILL)
        worker.wait()
        status = wait_for(lambda: not (s := proxy.json("/status"))["worker"]["alive"] and s, seconds=30)
        assert status["status"] == "degraded"
        assert status["worker"]["last_seen"] is not None
        proxy.chat({"model": "m", "messages": []})
        assert wait_for(lambda: proxy.json("/status")["queue"]["depth"]) == 1
        assert wait_for(lambda: proxy.json("/status")["queue"]["oldest_s"]) > 0


@pytest.mark.process
def test_with_nothing_up_it_is_alive_and_says_what_is_missing(start_proxy):
    """Without Redis, database and backend the process answers, degraded or down, with reasons."""
    proxy = start_proxy(backend_url="http://127.0.0.1:9")
    assert proxy.json("/healthz") == {"status": "ok"}
    status = wait_for(lambda: (s := proxy.json("/status"))["status"] == "down" and s)

    assert_shape(status, SHAPE)
    assert status["redis"] == {"status": "down", "error": "no Redis is configured"}
    assert status["state"]["mode"] == "local"
    assert status["queue"]["oldest_s"] is None
    assert status["worker"]["alive"] is False
    assert status["worker"]["last_seen"] is None
    assert status["database"]["status"] == "down"
    assert status["backend"]["status"] == "down"


@pytest.mark.process
def test_a_hung_redis_does_not_hang_the_status(start_proxy, backend, valkey):
    """Redis accepts and never answers: the status says down, promptly, and up again when it answers."""
    backend.answer(Ollama(Engine()))
    proxy = start_proxy(redis_url=valkey.url)
    wait_for(lambda: proxy.json("/status")["redis"]["status"] == "up")
    valkey.freeze()
    slowest = 0.0

    def down():
        nonlocal slowest
        started = time.monotonic()
        status = proxy.json("/status")
        slowest = max(slowest, time.monotonic() - started)
        return status["redis"]["status"] == "down" and status["status"] == "degraded"

    wait_for(down)
    assert slowest < 3.0
    valkey.thaw()
    wait_for(lambda: proxy.json("/status")["redis"]["status"] == "up")


@pytest.mark.process
def test_a_hung_database_does_not_hang_the_status(start_proxy, postgres_server):
    """PostgreSQL accepts and never answers: `/status` says down in time, and requests pass."""
    server, url = postgres_server
    upgrade(url)
    proxy = start_proxy(database_url=url)
    assert proxy.json("/status")["database"]["status"] == "up"
    os.kill(server.pid, signal.SIGSTOP)
    children = stop_children(server.pid)
    try:
        started = time.monotonic()
        status = proxy.json("/status")
        assert status["database"]["status"] == "down"
        assert time.monotonic() - started < 5.0
        assert proxy.chat({"model": "m", "messages": []}).status == 200
    finally:
        for pid in [*children, server.pid]:
            os.kill(pid, signal.SIGCONT)


def stop_children(parent):
    """Stop the server's own processes too: those that hold connections answer on their own."""
    import psutil

    children = [child.pid for child in psutil.Process(parent).children(recursive=True)]
    for pid in children:
        os.kill(pid, signal.SIGSTOP)
    return children


@pytest.fixture
def postgres_server():
    from tests.support.postgres import running

    with running() as server, server.database() as url:
        yield server, url


def test_a_backend_s_credentials_are_not_shown():
    """The address is shown without user and password."""
    shown = backend_status(Known(name="b", url="https://user:CANARY-123@example.org:8443/base"))

    assert shown["url"] == "https://example.org:8443/base"


GOOD = {
    "redis": {"status": "up"}, "state": {"mode": "redis"}, "database": {"status": "up"},
    "worker": {"alive": True}, "spool": {"records": 0}, "queue": {"full": False},
    "backends": [{"status": "up"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, "ok"),
        ({"backends": [{"status": "unknown"}]}, "ok"),
        ({"backends": [{"status": "up"}, {"status": "down"}]}, "degraded"),
        ({"backends": [{"status": "down"}, {"status": "down"}]}, "down"),
        ({"redis": {"status": "down"}}, "degraded"),
        ({"state": {"mode": "local"}}, "degraded"),
        ({"database": {"status": "down"}}, "degraded"),
        ({"worker": {"alive": False}}, "degraded"),
        ({"spool": {"records": 1}}, "degraded"),
        ({"queue": {"full": True}}, "degraded"),
    ],
)
def test_the_overall_status(change, status):
    """Requests that cannot reach any backend are `down`; anything else amiss is `degraded`."""
    assert overall({**GOOD, **change}) == status
