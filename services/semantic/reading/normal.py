"""One spelling for what is typed in several ways: width, quotes, apostrophes, white space, script. Pure."""

import json
import re
import unicodedata
from importlib import resources

_SUPERSCRIPTS = {ord(raised): f"^{digit}" for digit, raised in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
# Apostrophes and quotes keep their direction only where a pair of them encloses something.
_MARKS = str.maketrans({
    "‘": "'", "’": "'", "´": "'", "＇": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "「": '"',
    "」": '"', "『": '"', "』": '"', "–": "-", "—": "-", "−": "-", "…": ".", "、": ",", "。": ".",
})  # fmt: skip
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_SPACES = re.compile(r"\s+")
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile(r"[A-Za-zÀ-ɏ]")


# Words of other languages in Latin letters; two of them tell that a question is not in English.
_FOREIGN = frozenset({
    "al", "auf", "avec", "che", "como", "con", "cuál", "cómo", "da", "dans", "das", "de", "del", "della",
    "dem", "den", "der", "des", "di", "dos", "du", "dónde", "een", "ein", "eine", "einen", "el", "elle",
    "em", "es", "est", "et", "für", "gli", "het", "hoe", "ich", "ik", "il", "ist", "je", "la", "las", "le",
    "les", "lo", "los", "mais", "mit", "na", "ne", "nicht", "niet", "non", "nous", "não", "os", "ou", "où",
    "para", "pas", "perché", "por", "porque", "pour", "que", "qui", "quoi", "qué", "sono", "su", "sur",
    "um", "uma", "una", "und", "une", "uno", "unos", "van", "von", "voor", "vous", "waarom", "warum", "wat",
    "wer", "wie", "wir", "y", "zijn", "zu", "è", "é",
})  # fmt: skip
_MARKED = re.compile("[¿¡]")


def _table() -> dict[int, str]:
    data = json.loads(resources.files(__package__).joinpath("data/traditional.json").read_text("utf-8"))
    return str.maketrans(dict(zip(data["traditional"], data["simplified"], strict=True)))


_SIMPLIFIED = _table()


def spaced(text: str) -> str:
    """White space at the ends dropped, runs of it made one blank; nothing else changed."""
    return _SPACES.sub(" ", text).strip()


def normal(text: str) -> str:
    """Full-width forms made narrow, typographic marks made plain, white space made single."""
    folded = unicodedata.normalize("NFKC", text.translate(_SUPERSCRIPTS))
    return spaced(_INVISIBLE.sub("", folded.translate(_MARKS)))


def simplified(text: str) -> str:
    """Traditional characters made simplified ones, character by character."""
    return text.translate(_SIMPLIFIED)


def script(text: str) -> str:
    """``zh`` where there is any Chinese, ``en`` where it may be English, else ``other``."""
    if _HAN.search(text) and not re.search(r"[\u3040-\u30ff\uac00-\ud7af]", text):
        return "zh"
    if not all(_LATIN.match(letter) for letter in _LETTER.findall(text)):
        return "other"
    return "other" if _MARKED.search(text) or len(_FOREIGN & set(text.lower().split())) > 1 else "en"
