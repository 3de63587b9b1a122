"""The response cache at its surface: what hits, what does not, what clients ask of it, what is recorded."""

import json
import time
from typing import Any

import pytest

from tests.support.backend import as_json
from tests.support.caching import CHAT, COMPLETIONS, MESSAGES, OLLAMA, Caching, chat, said, streamed

pytestmark = pytest.mark.process

BASE: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "42"},
    ],
}  # fmt: skip
TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
OTHER_CALL = [*BASE["messages"][:3], {"role": "tool", "tool_call_id": "call_2", "content": "42"}]
OTHER_SYSTEM = [{"role": "system", "content": "Be very brief."}, *BASE["messages"][1:]]
VARIANTS: list[dict[str, Any]] = [
    {"model": "another"}, {"temperature": 0.5}, {"top_p": 0.9}, {"seed": 7}, {"max_tokens": 100},
    {"tools": [TOOL]}, {"tool_choice": "none"}, {"response_format": {"type": "json_object"}},
    {"format": "json"}, {"options": {"num_ctx": 4096}}, {"think": True},
    {"chat_template_kwargs": {"enable_thinking": False}}, {"messages": OTHER_CALL},
    {"messages": OTHER_SYSTEM},
]  # fmt: skip


def test_r76_turns_of_an_agents_loop_that_differ_by_a_number_are_two_questions(caching: Caching) -> None:
    """Twenty equal messages before it change nothing about that."""
    history = [{"role": ("user", "assistant")[i % 2], "content": f"step {i}"} for i in range(20)]
    loops = [
        {
            "messages": [*history, {"role": "tool", "tool_call_id": "c", "content": f"{n} files"}],
            "tools": [TOOL],
        }
        for n in (5, 6)
    ]
    assert caching.verdicts(*loops) == ["miss", "miss"]
    assert len(caching.calls) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Is A faster than B?", "Is B faster than A?"),
        ("turn the light on", "turn the light off"),
        ("port 8080", "port 8081"),
        ("prune --keep-logs", "prune --keep-locks"),
        ("Summarise: text A", "Summarise: text B"),
        ("install it", "install it "),
    ],
)
def test_r77_exact_means_exact(caching: Caching, one: str, other: str) -> None:
    """Likeness counts for nothing."""
    assert caching.verdicts(chat(one), chat(other)) == ["miss", "miss"]


def test_r78_whatever_may_change_the_answer_is_in_the_key(caching: Caching) -> None:
    """A body and fourteen others that differ in one thing each: fifteen entries."""
    bodies = [BASE, *({**BASE, **variant} for variant in VARIANTS)]
    assert caching.verdicts(*bodies) == ["miss"] * 15
    assert caching.verdicts(*bodies) == ["hit"] * 15


@pytest.mark.parametrize(
    "variant",
    [
        {"unknown_member": 1}, {"stop": ["x"]}, {"logit_bias": {"5": 1}}, {"n": 1}, {"Stream": True},
        {"service_tier": "flex"},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
    ],
)  # fmt: skip
def test_r78_members_that_nobody_knows_count_too(caching: Caching, variant: dict[str, Any]) -> None:
    """What a backend makes of them is its own affair."""
    assert caching.verdicts(chat("hi"), {**chat("hi"), **variant}) == ["miss", "miss"]


def test_r78_how_an_answer_is_sent_or_who_is_told_of_it_is_not(caching: Caching) -> None:
    """Five members are left out."""
    same = [
        {},
        {"stream": False},
        {"user": "u"},
        {"metadata": {"a": 1}},
        {"keep_alive": "5m"},
        {"stream": True},
    ]
    assert caching.verdicts(*(chat(**more) for more in same)) == ["miss", *["hit"] * 5]


def test_r78_query_route_and_headers_that_choose_a_behaviour_count(caching: Caching) -> None:
    """An answer of one API version is none of another."""
    caching.answer(as_json(MESSAGE))
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
    plain = {"path": MESSAGES}
    assert caching.verdicts(body, body, **plain) == ["miss", "hit"]
    assert caching.verdicts(body, path=f"{MESSAGES}?beta=true") == ["miss"]
    for name in ("anthropic-version", "anthropic-beta", "cookie"):
        assert caching.verdicts(body, body, headers=[(name, "x")], **plain) == ["miss", "hit"]


MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 1},
}  # fmt: skip


