"""The exact token: both prompts rendered and tokenised by the backend itself, on request and never else."""

import json
from typing import Any

import pytest

from tests.support.backend.script import Received, Reply, as_json, body
from tests.support.http import Answer
from tests.support.story import CHAT, MESSAGES, OLLAMA, NewStory, Story, Told
from tests.support.talk import ASK, MORE, RULES, function, said, turn, user

pytestmark = pytest.mark.process


def rendered(messages: list[dict[str, Any]]) -> str:
    """A template of our own: one line a message."""
    return "".join(f"<{m['role']}>{m['content']}\n" for m in messages) + "<assistant>"


def template(received: Received) -> Reply:
    return as_json({"prompt": rendered(received.json()["messages"])})


def tokens(received: Received) -> Reply:
    """Four characters a token."""
    content = received.json()["content"]
    return as_json({"tokens": [hash(content[k : k + 4]) % 50_000 for k in range(0, len(content), 4)]})


def exactly(story: Story, told: Told | str, headers: list[tuple[str, str]] | None = None) -> Answer:
    request_id = told if isinstance(told, str) else told.id
    return story.proxy.request("POST", f"/metalanchor/api/requests/{request_id}/exact", headers=headers)


def broken(story: Story, path: str = CHAT, **more: Any) -> Told:
    """Two requests with a clock between two system texts."""
    heads = [turn("system", f"{RULES} It is 10:4{k}. {RULES}") for k in range(2)]
    story.say({"messages": [heads[0], user(ASK)], "stream": False, **more}, path=path)
    turns = [user(ASK), said(), user(MORE)]
    return story.say({"messages": [heads[1], *turns], "stream": False, **more}, path=path)


def test_llama_server_renders_and_tokenises(stories: NewStory) -> None:
    """Messages, tools and template inputs go to /apply-template; the token is where its tokens part."""
    story = stories()
    seen: list[Any] = []

    def shown(received: Received) -> Reply:
        seen.append(received.json())
        return template(received)

    story.backend.answer(shown, "/apply-template")
    story.backend.answer(tokens, "/tokenize")
    more = {"tools": [function("a")], "chat_template_kwargs": {"enable_thinking": False}}
    told = broken(story, **more)
    found = json.loads(exactly(story, told).body)
    offset = len(f"<system>{RULES} It is 10:4")
    assert (found["token"], found["byte_offset"], found["broken"]) == (offset // 4, offset, True)
    assert (found["id"], found["parent_id"]) == (told.id, told.explain["parent_id"])
    assert found["tokens"] > found["parent_tokens"] > found["token"]
    assert "It is 10:41" in found["after"]
    assert {name: seen[0][name] for name in more} == more
    assert len(seen) == 2


def test_a_kept_prefix_is_not_broken(stories: NewStory) -> None:
    """A prompt of one text needs no template; the whole older one is kept."""
    story = stories()
    story.backend.answer(tokens, "/tokenize")
    tale = "Once upon a time there was a loader. " * 8
    story.say({"prompt": tale}, path="/completion")
    told = story.say({"prompt": tale + "And?"}, path="/completion")
    found = json.loads(exactly(story, told).body)
    assert (found["broken"], found["byte_offset"]) == (False, len(tale))


def test_ollama_renders_without_generating(stories: NewStory) -> None:
    """It has no tokeniser: the byte of the rendered prompt is told, and nothing is loaded otherwise."""
    story = stories("ollama")
    told = broken(story, OLLAMA, options={"num_ctx": 8192}, keep_alive="10m")
    seen: list[Any] = []

    def shown(received: Received) -> Reply:
        seen.append(received.json())
        return as_json({"_debug_info": {"rendered_template": rendered(seen[-1]["messages"])}})

    story.backend.queue(shown, shown)
    found = json.loads(exactly(story, told).body)
    assert (found["token"], found["tokens"], found["broken"]) == (None, None, True)
    assert found["byte_offset"] == len(f"<system>{RULES} It is 10:4")
    assert all(asked["_debug_render_only"] is True and asked["stream"] is False for asked in seen)
    assert (seen[0]["options"], seen[0]["keep_alive"]) == ({"num_ctx": 8192}, 600)


def test_what_cannot_be_told_is_said_clearly(stories: NewStory) -> None:
    """No parent, another API, another backend, an unknown request, text switched off, a faulty server."""
    story = stories()
    first = story.say({"messages": [turn("system", f"{story.model} {RULES}"), user(story.model)]})
    anthropic = [
        story.say({"system": RULES, "messages": [user(ASK)][:k], "max_tokens": 9}, path=MESSAGES)
        for k in (1, 1)
    ]
    vllm = broken(stories("vllm"))
    silent = stories(keep_text="false")
    story.backend.answer(body("no", status=500), "/apply-template")
    cases = [
        (story, first, 422, "compared with nothing"),
        (story, anthropic[1], 422, "/v1/chat/completions"),
        (stories("vllm"), vllm, 422, "llama-server does both"),
        (story, "01900000-0000-7000-8000-000000000000", 404, "not answered"),
        (silent, broken(silent), 409, "KEEP_TEXT"),
        (story, broken(story), 502, "HTTP 500"),
    ]
    for where, told, status, words in cases:
        answer = exactly(where, told)
        assert answer.status == status, answer.body
        assert words in json.loads(answer.body)["error"]["message"]


def test_another_origin_may_not_ask(stories: NewStory) -> None:
    story = stories()
    told = broken(story)
    assert exactly(story, told, [("Origin", "https://evil.example")]).status == 403
    assert not [r for r in story.backend.requests if r.path == "/tokenize" and told.id.encode() in r.body]
