"""The words by which a stored answer can be found again, as keyed hashes. Pure.

Words are runs of letters and digits, case and width folded; text without spaces between words (Chinese,
Japanese, Korean) is taken by its characters and pairs of neighbours. So a keyword finds its answers by
looking at its own words alone, and Redis holds no word that can be read.
"""

import re
import unicodedata
from collections.abc import Iterable

from services.proxy.key import keyed

# An answer with more words than that is listed under `every` and goes with any keyword: dropping too much
# costs a miss, dropping too little serves what should be gone. A page of text has some 250 different words.
MOST = 1_024
NAME_BYTES = 10
KEYWORD_TERMS = 64

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_PIECES = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_IS_CJK = re.compile(rf"[{_CJK}]")


def name_of(key: bytes, kind: str, value: str) -> bytes:
    """The name of an index set: ten bytes that only this installation can make."""
    return bytes.fromhex(keyed(key, "answers index", kind, value))[:NAME_BYTES]


def every(key: bytes) -> bytes:
    """The index set of the answers that have too many words."""
    return name_of(key, "every word", "")


def terms_of(key: bytes, texts: Iterable[str]) -> list[bytes]:
    """The index sets of what these texts say."""
    found: set[str] = set()
    for text in texts:
        found.update(_words(text))
        if len(found) > MOST:
            return [every(key)]
    return [name_of(key, "word", word) for word in sorted(found)]


def wanted(key: bytes, keyword: str) -> list[bytes]:
    """The index sets whose common answers say `keyword`; empty where it has no word."""
    return [name_of(key, "word", word) for word in sorted(_narrow(keyword))[:KEYWORD_TERMS]]


def _words(text: str) -> Iterable[str]:
    """Single characters too, so that a keyword of one is found."""
    for piece in _pieces(text):
        if _IS_CJK.match(piece):
            yield from piece
            yield from _pairs(piece)
        else:
            yield piece


def _narrow(text: str) -> set[str]:
    """The fewest words that say the same: pairs imply their characters."""
    found: set[str] = set()
    for piece in _pieces(text):
        found.update(_pairs(piece) if len(piece) > 1 and _IS_CJK.match(piece) else [piece])
    return found


def _pieces(text: str) -> list[str]:
    return _PIECES.findall(unicodedata.normalize("NFKC", text).casefold())


def _pairs(piece: str) -> list[str]:
    return [piece[i : i + 2] for i in range(len(piece) - 1)]
