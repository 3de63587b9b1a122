"""Shapes of volatile text: clock times, dates, numbers. Many languages, linear time, bounded windows.

Every pattern is a sequence of bounded repeats over disjoint character classes, and is only ever run over a
window of a few hundred characters around a difference, so no input can make it slow.
"""

import re
from typing import Literal, NamedTuple

from services.proxy.causes.calendar import DAYS, MONTHS, SHORT_DAYS, any_of

Shape = Literal["time", "date", "number"]

WINDOW = 96  # characters on each side of a difference that may belong to one date expression
JOIN = 6  # characters that may stand between the parts of one expression: ", at ", "（"

_MONTH, _DAY = any_of(MONTHS), any_of(DAYS)
_HAN = "[〇零一二三四五六七八九十廿]"
_EAST_CLOCK = "(?:上午|下午|凌晨|清晨|早上|中午|傍晚|晚上|夜间|午前|午後|오전|오후)?"

_TIME = re.compile(
    "|".join(
        (
            (
                r"(?<!\d)\d{4}-?\d{2}-?\d{2}[T_ -]\d{2}[:.-]?\d{2}(?:[:.-]?\d{2}(?:[.,]\d{1,9})?)?"
                r"(?:Z|[+-]\d{2}:?\d{2})?(?!\d)"
            ),
            (
                r"(?<![A-SU-Za-z0-9_:.])(?:[01]?\d|2[0-4])[:：][0-5]\d(?:[:：][0-6]\d(?:[.,]\d{1,9})?)?"
                r"(?:\s?[ap]\.?m\b\.?)?(?![\d:])"
            ),
            rf"(?<!\d)\d{{1,2}}[/-]{_MONTH}[/-]\d{{4}}[: T]\d{{2}}:\d{{2}}(?::\d{{2}})?(?!\d)",
            r"(?<![\d:.])(?:1[0-2]|0?[1-9])\s?[ap]\.?m\b\.?",
            r"(?<![\w:.])(?:[01]?\d|2[0-3])(?:h[0-5]\d\b|(?:\.[0-5]\d)?\s?Uhr\b|\s?o['’]clock\b)",
            _EAST_CLOCK
            + r"\s?(?<!\d)\d{1,2}\s?[点點时時시](?:\s?\d{1,2}\s?[分분]|[整半])?(?:\s?\d{1,2}\s?[秒초])?",
            _EAST_CLOCK + f"{_HAN}{{1,3}}[点點时時](?:{_HAN}{{1,3}}分|[整半])?(?:{_HAN}{{1,3}}秒)?",
            r"(?<![\w.])(?:1[5-9]|20)\d{8}(?:\.\d{1,9})?(?![\w])",
            r"(?<![\w.])(?:1[5-9]|20)\d{11}(?![\w])",
            r"(?<![\w.])(?:1[5-9]|20)\d{14}(?:\d{3})?(?![\w])",
        )
    ),
    re.IGNORECASE,
)
_DATE = re.compile(
    "|".join(
        (
            r"(?<![\w.-])(?:19|20)\d{2}-?W[0-5]\d-?[1-7](?![\w-])",
            r"(?<![\d.])(?:19|20)\d{2}([-/.])(?:1[0-2]|0?[1-9])\1(?:[12]\d|3[01]|0?[1-9])(?!\d|\.\d)",
            r"(?<![\d.])(?:[12]\d|3[01]|0?[1-9])([/.-])(?:[12]\d|3[01]|0?[1-9])\2(?:19|20)\d{2}(?!\d|\.\d)",
            r"(?<![\d./])(?:[12]\d|3[01]|0?[1-9])/(?:[12]\d|3[01]|0?[1-9])/\d{2}(?![\d/])",
            r"(?<!\d)20\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?!\d)",
            r"(?<![\d-])20\d{2}-(?:0[1-9]|1[0-2])(?![\d-])",
            rf"\b{_MONTH}\.?\s{{1,2}}\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s{{1,2}}(?:19|20)\d{{2}}\b)?",
            (
                rf"(?<!\d)\d{{1,2}}(?:st|nd|rd|th|er|\.|º)?\s{{1,2}}(?:of\s|de\s)?{_MONTH}\b\.?"
                rf"(?:,?\s{{1,2}}(?:de\s)?(?:19|20)\d{{2}}\b)?"
            ),
            rf"(?<!\d)\d{{1,2}}[/-]{_MONTH}[/-](?:19|20)?\d{{2}}\b",
            rf"\b{_MONTH}\.?,?\s{{1,2}}(?:19|20)\d{{2}}\b",
            rf"\b{_DAY}\b",
            rf"\b{any_of(SHORT_DAYS)}\.?,?\s{{1,2}}(?=\d{{1,2}}\b)",
            r"(?:(?:19|20)\d{2}\s?[年년]\s?)?(?<!\d)\d{1,2}\s?[月월]\s?\d{1,2}\s?[日号號일]",
            r"(?<!\d)(?:19|20)\d{2}\s?[年년](?:\s?\d{1,2}\s?[月월])?",
            f"(?:[〇零一二三四五六七八九]{{4}}年)?{_HAN}{{1,3}}月{_HAN}{{1,3}}[日号號]",
            "[〇零一二三四五六七八九]{4}年",
            "(?:星期|礼拜|禮拜|周|週)[一二三四五六日天]",
            "[月火水木金土日]曜日?|[월화수목금토일]요일",
        )
    ),
    re.IGNORECASE,
)
# Calendars and clocks coarser or finer than a day and yet without a minute: what changes in them are numbers.
_COARSE = re.compile(
    r"(?<![\w.-])(?:19|20)\d{2}-?W[0-5]\d(?![\w-])|\bQ[1-4]\b|"
    r"(?<![\w.-])(?:19|20)\d{2}-\d{2}-\d{2}T\d{2}(?:Z|[+-]\d{2}:?\d{2})?(?![\w:.])"
)
_HAN_NUMBER = re.compile(
    "第[〇零一二三四五六七八九十百千]{1,6}|[〇零一二三四五六七八九十百千两]{1,6}(?=[轮次条个件步页回遍项篇](?![一-鿿]*[月日年点時时]))"
)
_NUMBER = re.compile(r"[-+]?\d+(?:[,_ ]\d{3})*(?:\.\d+)?")
_MODELS = "gpt|claude|sonnet|opus|haiku|fable|llama|gemma|gemini|qwen|deepseek|phi|glm|kimi|grok|mistral"
_VERSION_BEFORE = re.compile(
    r"(?:\b(?:version|ver|v|release|rev|build|python|node(?:\.js)?|npm|ruby|php|java|jdk|go|rust|gcc|clang|c\+\+|"
    r"macos|ios|iphone|android|windows|ubuntu|debian|fedora|alpine|linux|darwin|kernel|chrome|chromium|firefox|safari|"
    r"swift|kotlin|scala|perl|typescript|react|vue|angular|django|rails|postgres(?:ql)?|mysql|redis|sqlite|cuda|xcode|"
    rf"sdk|cli|api|http|{_MODELS})"
    r"|版本|バージョン|버전)[\s:=/@_-]{0,3}[vV]?\Z",
    re.IGNORECASE,
)
_JOINED = re.compile(r"[A-Za-z_.@][-.]?(?:\d{1,8}-){0,3}\Z")  # the numbers of a name: sonnet-4-5, a UUID
_RELEASE = re.compile(rf"\b(?:{_MODELS})[\w.]{{0,12}}(?:-[\w.]{{1,12}}){{0,4}}-\Z", re.IGNORECASE)
_RELEASE_REACH = 48
_MODEL_SIZE = re.compile(r"[bB](?![A-Za-z0-9])")  # as in a model's name, gemma3:12b
_PLURAL = re.compile(r"(#\s?[a-z]{3,20}?)s\b")


