"""Every dashboard shows every proxy process of the installation, as long as Redis carries the word."""

import asyncio
import contextlib
import json
import threading
import time
from types import SimpleNamespace

import pytest
from redis.exceptions import ConnectionError as LostError

from services.proxy.admin import peers
from services.proxy.admin.peers import KEPT, Peers, Word
from tests.proxy.admin.test_events import CHAT, DONE, chat, following
from tests.support.backend.script import sse

pytestmark = pytest.mark.process


@pytest.fixture
def pair(start_proxy, valkey, tmp_path):
    """Two proxy processes of one installation, which share nothing but Redis and the key."""
    shared = {"redis_url": valkey.url, "key_file": tmp_path / "install.key"}
    return start_proxy(**shared), start_proxy(**shared)


def heard(follower):
    """Wait until the others can be heard."""
    follower.event("hello", lambda data: data["shared"])


def test_what_happens_in_one_process_shows_in_the_other(pair, backend):
    """Under way, then ended; the same as for requests of its own."""
    backend.answer(sse(DONE, first=1.2), CHAT)
    one, other = pair
    with following(one) as follower:
        heard(follower)
        asking = threading.Thread(target=chat, args=(other, "elsewhere"))
        asking.start()
        _, live = follower.event("underway", lambda data: data["items"])
        (item,) = live["items"]
        assert (item["model"], live["total"]) == ("elsewhere", 1)
        follower.event("underway", lambda data: not data["items"])
        _, ended = follower.event("ended")
        asking.join()
        assert [(row["id"], row["model"]) for row in ended["items"]] == [(item["id"], "elsewhere")]


def test_a_burst_elsewhere_is_few_events_here(pair, backend):
    """Each process tells a bounded number of rows a look, and the number of the others."""
    backend.answer(sse(DONE), CHAT)
    one, other = pair
    with following(one) as follower:
        heard(follower)
        chat(other)
        follower.event("ended")
        with other.client() as client:
            body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]})
            for _ in range(200):
                client.request("POST", CHAT, body.encode(), [("Content-Type", "application/json")])
        told, events = 0, 0
        while told < 200:
            _, data = follower.event("ended")
            assert len(data["items"]) <= 50
            told, events = told + len(data["items"]) + data["missed"], events + 1
        assert told == 200
        assert events < 80


def test_without_redis_a_dashboard_shows_its_own_process_and_says_so(pair, backend, valkey):
    """It goes on showing that, and hears the others again when Redis is back."""
    backend.answer(sse(DONE), CHAT)
    one, other = pair
    with following(one) as follower:
        heard(follower)
        valkey.stop()
        follower.event("hello", lambda data: not data["shared"])
        shown = chat(one)
        assert [row["id"] for row in follower.event("ended")[1]["items"]] == [shown]
        valkey.start()
        heard(follower)
        done = threading.Event()

        def ask():
            while not done.is_set():
                chat(other, "back")
                done.wait(0.5)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            follower.event("ended", lambda data: "back" in [row["model"] for row in data["items"]])
        finally:
            done.set()
            asking.join()


def test_a_redis_that_hangs_holds_up_neither_requests_nor_the_stop(start_proxy, backend, valkey):
    """It accepts and never answers, in the middle of telling and hearing."""
    backend.answer(sse(DONE), CHAT)
    proxy = start_proxy(redis_url=valkey.url)
    with following(proxy) as follower:
        heard(follower)
        valkey.freeze()
        shown = chat(proxy)
        assert [row["id"] for row in follower.event("ended")[1]["items"]] == [shown]
        begun = time.monotonic()
        assert proxy.stop() == 0
        assert time.monotonic() - begun < 10


def test_no_text_goes_over_redis(pair, backend, valkey):
    """Names and figures alone."""
    backend.answer(sse(DONE), CHAT)
    _, other = pair
    client = valkey.client()
    channel = client.pubsub(ignore_subscribe_messages=True)
    channel.psubscribe("*")
    secret = "the combination is 4711"
    said = b""
    end = time.monotonic() + 15
    while b'"model":"told"' not in said and time.monotonic() < end:
        other.chat({"model": "told", "stream": True, "messages": [{"role": "user", "content": secret}]})
        message = channel.get_message(timeout=0.5)
        said += message["data"] if message else b""
    channel.close()
    client.close()
    assert b'"model":"told"' in said
    assert b"4711" not in said
    assert b"combination" not in said


async def test_a_redis_that_goes_away_between_two_dashboards_is_asked_with_pauses():
    """After a good end the next attempt comes at once, after a failure never."""
    ctx = SimpleNamespace(settings=SimpleNamespace(redis_url="redis://127.0.0.1:1"), key=b"k" * 32)
    tried = 0

    async def work(_):
        nonlocal tried
        tried += 1
        if tried > 1:
            raise LostError

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(Peers(ctx)._trying(work), 0.3)
    assert tried == 2


def test_a_follower_that_does_not_look_costs_a_bounded_memory():
    """The oldest rows heard go first, and are counted as missed."""
    ctx = SimpleNamespace(settings=SimpleNamespace(redis_url=None), key=b"k" * 32)
    found = Peers(ctx)
    for number in range(KEPT + 88):
        word = Word(process="p", total=0, underway=[], ended=[{"id": str(number)}], missed=1)
        found._take(peers._encode(word))
    rows, missed = found.since(0, KEPT * 4)
    assert len(rows) == KEPT
    assert rows[-1] == {"id": str(KEPT + 87)}
    assert missed == (KEPT + 88) * 2 - KEPT
    found._take(b"{}")
    assert found.since(found.mark, 50) == ([], 0)
