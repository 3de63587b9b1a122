"""The event stream: history first, then what happens, bounded however much happens."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from services.proxy.admin.recent import ROWS, Recent
from tests.support.backend.script import sse
from tests.support.http import Client
from tests.support.records import make_record

CHAT = "/v1/chat/completions"
DONE = [{"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}, "data: [DONE]\n\n"]


class Follower:
    """One open event stream."""

    def __init__(self, client: Client, query: str = "") -> None:
        self.client, self.buffer = client, b""
        client.send("GET", f"/metalanchor/events{query}")
        self.head = client.head()
        self._pieces = self._bodies()

    def event(self, name: str | None = None, where=bool):
        """The next event of that name (or of any) that `where` picks, as (name, data)."""
        end = time.monotonic() + 15
        for found, data in self._pieces:
            assert time.monotonic() < end, f"no {name} in time"
            if name in (None, found) and where(data):
                return found, data
        raise AssertionError("the stream ended")

    def _bodies(self) -> Iterator[tuple[str, dict]]:
        text = b""
        while True:
            line = self.client._line()
            if not line or not (size := int(line, 16)):
                return
            while size:
                piece = self.client._take(size)
                text, size = text + piece, size - len(piece)
            self.client._line()
            while b"\n\n" in text:
                block, _, text = text.partition(b"\n\n")
                fields = dict(line.split(": ", 1) for line in block.decode().split("\n"))
                if "event" in fields:
                    yield fields["event"], json.loads(fields["data"])


@contextmanager
def following(proxy, query: str = ""):
    """A follower of a proxy's events."""
    with proxy.client() as client:
        yield Follower(client, query)


def chat(proxy, model="m"):
    """One streamed turn; its id."""
    answer = proxy.chat({"model": model, "stream": True, "messages": [{"role": "user", "content": "hi"}]})
    return answer.ours["request-id"]


@pytest.mark.process
def test_history_comes_first_then_what_happens(start_proxy, backend):
    """What ended before, then a request under way, then its row."""
    backend.answer(sse(DONE, first=0.7), CHAT)
    proxy = start_proxy()
    before = chat(proxy)
    with following(proxy) as follower:
        assert follower.head.header("content-type").startswith("text/event-stream")
        assert follower.event()[0] == "hello"
        name, history = follower.event()
        assert name == "history"
        assert [item["id"] for item in history["items"]] == [before]
        assert history["items"][0]["status"] == "completed"

        asking = threading.Thread(target=chat, args=(proxy, "new"))
        asking.start()
        _, live = follower.event("underway", lambda data: data["items"])
        (item,) = live["items"]
        assert (item["model"], item["phase"]) == ("new", "prefill")
        follower.event("underway", lambda data: not data["items"])
        _, ended = follower.event("ended")
        asking.join()
        assert [(row["id"], row["model"]) for row in ended["items"]] == [(item["id"], "new")]
        assert ended["missed"] == 0


@pytest.mark.process
def test_probes_are_told_on_request_only(start_proxy, backend):
    """A model list is no generation."""
    proxy = start_proxy()
    with following(proxy) as generations, following(proxy, "?all=true") as everything:
        generations.event("history")
        everything.event("history")
        proxy.request("GET", "/v1/models")
        backend.answer(sse(DONE), CHAT)
        shown = chat(proxy)
        assert everything.event("ended")[1]["items"][0]["kind"] != "generation"
        assert [row["id"] for row in generations.event("ended")[1]["items"]] == [shown]


@pytest.mark.process
def test_hundreds_of_requests_make_few_events(start_proxy, backend):
    """A follower gets a bounded number of rows a look, the newest, and the number of the others."""
    backend.answer(sse(DONE), CHAT)
    proxy = start_proxy()
    with following(proxy) as follower:
        follower.event("history")
        with proxy.client() as client:
            body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]})
            for _ in range(300):
                client.request("POST", CHAT, body.encode(), [("Content-Type", "application/json")])
        told, events = 0, 0
        while told < 300:
            _, data = follower.event("ended")
            assert len(data["items"]) <= 50
            told += len(data["items"]) + data["missed"]
            events += 1
        assert told == 300
        assert events < 100


@pytest.mark.process
def test_a_follower_that_leaves_makes_room(start_proxy):
    """Only so many at a time; the next is told so, and gets in once one has left."""
    proxy = start_proxy()
    clients = [proxy.client() for _ in range(32)]
    followers = [Follower(client) for client in clients]
    for follower in followers:
        follower.event("hello")
    assert proxy.request("GET", "/metalanchor/events").status == 503
    for client in clients:
        client.close()
    end = time.monotonic() + 10
    while True:
        with proxy.client() as client:
            if Follower(client).head.status == 200:
                break
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.process
def test_a_stop_does_not_wait_for_followers(start_proxy):
    """The stream ends with the proxy."""
    proxy = start_proxy()
    with following(proxy) as follower:
        follower.event("history")
        begun = time.monotonic()
        assert proxy.stop() == 0
        assert time.monotonic() - begun < 3.5


@pytest.mark.process
def test_an_unknown_parameter_is_refused(office):
    """As everywhere."""
    assert office.get("/events?agent=x").status == 400


def test_recent_rows_since_a_mark():
    """Oldest first; at most so many, the newest; and how many there were besides."""
    recent = Recent()
    records = [make_record() for _ in range(5)]
    for record in records:
        recent.put(record)

    assert recent.since(0, 10) == (records, 5, 0)
    assert recent.since(3, 10) == (records[3:], 5, 0)
    assert recent.since(0, 2) == (records[3:], 5, 3)
    assert recent.since(5, 10) == ([], 5, 0)


def test_a_follower_that_slept_too_long_is_told_what_it_missed():
    """Memory is bounded; the count is not lost."""
    recent = Recent()
    for _ in range(ROWS + 100):
        recent.put(make_record())
    news = recent.since(0, ROWS * 2)

    assert len(news.records) == ROWS
    assert news.missed == 100
