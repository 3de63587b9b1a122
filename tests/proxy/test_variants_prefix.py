"""Variants of every kind of changed system text and template input, in the words of every API.

Written from the contract alone, by others than the recognisers' authors: cases R01, R02, R04, R06, R35, R37.
"""

from typing import Any

import pytest

from tests.support.story import CHAT, MESSAGES, NewStory
from tests.support.talk import (
    AGAIN,
    ASK,
    MORE,
    ROUTES,
    RULES,
    RULES_ZH,
    causes,
    common_end,
    first_difference,
    grown,
    said,
    text,
    turn,
    user,
)

pytestmark = pytest.mark.process


CLOCKS = [
    ("chat", "Today is 2026-11-29T10:41:07+08:00.", "Today is 2026-11-29T10:41:09+08:00."),
    ("developer", "[2026-11-29 23:59:58]", "[2026-11-30 00:00:03]"),
    ("anthropic", "Current time: 10:41 AM", "Current time: 11:02 AM"),
    ("ollama", "It is 9:59 pm, Sunday.", "It is 10:00 pm, Sunday."),
    ("responses", "当前时间：2026年11月29日 10:41", "当前时间：2026年11月29日 10:42"),
    ("chat", "现在时间 2026年11月29日 上午9:59", "现在时间 2026年11月29日 上午10:00"),
    ("anthropic-blocks", "Date: Sun, 29 Nov 2026 10:41:00 GMT", "Date: Sun, 29 Nov 2026 10:55:12 GMT"),
    ("responses-item", "now=1795949000", "now=1795949061"),
    ("second", "now_ms: 1795949000123", "now_ms: 1795949061456"),
    ("chat-block", "The time is 29/11/2026 10:41.", "The time is 29/11/2026 10:43."),
    (
        "chat",
        "Sunday, November 29th, 2026 - 10:41 PM (Europe/Berlin)",
        "Sunday, November 29th, 2026 - 10:42 PM (Europe/Berlin)",
    ),
    ("ollama", "timestamp: 20261129T104107Z", "timestamp: 20261129T104112Z"),
    ("chat", "2026/11/29 10:41:07.123456", "2026/11/29 10:41:07.987654"),
    ("anthropic", "时间:下午3点05分", "时间:下午3点06分"),
    ("chat", "[29/Nov/2026:10:41:07 +0000]", "[29/Nov/2026:10:42:12 +0000]"),
    ("chat", "Es ist 10.41 Uhr", "Es ist 10.42 Uhr"),
    ("chat", "Sun Nov 29 10:41:07 UTC 2026", "Sun Nov 29 10:41:31 UTC 2026"),
    ("chat", "Session clock 10:41:07 (Sunday)", "Session clock 00:03:11 (Monday)"),
]


@pytest.mark.parametrize("place", ["head", "end"])
@pytest.mark.parametrize(("route", "old", "new"), CLOCKS)
def test_a_clock_of_any_shape_is_a_timestamp(
    stories: NewStory, route: str, old: str, new: str, place: str
) -> None:
    """At its first differing byte, with all that is equal behind it counted."""
    rules = RULES_ZH if "时" in old else RULES
    texts = [f"{s}\n{rules}" if place == "head" else f"{rules}\n{s}" for s in (old, new)]
    told = grown(stories(), route, *texts)
    explain = told.explain
    assert (causes(told), told.cause) == ([("timestamp", ROUTES[route].at)], "timestamp")
    assert explain["byte_offset"] == first_difference(*texts)
    assert explain["equal_after_divergence"] == common_end(*texts) + len(ASK)
    assert explain["causes"][0]["severity"] == "break"
    assert (explain["relation"], explain["diverged_at"], explain["offset_precision"]) == (
        "rewrite",
        ROUTES[route].at,
        1,
    )
    assert explain["before"] != explain["after"]
    assert explain["advice"]