def test_r79_nobody_reads_anothers_answer(caching: Caching) -> None:
    """Credentials, tenants and namespaces are apart; one credential is one, however it is sent."""
    who: list[list[tuple[str, str]]] = [
        [("Authorization", "Bearer a")],
        [("Authorization", "Bearer b")],
        [],
        [("X-MetalAnchor-Tenant", "t")],
        [("X-MetalAnchor-Namespace", "n")],
        [("X-MetalAnchor-Cache-Control", "namespace=m")],
        [("Authorization", "Bearer a"), ("x-api-key", "b")],
        [("Cookie", "session=1")],
    ]
    first = [caching.ask(chat(), headers=headers).ours["cache"] for headers in who]
    again = [caching.ask(chat(), headers=headers).ours["cache"] for headers in who]
    assert (first, again) == (["miss"] * len(who), ["hit"] * len(who))
    assert caching.ask(chat(), headers=[("x-api-key", "a")]).ours["cache"] == "hit"
    assert caching.ask(chat(), control="namespace=n").ours["cache"] == "hit"


def test_r82_equal_requests_are_equal_however_they_are_written(caching: Caching) -> None:
    """Keys in any order, any spacing, escapes or not; `1` and `1.0` are two numbers."""
    spellings = [
        '{"model":"%s","temperature":1,"messages":[{"role":"user","content":"né"}]}',
        '{"messages": [ {"content": "n\\u00e9", "role": "user"} ], "model": "%s",\n "temperature": 1}',
        '{"model":"%s","temperature":1.0,"messages":[{"role":"user","content":"né"}]}',
        '{"model":"%s","temperature":1e0,"messages":[{"role":"user","content":"né"}]}',
    ]
    bodies = [(spelling % caching.model).encode() for spelling in spellings]
    seen = [caching.proxy.request("POST", CHAT, body).ours["cache"] for body in bodies]
    assert seen == ["miss", "hit", "miss", "hit"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"model":"M","seed":1,"seed":2,"messages":[{"role":"user","content":"hi"}]}', "ambiguous"),
        ('{"model":"M","messages":[{"role":"user","role":"user","content":"hi"}]}', "ambiguous"),
        ('{"model":"M","messages":[]}', "no_prompt"),
        ('{"model":"M","messages":[{"role":"user","content":"h"}],"tools":[{"type":"mcp"}]}', "hosted_tools"),
        ('{"model":"M","messages":[{"role":"user","content":"hi"}],"web_search_options":{}}', "hosted_tools"),
        ('{"model":"M","messages":[{"role":"user","content":"hi"}],"conversation":"c"}', "stateful"),
    ],
)  # fmt: skip
def test_a_request_that_does_not_say_all_is_not_cached(caching: Caching, body: str, reason: str) -> None:
    """The backend is asked each time."""
    raw = body.replace("M", caching.model).encode()
    for _ in range(2):
        answer = caching.proxy.request("POST", CHAT, raw)
        assert (answer.status, answer.ours["cache"]) == (200, f"bypass:{reason}")
    assert len(caching.calls) == 2


def test_r83_a_hit_is_one_row_that_names_the_original(caching: Caching) -> None:
    """The backend was not called; what that saved stands in the row."""
    first, second = caching.ask(chat()), caching.ask(chat())
    assert (second.status, second.body) == (200, first.body)
    miss, hit = caching.row(first), caching.row(second)
    assert (miss["status"], miss["response_cache"]) == ("completed", "miss")
    assert "answered_by" not in miss
    assert (hit["status"], hit["response_cache"], hit["http_status"]) == ("response_cache", "hit", 200)
    assert (hit["answered_by"], hit["saved_tokens"]) == (first.ours["request-id"], 25)
    assert hit["saved_ms"] > 0
    assert not hit.keys() & {"prompt_tokens", "cached_tokens", "hit", "relation", "cause"}
    assert hit["model"] == miss["model"]
    assert len(caching.calls) == 1


def test_what_the_cache_answered_is_no_turn_that_the_engine_saw(caching: Caching) -> None:
    """The next turn of the conversation is compared with the request that the backend had."""
    system = {"role": "system", "content": "You are a careful assistant. " * 20}
    one = [system, {"role": "user", "content": "Capital of France?"}]
    first = caching.ask({"messages": one})
    caching.ask({"messages": one})
    more = [*one, {"role": "assistant", "content": "Paris."}, {"role": "user", "content": "And of Spain?"}]
    row = caching.row(caching.ask({"messages": more}))
    assert (row["relation"], row["parent_id"]) == ("append", first.ours["request-id"])
    assert "causes" not in row


