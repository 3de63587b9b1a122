"""Variants of reloads, unloads, cut prompts and caches switched off.

Written from the contract alone, by others than the recognisers' authors: cases R27, R29, R39 and R40.
"""

import time
from typing import Any

import pytest

from tests.support.backend.script import as_json
from tests.support.story import CHAT, OLLAMA, NewStory
from tests.support.talk import (
    ASK,
    LOADED,
    READY,
    RULES,
    SYSTEM,
    chat,
    turn,
    user,
)

pytestmark = pytest.mark.process


RELOADS: list[tuple[dict[str, Any], dict[str, Any], tuple[str, Any, Any]]] = [
    ({"options": {"num_ctx": 4096}}, {"options": {"num_ctx": 32_768}}, ("num_ctx", 4096, 32_768)),
    ({"options": {"num_gpu": 99}}, {"options": {"num_gpu": 20}}, ("num_gpu", 99, 20)),
    ({"options": {"num_batch": 512}}, {"options": {}}, ("num_batch", 512, None)),
    ({}, {"options": {"num_thread": 4}}, ("num_thread", None, 4)),
    ({"options": {"use_mmap": True}}, {"options": {"use_mmap": False}}, ("use_mmap", True, False)),
    ({}, {"shift": False}, ("shift", None, False)),
]


@pytest.mark.parametrize(("old", "new", "expected"), RELOADS)
def test_an_option_that_loads_the_model_anew(
    stories: NewStory, old: dict[str, Any], new: dict[str, Any], expected: Any
) -> None:
    story = stories("ollama")
    story.say(chat(1, **old), path=OLLAMA, tokens=(600, 0), **LOADED)
    told = story.say(chat(2, **new), path=OLLAMA, tokens=(640, 0), **LOADED)
    found = told.detail("model_reload")
    assert (told.codes[0], found["option"], found["old"], found["new"]) == ("model_reload", *expected)
    assert (found["by_request"], told.explain["lost_tokens"]) == (told.id, 600)
    assert told.answer.ours["cause"] == "model_reload"


def test_a_title_without_the_option_reloads_under_the_main_line(stories: NewStory) -> None:
    """Hermes: `num_ctx` on the main requests only; the title loads the model without it, and is named."""
    story, agent = stories("ollama"), [("User-Agent", "aider/0.86.2")]
    own = {"options": {"num_ctx": 65_536}}
    story.say(chat(1, **own), path=OLLAMA, tokens=(600, 0), **LOADED)
    title = {"messages": [user("Write a title for: x")], "stream": False}
    by = story.say(
        {**title, "options": {"num_ctx": 2048}}, path=OLLAMA, tokens=(30, 0), headers=agent, **LOADED
    )
    told = story.say(chat(2, **own), path=OLLAMA, tokens=(640, 0), **LOADED)
    found = told.detail("model_reload")
    assert (by.cause, told.cause) == ("model_reload", "model_reload")
    assert (found["old"], found["new"], found["by_request"]) == (2048, 65_536, told.id)


def test_options_the_server_fills_in_by_itself_do_not_reload(stories: NewStory) -> None:
    """No `num_ctx` on either side, sampling options apart: nothing loads, nothing is claimed."""
    story = stories("ollama")
    story.say(chat(1, options={"temperature": 0.1, "num_predict": 9}), path=OLLAMA, tokens=(600, 0), **READY)
    told = story.say(chat(2, options={"top_k": 4, "stop": ["x"]}), path=OLLAMA, tokens=(640, 600), **READY)
    assert (told.codes, told.cause) == ([], None)


def test_a_changed_option_that_the_measured_reuse_refutes_is_not_blamed(stories: NewStory) -> None:
    story = stories("ollama")
    story.say(chat(1, options={"num_ctx": 8192}), path=OLLAMA, tokens=(600, 0), **READY)
    told = story.say(chat(2, options={"num_ctx": 16_384}), path=OLLAMA, tokens=(640, 600), **READY)
    assert "model_reload" not in told.codes


KEPT: list[tuple[Any, float | None]] = [
    (1, 1.0),
    ("1000ms", 1.0),
    ("0m1s", 1.0),
    (-1, None),
    ("-1m", None),
    ("24h", None),
    (300, None),
]