DAYS = [
    ("chat", "Today's date: 2026-11-29", "Today's date: 2026-11-30"),
    ("anthropic", "Today is Sunday, November 29, 2026.", "Today is Monday, November 30, 2026."),
    ("ollama", "今天是2026年11月29日", "今天是2026年11月30日"),
    ("responses", "current_date: 29.11.2026", "current_date: 30.11.2026"),
    ("chat", "Today's date: Wed Dec 31 2026", "Today's date: Thu Jan 1 2027"),
    ("second", "date 11/30/2026", "date 12/01/2026"),
    ("chat", "今天是2026年11月30日 星期一", "今天是2026年12月1日 星期二"),
    ("developer", "Date: 20261129", "Date: 20261130"),
    ("anthropic-blocks", "It is Sunday.", "It is Monday."),
]


@pytest.mark.parametrize(("route", "old", "new"), DAYS)
def test_a_new_day_is_a_rollover_that_breaks_once(stories: NewStory, route: str, old: str, new: str) -> None:
    story, way = stories(), ROUTES[route]
    texts = [f"You help.\n{s}\n{RULES}" for s in (old, new)]
    told = grown(story, route, *texts)
    turns = [user(ASK), said(), user(MORE), said(), user(AGAIN)]
    after = story.say(way.body(texts[1], turns), path=way.path)
    assert causes(told) == [("date_rollover", way.at)]
    assert told.explain["byte_offset"] == first_difference(*texts)
    assert (after.hit, after.codes, after.explain["relation"]) == ("prefix", [], "append")


COUNTS = [
    ("Context used: 12%", "Context used: 13%"),
    ("Tokens: 10240/131072", "Tokens: 20480/131072"),
    ("You have 7 turns left.", "You have 6 turns left."),
    ("Cost so far: $0.41", "Cost so far: $0.55"),
    ("已使用 1,024 个词元", "已使用 2,048 个词元"),
    ("Requests served: 1234567", "Requests served: 1234568"),
    ("Memory 45.5% (12 of 31 notes)", "Memory 46.1% (13 of 31 notes)"),
    ("Open port 8084", "Open port 9931"),
    ("Step 3 of 12", "Step 4 of 12"),
]


@pytest.mark.parametrize(("old", "new"), COUNTS)
def test_numbers_alone_are_a_counter(stories: NewStory, old: str, new: str) -> None:
    texts = [f"You help.\n{s}\n{RULES}" for s in (old, new)]
    told = grown(stories(), "chat", *texts)
    assert causes(told) == [("counter", "system")]
    assert told.explain["byte_offset"] == first_difference(*texts)


EDITS = [
    ("Client v2.1.90 here", "Client v2.1.91 here"),
    ("Use version 3.11 of it", "Use version 3.12 of it"),
    ("node 22.4.1 on linux", "node 24.0.0 on linux"),
    ("You run in build 2026.9.6-beta.1", "You run in build 2026.9.6-beta.2"),
    ("Answer in English.", "Answer in German."),
    ("请用中文回答。", "请用英文回答。"),
    ("The user is Ada.", "The user is Ada. She likes tea."),
    ("Model: small-7b", "Model: large-70b"),
    ("Model: gemma3:12b", "Model: gemma3:27b"),
    ("May I help? March on.", "June I help? March on."),
]


@pytest.mark.parametrize(("old", "new"), EDITS)
def test_any_other_change_is_an_edit(stories: NewStory, old: str, new: str) -> None:
    texts = [f"You help.\n{s}\n{RULES}" for s in (old, new)]
    told = grown(stories(), "chat", *texts)
    assert causes(told) == [("system_edit", "system")]
    assert told.explain["byte_offset"] == first_difference(*texts)
    assert "whitespace_only" not in told.detail("system_edit")


@pytest.mark.parametrize(("old", "new"), [("a\n\nb", "a\nb"), ("rule: x", "rule:  x"), ("end", "end\n\n")])
def test_white_space_alone_is_said(stories: NewStory, old: str, new: str) -> None:
    told = grown(stories(), "chat", RULES + old, RULES + new)
    assert causes(told) == [("system_edit", "system")]
    assert told.detail("system_edit")["whitespace_only"] is True


