"""The response cache between processes: Redis away, restarts, changed models, equal requests under way."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.backend import Backend, Received, as_json, body, sse
from tests.support.caching import CHAT, OLLAMA, Caching, chat, chunk, next_test, running, said, streamed
from tests.support.proxy import Proxy, StartProxy
from tests.support.rows import wait_for
from tests.support.valkey import Valkey

pytestmark = pytest.mark.process

# The contract allows 50 ms; the rest is for two cores shared with everything else.
PATIENCE_S = 0.5


@pytest.fixture
def make_own(start_proxy: StartProxy, backend: Backend, valkey: Valkey) -> Callable[..., Caching]:
    """A proxy of the test's own, which shares calls."""

    def make(**settings: Any) -> Caching:
        sharing = {"response_cache": "exact", "response_cache_single_flight": "true"}
        made = Caching(backend, start_proxy(redis_url=valkey.url, **sharing, **settings), valkey)
        made.answer(as_json(said()))
        return made

    return make


@pytest.fixture
def own(make_own: Callable[..., Caching]) -> Caching:
    """One that a busy machine makes late but no different."""
    return make_own(patient=True)


@pytest.fixture
def hasty(make_own: Callable[..., Caching]) -> Caching:
    """One with the times that are promised."""
    made = make_own()
    assert wait_for(lambda: made.ask(chat()).ours["cache"] == "hit")
    return made


@pytest.fixture(scope="module")
def sharing_parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caching]:
    """One for the tests that neither stop nor freeze anything."""
    with running(tmp_path_factory.mktemp("sharing"), response_cache_single_flight="true") as parts:
        yield parts


@pytest.fixture
def sharing(sharing_parts: Caching) -> Caching:
    """The same, with a model of the test's own."""
    return next_test(sharing_parts)


def test_redis_that_hangs_costs_a_miss_and_no_time(hasty: Caching) -> None:
    """Then, once it is back, requests hit again."""
    own = hasty
    own.valkey.freeze()
    for n in range(5):
        began = time.monotonic()
        answer = own.ask(chat() if n % 2 else chat(f"new {n}"))
        assert (answer.status, answer.ours["cache"]) == (200, "miss")
        assert time.monotonic() - began < PATIENCE_S
    own.valkey.thaw()
    assert wait_for(lambda: own.ask(chat()).ours["cache"] == "hit")


def test_redis_that_is_gone_costs_a_miss_and_no_time(hasty: Caching) -> None:
    """From a stopped server on; what was stored is there after it starts again."""
    own = hasty
    own.valkey.stop()
    began = time.monotonic()
    assert own.verdicts(chat(), chat("other"), chat("other")) == ["miss", "miss", "miss"]
    assert time.monotonic() - began < 3 * PATIENCE_S
    own.valkey.start()
    assert wait_for(lambda: own.ask(chat()).ours["cache"] == "hit")


def test_without_a_redis_the_cache_is_off(start_proxy: StartProxy, backend: Backend) -> None:
    """The proxy says so once and answers."""
    backend.answer(as_json(said()))
    proxy = start_proxy(response_cache="exact")
    for _ in range(2):
        assert proxy.chat(chat(model="m")).ours["cache"] == "bypass:off"
    assert proxy.log.read_text().count("The response cache is off") == 1


def test_off_is_off_whatever_a_client_asks(start_proxy: StartProxy, backend: Backend, valkey: Valkey) -> None:
    """Nothing is looked up, nothing is stored."""
    backend.answer(as_json(said()))
    proxy = start_proxy(redis_url=valkey.url)
    for _ in range(2):
        answer = proxy.chat(chat(model="m"), [("X-MetalAnchor-Cache-Control", "ttl=60")])
        assert (answer.status, answer.ours["cache"]) == (200, "bypass:off")
    with valkey.client() as client:
        assert not client.keys("metalanchor:answers:*")


def test_r82_answers_survive_a_restart_and_are_shared(
    own: Caching, start_proxy: StartProxy, backend: Backend, valkey: Valkey
) -> None:
    """A second process with the same key file, and the first one started again, know what was stored."""
    own.ask(chat())
    key = next(own.proxy.folder.rglob("install.key"))
    settings: dict[str, Any] = {"redis_url": valkey.url, "response_cache": "exact", "patient": True}
    settings["key_file"] = key
    other = Caching(backend, start_proxy(**settings), valkey)
    other.model = own.model
    assert other.ask(chat()).ours["cache"] == "hit"
    own.proxy.stop()
    own.proxy.start()
    assert own.ask(chat()).ours["cache"] == "hit"
    stranger = Caching(backend, start_proxy(redis_url=valkey.url, response_cache="exact"), valkey)
    stranger.model = own.model
    assert stranger.ask(chat()).ours["cache"] == "miss"


def test_another_backend_of_the_same_name_is_another(own: Caching, start_proxy: StartProxy) -> None:
    """Its answers are its own."""
    own.ask(chat())
    key = next(own.proxy.folder.rglob("install.key"))
    second = Backend().start()
    try:
        second.answer(as_json(said("Lyon.")))
        proxy = start_proxy(
            backend_url=second.url, redis_url=own.valkey.url, response_cache="exact", key_file=key
        )
        answer = proxy.chat({"model": own.model, **chat()})
        assert (answer.ours["cache"], b"Lyon" in answer.body) == ("miss", True)
    finally:
        second.stop()


