"""What is compared letter by letter: code, quotes, addresses, paths, flags, numbers. Pure.

Each span is cut out of the text, and one character of Unicode's private area stands in its place, so that
later rules can move it about but never look into or change it.
"""

# ruff: noqa: E501 - one pattern a line

import re
from typing import NamedTuple

from services.semantic.reading import units

FIRST = 0xE000
LAST = 0xF8FF
HOLE = f"[{chr(FIRST)}-{chr(LAST)}]"

# Names that look like identifiers and are plain words.
_PLAIN = re.compile(
    r"^(?:javascript|typescript|postgresql|mysql|sqlite|mongodb|github|gitlab|youtube|iphone|ipad|imac|ipod"
    r"|macbook|macos|ios|ipados|watchos|linkedin|facebook|whatsapp|tiktok|wechat|powerpoint|powershell|wordpress"
    r"|paypal|ebay|vscode|graphql|numpy|scipy|pytorch|tensorflow|opencv|openai|chatgpt|deepseek|latex|airpods"
    r"|nodejs|nextjs|nestjs|jquery|fastapi|mcdonalds|playstation|openssl|airbnb|wifi|bittorrent|dropbox|onedrive"
    r"|icloud|itunes|matlab|vmware|virtualbox|devops|json|yaml|xml|csv|pdf|html|css|sql|pdfs|apis|urls|gpus|cpus"
    r"|dvds|cds|tvs|pcs|ids|phd|url|ssh|ok|k8s)$",
    re.IGNORECASE,
)
_KINDS: tuple[tuple[str, str], ...] = (
    ("code", r"```.*?```|`[^`]+`"),
    ("quoted", r"\"[^\"]+\"|《[^》]+》|(?<![\w'])'(?:[^']|(?<=\w)'(?=[a-z]{1,2}\b))+'(?!\w)"),
    ("path", r"\b[a-z][a-z+.-]*://[^\s<>\"'，。？！）]+|\b[\w.+-]+@[\w-]+\.[\w.-]+\b"),
    ("path", r"\b[A-Za-z]:\\[^\s,，。？]+|(?<![\w.])(?:~|\.{1,2})?/(?:[\w.@+-]+/?)+"),
    ("flag", r"(?<![\w-])--?[A-Za-z][\w-]*(?:=\S+)?(?![\w-])"),
    ("name", r"\b(?:[CcFfJj]#|[CcGg]\+\+|\.NET\b|[A-Za-z]+\.js\b)"),
    ("date", r"\b\d{4}[-/]\d{1,2}[-/]\d{1,2}\b|\b\d{1,2}:\d{2}(?::\d{2})?\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b"),
    ("unit", units.PATTERN),
    ("number", r"(?<![\w.])v\d+(?:\.\d+)*\b|[$€£¥]\s?\d+(?:,\d{3})*(?:\.\d+)*"),
    ("code", r"\b[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+(?:\(\))?|\b\w+\(\)"),
    ("code", r"\b[A-Za-z_]\w*(?:\[[^\]]*\]|\([^)\s]*\))"),
    ("code", r"\b[A-Za-z]\w*_\w+\b|\b_\w+\b|\b[a-z]+[A-Z]\w*\b|\b[A-Z][a-z]+[A-Z]\w*\b"),
    ("number", r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)*(?=%|°|(?!\w|\.\d)|[A-Za-zµ]{1,3}(?![A-Za-z0-9])|[\u4e00-\u9fff])"),
    ("code", r"\b[A-Za-z]*\d[\w.]*|\b[A-Za-z]+[-+]{2}|[-+]{2}[A-Za-z]+"),
    ("code", r"(?:\\[A-Za-z])+|[=<>+*/^%&|!~(){}\[\]@#$\\°]+|(?<=\s)-(?=[\s\d])|(?<=\d)[-:,](?=\d)"),
    ("code", r"(?<=\s)[.:;?!-]+(?=\s+[A-Za-z])"),
)  # fmt: skip
_ALL = re.compile(
    "|".join(f"(?P<k{i}>{pattern})" for i, (_, pattern) in enumerate(_KINDS)), re.DOTALL | re.ASCII
)
# "Python3.11" is "Python 3.11".
_VERSIONED = re.compile(
    r"(?<![A-Za-z0-9])(python|java|php|ios|android|node|ruby|angular|vue|windows|ubuntu|debian|django|iphone|macos)"
    r"(\d+(?:\.\d+)*)(?![A-Za-z0-9.])",
    re.IGNORECASE,
)
_WARS = re.compile(r"\b(?:world war|ww) ?([12])\b", re.IGNORECASE)
# In code it matters which quotes they are: "$x" is no '$x', nor "a" an 'a'.
_LITERAL = re.compile(r"'(?:.'|.*[$\\])")
_STATES = {"U.S": "US", "U.S.A": "USA", "U.K": "UK", "E.U": "EU"}
_CURRENCY = {"$": "USD", "€": "EUR", "£": "GBP"}
_OPERAND = re.compile(r"(?:^|\s|\d|\b[A-Za-z]|\))$")
_TRAILING = ".,;:!?"


