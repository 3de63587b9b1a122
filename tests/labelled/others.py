"""Labelled conversations by another hand than the recognisers' author: other words, shapes and positions.

Values change at the head, in the middle or at the end of the system text, in English and Chinese; the talks
are drawn by a fixed seed over all APIs, with tools, reasoning and images.
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.labelled.conversations import DIALECTS, Case, Step, changed
from tests.labelled.shapes import IMAGE, Call, Talk, Turn

PARAGRAPHS = {
    "en": [
        "Prefer small functions with one purpose, and say in one line what each is for.",
        "Before a file is edited, read it; after it was edited, run the tests that belong to it.",
        "Quote commands exactly. Do not install anything without asking first.",
        "If two ways are equally good, take the one that the project already uses.",
        "Answers are short: a sentence, then the code, then what was not checked.",
    ],
    "zh": [
        "函数要短小，只做一件事，并用一句话说明用途。",
        "修改文件之前先阅读，修改之后运行相关的测试。",
        "命令要原样引用。未经询问不要安装任何东西。",
        "如果两种办法同样好，选择项目已经在用的那一种。",
        "回答要简短：先一句话，再给代码，最后说明没有检查的部分。",
    ],
}
ASKS = {
    "en": [
        "Why does the upload hang on large files?",
        "Show the retry code.",
        "Rename it.",
        "Add a test for the limit.",
    ],
    "zh": ["为什么上传大文件时会卡住？", "给我看重试的代码。", "改个名字。", "为上限加一个测试。"],
}
SAYS = {
    "en": [
        "The socket is never drained.",
        "It is in `retry.py`.",
        "Renamed in four places.",
        "Added and passing.",
    ],
    "zh": ["套接字一直没有被读空。", "在 `retry.py` 里。", "四处都改好了。", "已添加并通过。"],
}
OUTPUT = "def retry(times):\n    for attempt in range(times):\n        yield attempt\n" * 12
PAIRS: dict[str, list[tuple[str, str]]] = {
    "timestamp": [
        ("Clock: 2026-11-29T21:04:55.120Z", "Clock: 2026-11-29T21:05:02.933Z"),
        ("It is 9:04 PM on Sunday", "It is 9:11 PM on Sunday"),
        ("当前时间：2026年11月29日 21:04", "当前时间：2026年11月29日 21:09"),
        ("现在是晚上9点04分", "现在是晚上9点12分"),
        ("Sun, 29 Nov 2026 21:04:55 +0100", "Sun, 29 Nov 2026 21:06:01 +0100"),
        ("epoch=1795986295", "epoch=1795986340"),
        ("ts 1795986295123", "ts 1795986340456"),
        ("[29/Nov/2026:21:04:55 +0000]", "[29/Nov/2026:21:07:12 +0000]"),
    ],
    "date_rollover": [
        ("Today is 2026-11-29.", "Today is 2026-11-30."),
        ("Sunday, 29 November 2026", "Monday, 30 November 2026"),
        ("今天是2026年11月29日，星期日", "今天是2026年11月30日，星期一"),
        ("date: 11/29/2026", "date: 11/30/2026"),
        ("Nov 30, 2026", "Dec 1, 2026"),
    ],
    "counter": [
        ("Budget left: 81%", "Budget left: 77%"),
        ("You used 1,204 of 32,768 tokens", "You used 2,977 of 32,768 tokens"),
        ("已完成 3/12 步", "已完成 4/12 步"),
        ("Cost: $1.24", "Cost: $1.31"),
        ("Open tasks: 12", "Open tasks: 9"),
    ],
    "system_edit": [
        ("Mode: careful", "Mode: quick"),
        ("Speak to Ada.", "Speak to Grace."),
        ("使用简体中文。", "使用繁体中文。"),
        ("Agent v3.4.1", "Agent v3.5.0"),
        ("Follow PEP 8.", "Follow PEP 8 and the house style."),
    ],
    "workspace_snapshot": [
        ("gitStatus: On branch main\nnothing to commit", "gitStatus: On branch main\n M retry.py"),
        ("<git>\nbranch: main\nahead: none\n</git>", "<git>\nbranch: fix/upload\nahead: none\n</git>"),
        (
            "# Git status\nRecent commits:\nab12cd3 First",
            "# Git status\nRecent commits:\nef45ab6 Second\nab12cd3 First",
        ),
    ],
}


def kit(count: int) -> list[dict[str, Any]]:
    """Tools of an editor agent."""
    names = ["glob", "grep", "view", "patch", "shell", "todo"][:count]
    made = []
    for name in names:
        properties = {
            "target": {"type": "string", "description": f"What to {name}."},
            "depth": {"type": "integer"},
        }
        schema = {"type": "object", "properties": properties, "required": ["target"]}
        made.append({"name": name, "description": f"Use {name} on the project.", "parameters": schema})
    return made


class Draw:
    """Draws talks; one a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.language = self.chance.choice(("en", "zh"))
        self.dialect = DIALECTS[seed % len(DIALECTS)]
        self.tools = kit(self.chance.choice((0, 3, 6)))
        self.place = self.chance.choice(("head", "middle", "end"))
        self.thinks = self.chance.random() < 0.3
        self.sees = self.chance.random() < 0.2

    def system(self, value: str = "") -> str:
        """The system text with a value in it."""
        lines = PARAGRAPHS[self.language] * 4
        at = {"head": 0, "middle": len(lines) // 2, "end": len(lines)}[self.place]
        return "\n\n".join([*lines[:at], *([value] if value else []), *lines[at:]])

    def talk(self, value: str = "") -> Talk:
        """Four user turns; with tools, the second is answered by a call first."""
        turns: list[Turn] = []
        thought = "Let me think about sockets. " * 3 if self.thinks else ""
        for k, (ask, say) in enumerate(zip(ASKS[self.language], SAYS[self.language], strict=True)):
            turns.append(
                Turn("user", ask * (4 if k == 0 else 1), image=IMAGE if self.sees and k == 0 else "")
            )
            if self.tools and k == 1:
                call = Call("grep", '{"target":"retry","depth":2}', "call_k")
                turns += [Turn("assistant", "", thought, [call]), Turn("tool", OUTPUT, call_id="call_k")]
            turns.append(Turn("assistant", say, thought))
        return Talk([self.system(value)], [json.loads(json.dumps(tool)) for tool in self.tools], turns)

    def steps(self, talk: Talk, upto: int) -> list[Step]:
        """The first requests of a talk."""
        ends = [k for k, turn in enumerate(talk.turns) if turn.role == "assistant"][:upto]
        made = []
        for end in ends:
            request = talk.copy()
            request.turns = request.turns[:end]
            made.append(Step(request, talk.turns[end]))
        return made


def other_cases() -> list[Case]:
    """All of them."""
    return [*_values(), *_lists(), *_histories(), *_cleans()]


def _values() -> Iterator[Case]:
    seed = 1000
    for label, pairs in PAIRS.items():
        for old, new in pairs:
            for _ in range(4):
                seed += 1
                draw = Draw(seed)

                def swap(last: Talk, old: str = old, new: str = new) -> None:
                    last.system[0] = last.system[0].replace(old, new)

                steps = draw.steps(draw.talk(old), 2 + seed % 2)
                yield Case(f"other-{label}-{seed}", draw.dialect, label, changed(steps, swap))


def _move(last: Talk) -> None:
    last.tools.insert(0, last.tools.pop())


def _late(last: Talk) -> None:
    last.tools.insert(1, {**kit(1)[0], "name": "mcp__docs__search", "description": "Searches the docs."})


def _fewer(last: Talk) -> None:
    del last.tools[0]


def _reworded(last: Talk) -> None:
    last.tools[1]["description"] = "Use grep on the project. 14 files are open."


def _respelt(last: Talk) -> None:
    schema = last.tools[1]["parameters"]
    schema["properties"] = dict(reversed(list(schema["properties"].items())))


def _retyped(last: Talk) -> None:
    last.tools[2]["parameters"]["properties"]["depth"]["type"] = "number"


LISTS: dict[str, Callable[[Talk], None]] = {
    "tool_reorder": _move,
    "tools_added": _late,
    "tools_removed": _fewer,
    "tool_description_dynamic": _reworded,
    "tool_schema_key_order": _respelt,
    "tool_schema_changed": _retyped,
}


def _lists() -> Iterator[Case]:
    seed = 2000
    for label, change in LISTS.items():
        for _ in range(6):
            seed += 1
            draw = Draw(seed)
            draw.tools = draw.tools or kit(4)
            yield Case(
                f"other-{label}-{seed}", draw.dialect, label, changed(draw.steps(draw.talk(), 3), change)
            )


def _prune(last: Talk) -> None:
    next(turn for turn in last.turns if turn.role == "tool").text = "[Old tool result content cleared]"


def _arguments(last: Talk) -> None:
    next(turn for turn in last.turns if turn.calls).calls[0].arguments = '{"depth":2,"target":"retry"}'


def _other_ask(last: Talk) -> None:
    last.turns[2].text = "Never mind that, look at the queue instead, and tell me how long it gets."


def _other_answer(last: Talk) -> None:
    last.turns[1].text = "It was drained after all, I was wrong about that."


def _summary(last: Talk) -> None:
    tail = last.turns[-1:]
    last.turns = [
        Turn("user", "Summary of the conversation so far: the upload hangs, retry.py was read. " * 4),
        *tail,
    ]


HISTORIES: dict[str, list[Callable[[Talk], None]]] = {
    "tool_result_pruned": [_prune],
    "tool_args_reserialised": [_arguments],
    "history_rewrite": [_other_ask, _other_answer],
    "compaction": [_summary],
}


def _histories() -> Iterator[Case]:
    seed = 3000
    for label, changes in HISTORIES.items():
        for k in range(8):
            seed += 1
            draw = Draw(seed)
            draw.tools = draw.tools or kit(4)
            steps = draw.steps(draw.talk(), 5)
            if label == "compaction":
                for step in steps:
                    step.opts["headers"] = {"x-session-id": f"ses_{seed}"}
            if label == "history_rewrite":
                draw.tools = []
                steps = draw.steps(draw.talk(), 4)
            yield Case(
                f"other-{label}-{seed}", draw.dialect, label, changed(steps, changes[k % len(changes)])
            )


def _cleans() -> Iterator[Case]:
    """Values that stay, talks that grow, new sampling parameters: nothing to blame."""
    values = [old for pairs in PAIRS.values() for old, _ in pairs]
    for seed in range(4000, 4048):
        draw = Draw(seed)
        steps = draw.steps(draw.talk(values[seed % len(values)]), 2 + seed % 4)
        for k, step in enumerate(steps):
            step.talk.extra = {"temperature": 0.2 * k} if seed % 2 else {}
        yield Case(f"other-clean-{seed}", draw.dialect, None, steps)
