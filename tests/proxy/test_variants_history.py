"""Variants of every kind of rewritten history, in the words of every API.

Written from the contract alone, by others than the recognisers' authors: cases R12, R16, R23, R25.
"""

from typing import Any

import pytest

from tests.support.story import CHAT, MESSAGES, OLLAMA, RESPONSES, NewStory
from tests.support.talk import (
    AGAIN,
    ASK,
    ASK_ZH,
    JPG,
    MORE,
    PNG,
    RULES,
    RULES_ZH,
    call,
    causes,
    dumps,
    first_difference,
    history,
    invoked,
    item,
    offset,
    outcome,
    picture,
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


ARGUMENTS = [
    (
        CHAT,
        lambda a: [user(ASK), call(a), result("found")],
        '{"path":"a.py","limit":3}',
        '{"limit":3,"path":"a.py"}',
        "messages[2].tool_calls[0].arguments",
    ),
    (
        CHAT,
        lambda a: [user(ASK), call(a), result("found")],
        '{"path":"é.py"}',
        '{"path":"\\u00e9.py"}',
        "messages[2].tool_calls[0].arguments",
    ),
    (
        CHAT,
        lambda a: [user(ASK), call(a), result("found")],
        '{"path": "a.py", "limit": 3}',
        '{"path":"a.py","limit":3}',
        "messages[2].tool_calls[0].arguments",
    ),
    (
        RESPONSES,
        lambda a: [item("user", ASK), invoked(a), returned("found")],
        '{"path": "a.py"}',
        '{"path":"a.py"}',
        "input[1].arguments",
    ),
]


@pytest.mark.parametrize(("path", "make", "old", "new", "at"), ARGUMENTS)
def test_arguments_spelt_anew(
    stories: NewStory, *, path: str, make: Any, old: str, new: str, at: str
) -> None:
    more = [item("assistant", "ok"), item("user", MORE)] if path == RESPONSES else [said(), user(MORE)]
    told = retold(stories, path, make(old), [*make(new), *more])
    assert causes(told) == [("tool_args_reserialised", at)]
    assert offset(told) == first_difference(old, new)
    assert told.detail("tool_args_reserialised")["semantic_equal"] is True


@pytest.mark.parametrize("path", [OLLAMA, MESSAGES])
def test_arguments_sent_as_objects_count_their_own_bytes(stories: NewStory, path: str) -> None:
    old, new = {"path": "a.py", "limit": 3}, {"limit": 3, "path": "a.py"}

    def talk(value: Any) -> list[dict[str, Any]]:
        if path == MESSAGES:
            return [user(ASK), used(value), user([outcome("found")])]
        return [user(ASK), call(value), result("found")]

    told = retold(stories, path, talk(old), [*talk(new), said(), user(MORE)])
    index = 1 if path == MESSAGES else 2
    assert causes(told) == [("tool_args_reserialised", f"messages[{index}].tool_calls[0].arguments")]
    assert offset(told) == 2


def test_other_arguments_are_a_rewrite(stories: NewStory) -> None:
    talks = [[user(ASK), call(a), result("found")] for a in ('{"path":"a.py"}', '{"path":"b.py"}')]
    told = retold(stories, CHAT, talks[0], [*talks[1], said(), user(MORE)])
    assert causes(told) == [("history_rewrite", "messages[2].tool_calls[0].arguments")]


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES, OLLAMA])
def test_other_tool_ids_cost_nothing(stories: NewStory, path: str) -> None:
    def talk(number: int) -> list[dict[str, Any]]:
        if path == MESSAGES:
            use = {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {}}
            return [user(ASK), said([use]), user([outcome("found", number)])]
        if path == RESPONSES:
            return [
                item("user", ASK),
                invoked("{}") | {"call_id": f"c{number}"},
                returned("f") | {"call_id": f"c{number}"},
            ]
        return [user(ASK), call({} if path == OLLAMA else "{}", number=number), result("found", number)]

    told = retold(stories, path, talk(1), talk(22))
    assert (told.hit, told.cause) == ("exact", None)
    assert told.codes in ([], ["tool_id_changed"], ["tool_id_changed", "nondeterministic_repeat"])


LONG = "line of a file\n" * 200
PRUNED = [
    (
        CHAT,
        lambda r: [user(ASK), call("{}"), result(r), said(), user(MORE)],
        LONG,
        "[old result cleared]",
        "messages[3]",
    ),
    (
        CHAT,
        lambda r: [user(ASK), call("{}"), result(r), said(), user(MORE)],
        LONG,
        LONG[:300] + "…[truncated]",
        "messages[3]",
    ),
    (
        OLLAMA,
        lambda r: [user(ASK), call({}), result(r), said(), user(MORE)],
        "读取的内容" * 200,
        "[已清除]",
        "messages[3]",
    ),
    (
        MESSAGES,
        lambda r: [user(ASK), used({}), user([outcome(r)]), said(), user(MORE)],
        LONG,
        "[cleared]",
        "messages[2]",
    ),
    (
        MESSAGES,
        lambda r: [user(ASK), used({}), user([outcome([text(r)]), text("Go on.")]), said(), user(MORE)],
        LONG,
        "[gone]",
        "messages[2].content[0]",
    ),
    (
        RESPONSES,
        lambda r: [
            item("user", ASK),
            invoked("{}"),
            returned(r),
            item("assistant", "ok"),
            item("user", MORE),
        ],
        LONG,
        "(pruned)",
        "input[2]",
    ),
]


