"""Variants of replies replayed otherwise than they were relayed, and of media.

Written from the contract alone, by others than the recognisers' authors: cases R12 and R16.
"""

import json
from typing import Any

import pytest

from tests.support.backend.script import as_json
from tests.support.story import CHAT, MESSAGES, OLLAMA, RESPONSES, NewStory, Told, answered
from tests.support.talk import (
    AGAIN,
    ASK,
    JPG,
    MORE,
    PNG,
    call,
    causes,
    history,
    item,
    picture,
    result,
    retold,
    said,
    text,
    user,
)

pytestmark = pytest.mark.process


REPLIES = [
    (CHAT, {"content": "A b", "reasoning_content": "R"}, said("A b")),
    (CHAT, {"content": "A b", "reasoning": "R"}, said("A b")),
    (OLLAMA, {"content": "A b", "thinking": "R"}, said("A b")),
    (CHAT, {"content": "<think>R</think>A b"}, said("A b")),
]


@pytest.mark.parametrize(("path", "reply", "replayed"), REPLIES)
def test_dropped_reasoning_is_seen_against_the_answer(
    stories: NewStory, path: str, reply: dict[str, Any], replayed: dict[str, Any]
) -> None:
    """A risk: the request is a perfect append, and only the relayed answer tells."""
    story = stories("ollama" if path == OLLAMA else "llama-server")
    story.say(history(path, [user(ASK)]), path=path, reply=reply)
    told = story.say(history(path, [user(ASK), replayed, user(MORE)]), path=path)
    assert told.codes == ["reasoning_dropped_by_client"]
    assert (told.hit, told.cause, told.explain["relation"]) == ("prefix", None, "append")
    assert told.explain["causes"][0]["severity"] == "risk"


def test_a_thinking_block_and_a_reasoning_item_can_be_dropped_too(stories: NewStory) -> None:
    story = stories()
    content = [{"type": "thinking", "thinking": "R", "signature": "s"}, text("A b")]
    usage = {"input_tokens": 500, "output_tokens": 3}
    answer = as_json({"type": "message", "role": "assistant", "content": content, "usage": usage})
    story.say(history(MESSAGES, [user(ASK)]), path=MESSAGES, answer=answer)
    told = story.say(history(MESSAGES, [user(ASK), said([text("A b")]), user(MORE)]), path=MESSAGES)
    assert causes(told) == [("reasoning_dropped_by_client", "messages[1]")]
    output = [
        {
            "type": "reasoning",
            "id": "rs_1",
            "content": [{"type": "reasoning_text", "text": "R"}],
            "summary": [],
        },
        item("assistant", "A b", id="msg_1"),
    ]
    story = stories()
    answer = as_json({"object": "response", "status": "completed", "output": output, "usage": usage})
    story.say(history(RESPONSES, [item("user", ASK)]), path=RESPONSES, answer=answer)
    later = [item("user", ASK), item("assistant", "A b", id="msg_1"), item("user", MORE)]
    told = story.say(history(RESPONSES, later), path=RESPONSES)
    assert told.codes == ["reasoning_dropped_by_client"]


ALTERED = [
    ("trimmed", {"content": "A b \n"}, said("A b"), "reply_altered_by_client"),
    ("other words", {"content": "A b"}, said("A c"), "reply_altered_by_client"),
    (
        "arguments spelt anew",
        {"content": "", "tool_calls": call('{"path": "é"}')["tool_calls"]},
        call('{"path":"\\u00e9"}', content=""),
        "tool_args_reserialised",
    ),
]


@pytest.mark.parametrize(("name", "reply", "replayed", "code"), ALTERED, ids=[a[0] for a in ALTERED])
def test_a_reply_replayed_otherwise_is_a_risk_that_may_become_a_loss(
    stories: NewStory, name: str, reply: dict[str, Any], replayed: dict[str, Any], code: str
) -> None:
    def told(cached: int) -> Told:
        story = stories()
        story.say(history(CHAT, [user(ASK)]), tokens=(500, 0), reply=reply)
        tail = [result("found")] if replayed.get("tool_calls") else [user(MORE)]
        return story.say(history(CHAT, [user(ASK), replayed, *tail]), tokens=(540, cached))

    kept, lost = told(503), told(0)
    assert (kept.codes, kept.cause) == ([code], None), name
    assert (lost.codes[0], lost.cause) == (code, code), name


def test_a_reply_replayed_as_it_was_is_nothing(stories: NewStory) -> None:
    """With reasoning in any of its fields, calls as relayed, and content null or empty."""
    story = stories()
    reply = {"content": "", "reasoning_content": "R", "tool_calls": call('{"path": "é"}')["tool_calls"]}
    story.say(history(CHAT, [user(ASK)]), reply=reply)
    replayed = call('{"path": "é"}', reasoning_content="R")
    assert story.say(history(CHAT, [user(ASK), replayed, result("found")])).codes == []


@pytest.mark.parametrize(
    ("sent", "codes"), [('{"a":1,"b":"x y"}', []), ('{"b": "x y", "a": 1}', ["tool_args_reserialised"])]
)
def test_blanks_in_arguments_that_ollama_parsed_are_nothing_but_their_order_is(
    stories: NewStory, sent: str, codes: list[str]
) -> None:
    """It gives and takes objects: how either side spaces them reaches no template."""
    made = {"function": {"name": "read", "arguments": {"a": 1, "b": "x y"}}}  # relayed with blanks
    story = stories("ollama")
    story.say(history(OLLAMA, [user(ASK)]), path=OLLAMA, reply={"content": "", "tool_calls": [made]})
    replayed = {**said(""), "tool_calls": [{"function": {"name": "read", "arguments": "ARGUMENTS"}}]}
    body = history(OLLAMA, [user(ASK), replayed, {"role": "tool", "content": "found"}])
    raw = json.dumps({"model": story.model, **body}).replace('"ARGUMENTS"', sent).encode()
    story.backend.queue(answered(OLLAMA, (None, None)))
    assert story.explained(story.proxy.request("POST", OLLAMA, raw)).codes == codes


def test_an_image_encoded_anew_is_a_note(stories: NewStory) -> None:
    wrapped = "\n".join(PNG[k : k + 76] for k in range(0, len(PNG), 76))
    told = retold(
        stories,
        CHAT,
        [user([text(ASK), picture(PNG)])],
        [user([text(ASK), picture(wrapped)]), said(), user(MORE)],
    )
    assert (told.hit, told.cause) == ("prefix", None)
    assert told.codes in ([], ["image_encoding_changed"])


def test_images_of_ollama_count_by_their_bytes(stories: NewStory) -> None:
    told = retold(
        stories,
        OLLAMA,
        [{**user(ASK), "images": [PNG]}],
        [{**user(ASK), "images": [JPG]}, said(), user(MORE)],
    )
    assert told.cause == "history_rewrite"
    same = retold(
        stories,
        OLLAMA,
        [{**user(ASK), "images": [PNG]}],
        [{**user(ASK), "images": [PNG]}, said(), user(MORE)],
    )
    assert (same.hit, same.codes) == ("prefix", [])


def test_equal_bytes_after_a_rewrite_reach_over_later_messages(stories: NewStory) -> None:
    old = [user(ASK), said("one " * 50), user(MORE), said("two " * 50)]
    new = [user(ASK), said("uno " + "one " * 49), user(MORE), said("two " * 50), user(AGAIN)]
    told = retold(stories, CHAT, old, new)
    assert told.explain["equal_after_divergence"] >= len("one " * 49) + len(MORE) + 200
