"""Whatever Redis does, requests pass as if it were there; whatever it missed, it gets later."""

import json
import threading
import time
from typing import Any

import pytest

from tests.support.backend import Backend, sse
from tests.support.proxy import Proxy, StartProxy
from tests.support.rows import queued, wait_for
from tests.support.valkey import Valkey

pytestmark = pytest.mark.process

SYSTEM = {"role": "system", "content": "You are a careful assistant that answers briefly. " * 8}
END = {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}
# The contract allows 50 ms while a breaker opens; the rest is for two cores shared with everything else.
PATIENCE_S = 0.5


def turn(model: str, *texts: str) -> dict[str, Any]:
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
    return {"model": model, "stream": True, "messages": [SYSTEM, *messages]}


def ask(proxy: Proxy, model: str, *texts: str) -> str:
    """One answered request; its hit."""
    started = time.monotonic()
    answer = proxy.chat(turn(model, *texts))
    assert answer.status == 200
    assert time.monotonic() - started < PATIENCE_S
    return answer.ours["hit"]


def mode(proxy: Proxy) -> str:
    return proxy.json("/status")["state"]["mode"]


def all_rows(proxy: Proxy, valkey: Valkey) -> set[str]:
    return {row["id"] for row in queued(valkey)} | {row["id"] for row in proxy.rows()}


def test_r85_redis_absent_from_the_start(start_proxy: StartProxy, backend: Backend) -> None:
    """The proxy starts, answers with verdicts from its own memory, says degraded, and keeps its rows."""
    backend.answer(sse([END]))
    proxy = start_proxy(redis_url="redis://127.0.0.1:1/0")

    assert [ask(proxy, "m", "hello"), ask(proxy, "m", "hello", "ok", "more")] == ["none", "prefix"]

    status = proxy.json("/status")
    assert (status["status"], status["redis"]["status"], status["state"]["mode"]) == (
        "degraded",
        "down",
        "local",
    )
    assert len(proxy.wait_rows(2)) == 2


@pytest.mark.parametrize("fault", ["stopped", "frozen"])
def test_r85_redis_goes_and_comes_back(
    start_proxy: StartProxy, backend: Backend, valkey: Valkey, fault: str
) -> None:
    """Stopped or hung in mid-run: no failed request, verdicts go on, and every row of the gap arrives."""
    backend.answer(sse([END]))
    proxy = start_proxy(redis_url=valkey.url)
    wait_for(lambda: mode(proxy) == "redis")
    assert ask(proxy, "m", "hello") == "none"

    valkey.stop() if fault == "stopped" else valkey.freeze()
    texts = ["hello"]
    for number in range(20):
        texts += ["ok", f"more {number}"]
        assert ask(proxy, "m", *texts) == "prefix"
    wait_for(lambda: mode(proxy) == "local")

    valkey.start() if fault == "stopped" else valkey.thaw()
    wait_for(lambda: mode(proxy) == "redis", 30)
    assert ask(proxy, "m", *texts, "ok", "last") == "prefix"
    wait_for(lambda: len(all_rows(proxy, valkey)) == 22, 30)
    assert proxy.json("/status")["dropped"] == {"records": 0, "bodies": 0}


@pytest.mark.parametrize("setting", ["maxmemory", "min-replicas-to-write"], ids=["OOM", "NOREPLICAS"])
def test_r85_a_redis_that_refuses_writes(
    start_proxy: StartProxy, backend: Backend, valkey: Valkey, setting: str
) -> None:
    """Full or without its replicas, as read-only ones are: no failed request, and the rows arrive later."""
    backend.answer(sse([END]))
    proxy = start_proxy(redis_url=valkey.url)
    wait_for(lambda: mode(proxy) == "redis")
    with valkey.client() as client:
        client.config_set(setting, "1")
        hits = [ask(proxy, "m", "hello"), ask(proxy, "m", "hello", "ok", "more")]
        assert hits == ["none", "prefix"]
        time.sleep(1)
        assert ask(proxy, "m", "hello", "ok", "more") == "exact"
        client.config_set(setting, "0")

    wait_for(lambda: mode(proxy) == "redis", 30)
    wait_for(lambda: len(all_rows(proxy, valkey)) == 3, 30)


