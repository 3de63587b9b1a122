"""Every short word of the cache has its sentence; pure."""

import json
import re
from pathlib import Path

from services import docs
from services.proxy.answers.reasons import BYPASSES, RULES, VERDICTS, meaning
from services.semantic.judge import judge

SOURCES = [*(docs.ROOT / "services/proxy").rglob("*.py"), docs.ROOT / "services/semantic/eligible.py"]
# `Bypass("x")`, `UnkeyedError("x")`, and the groups of members that `eligible` names.
REASON = re.compile(
    r'(?:Bypass|UnkeyedError)\("([a-z_]+)"\)|bypass:([a-z_-]+)"|^    \("([a-z]+)", frozenset', re.MULTILINE
)
PAIRS = Path(__file__).parents[2] / "semantic" / "pairs.jsonl"


def test_every_reason_in_the_code_has_a_sentence():
    """And so metrics a label: no reason is `other`."""
    found = {word for path in SOURCES for group in REASON.findall(path.read_text("utf-8")) for word in group}
    assert {"volatile", "agentic", "too_large", "no-cache"} <= found
    assert found - {""} <= set(BYPASSES)


def test_every_rule_of_the_judge_has_a_sentence():
    """Those that decide the labelled pairs."""
    pairs = [json.loads(line) for line in PAIRS.read_text("utf-8").splitlines()]
    rules = {judge(pair["a"], pair["b"]).rule for pair in pairs[::3]}
    assert len(rules) > 10
    assert rules <= set(RULES)


def test_verdicts_mean_something():
    """What nobody knows means nothing."""
    assert meaning("miss") == VERDICTS["miss"]
    assert meaning("bypass:volatile") == BYPASSES["volatile"]
    assert meaning("bypass:new") is None
    assert meaning(None) is None