def test_a_model_pulled_anew_has_answers_of_its_own(own: Caching) -> None:
    """A pull through the proxy is noticed at once."""
    digest = ["a" * 64]
    line = {"message": {"role": "assistant", "content": "hi"}, "done": True, "done_reason": "stop"}

    def answer(received: Received) -> Any:
        if received.path == "/api/tags":
            return as_json({"models": [{"name": f"{own.model}:latest", "digest": digest[0]}]})
        if received.path == "/api/version":
            return as_json({"version": "0.40.1"})
        return as_json(line) if received.method == "POST" else body("", status=404)

    own.backend.answer(answer)
    question = chat(stream=False)
    assert own.verdicts(question, question, path=OLLAMA) == ["miss", "hit"]
    digest[0] = "b" * 64
    own.ask({"name": own.model}, "/api/pull")
    assert own.verdicts(question, question, path=OLLAMA) == ["miss", "hit"]
    digest[0] = "a" * 64
    own.ask({"name": own.model}, "/api/pull")
    assert own.verdicts(question, path=OLLAMA) == ["hit"]


def slow(words: int = 20, seconds: float = 1.0) -> Any:
    """A stream that takes its time."""
    events = [chunk({"content": f"w{n} "}) for n in range(words)]
    return sse([*events, chunk({}, "stop"), "data: [DONE]\n\n"], gap=seconds / words)


def slow_as_asked(received: Received) -> Any:
    """In a second, streamed or whole, whichever of several requests comes first."""
    if received.method == "GET":
        return body("", status=404)
    whole = said("".join(f"w{n} " for n in range(20)))
    return slow() if received.json()["stream"] else as_json(whole, head_delay=1.0)


def test_equal_requests_under_way_share_one_call(sharing: Caching) -> None:
    """Each gets the whole answer in its own form."""
    sharing.backend.answer(slow_as_asked)
    with ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(sharing.ask, chat(stream=n % 2 == 0)) for n in range(5)]
        answers = [each.result() for each in asked]
    assert sorted(answer.ours["cache"] for answer in answers) == ["hit"] * 4 + ["miss"]
    assert len(sharing.calls) == 1
    for answer in answers:
        assert b"w19 " in answer.body
        assert (answer.header("content-type") or "").startswith(
            "text/event-stream" if answer.body.startswith(b"data") else "application/json"
        )


def test_a_redis_that_hangs_under_way_takes_nothing_from_those_who_share(hasty: Caching) -> None:
    """Neither the answer of the call, nor the time in which Redis was to store it."""
    hasty.answer(slow(seconds=3.0))
    ended: list[float] = []

    def ask() -> str:
        verdict = hasty.ask(chat("shared", stream=True)).ours["cache"]
        ended.append(time.monotonic())
        return verdict

    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask)]
        wait_for(lambda: len(hasty.calls) == 2)  # with the one that `hasty` began with
        asked += [pool.submit(ask), pool.submit(ask)]
        time.sleep(1.0)
        hasty.valkey.freeze()
        verdicts = sorted(each.result() for each in asked)
    hasty.valkey.thaw()
    assert verdicts == ["hit", "hit", "miss"]
    assert len(hasty.calls) == 2
    assert max(ended) - min(ended) < PATIENCE_S


def leave_after(proxy: Proxy, value: dict[str, Any], seconds: float) -> None:
    """Ask, and go."""
    with proxy.client() as client:
        client.send("POST", CHAT, json.dumps(value).encode())
        time.sleep(seconds)


def test_the_first_of_them_may_leave_without_ending_the_others_call(sharing: Caching) -> None:
    """Its own row says that it left."""
    sharing.answer(slow())
    first = threading.Thread(
        target=leave_after, args=(sharing.proxy, {"model": sharing.model, **chat(stream=True)}, 0.4)
    )
    first.start()
    wait_for(lambda: sharing.calls)
    answer = sharing.ask(chat(stream=True))
    first.join()
    assert (answer.ours["cache"], b"w19 " in answer.body) == ("hit", True)
    assert len(sharing.calls) == 1


def test_when_all_have_left_the_backend_is_freed(sharing: Caching) -> None:
    """Nobody waits for the answer any more."""
    sharing.answer(sse([chunk({"content": "w"})] * 200, gap=0.1))
    value = {"model": sharing.model, **chat(stream=True)}
    clients = [threading.Thread(target=leave_after, args=(sharing.proxy, value, s)) for s in (0.5, 0.9)]
    clients[0].start()
    wait_for(lambda: sharing.calls)
    clients[1].start()
    for client in clients:
        client.join()
    wait_for(lambda: sharing.calls[0].gone_at)
    assert len(sharing.calls) == 1


def test_one_whose_call_fails_leaves_the_others_to_try_for_themselves(sharing: Caching) -> None:
    """A failure is nobody's answer but its sharing."""
    cut = sse([chunk({"content": "w"})] * 5, gap=0.1)
    sharing.answer(cut, streamed("fine"))
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(sharing.ask, chat(stream=True)) for _ in range(3)]
        answers = [each.result() for each in asked]
    assert sorted(b"fine" in answer.body for answer in answers) == [False, True, True]
    assert len(sharing.calls) == 2


def test_without_sharing_each_asks_for_itself(caching: Caching) -> None:
    """It is opted into."""
    caching.answer(slow())
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(caching.ask, chat(stream=True)) for _ in range(2)]
        answers = [each.result() for each in asked]
    assert [answer.ours["cache"] for answer in answers] == ["miss", "miss"]
    assert len(caching.calls) == 2
