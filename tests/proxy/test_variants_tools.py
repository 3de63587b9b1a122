"""Variants of every kind of changed tool list, in the words of every API.

Written from the contract alone, by others than the recognisers' authors: cases R09 and R10.
"""

import json
from typing import Any

import pytest

from tests.support.story import CHAT, MESSAGES, OLLAMA, RESPONSES, NewStory, Told
from tests.support.talk import (
    ASK,
    MORE,
    RULES,
    SCHEMA,
    SYSTEM,
    causes,
    claude,
    first_difference,
    flat,
    function,
    item,
    offset,
    said,
    turn,
    user,
)

pytestmark = pytest.mark.process


SHAPES = {CHAT: function, OLLAMA: function, RESPONSES: flat, MESSAGES: claude}


def with_tools(path: str, tools: Any, *more: dict[str, Any]) -> dict[str, Any]:
    """The start of a talk, or its next turn, with these tools."""
    turns = [user(ASK), *more]
    if path == RESPONSES:
        return {
            "instructions": RULES,
            "input": [item(t["role"], t["content"]) for t in turns],
            "tools": tools,
        }
    if path == MESSAGES:
        return {"system": RULES, "messages": turns, "tools": tools, "max_tokens": 9}
    return {"messages": [SYSTEM, *turns], "tools": tools, "stream": False}


def retooled(stories: NewStory, path: str, old: Any, new: Any) -> Told:
    story = stories("ollama" if path == OLLAMA else "llama-server")
    story.say(with_tools(path, old), path=path)
    return story.say(with_tools(path, new, said(), user(MORE)), path=path)


LISTS = [
    ("abcde", "acbde", [("tool_reorder", "tools[1]")]),
    ("abcde", "edcba", [("tool_reorder", "tools[0]")]),
    ("abcd", "bcda", [("tool_reorder", "tools[0]")]),
    ("ab", "abc", [("tools_added", "tools[2]")]),
    ("ab", "xab", [("tools_added", "tools[0]")]),
    ("", "ab", [("tools_added", "tools[0]")]),
    ("abcd", "acd", [("tools_removed", "tools[1]")]),
    ("abc", "", [("tools_removed", "tools[0]")]),
    ("abc", "axc", [("tools_removed", "tools[1]"), ("tools_added", "tools[1]")]),
    (
        "abcd",
        "dcbe",
        [("tools_removed", "tools[0]"), ("tools_added", "tools[3]"), ("tool_reorder", "tools[0]")],
    ),
]


@pytest.mark.parametrize("path", SHAPES)
@pytest.mark.parametrize(("old", "new", "expected"), LISTS)
def test_a_list_of_tools_in_motion(
    stories: NewStory, path: str, old: str, new: str, expected: list[tuple[str, str]]
) -> None:
    """Reorder, add and remove: the first index that differs, offset 0, with names."""
    makes = SHAPES[path]
    told = retooled(
        stories,
        path,
        [makes(name, f"Does {name * 9} well.") for name in old],
        [makes(name, f"Does {name * 9} well.") for name in new],
    )
    assert sorted(causes(told)) == sorted(expected)
    assert (told.cause, offset(told)) == (told.codes[0], 0)
    for code, names in (("tools_added", set(new) - set(old)), ("tools_removed", set(old) - set(new))):
        if code in told.codes:
            assert set(told.detail(code)["names"]) == names
    assert told.explain["relation"] == "rewrite"
    assert told.hit in ("system_only", "prefix")


DEEP = {
    "type": "object",
    "properties": {"a": {"type": "object", "properties": {"b": {"type": "string", "description": "one"}}}},
}
DEEPER = {
    "type": "object",
    "properties": {"a": {"type": "object", "properties": {"b": {"type": "string", "description": "two"}}}},
}
SWAPPED = {"required": ["path"], **{k: v for k, v in SCHEMA.items() if k != "required"}}
INNER = {**SCHEMA, "properties": {"limit": {"type": "integer"}, "path": SCHEMA["properties"]["path"]}}
ENUM = {**SCHEMA, "properties": {**SCHEMA["properties"], "mode": {"type": "string", "enum": ["r"]}}}
TYPED = {**SCHEMA, "required": []}


