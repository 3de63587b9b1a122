"""Text causes of whole requests: tools, parameters, history, replies, and what they must not be taken for."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from services.proxy.flow import Flow
from tests.support.pipeline import Engine, Pipeline, codes

RULES = "RULES " * 200
U1 = {"role": "user", "content": "hello, please help me with this task " * 3}
A1, U2 = {"role": "assistant", "content": "ok"}, {"role": "user", "content": "next thing"}
A2, U3 = {"role": "assistant", "content": "ok"}, {"role": "user", "content": "third thing"}
TOOL = {
    "name": "read",
    "description": "Read",
    "parameters": {
        "type": "object",
        "properties": {"p": {"type": "string", "description": "path"}, "q": {"type": "integer"}},
        "required": ["p", "q"],
    },
}


def chat(*messages: dict[str, Any], system: str = RULES, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "system", "content": system}, *messages], **more}


def message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def called(arguments: str, number: str = "1") -> dict[str, Any]:
    call = {"id": number, "type": "function", "function": {"name": "w", "arguments": arguments}}
    return message("assistant", None, tool_calls=[call])


def result(text: str, number: str = "1") -> dict[str, Any]:
    return message("tool", text, tool_call_id=number)


async def last(*bodies: dict[str, Any], reply: dict[str, Any] | None = None, **opts: Any) -> Flow:
    """The flow of the last of some requests, all answered alike."""
    pipeline = Pipeline(engine=Engine(2), facts={"total_slots": 2})
    for body in bodies:
        flow = await pipeline.send(body, reply=reply, **opts)
    return flow


def altered(change: Callable[[dict[str, Any]], Any]) -> list[dict[str, Any]]:
    tool = copy.deepcopy(TOOL)
    change(tool)
    return [{"type": "function", "function": tool}]


def _reverse(tool: dict[str, Any]) -> None:
    tool["parameters"] = dict(reversed(list(tool["parameters"].items())))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda t: t.update(description="Read a file"), "tool_description_dynamic"),
        (lambda t: t.pop("description"), "tool_description_dynamic"),
        (
            lambda t: t["parameters"]["properties"]["p"].update(description="where"),
            "tool_description_dynamic",
        ),
        (_reverse, "tool_schema_key_order"),
        (lambda t: t["parameters"].update(required=["q", "p"]), "tool_schema_changed"),
        (
            lambda t: t["parameters"]["properties"].update(description={"type": "string"}),
            "tool_schema_changed",
        ),
        (
            lambda t: (t.update(description="X"), t["parameters"].update(required=["p"])),
            "tool_schema_changed",
        ),
        (lambda t: t.update(name="read2"), "tool_schema_changed"),
    ],
)
async def test_what_changed_in_a_tool(change: Callable[[dict[str, Any]], Any], expected: str) -> None:
    flow = await last(chat(U1, tools=altered(lambda _: None)), chat(U1, A1, U2, tools=altered(change)))
    assert codes(flow)[0] == expected


def names(*given: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {**TOOL, "name": name}} for name in given]


@pytest.mark.parametrize(
    ("old", "new", "expected", "which"),
    [
        ("abc", "acb", "tool_reorder", ["c"]),
        ("abc", "cab", "tool_reorder", ["c"]),
        ("abc", "abcd", "tools_added", ["d"]),
        ("abc", "ac", "tools_removed", ["b"]),
        ("abc", "", "tools_removed", ["a", "b", "c"]),
        ("", "ab", "tools_added", ["a", "b"]),
    ],
)
async def test_what_changed_in_the_list_of_tools(old: str, new: str, expected: str, which: list[str]) -> None:
    then, now = ({"tools": names(*given)} if given else {} for given in (old, new))
    flow = await last(chat(U1, **then), chat(U1, A1, U2, **now))
    assert (flow.causes[0].code, flow.causes[0].detail["names"]) == (expected, which)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('{"a":1,"b":2}', '{"b":2,"a":1}', "tool_args_reserialised"),
        ('{"a":1}', '{"a": 1}', "tool_args_reserialised"),
        ('{"c":"é"}', '{"c":"\\u00e9"}', "tool_args_reserialised"),
        ('{"c":true}', '{"c":1}', "history_rewrite"),
        ('{"c":"x"}', '{"c":"y"}', "history_rewrite"),
    ],
)
async def test_arguments_spelt_anew_are_not_arguments_changed(old: str, new: str, expected: str) -> None:
    flow = await last(chat(U1, called(old), result("sunny")), chat(U1, called(new), result("sunny"), A2, U3))
    assert codes(flow)[0] == expected


MANY = [message("assistant" if k % 2 else "user", f"message {k} " * 20) for k in range(9)]
IN_SESSION = {"headers": {"x-session-id": "ses_1"}}


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ([message("user", "Summary of the conversation so far: " + "facts " * 30)], "compaction"),
        ([message("user", "以下是对话摘要：" + "内容" * 50)], "compaction"),
        ([MANY[0], message("assistant", "Summary: " + "facts " * 30), U3], "compaction"),
        ([message("user", "hi, a new topic")], "history_rewrite"),
        ([*MANY[2:], A1, U2], "history_rewrite"),
        ([MANY[0], *MANY[2:], A1, U2], "history_rewrite"),
        ([MANY[0], U2, *MANY[1:], A1, U2], "history_rewrite"),
        ([*MANY[:4], message("user", "said otherwise"), *MANY[5:], A1, U2], "history_rewrite"),
    ],
)
async def test_what_became_of_the_history(new: list[dict[str, Any]], expected: str) -> None:
    assert codes(await last(chat(*MANY), chat(*new), **IN_SESSION))[0] == expected


async def test_a_longer_tool_result_is_no_pruning() -> None:
    old, new = result("sunny"), result("sunny and warm")
    flow = await last(chat(U1, called("{}"), old, A1, U2), chat(U1, called("{}"), new, A1, U2, A2, U3))
    assert codes(flow)[0] == "history_rewrite"
    pruned = await last(
        chat(U1, called("{}"), result("结果" * 500), A1, U2),
        chat(U1, called("{}"), result("[已清除]"), A1, U2, A2, U3),
    )
    assert codes(pruned)[0] == "tool_result_pruned"


async def test_white_space_alone_is_said_to_be_that() -> None:
    flow = await last(
        chat(message("user", "ask \n\n"), A1, U2), chat(message("user", "ask "), A1, U2, A2, U3)
    )
    assert (flow.causes[0].code, flow.causes[0].detail["whitespace_only"]) == ("history_rewrite", True)
    flow = await last(chat(U1, system=RULES + "a b"), chat(U1, A1, U2, system=RULES + "a  b"))
    assert (flow.causes[0].code, flow.causes[0].detail["whitespace_only"]) == ("system_edit", True)


async def test_the_last_message_edited_is_no_transient_block() -> None:
    flow = await last(chat(U1, A1, U2), chat(U1, A1, message("user", "next")))
    assert codes(flow)[0] == "history_rewrite"


async def test_a_reminder_that_stood_in_the_last_user_message() -> None:
    noted = message(
        "user",
        [{"type": "text", "text": "<reminder>3 tasks</reminder>"}, {"type": "text", "text": "do it now"}],
    )
    flow = await last(chat(U1, A1, noted), chat(U1, A1, message("user", "do it now"), A2, U3))
    assert codes(flow)[0] == "transient_block_removed"


@pytest.mark.parametrize(
    ("relayed", "replayed", "expected"),
    [
        (
            {"content": "A", "reasoning_content": "R"},
            message("assistant", "A"),
            "reasoning_dropped_by_client",
        ),
        ({"content": "<think>R</think>\n\nA"}, message("assistant", "A"), "reasoning_dropped_by_client"),
        ({"content": "A\n"}, message("assistant", "A"), "reply_altered_by_client"),
        ({"content": "A"}, message("assistant", "B"), "reply_altered_by_client"),
        ({"content": "A"}, message("assistant", "A"), None),
        ({"content": "A", "reasoning_content": "R"}, message("assistant", "A", reasoning_content="R"), None),
    ],
)
async def test_replies_are_compared_with_what_was_relayed(
    relayed: dict[str, Any], replayed: dict[str, Any], expected: str | None
) -> None:
    flow = await last(chat(U1), chat(U1, replayed, U2), reply=relayed)
    assert codes(flow) == ([expected] if expected else [])


async def test_parameters_are_a_risk_until_reuse_shows_that_they_cost() -> None:
    flow = await last(chat(U1, reasoning_effort="low"), chat(U1, A1, U2, reasoning_effort="high"))
    assert [(c.code, c.severity) for c in flow.causes] == [("template_param_changed", "risk")]
    assert flow.causes[0].detail["old"] == "low"
    pipeline = Pipeline()
    await pipeline.send(chat(U1, think=True), tokens=(500, 0))
    flow = await pipeline.send(chat(U1, A1, U2, think=False), tokens=(540, 20))
    assert (flow.causes[0].code, flow.causes[0].severity) == ("template_param_changed", "loss")


async def test_two_variants_that_take_turns_are_noted() -> None:
    bodies = []
    turns = [U1]
    for k in range(5):
        bodies.append(chat(*turns, tools=names(*("ab" if k % 2 else "abc"))))
        turns += [A1, message("user", f"turn {k}")]
    flow = await last(*bodies)
    assert codes(flow)[-1] == "alternating_variants"
    assert flow.causes[-1].detail["sections"] == ["tools"]
    assert "alternating_variants" not in codes(await last(*bodies[:2]))


async def test_one_odd_request_in_between_is_noted_once_the_conversation_returns() -> None:
    both, one = names("a", "b"), names("a")
    pipeline = Pipeline()
    await pipeline.send(chat(U1, A1, U2, tools=both))
    outlier = await pipeline.send(chat(U1, message("assistant", "[gone]"), U2, tools=one))
    back = await pipeline.send(chat(U1, A1, U2, A2, U3, tools=both))
    assert [(cause.code, cause.severity) for cause in back.causes] == [("alternating_variants", "note")]
    assert back.causes[0].detail == {"sections": ["tools"], "variants": 2, "intervening": outlier.id}


async def test_a_side_request_in_between_is_no_variant() -> None:
    pipeline = Pipeline()
    await pipeline.send(chat(U1, A1, U2, tools=names("a")))
    await pipeline.send(chat(U1, system="Write a title for this conversation.", max_tokens=20))
    back = await pipeline.send(chat(U1, A1, U2, A2, U3, tools=names("a")))
    assert "alternating_variants" not in codes(back)


async def test_no_cause_holds_prompt_text() -> None:
    secret = "swordfish"
    schema = {"type": "json_schema", "json_schema": {"name": secret}}
    flow = await last(
        chat(message("user", secret + " one"), response_format={"type": "text"}, system=secret + RULES),
        chat(message("user", secret + " two"), A1, U2, response_format=schema, system=secret + "!" + RULES),
    )
    assert flow.causes
    assert all(secret not in repr((cause.at, cause.detail)) for cause in flow.causes)
