"""Being told to stop: at any moment, with anything under way, within three seconds, and no row lost."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tests.support.backend import NEVER, Backend, sse
from tests.support.proxy import Proxy, StartProxy

pytestmark = pytest.mark.process

LIMIT_S = 3.0
CHAT = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
DELTA = {"choices": [{"index": 0, "delta": {"content": "x"}}]}


def stop_in_time(proxy: Proxy, number: int = signal.SIGTERM) -> int:
    assert proxy.process is not None
    started = time.monotonic()
    proxy.process.send_signal(number)
    code = proxy.process.wait(10)
    assert time.monotonic() - started < LIMIT_S, proxy.log.read_text()
    return code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_idle_proxy_stops(start_proxy: StartProxy, number: int) -> None:
    """Each of the signals ends it with code 0, the port free again."""
    proxy = start_proxy()
    kept = proxy.client()
    kept.request("GET", "/x")

    assert stop_in_time(proxy, number) == 0
    with pytest.raises(OSError, match="refused"):
        proxy.client()
    kept.close()
    assert len(proxy.rows()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_live_flows_end_as_proxy_stopped(start_proxy: StartProxy, backend: Backend, number: int) -> None:
    """A live stream breaks off, a waiting client is told, the backend is freed, and each has its row."""
    proxy = start_proxy()
    backend.answer(sse([DELTA] * 3, gap=0.05, end="hang"), "/v1/chat/completions")
    backend.answer(NEVER, "/v1/messages")
    with proxy.client() as streaming, proxy.client() as waiting, proxy.client() as uploading:
        streaming.send("POST", "/v1/chat/completions", json.dumps(CHAT).encode())
        waiting.send("POST", "/v1/messages", json.dumps(CHAT).encode())
        uploading.send("POST", "/api/pull", b"{", [("Content-Length", "100")])
        backend.wait(lambda: len([r for r in backend.requests if r.method == "POST"]) == 3)
        streaming.head()
        time.sleep(0.3)

        assert stop_in_time(proxy, number) == 0

        left = b""
        while data := streaming.socket.recv(65_536):
            left += data
        assert b"0\r\n\r\n" not in left
        answer = waiting.answer()
        assert (answer.status, answer.ours["error"]) == (503, "proxy_stopped")
    backend.wait(lambda: backend.open_connections == 0)
    rows = [row for row in proxy.rows() if row["endpoint"] != "/x"]
    assert [row["status"] for row in rows] == ["proxy_stopped"] * 3


def test_a_signal_before_it_serves_stops_it_too(start_proxy: StartProxy) -> None:
    """At whichever moment of its start the signal comes, the process ends in time."""
    for delay in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        proxy = start_proxy(wait=False)
        time.sleep(delay)
        stop_in_time(proxy)
        assert "Traceback" not in proxy.log.read_text()


def test_a_client_that_never_reads_does_not_hold_it(start_proxy: StartProxy, backend: Backend) -> None:
    """Full buffers towards a client are no reason to wait."""
    proxy = start_proxy()
    backend.answer(sse(["data: " + "x" * 60_000 + "\n\n"] * 500))
    with proxy.client(receive_buffer=4096) as client:
        client.send("POST", "/v1/chat/completions", json.dumps(CHAT).encode())
        backend.wait(lambda: any(r.answered_at for r in backend.requests))
        time.sleep(0.3)

        assert stop_in_time(proxy) == 0
    assert [row["status"] for row in proxy.rows()] == ["proxy_stopped"]


def test_requests_that_come_while_it_stops_have_rows(start_proxy: StartProxy) -> None:
    """Whatever was answered has a row, up to the last moment."""
    proxy = start_proxy()
    answered = []
    assert proxy.process is not None
    proxy.process.send_signal(signal.SIGTERM)
    try:
        with proxy.client() as client:
            for _ in range(2000):
                answered += [client.request("GET", "/x").ours["request-id"]]
    except (OSError, AssertionError):
        pass
    proxy.process.wait(10)

    assert set(answered) <= {row["id"] for row in proxy.rows()}


def test_a_killed_proxy_leaves_lost_rows_to_the_next(start_proxy: StartProxy, backend: Backend) -> None:
    """SIGKILL in mid-stream: after the next start the request has one row, `proxy_lost`."""
    proxy = start_proxy()
    backend.answer(sse([DELTA] * 3, gap=0.05, end="hang"))
    with proxy.client() as client:
        client.send("POST", "/v1/chat/completions", json.dumps(CHAT).encode())
        request_id = client.head().ours["request-id"]
        proxy.kill()
    again = start_proxy(folder=proxy.folder)

    (row,) = again.wait_rows(1, lambda row: row["id"] == request_id)
    assert row["status"] == "proxy_lost"
    assert row["endpoint"] == "/v1/chat/completions"


@pytest.mark.parametrize("reuse_port", [False, True])
def test_a_taken_port_is_said_with_its_setting(start_proxy: StartProxy, reuse_port: bool) -> None:
    """Also a port that its owner would share is not shared."""
    with socket.socket() as other:
        if reuse_port:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        proxy = start_proxy(port=other.getsockname()[1], wait=False)
        assert proxy.process is not None
        assert proxy.process.wait(20) != 0

    said = proxy.log.read_text()
    assert "METALANCHOR_PORT" in said
    assert "Traceback" not in said


def test_two_proxies_do_not_share_a_port(start_proxy: StartProxy) -> None:
    """The second one says so and ends; the first serves on."""
    first = start_proxy()
    second = start_proxy(port=first.port, wait=False)
    assert second.process is not None

    assert second.process.wait(20) != 0
    assert "METALANCHOR_PORT" in second.log.read_text()
    assert first.request("GET", "/x").status == 200


def test_a_port_is_free_at_once_after_a_stop(start_proxy: StartProxy) -> None:
    """Connections in TIME_WAIT do not keep the next proxy from listening."""
    first = start_proxy()
    for _ in range(5):
        first.request("GET", "/x", headers=[("Connection", "close")])
    first.stop()

    second = start_proxy(port=first.port)

    assert second.request("GET", "/x").status == 200


def test_many_descriptors_are_asked_for() -> None:
    """A thousand streams need two thousand descriptors; macOS starts programs with 256."""
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "from services.proxy.server import raise_file_limit\n"
        "raise_file_limit()\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "sys.exit(0 if soft >= min(hard, 65536) or hard == resource.RLIM_INFINITY else 1)\n"
    )

    assert subprocess.run([sys.executable, "-c", code], env=os.environ, check=False).returncode == 0


class TestWorkers:
    """Several processes on one port."""

    def test_r97_two_spawned_workers_serve_reload_and_stop(self, start_proxy: StartProxy) -> None:
        """Both serve, SIGHUP replaces them without a failed request, SIGTERM ends all, each row once."""
        proxy = start_proxy(workers=2)
        assert proxy.process is not None
        before = serving(proxy.process.pid)
        assert len(before) == 2

        ids = [proxy.request("GET", "/x").ours["request-id"] for _ in range(20)]
        proxy.process.send_signal(signal.SIGHUP)
        until(lambda: not serving(proxy.process.pid) & before)
        ids += [proxy.request("GET", "/x").ours["request-id"] for _ in range(20)]

        assert stop_in_time(proxy) == 0
        assert {row["id"] for row in proxy.rows()} == set(ids)

    def test_workers_do_not_outlive_their_parent(self, start_proxy: StartProxy) -> None:
        """A parent that is killed takes its workers along; the port is free."""
        proxy = start_proxy(workers=2)
        assert proxy.process is not None
        workers = children(proxy.process.pid)
        proxy.process.kill()
        proxy.process.wait(10)

        until(lambda: not any(alive(pid) for pid in workers))

    def test_a_worker_that_dies_is_replaced(self, start_proxy: StartProxy) -> None:
        """A kill of one worker is followed by another one."""
        proxy = start_proxy(workers=2)
        assert proxy.process is not None
        time.sleep(5.2)  # a worker that dies younger counts as unable to start
        victim = min(serving(proxy.process.pid))
        os.kill(victim, signal.SIGKILL)

        until(lambda: len(serving(proxy.process.pid)) == 2 and victim not in serving(proxy.process.pid))
        assert proxy.request("GET", "/x").status == 200


def children(pid: int) -> set[int]:
    """The processes started by that one."""
    found = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    pairs = [tuple(map(int, line.split())) for line in found.splitlines()]
    return {child for child, parent in pairs if parent == pid}


def serving(pid: int) -> set[int]:
    """The workers among the children, without multiprocessing's own tracker."""
    found = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True, text=True, check=True
    ).stdout
    named = {int(line.split()[0]) for line in found.splitlines() if "spawn_main" in line}
    return children(pid) & named


def alive(pid: int) -> bool:
    """Whether that process exists and is no zombie."""
    found = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return bool(found.strip()) and not found.startswith("Z")


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for something to come true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not come true"
        time.sleep(0.05)
