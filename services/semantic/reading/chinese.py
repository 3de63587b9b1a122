"""Reads a Chinese question: frames off, the way of asking apart, synonyms made one. Pure."""

import re

from services.semantic.reading import chinese_asking, chinese_frames, chinese_words
from services.semantic.reading.base import Reading
from services.semantic.reading.english_words import lowered
from services.semantic.reading.normal import simplified
from services.semantic.reading.spans import FIRST, HOLE, LAST, Span

# Where the words themselves are asked about, no word stands for another.
_METALINGUISTIC = re.compile(
    r"近义词|反义词|同义词|造句|怎么读|怎么念|怎么拼|如何读|读音|拼音|发音|笔画|笔顺|部首|偏旁|押韵|翻译|成语|词语|词性|汉字|繁体|简体"
    r"|.字|改写|润色|病句|区别|不同|差别|差异|全称|缩写|意思|含义|用[^,]{1,4}[语文](?:怎么)?[说写讲]|[语文]怎么[说写讲]|叫什么|称呼"
)
# Where characters themselves are, their two forms are two.
_WRITTEN = re.compile(r".字(?:怎|如|有|的|是)|繁体|简体|繁體|簡體|笔画|筆畫|部首")
_BLANK = re.compile(rf"(?<=[\u4e00-\u9fff{HOLE[1:-1]}]) | (?=[\u4e00-\u9fff{HOLE[1:-1]}])")
_PIECES = re.compile(rf"[a-z0-9]+~?|{HOLE}|[^\s,;]")


def read(masked: str, spans: tuple[Span, ...]) -> Reading:
    """The reading of a normalised question whose spans are cut out."""
    text = lowered(_BLANK.sub("", masked))
    text = text if _WRITTEN.search(text) else simplified(text)
    text = _BLANK.sub("", chinese_frames.bare(text))
    strict = _METALINGUISTIC.search(text) is not None
    text, setting = chinese_words.setting(chinese_asking.spelled(text))
    asked = chinese_asking.asked(text)
    words = chinese_words.folded(asked.text, asked.ask, strict=strict)
    pieces = tuple(_filled(piece, spans) for piece in _PIECES.findall(words))
    place = tuple(sorted("".join(_filled(letter, spans) for letter in name) for name in setting))
    return Reading("zh", asked.ask, pieces, (), place)


def _filled(piece: str, spans: tuple[Span, ...]) -> str:
    if not (len(piece) == 1 and FIRST <= ord(piece) <= LAST):
        return piece
    span = spans[ord(piece) - FIRST]
    return span.text if span.kind == "number" else f"{span.kind}:{span.text}"
