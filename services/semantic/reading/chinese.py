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
    r"|[^百千名]字|改写|润色|病句|区别|不同|不一样|差别|差异|全称|缩写|意思|含义|用[^,]{1,4}[语文](?:怎么)?[说写讲]|[语文]怎么[说写讲]|叫什么|称呼"
    r"|由来|来历|词源|谐音|几[画笔]|外号|绰号|藏头|韵|字母|谜|对联|别名|别称|俗称|学名|敬称|[英法德日韩俄中泰][语文](?:$|是|单词|词|名字?[是叫]|里|中)|粤语|方言|文言"
)
# Where characters themselves are, their two forms are two.
_WRITTEN = re.compile(r".字(?:怎|如|有|的|是)|繁体|简体|繁體|簡體|笔画|筆畫|部首")
_TONGUE = (
    "(?:[英法德日韩俄中泰粤汉藏]|西班牙|葡萄牙|意大利|阿拉伯|越南|印地|拉丁|广东|上海|闽南|四川|文)[语文话言]"
)
# What is to be translated or put into a sentence is quoted, with marks or without.
_MENTIONED = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<=[把将])(?P<it>.+)(?=翻?译[成为])",
        rf"^(?P<it>.+)(?=用{_TONGUE}怎么?[说写讲念])",
        rf"用{_TONGUE}怎么[说写讲念](?P<it>.+)",
        rf"^(?P<it>.+?)(?=的?{_TONGUE}(?:是什么|怎么?[说写讲念]|单词|叫什么))",
        r"^(?:请|帮我|麻烦|你|您)*翻译(?:一下|下)?(?![成到]|为[^什何啥])(?P<it>.+)",
        r"(?<=用)(?P<it>[^,]{1,6})(?=造一?个?句)",
    )
)
# Characters. What is longer is seldom asked in other words, and would take long to read; it is left as it is.
LONGEST = 300
_BLANK = re.compile(rf"(?<=[\u4e00-\u9fff{HOLE[1:-1]}]) | (?=[\u4e00-\u9fff{HOLE[1:-1]}])")
_PIECES = re.compile(rf"[a-z0-9]+~?|{HOLE}|[^\s,;]")


def read(masked: str, spans: tuple[Span, ...]) -> Reading:
    """The reading of a normalised question whose spans are cut out."""
    text = lowered(_BLANK.sub("", masked))
    text = text if _WRITTEN.search(text) else _plain(text)
    if len(text) > LONGEST:
        return Reading("zh", "", _pieces(text.rstrip(" .?!"), spans))
    text, spans = _quoted(text, spans)
    text = _BLANK.sub("", chinese_frames.bare(text))
    strict = _METALINGUISTIC.search(text) is not None
    text, setting = chinese_words.setting(chinese_asking.spelled(text))
    asked = chinese_asking.asked(text)
    words = chinese_words.folded(asked.text, asked.ask, strict=strict)
    place = tuple(sorted("".join(_filled(letter, spans) for letter in name) for name in setting))
    return Reading("zh", asked.ask, _pieces(words, spans), (), place)


def _pieces(text: str, spans: tuple[Span, ...]) -> tuple[str, ...]:
    return tuple(_filled(piece, spans) for piece in _PIECES.findall(text))


def _plain(text: str) -> str:
    """In simplified characters; words of Taiwan become mainland ones where traditional ones are typed."""
    plain = simplified(text)
    return plain if plain == text else chinese_words.mainland(plain)


def _quoted(text: str, spans: tuple[Span, ...]) -> tuple[str, tuple[Span, ...]]:
    """The text with a hole for what it mentions without marks, and that as one span more."""
    for pattern in _MENTIONED:
        found = pattern.search(text)
        if found is None or FIRST + len(spans) > LAST:
            continue
        pieces = [_filled(letter, spans) for letter in found["it"]]
        if not any(piece.startswith("quoted:") for piece in pieces):
            hole = chr(FIRST + len(spans))
            text = f"{text[: found.start('it')]}{hole}{text[found.end('it') :]}"
            spans = (*spans, Span("quoted", "".join(pieces).strip()))
        break
    return text, spans


def _filled(piece: str, spans: tuple[Span, ...]) -> str:
    if not (len(piece) == 1 and FIRST <= ord(piece) <= LAST):
        return piece
    span = spans[ord(piece) - FIRST]
    return span.text if span.kind == "number" else f"{span.kind}:{span.text}"
