"""Which language a reader gets, and that Chinese is complete; pure."""

import ast
import re
from pathlib import Path

import pytest

from services.history.ready import QUERIES
from services.proxy.admin.metrics import CAUSES
from services.proxy.admin.pages import cache, meanings, now, sentence, site, trends
from services.proxy.admin.pages.language import choose, load
from services.proxy.answers import reasons
from services.proxy.settling.advice import ADVICE
from services.record import HITS, STATUSES

ADMIN = Path(site.__file__).parent.parent
TABLES = (
    meanings.HITS, meanings.STATUSES, meanings.RELATIONS, meanings.STATES, meanings.PHASES,
    meanings.SEVERITIES, meanings.CHUNKS, meanings.CHUNK_STATES, meanings.HEALTH, meanings.OVERALL,
    reasons.VERDICTS, reasons.BYPASSES, reasons.RULES, cache.CHOICES,
)  # fmt: skip
NO_TEXT = {"engine_unknown", "cause"}  # codes that stand inside a call of `say`


def said_in_templates() -> set[str]:
    """Every text in a template's call of `say`."""
    found = set()
    for path in (ADMIN / "templates").glob("*.html"):
        found |= {a or b for a, b in re.findall(r"say\(\s*(?:\"([^\"]*)\"|'([^']*)')", path.read_text())}
    return found


def said_in_code() -> set[str]:
    """Every text in a page module's call of `say`."""
    found: set[str] = set()
    for path in (ADMIN / "pages").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "say" and node.args:
                inside = [part for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
                found |= {part.value for part in inside if isinstance(part.value, str) and part.value}
    return found - NO_TEXT


def said_from_tables() -> set[str]:
    """Every text that the pages say from data."""
    found = {text for table in TABLES for text in table.values()}
    found |= {text for meaning in meanings.CAUSES.values() for text in meaning}
    found |= {advice.text for advice in ADVICE} | {query.title for query in QUERIES}
    found |= {name for _, name in site.PAGES} | {name for _, name in sentence.SPANS}
    found |= {name for _, _, name in trends.SPANS.values()} | {*now.SAID, *trends.SAID, *cache.SAID}
    return found | {role for role in meanings.ROLES.values() if role}


def test_every_text_is_there_in_chinese_and_none_is_left_over():
    """What a page can say has a translation; a translation is of something that a page can say."""
    wanted = said_in_templates() | said_in_code() | said_from_tables()
    translated = set(load()["zh"].texts)

    assert wanted - translated == set()
    assert translated - wanted == set()


def test_a_translation_fills_in_the_same_names():
    """Nothing is dropped that the English sentence tells."""
    for english, chinese in load()["zh"].texts.items():
        assert set(re.findall(r"\{\w+\}", chinese)) == set(re.findall(r"\{\w+\}", english)), english


def test_the_scripts_say_nothing_untranslated():
    """Each text in a script's call of `say` is among those that its page hands over."""
    for name, said in (("now", now.SAID), ("trends", trends.SAID)):
        script = (ADMIN / "static" / f"{name}.js").read_text("utf-8")
        assert set(re.findall(r"\bsay\(\s*\"([^\"]+)\"", script)) <= set(said)


def test_every_code_of_the_contract_has_words():
    """A cause, hit or outcome that the proxy can name is explained."""
    assert set(meanings.CAUSES) >= CAUSES
    assert set(meanings.HITS) == set(HITS)
    assert set(meanings.STATUSES) == set(STATUSES)


@pytest.mark.parametrize(
    ("wanted", "kept", "accepted", "code"),
    [
        (None, None, None, "en"),
        (None, None, "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        (None, None, "fr, en;q=0.5, zh;q=0.7", "zh"),
        (None, None, "de", "en"),
        (None, "zh", "en", "zh"),
        ("en", "zh", "zh", "en"),
        ("tlh", "zh", None, "zh"),
        (None, None, "zh;q=nonsense, en;q=0.1", "en"),
        (None, None, ";;;,,,", "en"),
    ],
)
def test_the_language_of_a_request(wanted, kept, accepted, code):
    """What the address says comes first, then the cookie, then the browser's own order."""
    assert choose(wanted, kept, accepted) == code
