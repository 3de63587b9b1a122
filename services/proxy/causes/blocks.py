"""The titled or tagged block that surrounds a place in a prompt, and whether it speaks of the work tree.

Pure; looks at a bounded stretch before and after the place.
"""

import re
from typing import NamedTuple

REACH = 8_192  # characters searched on each side for the ends of a block; longer blocks count as untitled
TITLE = 80

_TAG = re.compile(r"<(/?)([^\W\d_][\w:-]{0,60})(?:\s[^<>]{0,200})?>")
_HEADING = re.compile(
    r"^(?:#{1,6}[ \t]{1,4}(?P<hash>[^\n]{1,80})|\[(?P<square>[^\]\n]{1,60})\][ \t]{0,4}|"
    r"【(?P<han>[^】\n]{1,60})】|={2,8}[ \t]{0,2}(?P<rule>[^=\n]{1,60}?)[ \t]{0,2}={2,8}[ \t]{0,4}|"
    r"\*\*(?P<bold>[^*\n]{1,60})\*\*:?[ \t]{0,4}|"
    r"(?P<label>[A-Za-z\u3400-\u9fff][^\n:：]{0,40})[:：])[ \t]{0,4}$",
    re.MULTILINE,
)
_WORKSPACE_TITLE = re.compile(
    r"git|workspace|working[ _-]?dir(?:ectory)?|"
    r"work(?:ing)?[ _-]?tree|version[ _-]?control|repo(?:sitory)?\b|"
    r"(?:directory|folder|file|project)[ _-]?(?:structure|tree|listing|layout)|"
    r"open[ _-]?(?:tabs|files|editors)|"
    r"recent[ _-]?(?:commits|files)|modified[ _-]?files|"
    r"工作区|工作目录|工作树|版本控制|仓库|目录结构|文件树|项目结构|提交记录",
    re.IGNORECASE,
)
_SIGNALS = re.compile(
    r"git status|\bbranch\b|\bcommits?\b|modified:|untracked|work(?:ing)? tree|\bstaged\b|\bHEAD\b|\borigin/|"
    r"(?m:^[ \t]{0,4}(?:[MADRCU?]{1,2}|[ MADRCU]{2})[ \t][^\s]{1,200}$)|"
    r"(?m:^[0-9a-f]{7,12}[ \t]\S)|gitStatus|"
    r"\bdiff --git\b|工作树|分支|提交|暂存|未跟踪",
)


class Block(NamedTuple):
    """A block: its title (tag name or heading, empty if there is none) and its [start, end) in the text."""

    title: str
    start: int
    end: int


def enclosing(text: str, place: int) -> Block:
    """The innermost tagged block around a place, else the headed section it is in, else its paragraph."""
    return _tagged(text, place) or _headed(text, place) or _paragraph(text, place)


def is_workspace(text: str, start: int, end: int) -> bool:
    """Whether [start, end) is inside a block about version control or the work tree."""
    for block in (_tagged(text, start), _headed(text, start), _paragraph(text, start)):
        if block is None or end > block.end:
            continue
        body = text[max(block.start, start - REACH) : min(block.end, end + REACH)]
        if _WORKSPACE_TITLE.search(block.title) and block.title:
            return True
        near = text[max(block.start, start - 400) : min(block.end, end + 400)]
        if len({m.group().strip() for m in _SIGNALS.finditer(near)}) >= 2:
            return True
        if block.title and len(body) < 1_200 and _WORKSPACE_TITLE.search(body.partition("\n")[0]):
            return True
    return False


def _tagged(text: str, place: int) -> Block | None:
    low = max(0, place - REACH)
    opened: list[tuple[str, int]] = []
    for tag in _TAG.finditer(text, low, place):
        name = tag[2]
        if not tag[1]:
            opened.append((name, tag.start()))
        elif any(name == other for other, _ in opened):
            while opened.pop()[0] != name:
                pass
    for name, start in reversed(opened):
        close = text.find(f"</{name}>", place, place + REACH)
        if close >= 0:
            return Block(name, start, close)
    return None


def _headed(text: str, place: int) -> Block | None:
    low = text.rfind("\n", 0, max(0, place - REACH)) + 1
    line_start = text.rfind("\n", 0, place) + 1
    last = None
    for heading in _HEADING.finditer(text, low, line_start):
        last = heading
    if last is None:
        return None
    title = next(group for group in last.groups() if group)
    following = _HEADING.search(text, text.find("\n", place) + 1 or len(text), place + REACH)
    return Block(title.strip()[:TITLE], last.start(), following.start() if following else len(text))


def _paragraph(text: str, place: int) -> Block:
    low = text.rfind("\n\n", max(0, place - REACH), place)
    high = text.find("\n\n", place, place + REACH)
    start = low + 2 if low >= 0 else max(0, place - REACH)
    end = high if high >= 0 else min(len(text), place + REACH)
    line = text[start:end].partition("\n")[0]
    label, colon, _ = line[:TITLE].replace("：", ":").partition(":")
    title = label.strip() if colon else ""
    return Block(title[:TITLE], start, end)