class Span(NamedTuple):
    """A date or time expression: [start, end) and whether it is precise to less than a day."""

    start: int
    end: int
    shape: Shape


def shape_at(text: str, start: int, end: int) -> Shape | None:
    """The shape that wholly covers [start, end) of a text; an empty range is covered by what it touches."""
    if end - start > WINDOW:
        return None
    low, high = max(0, start - WINDOW), min(len(text), end + WINDOW)
    window, first, last = text[low:high], start - low, end - low
    if _covered(_COARSE, window, first, last):
        return "number"
    for span in expressions(window):
        if span.start <= first and last <= span.end:
            return span.shape
    if _covered(_HAN_NUMBER, window, first, last):
        return "number"
    return "number" if _is_number(window, first, last) else None


def _covered(pattern: re.Pattern[str], window: str, start: int, end: int) -> bool:
    return any(m.start() <= start and end <= m.end() for m in pattern.finditer(window))


def expressions(window: str) -> list[Span]:
    """Date and time expressions, neighbouring parts joined; one with a clock part in it is a ``time``."""
    found = [Span(m.start(), m.end(), "time") for m in _TIME.finditer(window) if m.end() > m.start()]
    found += [
        Span(m.start(), m.end(), "date")
        for m in _DATE.finditer(window)
        if m.end() > m.start() and not _is_release(window, m.start())
    ]
    joined: list[Span] = []
    for span in sorted(found):
        before = joined[-1] if joined else None
        if before and span.start <= before.end + JOIN and _is_glue(window[before.end : span.start]):
            shape: Shape = "time" if "time" in (before.shape, span.shape) else "date"
            joined[-1] = Span(before.start, max(before.end, span.end), shape)
        else:
            joined.append(span)
    return joined