@pytest.mark.parametrize(("path", "make", "old", "new", "at"), PRUNED)
def test_a_shortened_tool_result_is_pruned(
    stories: NewStory, *, path: str, make: Any, old: str, new: str, at: str
) -> None:
    more = [item("assistant", "ok"), item("user", AGAIN)] if path == RESPONSES else [said(), user(AGAIN)]
    told = retold(stories, path, make(old), [*make(new), *more])
    assert causes(told) == [("tool_result_pruned", at)]
    assert offset(told) == first_difference(old, new)
    assert told.detail("tool_result_pruned")["delta_bytes"] == len(new.encode()) - len(old.encode())


BASE = [user(ASK), said("First I read. " * 20), user(MORE), said("Then I test. " * 20), user(AGAIN)]


def with_name(*names: str | None) -> list[dict[str, Any]]:
    more = [{"name": name} if name else {} for name in names]
    return [user(ASK), call("{}"), result("found it", **more[0]), said(), user(MORE)]


REWRITES: list[tuple[str, list[Any], list[Any], str]] = [
    ("a user's edit", BASE, [BASE[0], BASE[1], user("And a full file?"), *BASE[3:]], "messages[3]"),
    ("an answer's edit", BASE, [BASE[0], said("First I wrote. " * 20), *BASE[2:]], "messages[2]"),
    (
        "a longer tool result",
        with_name(None),
        [*with_name(None)[:2], result("found it all"), said(), user(MORE)],
        "messages[3]",
    ),
    ("a name dropped from a result", with_name("read"), with_name(None), "messages[3].name"),
    ("a name given to a result", with_name(None), with_name("read"), "messages[3].name"),
    (
        "another name of a call",
        [user(ASK), call("{}", "read"), result("x")],
        [user(ASK), call("{}", "open"), result("x")],
        "messages[2].tool_calls[0].name",
    ),
    ("a message taken out", BASE, [BASE[0], *BASE[3:]], "messages[2]"),
    (
        "a message put in",
        BASE,
        [BASE[0], BASE[1], turn("system", "Mind the time."), *BASE[2:]],
        "messages[3]",
    ),
    (
        "another picture",
        [user([text(ASK), picture(PNG)])],
        [user([text(ASK), picture(JPG)])],
        "messages[1].content[1]",
    ),
    (
        "text in another block",
        [user([text(ASK), text("one")])],
        [user([text(ASK), text("two")])],
        "messages[1].content[1]",
    ),
]


@pytest.mark.parametrize(("name", "old", "new", "at"), REWRITES, ids=[r[0] for r in REWRITES])
def test_the_rest_is_a_rewrite(stories: NewStory, name: str, old: list[Any], new: list[Any], at: str) -> None:
    told = retold(stories, CHAT, old, [*new, said(), user("Go on.")])
    assert causes(told)[:1] == [("history_rewrite", at)], name
    assert told.cause == "history_rewrite"


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_the_trailing_blanks_of_an_old_message(stories: NewStory, path: str) -> None:
    """aider: the last user message loses its blank lines once it is history."""
    told = retold(stories, path, [user(ASK + "\n\n")], [user(ASK), said(), user(MORE + "\n\n")])
    assert causes(told) == [("history_rewrite", "messages[1]" if path == CHAT else "messages[0]")]
    assert told.detail("history_rewrite")["whitespace_only"] is True
    assert offset(told) == len(ASK)


REMINDER = "<system-reminder>\nToday is a good day. Keep the plan.\n</system-reminder>\n"
TRANSIENT = [
    (
        "Qwen: a block moves on",
        [user([text(REMINDER), text(ASK)])],
        [user(ASK), said(), user([text(REMINDER), text(MORE)])],
    ),
    ("Claude: a block inside the text", [user(REMINDER + ASK)], [user(ASK), said(), user(REMINDER + MORE)]),
    (
        "aider: a reminder vanishes",
        [user(ASK + "\n\n" + REMINDER * 3)],
        [user(ASK), said(), user(MORE + "\n\n" + REMINDER * 3)],
    ),
    (
        "OpenClaw: a message sent again after the new ones",
        [user(ASK), user(REMINDER)],
        [user(ASK), said(), user(MORE), user(REMINDER)],
    ),
    (
        "a Chinese one",
        [user(ASK_ZH), user("<内部上下文>会话状态：活动</内部上下文>")],
        [user(ASK_ZH), said(), user("继续"), user("<内部上下文>会话状态：活动</内部上下文>")],
    ),
]


