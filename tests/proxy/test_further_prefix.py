"""Cases of reuse once more, with further inputs: other agents' shapes, other texts, other languages.

Written from the contract and the cases alone, by others than the recognisers' authors.
"""

from typing import Any

import pytest

from tests.support.backend import Reply, ndjson, sse
from tests.support.story import CHAT, MESSAGES, OLLAMA, RESPONSES, NewStory, streamed
from tests.support.talk import (
    AGAIN,
    ASK,
    ASK_ZH,
    LAST,
    LOADED,
    MORE,
    ROUTES,
    RULES,
    RULES_ZH,
    SYSTEM,
    TALK,
    call,
    causes,
    claude,
    first_difference,
    flat,
    function,
    grown,
    history,
    invoked,
    item,
    offset,
    outcome,
    result,
    retold,
    returned,
    said,
    text,
    turn,
    used,
    user,
)

pytestmark = pytest.mark.process

BILLING = "x-anthropic-billing-header: cc_version={}; cc_entrypoint=sdk-cli; cch={};"


def spoken(*blocks: tuple[str, str], usage: dict[str, Any] | None = None) -> Reply:
    """A streamed answer of the Messages API, of (kind, text) blocks; a call is to `read`."""
    usage = usage or {"input_tokens": 9, "output_tokens": 1}
    events: list[Any] = [{"type": "message_start", "message": {"role": "assistant", "usage": usage}}]
    empty: dict[str, Any] = {"id": "toolu_1", "name": "read", "text": "", "thinking": "", "input": {}}
    members = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}
    deltas = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}
    for i, (kind, value) in enumerate(blocks or (("text", "ok"),)):
        delta = {"type": deltas[kind], members[kind]: value}
        events += [
            {"type": "content_block_start", "index": i, "content_block": {"type": kind, **empty}},
            {"type": "content_block_delta", "index": i, "delta": delta},
            {"type": "content_block_stop", "index": i},
        ]
    ending = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}
    return sse([(event["type"], event) for event in [*events, ending, {"type": "message_stop"}]])


def told_by_ollama(content: str = "ok", *, thinking: str = "", **last: Any) -> Reply:
    """A streamed answer of Ollama with these counters."""
    first = {"message": {"role": "assistant", "content": content, "thinking": thinking}, "done": False}
    return ndjson([first, {"message": {"content": ""}, "done": True, "done_reason": "stop", **last}])


def test_r01_a_streaming_claude_code_whose_token_changes_once(stories: NewStory) -> None:
    story = stories()
    nested = claude("Task", "Runs agents.", {"type": "object", "properties": {"plan": {"type": "array"}}})

    def body(token: str, turns: int) -> dict[str, Any]:
        system = [text(BILLING.format("2.1.96.a1b", token)), text("You are Claude Code."), text(RULES)]
        tools = [nested, claude("Read")]
        return {"system": system, "tools": tools, "messages": TALK[: 2 * turns - 1], "stream": True}

    first = story.say(body("a3f9c", 1), path=MESSAGES, answer=spoken())
    second = story.say(body("0bd12", 2), path=MESSAGES, answer=spoken())
    third = story.say(body("0bd12", 3), path=MESSAGES, answer=spoken())
    assert (first.hit, second.hit, third.hit) == ("none", "tools_only", "prefix")
    assert causes(second) == [("client_attribution_token", "system[0]")]
    assert offset(second) == BILLING.format("2.1.96.a1b", "").index("cch=") + len("cch=")
    assert (second.cause, third.cause) == ("client_attribution_token", None)
    assert second.explain["parent_id"] == first.id
    row = story.proxy.row(second.answer)
    assert (row["diverged_at"], row["relation"], row["cause"]) == ("system[0]", "rewrite", second.cause)