class Span(NamedTuple):
    """A stretch of text compared letter by letter; `kind` names the rule that a difference is told under."""

    kind: str
    text: str


def protect(text: str) -> tuple[str, tuple[Span, ...]]:
    """The text with one private character for each span, and the spans in order."""
    spans: list[Span] = []

    def hole(found: re.Match[str]) -> str:
        kind, piece = _KINDS[int((found.lastgroup or "k0")[1:])][0], found.group()
        if kind == "code" and _PLAIN.match(piece):
            return piece
        if _exclaims(found):
            return ""
        tail = ""
        if kind in {"path", "code"}:
            kept = piece.rstrip(_TRAILING) or piece
            piece, tail = kept, piece[len(kept) :]
        if kind == "code" and piece in _STATES:
            return _STATES[piece] + tail.removeprefix(".")
        if not piece or FIRST + len(spans) > LAST:
            return tail
        spans.append((_money(piece) if kind == "number" else None) or Span(kind, _plain(kind, piece)))
        return chr(FIRST + len(spans) - 1) + tail

    plain = _WARS.sub(_roman, _VERSIONED.sub(_apart, _private(text)))
    return _ALL.sub(hole, plain), tuple(spans)


def measured(text: str, spans: tuple[Span, ...]) -> tuple[str, tuple[Span, ...]]:
    """English text in which also "five minutes" is a measurement, as "5 minutes" is."""
    more = list(spans)

    def hole(found: re.Match[str]) -> str:
        if FIRST + len(more) > LAST:
            return found.group()
        more.append(Span("unit", units.measured(f"{units.COUNTS[found[1]]} {found[2]}")))
        return chr(FIRST + len(more) - 1)

    return units.SPELLED.sub(hole, text), tuple(more)


def _exclaims(found: re.Match[str]) -> bool:
    """Whether it is the mark behind a sentence, and not an operator as in ``5!`` and ``!x``."""
    after = found.string[found.end() :]
    return (
        set(found.group()) <= {"!"}
        and not after[:1].strip()
        and not _OPERAND.search(found.string[: found.start()])
    )


def _apart(found: re.Match[str]) -> str:
    return f"{found[1]} {found[2]}"


def _roman(found: re.Match[str]) -> str:
    return f"World War {'I' * int(found[1])}"


def _money(piece: str) -> Span | None:
    """An amount behind its sign, as if the currency were named: $5 is 5 dollars."""
    sign, number = _CURRENCY.get(piece[:1]), piece[1:].strip()
    if sign is None or not re.fullmatch(r"\d[\d,]*(?:\.\d+)?", number, re.ASCII):
        return None
    return Span("unit", units.measured(f"{number} {sign}"))


def _plain(kind: str, piece: str) -> str:
    if kind == "unit":
        return units.measured(piece)
    if kind == "number":
        return re.sub(r",(?=\d{3})", "", piece).removeprefix("+").replace(" ", "")
    if kind == "name":
        return piece.lower()
    if kind == "quoted":
        return piece if _LITERAL.match(piece) else piece[1:-1].strip()
    return piece.strip("`").strip() if piece.startswith("`") else piece


def _private(text: str) -> str:
    """The text without characters of the area that holes are marked with."""
    return re.sub(HOLE, "�", text)