@pytest.mark.parametrize(("name", "old", "new"), TRANSIENT, ids=[t[0] for t in TRANSIENT])
def test_a_block_that_goes_or_moves_is_transient(
    stories: NewStory, name: str, old: list[Any], new: list[Any]
) -> None:
    told = retold(stories, CHAT, old, new)
    assert told.cause == "transient_block_removed", (name, causes(told))
    assert told.explain["relation"] == "rewrite"


MANY = [said(f"Step {k}. " * 30) if k % 2 else user(f"Do step {k}. " * 30) for k in range(14)]


@pytest.mark.parametrize("path", [CHAT, MESSAGES, OLLAMA])
@pytest.mark.parametrize(
    "summary",
    [
        "This session is being continued. Summary: all steps but one are done.",
        "以下是之前对话的摘要：所有步骤已完成。",
    ],
)
@pytest.mark.parametrize("kept", [0, 4])
def test_a_summary_in_place_of_many_messages_is_a_compaction(
    stories: NewStory, path: str, summary: str, kept: int
) -> None:
    """With the tail kept the lineage goes on by itself; without it only a session says so."""
    story = stories("ollama" if path == OLLAMA else "llama-server")
    session = [("X-Session-Id", f"ses_{story.model}")]
    story.say(history(path, MANY), path=path, headers=session)
    new = [user(summary), said(), *MANY[len(MANY) - kept :], user(LONG[:40])]
    told = story.say(history(path, new), path=path, headers=session)
    assert causes(told)[:1] == [("compaction", "messages[0]" if path == MESSAGES else "messages[1]")]
    assert (told.hit in ("system+tools", "prefix"), told.explain["relation"]) == (True, "rewrite")


def test_a_compaction_without_a_session_keeps_its_lineage_by_the_tail(stories: NewStory) -> None:
    told = retold(stories, CHAT, MANY, [MANY[0], user("Summary: done so far."), *MANY[5:], user("Go on.")])
    assert told.cause in ("compaction", "history_rewrite")
    assert told.explain["relation"] == "rewrite"


AGENTS = [
    (
        "Claude Code",
        MESSAGES,
        [("X-Claude-Code-Session-Id", "S"), ("x-claude-code-agent-id", "sub-1")],
        [("X-Claude-Code-Session-Id", "S")],
    ),
    (
        "Codex",
        RESPONSES,
        [("session-id", "S"), ("thread-id", "T2")],
        [("session-id", "S"), ("thread-id", "T1")],
    ),
    (
        "opencode",
        CHAT,
        [("x-session-id", "ses_2"), ("x-parent-session-id", "ses_1")],
        [("x-session-id", "ses_1")],
    ),
]


@pytest.mark.parametrize(("name", "path", "child", "parent"), AGENTS, ids=[a[0] for a in AGENTS])
def test_a_sub_agent_neither_continues_nor_breaks_its_parent(
    stories: NewStory, name: str, path: str, child: Any, parent: Any
) -> None:
    """Other system and tools, one session id: the parent's next turn is an append all the same."""
    story = stories(slots=2)
    mark = story.model

    def own(headers: Any) -> Any:
        return [(key, f"{value}-{mark}") for key, value in headers]

    def talk(system: str, *turns: dict[str, Any]) -> dict[str, Any]:
        if path == RESPONSES:
            items = [item(t["role"], t["content"]) for t in turns]
            return {"input": [item("developer", system), *items], "prompt_cache_key": f"k-{mark}"}
        if path == MESSAGES:
            return {"system": system, "messages": [*turns], "max_tokens": 9}
        return {"messages": [turn("system", system), *turns]}

    first = story.say(talk(RULES, user(ASK)), path=path, headers=own(parent))
    sub = story.say(talk("You search." + RULES_ZH, user(ASK_ZH)), path=path, headers=own(child))
    told = story.say(talk(RULES, user(ASK), said(), user(MORE)), path=path, headers=own(parent))
    assert (sub.explain["relation"], sub.cause) == ("first", None)
    assert (told.explain["relation"], told.explain["parent_id"], told.cause) == ("append", first.id, None)


def test_two_tool_calls_and_their_results_by_index(stories: NewStory) -> None:
    """The second call of a turn is named by its own index."""
    calls = [call('{"path":"a"}')["tool_calls"][0], call('{"path":"b","x":1}', number=2)["tool_calls"][0]]
    other = [calls[0], call('{"x":1,"path":"b"}', number=2)["tool_calls"][0]]
    ends = [result("one"), result("two", 2)]
    told = retold(
        stories,
        CHAT,
        [user(ASK), said(None, tool_calls=calls), *ends],
        [user(ASK), said(None, tool_calls=other), *ends, said(), user(MORE)],
    )
    assert causes(told) == [("tool_args_reserialised", "messages[2].tool_calls[1].arguments")]
    assert dumps(told.detail("tool_args_reserialised"))
