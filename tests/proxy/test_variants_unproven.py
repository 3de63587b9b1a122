"""Variants of what cannot be proven or is only asked for: R32, R39 and R42.

Written from the contract alone, by others than the recognisers' authors.
"""

from typing import Any

import pytest

from tests.support.backend.script import Reply, as_json, sse
from tests.support.story import CHAT, MESSAGES, OLLAMA, RESPONSES, NewStory, answered, streamed
from tests.support.talk import ASK, MORE, PNG, RULES, call, chat, function, history, picture, said, text, user

pytestmark = pytest.mark.process

Body = dict[str, Any]
QUIET = {"chat_template_kwargs": {"enable_thinking": False}}
TOOLS = {"tools": [function("read")]}

CORRELATES: list[tuple[str, Body, list[str]]] = [
    ("plain", {}, []),
    ("stream", {"stream": True}, ["stream"]),
    ("template", {"chat_template_kwargs": {"preserve_thinking": True}}, ["chat_template_kwargs"]),
    ("format", {"response_format": {"type": "json_object"}}, ["response_format"]),
    ("effort", {"reasoning_effort": "low", **TOOLS}, ["reasoning_effort", "tools"]),
    ("all", {"stream": True, **QUIET, **TOOLS}, ["stream", "chat_template_kwargs", "tools"]),
]


@pytest.mark.parametrize(("name", "more", "expected"), CORRELATES)
def test_r32_what_is_special_about_a_request_that_misses(
    stories: NewStory, name: str, more: Body, expected: list[str]
) -> None:
    """Each miss in a row names it, as correlation; there is no cause beside it."""
    story = stories("mlx_lm")
    told = []
    for turns in (1, 2, 3):
        counts = (500 + 40 * turns, 0)
        reply = streamed("ok", counts) if more.get("stream") else answered(CHAT, counts)
        told.append(story.say({**chat(turns), **more}, answer=reply))
    for again in told[1:]:
        assert (again.codes, again.hit) == (["engine_unknown"], "prefix"), name
        assert sorted(again.detail("engine_unknown")["correlates"]) == sorted(expected)


def test_r32_a_picture_is_said_to_go_with_a_miss(stories: NewStory) -> None:
    story = stories("mlx_lm")
    asked = user([text(ASK), picture(PNG)])
    story.say(history(CHAT, [asked]), tokens=(900, 0))
    told = story.say(history(CHAT, [asked, said(), user(MORE)]), tokens=(940, 0))
    assert told.detail("engine_unknown")["correlates"] == ["media"]


def test_r32_the_same_request_that_is_reused_has_no_cause(stories: NewStory) -> None:
    """The other reporter of the case, who could not see the fault."""
    story = stories("mlx_lm")
    told = [
        story.say({**chat(turns), "stream": True, **QUIET}, answer=streamed("ok", (540 + 40 * turns, cached)))
        for turns, cached in ((1, 0), (2, 580), (3, 620))
    ]
    assert [again.codes for again in told[1:]] == [[], []]


def counted(path: str, total: int, cached: int) -> Reply:
    """An answer of llama-server's own route, or of any other."""
    if path != "/completion":
        return answered(path, (total, cached))
    timings = {"cache_n": cached, "prompt_n": total - cached, "predicted_n": 2}
    return as_json({"content": "ok", "stop": True, "timings": timings})


def asked(path: str, turns: int, **more: Any) -> Body:
    """The talk so far in the words of an API."""
    if path in ("/completion", "/v1/completions"):
        return {"prompt": RULES * 2 + ASK * turns, **more}
    body = history(path, chat(turns)["messages"][1:])
    return {**body, **more}


@pytest.mark.parametrize("path", [CHAT, "/completion", "/v1/completions", MESSAGES])
def test_r39_on_every_route_of_llama_server(stories: NewStory, path: str) -> None:
    """Once there is something to reuse; the first request of a talk has nothing to lose."""
    story = stories()
    first = story.say(asked(path, 1, cache_prompt=False), path=path, answer=counted(path, 600, 0))
    told = story.say(asked(path, 2, cache_prompt=False), path=path, answer=counted(path, 640, 0))
    assert "client_disabled_cache" not in first.codes
    assert (told.codes, told.cause) == (["client_disabled_cache"], "client_disabled_cache")
    assert told.detail("client_disabled_cache") == {"option": "cache_prompt", "value": False}
    assert (told.explain["lost_tokens"] or 0) > 300