@pytest.mark.parametrize(
    ("route", "old", "new", "code"),
    [
        ("chat", "现在是下午2点23分", "现在是下午2点31分", "timestamp"),
        ("ollama", "三月五日 下午三点二十分", "三月五日 下午三点二十五分", "timestamp"),
        ("anthropic-blocks", "05.03.2026 14:23 Uhr", "05.03.2026 14:24 Uhr", "timestamp"),
        ("responses", "ms: 1793000000123", "ms: 1793000631999", "timestamp"),
        ("responses-item", "Monday 23:59", "Tuesday 00:01", "timestamp"),
        ("second", "2026년 3월 5일 오후 2시 23분", "2026년 3월 5일 오후 2시 24분", "timestamp"),
        ("chat", "jue., 5 mar. 2026", "vie., 6 mar. 2026", "date_rollover"),
        ("ollama", "九月三十日", "十月一日", "date_rollover"),
        ("anthropic", "Thu Dec 31 2026", "Fri Jan 1 2027", "date_rollover"),
        ("responses", "Do, 5. März 2026", "Fr, 6. März 2026", "date_rollover"),
        ("anthropic-blocks", "Git 状态：干净", "Git 状态：有改动", "workspace_snapshot"),
        ("chat", "剩余 83% 的上下文", "剩余 79% 的上下文", "counter"),
        ("developer", "The user is Sam", "The user is Dom", "system_edit"),
    ],
)
def test_r02_r06_what_changed_in_the_system_text_is_told(
    stories: NewStory, route: str, old: str, new: str, code: str
) -> None:
    frame = f"You are Claw, 助手。\n\n{{}}\n\n# Rules\n{RULES}"
    before, after = frame.format(old), frame.format(new)
    told = grown(stories("ollama" if route == "ollama" else "llama-server"), route, before, after)
    assert causes(told) == [(code, ROUTES[route].at)]
    assert (offset(told), told.explain["relation"]) == (first_difference(before, after), "rewrite")
    assert told.explain["equal_after_divergence"] >= len(RULES)


def test_r04_a_moved_tool_deep_in_a_namespace_and_a_clock(stories: NewStory) -> None:
    story = stories()

    def body(clock: str, names: str, turns: int) -> dict[str, Any]:
        inner = {"type": "namespace", "name": "mcp", "tools": [flat(name) for name in names]}
        tools = [flat("sh"), {"type": "web_search"}, inner]
        items = [item(t["role"], t["content"]) for t in TALK[: 2 * turns - 1]]
        return {"instructions": f"now {clock}\n{RULES}", "tools": tools, "input": items}

    story.say(body("10:00:01", "xyz", 1), path=RESPONSES)
    told = story.say(body("10:00:09", "xzy", 2), path=RESPONSES)
    assert causes(told) == [("tool_reorder", "tools[2].tools[1]"), ("timestamp", "system")]
    assert (told.cause, told.hit) == ("tool_reorder", "none")


def test_r10_the_odd_request_in_between_is_named(stories: NewStory) -> None:
    story, both = stories("ollama"), [function("读文件"), function("mcp_搜索", "Searches.")]
    start = [SYSTEM, user(ASK), said("found 42"), user(MORE)]
    scrubbed = [SYSTEM, user(ASK), said("[工具已移除]"), user(MORE)]
    turns = [start, scrubbed, [*start, said(), user(AGAIN)]]
    bodies = [{"messages": t, "tools": both[: 1 + (k != 1)], "stream": False} for k, t in enumerate(turns)]
    first, odd, back = (story.say(body, path=OLLAMA) for body in bodies)
    assert causes(odd) == [("tools_removed", "tools[1]"), ("history_rewrite", "messages[2]")]
    assert odd.detail("tools_removed")["names"] == ["mcp_搜索"]
    assert (back.explain["parent_id"], back.hit, back.explain["relation"]) == (first.id, "prefix", "append")
    assert [(c["code"], c["severity"]) for c in back.explain["causes"]] == [("alternating_variants", "note")]
    assert back.detail("alternating_variants")["intervening"] == odd.id
    assert back.cause is None


SPELT, ANEW = '{"city":"东京","unit":"c","n":[1,2.5]}', '{"unit":"c","city":"东京","n":[1,2.5]}'