def _is_release(window: str, start: int) -> bool:
    """Whether a date names a model's release, as in ``gpt-4o-2024-08-06``: it does not pass."""
    return window[start - 1 : start] == "-" and bool(
        _RELEASE.search(window[max(0, start - _RELEASE_REACH) : start])
    )


def skeleton(line: str) -> str:
    """A line with its numbers taken out, plurals after them levelled: equal where only counts differ."""
    return _PLURAL.sub(r"\1", _NUMBER.sub("#", line))


def is_version(text: str, start: int, end: int) -> bool:
    """Whether the number at [start, end) is part of a version: two dots, a v or a product before it."""
    while start > 0 and (
        text[start - 1].isdigit() or (text[start - 1] == "." and text[start - 2 : start - 1].isdigit())
    ):
        start -= 1
    start += text[start : start + 1] in ("+", "-")  # a sign belongs to what stands before it
    while end < len(text) and (
        text[end].isdigit() or (text[end] == "." and text[end + 1 : end + 2].isdigit())
    ):
        end += 1
    if text[start:end].count(".") > 1 or (
        text[end : end + 1] in ("-", "+") and text[end + 1 : end + 2].isalpha()
    ):
        return True
    if text[start - 1 : start] == ":" and _MODEL_SIZE.match(text, end):
        return True
    before = text[max(0, start - 24) : start]
    return bool(_VERSION_BEFORE.search(before)) or bool(_JOINED.search(before))


def _is_glue(between: str) -> bool:
    return not between.strip(" \t,.;|/()[]（），、-–—@T+~·") or between.strip(" ,").lower() in (
        "at",
        "um",
        "à",
        "a las",
    )


def _is_number(window: str, start: int, end: int) -> bool:
    """Whether [start, end) lies in plain numbers: digits and their marks, and no version, name or hash."""
    if not all(c.isdigit() or c in "+-.,_ %/" for c in window[start:end]):
        return False
    touched = [m for m in _NUMBER.finditer(window) if m.start() <= end and start <= m.end()]
    if not touched:
        return False
    return not any(_in_name(window, m) or is_version(window, m.start(), m.end()) for m in touched)


def _in_name(window: str, number: re.Match[str]) -> bool:
    """Whether letters run into the number on the left, or hexadecimal ones on the right, as in ``a1b2``."""
    left, right = window[number.start() - 1 : number.start()], window[number.end() : number.end() + 3]
    if left.isascii() and (left.isalpha() or left == "_"):
        return True
    units = re.match(
        r"(?:[kmgt]i?b?|ms|s|m|h|d|px|x|st|nd|rd|th|°c|[%‰])?(?![a-z0-9_])", right, re.IGNORECASE
    )
    return bool(right) and right[0].isascii() and (right[0].isalpha() or right[0] == "_") and not units
