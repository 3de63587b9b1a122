"""What the log leans on fails under a running proxy: no request fails or waits, each has its row (R85/86)."""

import json
import os
import time

import pytest

from tests.support.backend import Engine, Ollama
from tests.support.rows import queued, wait_for

pytestmark = pytest.mark.process

CHAT = {"model": "qwen3:8b", "stream": False, "messages": [{"role": "user", "content": "CANARY-123 hello"}]}
# A request may be held up 50 ms at most while a breaker opens; what two busy cores add is not the proxy's.
LIMIT_S = 1.0


@pytest.fixture
def ollama(backend):
    backend.answer(Ollama(Engine(decode_s=0)))
    return backend


def send(proxy, count):
    """Requests one after another; their ids and the slowest one's seconds."""
    seen, slowest = [], 0.0
    with proxy.client() as client:
        for _ in range(count):
            started = time.monotonic()
            headers = [("Content-Type", "application/json")]
            answer = client.request("POST", "/api/chat", json.dumps(CHAT).encode(), headers)
            slowest = max(slowest, time.monotonic() - started)
            assert answer.status == 200
            seen.append(answer.ours["request-id"])
    return seen, slowest


def arrived(valkey, proxy, count):
    """Ids of all rows once everything is in the queue; none twice apart from those in doubt."""
    wait_for(
        lambda: (
            proxy.json("/status")["spool"]["records"] == 0 and len({r["id"] for r in queued(valkey)}) >= count
        )
    )
    return [row["id"] for row in queued(valkey)]


def tally(valkey, status):
    """Rows that are in the queue, in the spool, or counted as lost."""
    return len(queued(valkey)) + status["spool"]["records"] + status["dropped"]["records"]


@pytest.mark.parametrize("fault", ["absent", "stopped", "frozen", "oom", "readonly"])
def test_r85_a_failing_redis(start_proxy, ollama, valkey, fault):
    """Redis away, hung or refusing: requests pass in time, and every row is there once it is back."""
    if fault == "absent":
        valkey.stop()
    proxy = start_proxy(redis_url=valkey.url)
    before, _ = send(proxy, 20)
    with valkey.client() as client:
        if fault == "stopped":
            valkey.stop()
        elif fault == "frozen":
            valkey.freeze()
        elif fault == "oom":
            client.config_set("maxmemory", 1)
        elif fault == "readonly":
            client.execute_command("REPLICAOF", "127.0.0.1", "1")
        during, slowest = send(proxy, 60)
        assert slowest < LIMIT_S
        status = wait_for(lambda: (s := proxy.json("/status"))["redis"]["status"] == "down" and s)
        assert status["status"] == "degraded"
        if fault in ("absent", "stopped"):
            valkey.start()
        elif fault == "frozen":
            valkey.thaw()
        elif fault == "oom":
            client.config_set("maxmemory", 0)
        else:
            client.execute_command("REPLICAOF", "NO", "ONE")
    after, _ = send(proxy, 5)
    found = arrived(valkey, proxy, 85)

    # One batch may have been taken just when Redis fell silent, and be there again from the spool.
    assert set(found) == set(before + during + after)
    assert proxy.json("/status")["dropped"] == {"records": 0, "bodies": 0}


def test_r86_no_worker_and_large_prompts(start_proxy, ollama, valkey):
    """Many large prompts with the worker stopped: memory stays flat here and in Redis, drops are counted."""
    proxy = start_proxy(redis_url=valkey.url, spool_max_bytes=64 << 10, state_max_bytes=8 << 20)
    text = "".join(chr(97 + number % 26) for number in range(200_000))
    headers = [("Content-Type", "application/json")]
    answers = 0
    memory = 0
    with proxy.client(timeout=60) as client:
        for number in range(600):
            messages = [{"role": "user", "content": f"{number} {text}"}]
            messages += [{"role": "user", "content": os.urandom(4).hex()} for _ in range(50)]
            body = json.dumps({"model": "qwen3:8b", "stream": False, "messages": messages}).encode()
            answers += client.request("POST", "/api/chat", body, headers).status == 200
            if number == 150:
                memory = proxy.memory()
    # A row is booked once its answer has left, so the last may come after it.
    status = wait_for(
        lambda: (s := proxy.json("/status"))["buffer"]["records"] == 0 and tally(valkey, s) == 600 and s
    )

    assert answers == 600
    assert proxy.memory() < memory + (48 << 20)
    assert status["queue"]["full"]
    assert status["spool"]["bytes"] <= 64 << 10
    assert status["dropped"]["records"] > 0
    with valkey.client() as client:
        assert client.info("memory")["used_memory"] < 64 << 20