@pytest.mark.parametrize("path", SHAPES)
@pytest.mark.parametrize(
    ("old", "new", "code", "part"),
    [
        (
            {"description": "Now 10:41."},
            {"description": "Now 10:42."},
            "tool_description_dynamic",
            "description",
        ),
        (
            {"description": "有3个技能"},
            {"description": "有4个技能"},
            "tool_description_dynamic",
            "description",
        ),
        ({"parameters": DEEP}, {"parameters": DEEPER}, "tool_description_dynamic", "parameters"),
        ({}, {"parameters": SWAPPED}, "tool_schema_key_order", "parameters"),
        ({}, {"parameters": INNER}, "tool_schema_key_order", "parameters"),
        ({}, {"parameters": ENUM}, "tool_schema_changed", "parameters"),
        ({}, {"parameters": TYPED}, "tool_schema_changed", "parameters"),
    ],
)
def test_one_tool_in_other_words(
    stories: NewStory, *, path: str, old: dict[str, Any], new: dict[str, Any], code: str, part: str
) -> None:
    """Offsets in parameters count the received bytes of that value, in descriptions the decoded text."""
    makes = SHAPES[path]
    told = retooled(stories, path, [makes("a"), makes("b", **old)], [makes("a"), makes("b", **new)])
    assert causes(told) == [(code, f"tools[1].{part}")]
    if part == "description":
        assert offset(told) == first_difference(old[part], new[part])
    else:
        spelt = [json.dumps(side.get(part, SCHEMA)) for side in (old, new)]
        assert offset(told) == first_difference(*spelt)


def space(*names: str) -> dict[str, Any]:
    return {"type": "namespace", "name": "mcp", "tools": [flat(name) for name in names]}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("ab", "ba", ("tool_reorder", "tools[1].tools[0]")),
        ("abc", "acb", ("tool_reorder", "tools[1].tools[1]")),
        ("ab", "abc", ("tools_added", "tools[1].tools[2]")),
        ("abc", "bc", ("tools_removed", "tools[1].tools[0]")),
    ],
)
def test_nested_tools_are_looked_into(
    stories: NewStory, old: str, new: str, expected: tuple[str, str]
) -> None:
    """Codex: a namespace of functions, beside a tool without a name."""
    sides = [[{"type": "web_search"}, space(*names)] for names in (old, new)]
    assert causes(retooled(stories, RESPONSES, *sides)) == [expected]


def test_the_odd_request_without_tools_is_named_when_they_return(stories: NewStory) -> None:
    """Claude Code: tools missing in one request; the next is compared with the one before it."""
    story, tools = stories(), [claude("read"), claude("mcp__x")]
    first = story.say(with_tools(MESSAGES, tools), path=MESSAGES)
    odd = story.say(with_tools(MESSAGES, tools[:1]), path=MESSAGES)
    back = story.say(with_tools(MESSAGES, tools, said(), user(MORE)), path=MESSAGES)
    assert causes(odd) == [("tools_removed", "tools[1]")]
    assert (back.hit, back.explain["parent_id"], back.cause) == ("prefix", first.id, None)


def test_a_request_without_tools_at_the_step_limit(stories: NewStory) -> None:
    """smolagents: the last request drops the tools and swaps the system prompt."""
    story = stories()
    story.say({"messages": [SYSTEM, user(ASK)], "tools": [function("a")]})
    told = story.say({"messages": [turn("system", "Now answer in prose."), user(ASK), said(), user(MORE)]})
    assert causes(told) == [("tools_removed", "tools[0]"), ("system_edit", "system")]


@pytest.mark.parametrize(
    ("old", "new"), [({}, {"strict": True}), ({"strict": False}, {"strict": True}), ({"strict": True}, {})]
)
def test_what_else_a_tool_says_is_no_tool_of_its_own(
    stories: NewStory, old: dict[str, Any], new: dict[str, Any]
) -> None:
    told = retooled(
        stories, CHAT, [function("a"), function("b", **old)], [function("a"), function("b", **new)]
    )
    assert causes(told) == [("tool_schema_changed", "tools[1]")]