@pytest.mark.parametrize(
    "new", [ANEW, '{"city": "东京", "unit": "c", "n": [1, 2.5]}', SPELT.replace("东", "\\u4e1c")]
)
def test_r12_a_call_spelt_anew_in_its_first_replay_is_placed_to_the_byte(stories: NewStory, new: str) -> None:
    """In a replay it is a risk, one turn later it is a break; the place is the same."""
    story, asked = stories(), [SYSTEM, user(ASK)]
    made = call(SPELT, content="I look.")
    story.say({"messages": asked}, reply=made)
    risk = story.say({"messages": [*asked, call(new, content="I look."), result("晴")]})
    late = story.say({"messages": [*asked, call(SPELT, content="I look."), result("晴"), said(), user(MORE)]})
    for told, severity in ((risk, "risk"), (late, "break")):
        assert causes(told)[0] == ("tool_args_reserialised", "messages[2].tool_calls[0].arguments")
        assert offset(told) == first_difference(SPELT, new)
        assert told.explain["causes"][0]["severity"] == severity
    assert (risk.cause, risk.explain["relation"], late.cause) == (None, "append", "tool_args_reserialised")


def test_r12_items_and_blocks_of_other_apis(stories: NewStory) -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
    old = [item("user", ASK), thought, invoked(SPELT), returned("晴")]
    new = [
        item("user", ASK),
        thought,
        invoked(ANEW),
        returned("晴"),
        item("assistant", "ok"),
        item("user", MORE),
    ]
    told = retold(stories, RESPONSES, old, new)
    assert (causes(told), offset(told)) == ([("tool_args_reserialised", "input[2].arguments")], 2)
    story = stories()
    story.say(
        {**history(MESSAGES, [user(ASK)]), "stream": True},
        path=MESSAGES,
        answer=spoken(("tool_use", '{"a":1,"b":2}')),
    )
    told = story.say(
        history(MESSAGES, [user(ASK), used({"b": 2, "a": 1}), user([outcome("x")])]), path=MESSAGES
    )
    assert (causes(told)[0][0], offset(told)) == ("tool_args_reserialised", 2)


@pytest.mark.parametrize(("path", "kind"), [(CHAT, "llama-server"), (OLLAMA, "ollama")])
def test_r16_a_reply_with_another_word_is_placed_to_the_byte(stories: NewStory, path: str, kind: str) -> None:
    story, asked = stories(kind), [SYSTEM, user(ASK_ZH)]
    story.say({"messages": asked, "stream": False}, path=path, reply={"content": "好的，我来做。\n"})
    turns = [*asked, said("好的，我来办。\n"), user(MORE)]
    told = story.say({"messages": turns, "stream": False}, path=path)
    assert causes(told) == [("reply_altered_by_client", "messages[2]")]
    assert (offset(told), told.cause) == (len("好的，我来".encode()), None)


def test_r16_thinking_that_a_streaming_client_keeps_or_drops(stories: NewStory) -> None:
    answer = spoken(("thinking", "let me"), ("text", "ok"))
    thought = {"type": "thinking", "thinking": "let me", "signature": "SIG"}
    for blocks, codes in (([thought, text("ok")], []), ([text("ok")], ["reasoning_dropped_by_client"])):
        story = stories()
        story.say({**history(MESSAGES, [user(ASK)]), "stream": True}, path=MESSAGES, answer=answer)
        turns = [user(ASK), said(blocks), user(MORE)]
        told = story.say({**history(MESSAGES, turns), "stream": True}, path=MESSAGES, answer=spoken())
        assert (told.codes, told.cause, told.hit) == (codes, None, "prefix")


def test_r18_a_chinese_title_takes_the_slot_of_a_streamed_chat(stories: NewStory) -> None:
    story, chat = stories("ollama"), [SYSTEM, user(ASK_ZH), said(), user(MORE)]
    counts = [{"prompt_eval_count": n, "prompt_eval_cached_count": 0} for n in (500, 60, 530)]
    title = [user("请为这段对话生成一个三到五个字的标题：" + ASK_ZH[:40])]
    story.say({"messages": chat[:2]}, path=OLLAMA, answer=told_by_ollama(**counts[0]))
    side = story.say({"messages": title}, path=OLLAMA, answer=told_by_ollama(**counts[1]))
    told = story.say({"messages": chat}, path=OLLAMA, answer=told_by_ollama(**counts[2]))
    evicted = told.explain["evicted_by"]
    assert (told.codes, told.hit, told.explain["observed"]["cached_tokens"]) == (["evicted_by"], "prefix", 0)
    assert (evicted["kind"], evicted["request"]) == ("side_request", side.id)