@pytest.mark.parametrize("redis", ["up", "down"])
def test_a_killed_proxy_owes_no_row(start_proxy, ollama, valkey, redis):
    """Kill -9 with requests under way: the next start gives each request its one row."""
    if redis == "down":
        valkey.stop()
    ollama.answer(Ollama(Engine(decode_s=0)))
    proxy = start_proxy(redis_url=valkey.url)
    done, _ = send(proxy, 30)
    ollama.answer(Ollama(Engine(first=60)))
    clients = [proxy.client() for _ in range(5)]
    for client in clients:
        client.send("POST", "/api/chat", json.dumps(CHAT).encode(), [("Content-Type", "application/json")])
    wait_for(lambda: proxy.json("/status")["journal"]["open"] >= 5)
    proxy.kill()
    for client in clients:
        client.close()
    if redis == "down":
        valkey.start()
    again = start_proxy(redis_url=valkey.url, folder=proxy.folder)
    found = {}
    for request_id in arrived(valkey, again, 35):
        found.setdefault(request_id, 0)
        found[request_id] += 1
    lost = {row["id"]: row for row in queued(valkey) if row["status"] == "proxy_lost"}

    assert set(done) <= set(found)
    assert len(found) == 35
    assert len(set(lost) - set(done)) == 5
    assert {row["endpoint"] for row in lost.values()} == {"/api/chat"}
    assert list((proxy.folder / "data" / "journal").iterdir()) != []  # the live one's own


def test_a_stopped_proxy_leaves_nothing_open(start_proxy, ollama, valkey):
    """After SIGTERM every row is queued, and journal and spool are empty."""
    proxy = start_proxy(redis_url=valkey.url)
    done, _ = send(proxy, 10)

    assert proxy.stop() == 0
    assert sorted({row["id"] for row in queued(valkey)}) == sorted(done)
    assert list((proxy.folder / "data" / "journal").iterdir()) == []
    assert not list((proxy.folder / "data").glob("spool/*"))


def test_a_proxy_stopped_while_redis_hangs(start_proxy, ollama, valkey):
    """SIGTERM with a frozen Redis ends in time all the same, with every row on disk."""
    proxy = start_proxy(redis_url=valkey.url)
    wait_for(lambda: proxy.json("/status")["redis"]["status"] == "up")
    valkey.freeze()
    done, _ = send(proxy, 10)
    started = time.monotonic()

    assert proxy.stop() == 0
    assert time.monotonic() - started < 5.0
    valkey.thaw()
    kept = {row["id"] for row in proxy.rows()} | {row["id"] for row in queued(valkey)}
    assert set(done) <= kept
    assert list((proxy.folder / "data" / "journal").iterdir()) == []


def test_r89_prompts_and_keys_leave_no_trace(start_proxy, ollama, valkey):
    """A canary in every place a secret may stand is found in no file, key, log or page of ours."""
    proxy = start_proxy(redis_url=valkey.url)
    chat = {
        **CHAT,
        "api_key": "CANARY-123",
        "messages": [{"role": "user", "content": "my key is CANARY-123"}],
    }
    headers = [
        ("Authorization", "Bearer CANARY-123"),
        ("x-api-key", "CANARY-123"),
        ("Cookie", "s=CANARY-123"),
    ]
    proxy.chat(chat, headers, path="/api/chat?key=CANARY-123")
    proxy.chat(chat, headers, path="/v1/chat/completions?key=CANARY-123")
    proxy.request("GET", "/api/tags?token=CANARY-123")
    proxy.request("GET", "/metalanchor/api/requests?session=CANARY-123")
    pages = b"".join(
        proxy.request("GET", f"/metalanchor{path}").body
        for path in ("/", "/status", "/metrics", "/api/lineages", "/api/requests")
    )
    wait_for(lambda: len(queued(valkey)) == 3)
    jobs = json.dumps(queued(valkey))
    assert proxy.stop() == 0
    files = b"".join(path.read_bytes() for path in proxy.folder.rglob("*") if path.is_file())
    with valkey.client() as client:
        keys = b"".join(client.scan_iter())
        values = b"".join(client.dump(key) or b"" for key in client.scan_iter())

    assert "CANARY-123" not in jobs
    for place in (pages, files, keys, values, (valkey.folder / "valkey.log").read_bytes()):
        assert b"CANARY-123" not in place