def test_a_client_may_pass_over_what_is_cached(caching: Caching) -> None:
    """`no-cache` asks the backend and stores its answer."""
    caching.ask(chat())
    caching.answer(as_json(said("Lyon.")))
    answer = caching.ask(chat(), control="no-cache")
    assert (answer.ours["cache"], b"Lyon" in answer.body) == ("bypass:no-cache", True)
    assert b"Lyon" in caching.ask(chat()).body


def test_a_client_may_leave_no_trace(caching: Caching) -> None:
    """`no-store` and a life of no time keep nothing."""
    assert caching.verdicts(chat(), control="no-store") == ["miss"]
    assert caching.verdicts(chat(), control="ttl=0") == ["miss"]
    assert caching.verdicts(chat(), control="No-Store , unknown, ttl=x, tag=") == ["miss"]
    assert caching.verdicts(chat(), chat()) == ["miss", "hit"]


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        (CHAT, chat(), {"error": {"type": "api_error", "code": "not_cached"}}),
        (OLLAMA, chat(), {}),
        (MESSAGES, {**chat(), "max_tokens": 5}, {"type": "error"}),
    ],
)
def test_a_client_may_take_only_what_is_cached(
    caching: Caching, path: str, body: dict[str, Any], error: dict[str, Any]
) -> None:
    """Else it gets an error in the shape of its API, and the backend is left alone."""
    answer = caching.ask(body, path, "only-if-cached")
    assert (answer.status, answer.ours["error"]) == (504, "not_cached")
    told = json.loads(answer.body)
    assert told.items() >= {k: v for k, v in error.items() if isinstance(v, str)}.items()
    assert isinstance(told["error"], str) == (path == OLLAMA)
    assert not caching.calls
    row = caching.row(answer)
    assert (row["status"], row["error"], row["response_cache"]) == ("rejected", "not_cached", "miss")


def test_only_if_cached_hits(caching: Caching) -> None:
    """What is there is given."""
    caching.ask(chat())
    assert caching.ask(chat(), control="only-if-cached").ours["cache"] == "hit"


def test_an_answer_lives_as_long_as_the_client_says(caching: Caching) -> None:
    """Then the backend is asked again."""
    assert caching.verdicts(chat(), chat(), control="ttl=0.3") == ["miss", "hit"]
    time.sleep(0.4)
    assert caching.verdicts(chat()) == ["miss"]


def test_our_headers_stop_at_the_proxy(caching: Caching) -> None:
    """The backend sees none of them."""
    caching.ask(chat(), control="ttl=5, tag=a", headers=[("X-MetalAnchor-Namespace", "n")])
    names = [name.lower() for name, _ in caching.calls[0].headers]
    assert not [name for name in names if name.startswith("x-metalanchor")]


def test_other_routes_have_no_cache(caching: Caching) -> None:
    """Embeddings and models pass as ever, without the header."""
    embed = caching.ask({"input": "hi"}, "/v1/embeddings")
    models = caching.proxy.request("GET", "/v1/models")
    assert "cache" not in {**embed.ours, **models.ours}


def test_no_text_stands_in_redis_but_in_the_answers_themselves(caching: Caching) -> None:
    """Keys, indexes and all other values hold digests and names; values are compressed."""
    caching.answer(as_json(said("CANARY-ANSWER " * 50)))
    caching.ask(chat("CANARY-QUESTION " * 50))
    caching.ask(chat("CANARY-QUESTION " * 50))
    with caching.valkey.client() as client:
        for name in client.keys("*"):
            assert b"CANARY" not in name
            if client.type(name) == b"hash" and b"answers" not in name:
                assert b"CANARY" not in b"".join(client.hvals(name))


def test_a_streamed_answer_is_stored_as_its_last_byte_leaves(caching: Caching) -> None:
    """A client that asks again at once never misses what it has just read."""
    caching.answer(streamed("Pa", "ris."))
    for n in range(30):
        body = chat(f"question {n}", stream=True)
        assert caching.verdicts(body, body) == ["miss", "hit"]


def test_completions_are_cached_by_prompt(caching: Caching) -> None:
    """Several prompts are due several choices."""
    one = {
        "id": "c",
        "object": "text_completion",
        "choices": [{"index": 0, "text": "x", "finish_reason": "stop"}],
    }
    caching.answer(as_json(one))
    assert caching.verdicts({"prompt": "a"}, {"prompt": "a"}, path=COMPLETIONS) == ["miss", "hit"]
    assert caching.verdicts({"prompt": ["a", "b"]}, {"prompt": ["a", "b"]}, path=COMPLETIONS) == [
        "miss",
        "miss",
    ]