def test_r39_a_stream_says_so_in_its_headers(stories: NewStory) -> None:
    """It was asked for, so it is foreseeable."""
    story = stories()
    for turns in (1, 2):
        body = {**chat(turns), "stream": True, "cache_prompt": False}
        told = story.say(body, answer=streamed("ok", (600, 0)))
    assert told.cause == "client_disabled_cache"


@pytest.mark.parametrize("value", [True, None])
def test_r39_a_cache_that_is_not_switched_off_is_not_blamed(stories: NewStory, value: bool | None) -> None:
    story = stories()
    story.say(chat(1, cache_prompt=False), tokens=(600, 0))
    told = story.say(chat(2, cache_prompt=value), tokens=(640, 0))
    assert "client_disabled_cache" not in told.codes


def test_r39_a_server_that_reuses_all_the_same_refutes_it(stories: NewStory) -> None:
    """One that does not know the option."""
    story = stories("vllm")
    story.say(chat(1, cache_prompt=False), tokens=(600, 0))
    told = story.say(chat(2, cache_prompt=False), tokens=(640, 592))
    assert "client_disabled_cache" not in told.codes


def test_r39_it_stands_before_a_broken_text(stories: NewStory) -> None:
    """The order is that of the docs: the text broke as well, but nothing of it would have been kept."""
    story = stories()
    story.say(history(CHAT, [user(ASK), said(), user(MORE)]), tokens=(600, 0))
    body = {**history(CHAT, [user(ASK), said("OK!"), user(MORE), said(), user(ASK)]), "cache_prompt": False}
    told = story.say(body, tokens=(700, 0))
    assert told.codes[:2] == ["client_disabled_cache", "history_rewrite"]


def answer_of(path: str, words: str) -> Reply:
    """A whole answer with these words, or a call with them as its argument."""
    if path == "stream":
        return streamed(words, (500, 499))
    if path == "call":
        return answered(CHAT, (500, 499), call(f'{{"path":"{words}"}}'))
    if path == RESPONSES:
        output = [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]}
        ]
        return as_json({"object": "response", "status": "completed", "output": output})
    return answered(path, (500, 499), {"content": words})


ROUTES_AT_ZERO: list[tuple[str, str, Body]] = [
    (CHAT, CHAT, {"temperature": 0}),
    ("stream", CHAT, {"temperature": 0.0, "stream": True}),
    ("call", CHAT, {"temperature": 0}),
    (OLLAMA, OLLAMA, {"options": {"temperature": 0}}),
    (MESSAGES, MESSAGES, {"temperature": 0}),
    (RESPONSES, RESPONSES, {"temperature": 0}),
]


@pytest.mark.parametrize(("kind", "path", "more"), ROUTES_AT_ZERO)
def test_r42_two_answers_to_one_question(stories: NewStory, kind: str, path: str, more: Body) -> None:
    """Both outputs are named by their hashes, on every route; nothing was lost by it."""
    story = stories("ollama" if path == OLLAMA else "llama-server")
    body = {**history(path, [user(ASK)]), **more}
    first = story.say(body, path=path, answer=answer_of(kind, "one"))
    told = story.say(body, path=path, answer=answer_of(kind, "two"))
    assert (told.codes, told.cause, told.hit) == (["nondeterministic_repeat"], None, "exact")
    found = told.detail("nondeterministic_repeat")
    assert found["request"] == first.id
    assert found["output"] != found["previous_output"]
    assert told.explain["causes"][0]["severity"] == "note"
    assert told.explain["lost_tokens"] is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"temperature": 0}, ("one", "one")),
        ({"temperature": 0.7}, ("one", "two")),
        ({}, ("one", "two")),
    ],
)
def test_r42_equal_answers_and_other_temperatures_are_no_matter(
    stories: NewStory, more: Body, words: tuple[str, str]
) -> None:
    """An answer may differ where chance was asked for, or nobody said that it was not."""
    story = stories()
    for said_now in words:
        told = story.say({**history(CHAT, [user(ASK)]), **more}, answer=answer_of(CHAT, said_now))
    assert told.codes == []


def test_r42_an_answer_that_broke_off_is_no_other_answer(stories: NewStory) -> None:
    """It ended without its end mark, so it says nothing of what the whole would have been."""
    story = stories()
    body = {**history(CHAT, [user(ASK)]), "temperature": 0, "stream": True}
    story.say(body, answer=streamed("one two three", (500, 0)))
    cut = sse([{"choices": [{"index": 0, "delta": {"content": "one"}}]}])
    told = story.say(body, answer=cut)
    assert "nondeterministic_repeat" not in told.codes
