"""Which conversations the engine still holds: the judgement, and the list over a real proxy."""

import pytest

from services.proxy.admin.lineages import describe, state_of
from services.proxy.backends.backend import Backend
from services.proxy.state.base import Live, Past, Settled
from tests.support.backend import Engine, Ollama
from tests.support.queries import make_query

NOW = 1_800_000_000_000
OLLAMA = Backend(
    name="engine:1", url="http://engine:1", kind="ollama", status="up", facts={"num_parallel": 1}
)
ROOMY = Backend(name="engine:1", url="http://engine:1", kind="llama-server", facts={"total_slots": 2})
SHARED = Backend(name="engine:1", url="http://engine:1", kind="vllm")


def live(name, age_s, *, model="m", status="completed", ended=True, scope="scope", backend="engine:1"):
    """A lineage whose latest request came and ended `age_s` seconds ago."""
    query = make_query(at=NOW - int(age_s * 1e3), model=model, session=f"session {name}", scope=scope)
    query.node.lineage = name
    settled = Settled(id=query.node.id, lineage=name, ended=query.node.at, status=status) if ended else None
    return Live(backend=backend, model=model, past=Past(node=query.node, settled=settled), requests=1)


def judged(lineages, backend):
    return {each.past.node.lineage: state_of(each, lineages, backend, NOW)[0] for each in lineages}


def test_with_one_slot_only_the_last_conversation_is_warm():
    """Whoever came last has the slot."""
    assert judged([live("a", 60), live("b", 30), live("c", 10)], OLLAMA) == {
        "a": "probably_evicted", "b": "probably_evicted", "c": "warm",
    }  # fmt: skip


def test_with_two_slots_the_last_two_are_warm():
    """As many stay as the engine has slots."""
    assert judged([live("a", 60), live("b", 30), live("c", 10)], ROOMY)["b"] == "warm"
    assert judged([live("a", 60), live("b", 30), live("c", 10)], ROOMY)["a"] == "probably_evicted"


def test_an_engine_without_slots_evicts_nobody_we_could_name():
    """A cache shared by all requests has no single slot to lose."""
    assert set(judged([live("a", 60), live("b", 30)], SHARED).values()) == {"warm"}


def test_other_models_and_backends_take_no_slot():
    """Only calls to the same model on the same backend count; Ollama's default tag is no difference."""
    assert judged([live("a", 60, model="m:latest"), live("b", 30, model="n")], OLLAMA)["a"] == "warm"
    assert judged([live("a", 60), live("b", 30, backend="engine:2")], OLLAMA)["a"] == "warm"
    assert judged([live("a", 60, model="m:latest"), live("b", 30)], OLLAMA)["a"] == "probably_evicted"


def test_a_model_that_stood_idle_is_unloaded():
    """Idle time counts from the last use of the model, by whomever; other engines do not unload."""
    assert judged([live("a", 400), live("b", 301)], OLLAMA) == {"a": "unloaded", "b": "unloaded"}
    assert judged([live("a", 400), live("b", 200)], OLLAMA) == {"a": "probably_evicted", "b": "warm"}
    assert judged([live("a", 400)], ROOMY) == {"a": "warm"}


def test_a_backend_that_is_down_holds_nothing():
    """Its memory went with it."""
    down = Backend(name="engine:1", url="http://engine:1", kind="ollama", status="down")
    assert judged([live("a", 1)], down) == {"a": "unloaded"}


@pytest.mark.parametrize("status", ["upstream_error", "upstream_unreachable", "rejected", "proxy_lost"])
def test_what_was_never_evaluated_is_cold(status):
    """A request without an answer left nothing in the engine."""
    assert judged([live("a", 1, status=status)], OLLAMA) == {"a": "cold"}


def test_a_request_under_way_is_warm_for_an_hour():
    """After that its proxy is taken to be gone."""
    assert judged([live("a", 60, ended=False)], ROOMY) == {"a": "warm"}
    assert judged([live("a", 3_700, ended=False)], ROOMY) == {"a": "cold"}


def test_the_taker_s_session_stays_in_its_scope():
    """Who took the slot is named by request and agent; its session only to its own scope."""
    items = describe([live("a", 60), live("b", 30, scope="stranger"), live("c", 20)], [OLLAMA], NOW)
    by_name = {item["lineage"]: item for item in items}

    assert by_name["a"]["evicted_by"]["session"] is None
    assert by_name["a"]["evicted_by"]["agent"] == "agent"
    assert by_name["b"]["evicted_by"]["session"] is None
    assert by_name["c"]["evicted_by"] is None


@pytest.mark.process
def test_r90_a_chat_and_the_title_request_that_took_its_slot(start_proxy, backend):
    """Two lineages with digests; the chat is probably evicted, by the title request that came after it."""
    backend.answer(Ollama(Engine(slots=1), models=("m",)))
    proxy = start_proxy(backend_kind="ollama")
    system = {"role": "system", "content": "You are a careful assistant. CANARY-123 " * 20}
    chat = {"model": "m", "messages": [system, {"role": "user", "content": "Fix the build. " * 20}]}
    title = {"model": "m", "messages": [{"role": "user", "content": "Write a title for this conversation."}]}
    first = proxy.chat(chat, path="/api/chat").ours["request-id"]
    second = proxy.chat(title, path="/api/chat").ours["request-id"]
    answer = proxy.request("GET", "/metalanchor/api/lineages")
    items = proxy.json("/api/lineages")["items"]
    shared = proxy.json("/api/shared")["items"]

    assert [item["last_request"] for item in items] == [second, first]
    assert [item["state"] for item in items] == ["warm", "probably_evicted"]
    assert items[1]["evicted_by"]["request"] == second
    assert items[1]["estimated_tokens"] > 100
    assert items[1]["digest"]["system"]
    assert items[1]["digest"]["tools"] is None
    assert shared[0]["hash"] == items[1]["digest"]["system"]
    assert b"CANARY-123" not in answer.body
