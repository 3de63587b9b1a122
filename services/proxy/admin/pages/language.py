"""The languages of the pages: which one a reader gets, and what each text is in it. Pure.

English is the text in the code; `zh.json` maps it to Chinese. A test holds the map complete.
"""

import json
from collections.abc import Mapping
from pathlib import Path

LANGUAGES = {"en": "English", "zh": "中文"}
COOKIE = "metalanchor_lang"


class Speech:
    """Says English texts in one language. `code` is ``en`` or ``zh``."""

    def __init__(self, code: str, texts: Mapping[str, str]) -> None:
        self.code, self.texts = code, texts

    def __call__(self, text: str, **values: object) -> str:
        """The text in this language, its ``{names}`` filled in; one that is not translated stays English."""
        said = self.texts.get(text, text)
        return said.format(**values) if values else said


def load() -> dict[str, Speech]:
    """Every language by its code."""
    path = Path(__file__).with_name("zh.json")
    return {"en": Speech("en", {}), "zh": Speech("zh", json.loads(path.read_text("utf-8")))}


ENGLISH = Speech("en", {})


def choose(wanted: str | None, kept: str | None, accepted: str | None) -> str:
    """The language of a request: asked for in its address, else kept in the cookie, else Accept-Language."""
    for code in (wanted, kept, *_accepted(accepted or "")):
        if code in LANGUAGES:
            return code
    return "en"


def _accepted(header: str) -> list[str]:
    """Main subtags of an Accept-Language header, best first."""
    found = []
    for place, part in enumerate(header[:500].split(",")):
        tag, _, weight = part.strip().partition(";")
        found.append((-_weight(weight), place, tag.strip().partition("-")[0].lower()))
    return [code for _, _, code in sorted(found)]


def _weight(text: str) -> float:
    try:
        return float(text.strip().removeprefix("q=") or 1)
    except ValueError:
        return 0.0