@pytest.mark.parametrize(("keep_alive", "seconds"), KEPT)
def test_every_form_of_keep_alive(stories: NewStory, keep_alive: Any, seconds: float | None) -> None:
    """Idle for longer than it the model is gone; a negative one never lets go."""
    story = stories("ollama")
    story.say(chat(1, keep_alive=keep_alive), path=OLLAMA, tokens=(600, 0), **LOADED)
    time.sleep(1.2)
    told = story.say(chat(2), path=OLLAMA, tokens=(640, 0), **LOADED)
    if seconds is None:
        assert (told.cause, told.detail("model_unloaded")["reason"]) == ("model_unloaded", None)
        assert "restarted" in told.explain["advice"]
    else:
        found = told.detail("model_unloaded")
        assert (told.cause, found["reason"], found["keep_alive_s"]) == (
            "model_unloaded",
            "idle_timeout",
            seconds,
        )
        assert 1.0 <= found["gap_s"] < 10


GOODBYES: list[tuple[str, dict[str, Any]]] = [
    ("/api/generate", {"keep_alive": 0}),
    ("/api/generate", {"prompt": "bye", "keep_alive": "0s", "stream": False}),
    ("/api/chat", {"messages": [], "keep_alive": "0"}),
    ("/api/embed", {"input": "x", "keep_alive": 0}),
]


@pytest.mark.parametrize(("path", "asked"), GOODBYES)
def test_every_call_that_lets_the_model_go(stories: NewStory, path: str, asked: dict[str, Any]) -> None:
    story = stories("ollama")
    story.say(chat(1), path=OLLAMA, tokens=(600, 0), **LOADED)
    story.backend.queue(as_json({"model": "m", "done": True, "done_reason": "unload", "embeddings": []}))
    bye = story.proxy.chat({"model": story.model, **asked}, path=path)
    told = story.say(chat(2), path=OLLAMA, tokens=(640, 0), **LOADED)
    found = told.detail("model_unloaded")
    assert (told.cause, found["reason"]) == ("model_unloaded", "keep_alive_0")
    assert found["by_request"] == bye.ours["request-id"]


@pytest.mark.parametrize("num_ctx", [2048, 4096])
def test_a_prompt_cut_at_the_context(stories: NewStory, num_ctx: int) -> None:
    story = stories("ollama")
    long = user("有很多很多的内容放不下。" * 2500)
    made = {"messages": [SYSTEM, long], "stream": False, "options": {"num_ctx": num_ctx}}
    told = story.say(made, path=OLLAMA, tokens=(num_ctx, None), **READY)
    found = told.detail("context_truncated")
    assert (told.codes[0], told.cause) == ("context_truncated", "context_truncated")
    assert (found["evaluated"], found["num_ctx"]) == (num_ctx, num_ctx)
    assert found["sent_estimate"] > 3 * num_ctx


def test_a_prompt_that_fits_its_context_is_not_cut(stories: NewStory) -> None:
    story = stories("ollama")
    head = turn("system", f"{story.model}: {RULES}")
    asked = {"messages": [head, user(ASK)], "stream": False, "options": {"num_ctx": 8192}}
    assert story.say(asked, path=OLLAMA, tokens=(600, None), **READY).codes == []


@pytest.mark.parametrize("path", [CHAT, "/completion"])
def test_a_cache_switched_off_by_the_second_request_only(stories: NewStory, path: str) -> None:
    story = stories()
    tale = "Once upon a time there was a loader. " * 40
    first = chat(1) if path == CHAT else {"prompt": tale}
    second = chat(2) if path == CHAT else {"prompt": tale + "And?"}
    done = as_json(
        {"content": "ok", "stop": True, "timings": {"cache_n": 0, "prompt_n": 600, "predicted_n": 2}}
    )
    more = {"tokens": (600, 0)} if path == CHAT else {"answer": done}
    story.say(first, path=path, **more)
    told = story.say({**second, "cache_prompt": False}, path=path, **more)
    assert (told.codes[0], told.cause) == ("client_disabled_cache", "client_disabled_cache")
