"""Synthetic text, English and Chinese, of about a wanted number of tokens; a seed gives the same text."""

import random

# Measured with the embedded model's tokenizer over these very words.
TOKENS_A_WORD = 1.75
TOKENS_A_CHARACTER = 0.62

_SUBJECTS = (
    "the build",
    "the schedule",
    "the archive",
    "the index",
    "the report",
    "the window",
    "the ledger",
)
_VERBS = ("follows", "opens", "replaces", "describes", "compares", "closes", "precedes", "summarises")
_OBJECTS = ("the second list", "an older draft", "every open ticket", "the weekly plan", "a long table",
            "the north desk", "its own notes", "the next chapter")  # fmt: skip
_WHEN = ("before noon", "after review", "when asked", "without delay", "in each round", "once a week")

_ZH_SUBJECTS = ("构建任务", "日程安排", "归档文件", "检索索引", "季度报告", "当前窗口", "账目清单")
_ZH_VERBS = ("先于", "打开", "替换", "说明", "对比", "关闭", "汇总", "记录")
_ZH_OBJECTS = ("第二份名单", "较早的草稿", "所有未结工单", "每周计划", "一张长表", "自己的备注", "下一章")
_ZH_WHEN = ("在中午之前", "经过复核以后", "收到请求时", "不得延误", "每一轮都如此", "每周一次")


def write(pick: random.Random, tokens: int, language: str) -> str:
    """Numbered sentences, about `tokens` tokens of them, never fewer than one sentence."""
    lines: list[str] = []
    left = float(tokens)
    while left > 0 or not lines:
        line = _chinese(pick) if language == "zh" else _english(pick)
        lines.append(line)
        left -= len(line) * TOKENS_A_CHARACTER if language == "zh" else len(line.split()) * TOKENS_A_WORD
    return "\n".join(lines)


def _english(pick: random.Random) -> str:
    number = pick.randrange(100, 1000)
    parts = (pick.choice(_SUBJECTS), pick.choice(_VERBS), pick.choice(_OBJECTS), pick.choice(_WHEN))
    return f"Item {number}: {' '.join(parts)}."


def _chinese(pick: random.Random) -> str:
    number = pick.randrange(100, 1000)
    parts = (
        pick.choice(_ZH_SUBJECTS),
        pick.choice(_ZH_WHEN),
        pick.choice(_ZH_VERBS),
        pick.choice(_ZH_OBJECTS),
    )
    return f"第{number}条：{''.join(parts)}。"
