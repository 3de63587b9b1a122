"""The exact token: both prompts rendered and tokenised by the backend itself, on request and never else."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from services.proxy.admin.exact import _exact
from services.proxy.settling.exact import Inexact
from services.proxy.settling.explain import Made
from tests.support.backend.script import Received, Reply, as_json, body
from tests.support.http import Answer
from tests.support.story import CHAT, MESSAGES, OLLAMA, RESPONSES, NewStory, Story, Told
from tests.support.talk import ASK, MORE, RULES, function, said, text, turn, user

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


def test_ollama_renders_texts_that_first_came_in_another_shape(stories: NewStory) -> None:
    """A system text known as blocks of the Messages API is a message again in a chat."""
    story = stories("ollama")
    blocks = [text(f"{RULES} It is 10:40. {RULES}")]
    story.say({"system": blocks, "messages": [user(ASK)], "max_tokens": 9}, path=MESSAGES)
    told = broken(story, OLLAMA)
    seen: list[Any] = []

    def shown(received: Received) -> Reply:
        seen.append(received.json()["messages"])
        return as_json({"_debug_info": {"rendered_template": rendered(seen[-1])}})

    story.backend.queue(shown, shown)
    assert json.loads(exactly(story, told).body)["byte_offset"] == len(f"<system>{RULES} It is 10:4")
    assert [turns[0]["role"] for turns in seen] == ["system", "system"]


CONVERTED = [
    (
        MESSAGES,
        "/v1/messages/count_tokens",
        lambda s, t: {"system": [text(s)], "messages": t, "max_tokens": 9},
    ),
    (RESPONSES, "/v1/responses/input_tokens", lambda s, t: {"instructions": s, "input": t}),
]


def apart(story: Story, path: str, body: Any) -> Told:
    """Two requests of another API with a clock between two system texts."""
    heads = [f"{RULES} It is 10:4{k}. {story.model} {RULES}" for k in range(2)]
    ask = user(f"{story.model} {ASK}")
    story.say(body(heads[0], [ask]), path=path)
    return story.say(
        body(heads[1], [ask, said(f"ok {story.model}"), user(f"{MORE} {story.model}")]), path=path
    )


@pytest.mark.parametrize(("path", "counter", "made"), CONVERTED)
def test_apis_that_the_server_converts_are_rendered_as_it_does(
    stories: NewStory, path: str, counter: str, made: Any
) -> None:
    """As a chat with a system message; the server's own count of the request confirms it."""
    story = stories()
    length = []

    def count(received: Received) -> Reply:
        body = received.json()
        assert "system" in body or "instructions" in body
        return as_json({"input_tokens": length[-1]})

    def cut(received: Received) -> Reply:
        found = tokens(received)
        length.append(len(json.loads(found.writes[0][1])["tokens"]))
        return found

    for answer, where in ((template, "/apply-template"), (cut, "/tokenize"), (count, counter)):
        story.backend.answer(answer, where)
    told = apart(story, path, made)
    found = json.loads(exactly(story, told).body)
    assert found["byte_offset"] == len(f"<system>{RULES} It is 10:4")
    assert found["token"] == found["byte_offset"] // 4
    assert "It is 10:41" in found["after"]

    story.backend.answer(as_json({"input_tokens": 5}), counter)
    refused = exactly(story, told)
    assert refused.status == 422
    assert "5 tokens" in json.loads(refused.body)["error"]["message"]


@pytest.mark.parametrize(("path", "made"), [(path, made) for path, _, made in CONVERTED])
def test_ollama_renders_other_apis_by_its_chat_route(stories: NewStory, path: str, made: Any) -> None:
    """It has no tokeniser: about where the token is, is judged by its own count of the prompt."""
    story = stories("ollama")
    heads = [f"{RULES} It is 10:4{k}. {RULES}" for k in range(2)]
    story.say(made(heads[0], [user(ASK)]), path=path, tokens=(300, None))
    told = story.say(made(heads[1], [user(ASK), said(), user(MORE)]), path=path, tokens=(400, None))
    seen: list[Any] = []

    def shown(received: Received) -> Reply:
        seen.append(received.json())
        return as_json({"_debug_info": {"rendered_template": rendered(seen[-1]["messages"])}})

    story.backend.answer(shown, CHAT)
    found = json.loads(exactly(story, told).body)
    assert (found["token"], found["broken"]) == (None, True)
    whole = len(rendered(seen[-1]["messages"]))
    if found["estimated_token"] is not None:
        assert found["estimated_token"] == round(400 * found["byte_offset"] / whole)
    assert all(asked["_debug_render_only"] is True for asked in seen)


def test_what_cannot_be_told_is_said_clearly(stories: NewStory) -> None:
    """No parent, another backend, an unknown request, text switched off, a faulty server."""
    story = stories()
    first = story.say({"messages": [turn("system", f"{story.model} {RULES}"), user(story.model)]})
    vllm = broken(stories("vllm"))
    silent = stories(keep_text="false")
    story.backend.answer(body("no", status=500), "/apply-template")
    cases = [
        (story, first, 422, "compared with nothing"),
        (stories("vllm"), vllm, 422, "llama-server does both"),
        (story, "01900000-0000-7000-8000-000000000000", 404, "not answered"),
        (silent, broken(silent), 409, "KEEP_TEXT"),
        (story, broken(story), 502, "HTTP 500"),
    ]
    for where, told, status, words in cases:
        answer = exactly(where, told)
        assert answer.status == status, answer.body
        assert words in json.loads(answer.body)["error"]["message"]


def test_a_server_that_was_left_meanwhile_is_not_asked() -> None:
    """A stand-in makes way for a real server; what it answered cannot be rendered by that one."""
    made = Made("parent", "stand-in", "openai_chat", "m", "m", b"", {})
    ctx: Any = SimpleNamespace(explanations=SimpleNamespace(made=lambda _: made), backends=[])
    with pytest.raises(Inexact, match="no longer in use") as caught:
        _exact(ctx, "id")
    assert caught.value.status == 410


def test_another_origin_may_not_ask(stories: NewStory) -> None:
    story = stories()
    told = broken(story)
    assert exactly(story, told, [("Origin", "https://evil.example")]).status == 403
    assert not [r for r in story.backend.requests if r.path == "/tokenize" and told.id.encode() in r.body]