def test_a_read_only_replica(start_proxy: StartProxy, backend: Backend, valkey: Valkey) -> None:
    """A Redis that became a replica answers -READONLY: the proxy goes on alone."""
    backend.answer(sse([END]))
    proxy = start_proxy(redis_url=valkey.url)
    wait_for(lambda: mode(proxy) == "redis")
    with valkey.client() as client:
        client.replicaof("127.0.0.1", "1")
        assert [ask(proxy, "m", "hello"), ask(proxy, "m", "hello", "ok", "more")] == ["none", "prefix"]
        client.replicaof("NO", "ONE")

    wait_for(lambda: len(all_rows(proxy, valkey)) == 2, 30)


def test_r98_two_proxies_see_one_state(start_proxy: StartProxy, backend: Backend, valkey: Valkey) -> None:
    """What went through one is a hit through the other: next turns, repeats, shared system prompts."""
    backend.answer(sse([END]))
    one, two = (start_proxy(redis_url=valkey.url, key_file=valkey.folder / "key") for _ in range(2))
    for proxy in (one, two):
        wait_for(lambda proxy=proxy: mode(proxy) == "redis")

    first = one.chat(turn("m", "hello"), [("User-Agent", "aider/1.0")])
    wait_for(lambda: two.chat(turn("m", "hello", "ok", "probe")).ours["hit"] == "prefix")
    second = two.chat(turn("m", "hello", "ok", "more"), [("User-Agent", "cline/2.0")])
    other = two.chat(turn("m", "something quite different"))

    assert second.ours["session"] == first.ours["session"]
    assert other.ours["hit"] == "system+tools"
    wait_for(lambda: len(queued(valkey)) >= 4)
    rows = {row["id"]: row for row in queued(valkey)}
    assert rows[second.ours["request-id"]]["agent"] == "cline"
    assert rows[first.ours["request-id"]]["agent"] == "aider"


def test_r97_two_workers_have_one_hit_state(
    start_proxy: StartProxy, backend: Backend, valkey: Valkey
) -> None:
    """Whichever worker takes a connection, the verdict is that of one proxy."""
    backend.answer(sse([END]))
    proxy = start_proxy(redis_url=valkey.url, workers=2)
    assert wait_for(lambda: proxy.chat(turn("warm", "x")).ours["hit"] == "exact")

    texts = ["hello"]
    assert ask(proxy, "m", *texts) == "none"
    for number in range(12):
        texts += ["ok", f"more {number}"]
        assert ask(proxy, "m", *texts) == "prefix"


def test_r95_departures_in_the_middle_of_redis_calls_mix_nothing_up(
    start_proxy: StartProxy, backend: Backend, valkey: Valkey
) -> None:
    """Half of the clients leave at random moments; no verdict of the others is another request's."""
    backend.answer(sse([END]))
    proxy = start_proxy(redis_url=valkey.url)
    wait_for(lambda: mode(proxy) == "redis")
    for number in range(40):
        proxy.chat(turn(f"m{number}", f"beginning {number}"))
    wrong: list[Any] = []

    def stay(number: int) -> None:
        answer = proxy.chat(turn(f"m{number}", f"beginning {number}", "ok", "next"))
        if (answer.ours["hit"], answer.ours["chunks"]) != ("prefix", "4"):
            wrong.append((number, answer.ours))

    def leave(number: int) -> None:
        with proxy.client() as client:
            client.send("POST", "/v1/chat/completions", json.dumps(turn(f"m{number}", "left")).encode())
            time.sleep(number % 7 / 1000)

    jobs = [threading.Thread(target=stay if i % 2 else leave, args=(i % 40,)) for i in range(200)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()

    assert not [entry for entry in wrong if entry[1]["hit"] not in {"prefix", "exact"}]
    assert not [entry for entry in wrong if entry[1]["chunks"] != "4"]
    wait_for(lambda: not proxy.json("/status")["journal"]["open"], 30)
    rows = queued(valkey)
    assert len({row["id"] for row in rows}) == len(rows) >= 140
