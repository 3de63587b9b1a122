"""Variants of template inputs, envelopes, model switches, prompts of one text, and what goes with what.

Written from the contract alone, by others than the recognisers' authors: cases R04, R35 and R37.
"""

import json
from typing import Any

import pytest

from tests.support.story import CHAT, MESSAGES, OLLAMA, RESPONSES, NewStory, Story, Told
from tests.support.talk import (
    AGAIN,
    ASK,
    ASK_ZH,
    MORE,
    REPLY,
    RULES,
    RULES_ZH,
    call,
    causes,
    claude,
    function,
    grown,
    item,
    said,
    text,
    turn,
    user,
)

pytestmark = pytest.mark.process


PARAMS = [
    (CHAT, {"reasoning_effort": "low"}, {"reasoning_effort": "high"}, "params.reasoning_effort"),
    (OLLAMA, {"think": False}, {"think": True}, "params.think"),
    (OLLAMA, {}, {"format": "json"}, "params.format"),
    (
        CHAT,
        {"chat_template_kwargs": {"enable_thinking": True, "x": 1}},
        {"chat_template_kwargs": {"enable_thinking": False, "x": 1}},
        "params.chat_template_kwargs.enable_thinking",
    ),
    (CHAT, {"tool_choice": "auto"}, {"tool_choice": "none"}, "params.tool_choice"),
    (CHAT, {}, {"response_format": {"type": "json_object"}}, "params.response_format"),
]


@pytest.mark.parametrize(("path", "old", "new", "at"), PARAMS)
def test_a_template_input_is_a_risk_until_it_costs(
    stories: NewStory, path: str, old: dict[str, Any], new: dict[str, Any], at: str
) -> None:
    messages = [turn("system", RULES), user(ASK)]
    longer = [*messages, said(), user(MORE)]

    def told(cached: int) -> Told:
        story = stories()
        story.say({"messages": messages, "stream": False, **old}, path=path, tokens=(500, 0))
        return story.say({"messages": longer, "stream": False, **new}, path=path, tokens=(540, cached))

    kept, lost = told(498), told(0)
    assert (causes(kept), kept.cause) == ([("template_param_changed", at)], None)
    assert kept.explain["causes"][0]["severity"] == "risk"
    assert kept.explain["predicted"]["reuse"] > 0.8
    assert (lost.cause, causes(lost)[0]) == ("template_param_changed", ("template_param_changed", at))
    assert lost.explain["causes"][0]["severity"] == "loss"


def test_sampling_and_limits_are_no_template_inputs(stories: NewStory) -> None:
    story, messages = stories(), [turn("system", RULES), user(ASK)]
    story.say({"messages": messages, "temperature": 0, "max_tokens": 9, "seed": 1, "user": "a"})
    more = {"temperature": 1, "max_tokens": 99, "seed": 2, "user": "b", "stop": ["x"], "store": False}
    told = story.say({"messages": [*messages, said(), user(MORE)], **more})
    assert (told.hit, told.codes) == ("prefix", [])


SAME = [
    ("a string and its one block", turn("user", ASK), turn("user", [text(ASK)])),
    ("a marker", turn("user", [text(ASK)]), turn("user", [text(ASK, cache_control={"type": "ephemeral"})])),
    ("the order of a message's keys", turn("user", ASK), {"content": ASK, "role": "user"}),
]


@pytest.mark.parametrize("route", [CHAT, MESSAGES])
@pytest.mark.parametrize(("name", "old", "new"), SAME)
def test_another_envelope_is_no_break(stories: NewStory, name: str, old: Any, new: Any, route: str) -> None:
    story, system = stories(), {"system": RULES} if route == MESSAGES else {}
    head = [] if system else [turn("system", RULES)]
    story.say({**system, "messages": [*head, old], "max_tokens": 9}, path=route)
    told = story.say({"messages": [*head, new, said(), user(MORE)], **system, "max_tokens": 9}, path=route)
    assert (told.hit, told.codes, told.explain["relation"]) == ("prefix", [], "append"), name
    assert told.explain["diverged_at"] is None