def test_r25_one_of_two_results_in_a_message_is_cut_short(stories: NewStory) -> None:
    long = "行 " * 2_000
    calls = [{"type": "tool_use", "id": f"toolu_{n}", "name": "read", "input": {"p": n}} for n in (1, 2)]
    old = [
        user(ASK),
        said(calls),
        user([outcome("short one"), outcome([text(long)], 2)]),
        said([text("ok")]),
        user(MORE),
    ]
    cut = user([outcome("short one"), outcome([text(long[:400] + "…[truncated]")], 2)])
    told = retold(stories, MESSAGES, old, [*old[:2], cut, *old[3:], said([text("ok")]), user(AGAIN)])
    assert causes(told) == [("tool_result_pruned", "messages[2].content[1]")]
    assert offset(told) == len(long[:400].encode())


def test_r27_r29_a_load_is_told_before_the_text(stories: NewStory) -> None:
    story = stories("ollama")
    bodies = [
        {"messages": [turn("system", f"now {clock} {RULES_ZH}"), *TALK[:n]], "options": {"num_ctx": size}}
        for clock, n, size in (("10:41", 1, 8_192), ("10:42", 3, 16_384))
    ]
    for body in bodies:
        told = story.say({**body, "stream": False}, path=OLLAMA, tokens=(300, 0), **LOADED)
    assert (told.codes, told.cause) == (["model_reload", "timestamp"], "model_reload")
    detail = told.detail("model_reload")
    assert (detail["option"], detail["old"], detail["new"], detail["by_request"]) == (
        "num_ctx",
        8_192,
        16_384,
        told.id,
    )


def test_r37_latest_is_the_same_model(stories: NewStory) -> None:
    story = stories("ollama")
    first = story.say({"messages": [SYSTEM, *TALK[:1]], "stream": False}, path=OLLAMA)
    body = {"model": f"{story.model}:latest", "messages": [SYSTEM, *TALK[:3]], "stream": False}
    told = story.say(body, path=OLLAMA)
    assert (told.explain["relation"], told.hit, told.explain["parent_id"]) == ("append", "prefix", first.id)
    assert told.codes == []


def test_a_change_deep_in_a_long_history_is_found_to_the_byte(stories: NewStory) -> None:
    old = "".join(f'行{i} 🙂 \\ " \n' for i in range(20_000))
    place = len(old) * 2 // 3
    new = old[:place] + "改" + old[place + 1 :]
    turns = [user(ASK), call('{"path":"x"}'), result(old), said(), user(MORE)]
    told = retold(stories, CHAT, turns, [*turns[:2], result(new), *turns[3:], said(), user(LAST)])
    assert causes(told) == [("history_rewrite", "messages[3]")]
    assert offset(told) == first_difference(old, new)
    assert len(told.explain["after"].encode()) < 400


def test_streams_that_reuse_all_have_no_cause(stories: NewStory) -> None:
    """R35: what Claude Code sends on its second turn: the marker moved, a block list turned into a string."""
    story, marked = stories(), {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    usages = [
        {"input_tokens": 3, "cache_read_input_tokens": n, "cache_creation_input_tokens": 7} for n in (0, 303)
    ]
    told = None
    for usage, turns in zip(
        usages,
        ([user([text(ASK, **marked)])], [user(ASK), said("ok"), user([text(MORE, **marked)])]),
        strict=True,
    ):
        body = {"system": [text(RULES, **marked)], "messages": turns, "stream": True}
        told = story.say(body, path=MESSAGES, answer=spoken(usage=usage))
    assert told is not None
    assert (told.codes, told.hit, told.explain["relation"]) == ([], "prefix", "append")
    observed = told.explain["observed"]
    assert (observed["prompt_tokens"], observed["cached_tokens"], observed["source"]) == (
        313,
        303,
        "anthropic",
    )
    assert "cached-tokens" not in told.answer.ours


def test_r42_a_streamed_repeat_that_calls_otherwise(stories: NewStory) -> None:
    story, body = stories(), {**history(MESSAGES, [user(ASK)]), "temperature": 0, "stream": True}
    for arguments in ('{"p":1}', '{"p":2}'):
        told = story.say(body, path=MESSAGES, answer=spoken(("tool_use", arguments)))
    assert (told.codes, told.hit, told.cause) == (["nondeterministic_repeat"], "exact", None)
    assert story.say({"messages": [SYSTEM]}, answer=streamed("ok", (9, None))).codes == []