SNAPSHOTS = [
    (
        "anthropic",
        "gitStatus: The start.\nCurrent branch: main\n\nStatus:\n{}\n\nRecent commits:\n9cf1 Fix it",
        ("(clean)", " M src/loader.py\n?? notes.txt"),
    ),
    ("chat", "# Workspace\nBranch: {}\nRoot: /work\n\n# Rules\nBe brief.", ("main", "fix/loader")),
    ("developer", "<git_status>\nOn branch main\n{}\n</git_status>", ("nothing to commit", "modified: a.py")),
    (
        "ollama",
        "## Git\n最近提交：\n{}\n\n## 规则\n简洁。",
        ("a1b2c3d 修复加载器", "f00dbee 增加测试\na1b2c3d 修复加载器"),
    ),
    (
        "chat",
        "<env>\nWorking directory: /w\n</env>\n<file_tree>\n{}\n</file_tree>",
        ("src/a.py", "src/a.py\nsrc/b.py"),
    ),
]


@pytest.mark.parametrize(("route", "block", "values"), SNAPSHOTS)
def test_a_changed_work_tree_is_a_snapshot(
    stories: NewStory, route: str, block: str, values: tuple[str, str]
) -> None:
    texts = [f"{RULES}\n{block.format(value)}" for value in values]
    told = grown(stories(), route, *texts)
    assert causes(told) == [("workspace_snapshot", ROUTES[route].at)]


BLOCKS = [
    ("<memory>\n{}\n</memory>", ("likes tea", "likes tea and cake", "likes neither")),
    ("## Skills\n{}\n\n## Other\nNothing.", ("- pdf", "- pdf\n- xlsx", "- docx")),
    ("<context>\n{}\n</context>", ("用户在编辑文件", "用户在阅读文件", "用户离开了")),
]


@pytest.mark.parametrize(("block", "values"), BLOCKS)
def test_a_block_that_changes_twice_is_dynamic(
    stories: NewStory, block: str, values: tuple[str, ...]
) -> None:
    """Once it is an edit; again in the same block, and it is the block's way."""
    story, turns, seen = stories(), [user(ASK)], []
    for value in values:
        body = {"messages": [turn("system", f"{RULES}\n{block.format(value)}"), *turns]}
        seen.append(story.say(body))
        turns += [said(), user(MORE)]
    assert [told.codes for told in seen] == [[], ["system_edit"], ["dynamic_block"]]


def billed(version: str, more: str = "") -> str:
    return f"x-anthropic-billing-header: cc_version={version}; cc_entrypoint=cli;{more}"


TOKENS = [
    (billed("2.1.332.a1f"), billed("2.1.332.07c")),
    (billed("2.1.90.aaa", " cch=00000;"), billed("2.1.90.aaa", " cch=fffff;")),
    (billed("2.1.332.a1f"), billed("2.1.332.a1f", " cc_is_subagent=true;")),
]


@pytest.mark.parametrize("route", ["blocks", "one text", "chat"])
@pytest.mark.parametrize(("old", "new"), TOKENS)
def test_the_billing_block_is_named_wherever_it_stands(
    stories: NewStory, old: str, new: str, route: str
) -> None:
    """As the first block, at the head of one text, and after a router made chat messages of it."""
    story = stories()

    def body(head: str, *turns: dict[str, Any]) -> dict[str, Any]:
        blocks = [text(head), text("You are Claude Code."), text(RULES)]
        if route == "chat":
            return {"messages": [turn("system", blocks), *turns]}
        return {
            "system": blocks if route == "blocks" else f"{head}\n{RULES}",
            "messages": [*turns],
            "max_tokens": 9,
        }

    path = CHAT if route == "chat" else MESSAGES
    story.say(body(old, user(ASK)), path=path)
    told = story.say(body(new, user(ASK), said(), user(MORE)), path=path)
    assert causes(told) == [("client_attribution_token", "system" if route == "one text" else "system[0]")]
    assert told.explain["byte_offset"] == first_difference(old, new)