def test_markers_in_tools_and_system_are_no_content(stories: NewStory) -> None:
    story, mark = stories(), {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    old = {"system": [text(RULES, **mark)], "tools": [claude("a"), {**claude("b"), **mark}]}
    new = {"system": RULES, "tools": [{**claude("a"), **mark}, claude("b")]}
    story.say({**old, "messages": [user(ASK)]}, path=MESSAGES)
    told = story.say({**new, "messages": [user(ASK), said(), user(MORE)]}, path=MESSAGES)
    assert (told.hit, told.codes) == ("prefix", [])


def test_several_breakers_come_in_prompt_order(stories: NewStory) -> None:
    """Params, tools, system, messages: a shuffling agent with a clock that also rewrites its history."""
    story = stories()
    tools = [function("a"), function("b"), function("c")]
    old = [turn("system", f"now 10:41:07\n{RULES}"), user(ASK), call("{}"), turn("tool", "found " * 99)]
    story.say({"messages": old, "tools": tools, "tool_choice": "auto"})
    new = [
        turn("system", f"now 10:41:59\n{RULES}"),
        user(ASK),
        call("{}"),
        turn("tool", "[cut]"),
        said(),
        user(MORE),
    ]
    told = story.say({"messages": new, "tools": [tools[0], tools[2], tools[1]], "tool_choice": "none"})
    assert causes(told) == [
        ("tool_reorder", "tools[1]"),
        ("timestamp", "system"),
        ("tool_result_pruned", "messages[3]"),
        ("template_param_changed", "params.tool_choice"),
    ]
    assert told.explain["diverged_at"] == "tools[1]"


def test_a_switch_of_model_and_back_in_the_messages_api(stories: NewStory) -> None:
    story = stories()
    other = Story(story.backend, story.proxy, story.model + "-big")
    session = [("X-Claude-Code-Session-Id", f"session-{story.model}")]
    body = {"system": RULES, "max_tokens": 9}
    first = story.say({**body, "messages": [user(ASK)]}, path=MESSAGES, headers=session)
    away = other.say({**body, "messages": [user(ASK), said(), user(MORE)]}, path=MESSAGES, headers=session)
    turns = [user(ASK), said(), user(MORE), said(), user(AGAIN)]
    back = story.say({**body, "messages": turns}, path=MESSAGES, headers=session)
    assert (away.cause, away.explain["parent_id"], away.hit) == ("model_switch", None, "none")
    assert away.detail("model_switch") == {
        "from": story.model,
        "to": other.model,
        "previous": first.id,
        "byte_offset": 0,
    }
    assert (back.hit, back.explain["parent_id"], back.explain["relation"]) == ("prefix", first.id, "append")


def test_alternating_system_texts_are_noted_after_the_break(stories: NewStory) -> None:
    story, turns, seen = stories(), [user(ASK)], []
    for k in range(6):
        mode = "You plan, and change nothing." if k % 2 else "You build, and change what is needed."
        seen.append(story.say({"messages": [turn("system", f"{mode}\n{RULES}"), *turns]}))
        turns += [said(), user(f"{MORE} {k}")]
    assert seen[1].codes[0] == "system_edit"
    assert seen[5].codes[-1] == "alternating_variants"
    assert seen[5].explain["causes"][-1]["severity"] == "note"


@pytest.mark.parametrize("path", ["/completion", "/api/generate", "/v1/completions"])
@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("", " And then it ended.", []),
        ("", "", []),
        ("[10:42] ", " And then it ended.", [("timestamp", "prompt")]),
    ],
)
def test_one_prompt_grows_repeats_or_changes_at_its_head(
    stories: NewStory, path: str, start: str, end: str, expected: Any
) -> None:
    story = stories("ollama" if path.startswith("/api") else "llama-server")
    tale = "Once upon a time there was a loader. " * 30
    head = "[10:41] " if start else ""
    story.say({"prompt": head + tale, "stream": False}, path=path)
    told = story.say({"prompt": start + tale + end, "stream": False}, path=path)
    relation = "rewrite" if expected else "append" if end else "exact_repeat"
    assert told.explain["relation"] == relation
    assert [c for c in causes(told) if c[0] != "nondeterministic_repeat"] == expected
    assert told.hit == (
        "exact" if relation == "exact_repeat" else "prefix" if relation == "append" else told.hit
    )


def test_a_fork_shares_system_and_tools_only(stories: NewStory) -> None:
    """A second talk of one agent: nothing broke, and nothing of its messages was to be had."""
    story, tools = stories(), [function("a"), function("b")]
    head = turn("system", RULES_ZH)
    first = story.say({"messages": [head, user(ASK_ZH)], "tools": tools})
    told = story.say({"messages": [head, user("另一件事：请写一首诗。")], "tools": tools})
    assert (told.explain["relation"], told.hit, told.explain["parent_id"]) == (
        "fork",
        "system+tools",
        first.id,
    )
    assert told.codes == []


def test_responses_items_with_new_ids_and_metadata_are_an_append(stories: NewStory) -> None:
    """Codex: item ids and the key order of `client_metadata` change; content does not."""
    story = stories()
    head = item("developer", RULES)
    first = {"input": [head, item("user", ASK, id="msg_1")], "client_metadata": {"a": "1", "b": "2"}}
    story.say(first, path=RESPONSES)
    later = [head, item("user", ASK, id="msg_9"), item("assistant", REPLY, id="msg_2"), item("user", MORE)]
    told = story.say({"input": later, "client_metadata": {"b": "2", "a": "1"}}, path=RESPONSES)
    assert (told.hit, told.codes, told.explain["relation"]) == ("prefix", [], "append")


def test_the_header_and_the_explanation_agree(stories: NewStory) -> None:
    told = grown(stories(), "chat", f"10:41:07\n{RULES}", f"10:41:08\n{RULES}")
    ours = told.answer.ours
    assert ours["cause"] == told.codes[0]
    assert float(ours["reuse"]) == told.explain["predicted"]["reuse"] < 0.05
    assert int(ours["reused-chunks"]) == told.explain["predicted"]["chunks"] == 0
    assert json.dumps(told.explain)
