"""`metalanchor cache judge`: pairs in, verdicts out, by the path that live requests take."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from services.cli import cli
from services.semantic import embeddings
from services.semantic.ruling import decide

SAME = {"a": "How do I boil an egg?", "b": "how can I boil an egg", "note": "more is passed over"}
APART = {"a": "怎么打开灯？", "b": "怎么关闭灯？"}


def run(text: str) -> Any:
    return CliRunner().invoke(cli, ["cache", "judge"], input=text.encode())


def test_each_pair_gets_one_verdict_in_order():
    """By the bundled model: similarity proposes, the gate decides, the rule is named."""
    result = run("\n".join(["", json.dumps(SAME), json.dumps(APART, ensure_ascii=False), ""]))
    first, second = [json.loads(line) for line in result.output.splitlines()]
    assert list(first) == ["same", "similarity", "rule"]
    assert (first["same"], first["rule"]) == (True, "equal")
    assert 0.85 < first["similarity"] <= 1
    assert (second["same"], second["rule"]) == (False, "opposite")
    assert second["similarity"] > 0.85


def test_without_embeddings_the_gate_decides_alone(monkeypatch: pytest.MonkeyPatch):
    """Similarity is null then."""
    monkeypatch.setattr(embeddings, "open_embedder", lambda settings: None)
    result = run(json.dumps(SAME) + "\n" + json.dumps(APART))
    assert [json.loads(line)["same"] for line in result.output.splitlines()] == [True, False]
    assert {json.loads(line)["similarity"] for line in result.output.splitlines()} == {None}


@pytest.mark.parametrize("line", ["{", '{"a": "x"}', '{"a": 1, "b": "x"}', "[]", '{"a": "\\ud800"'])
def test_a_line_that_is_no_pair_ends_with_its_number(line: str):
    """What came before it is answered."""
    result = run(json.dumps(SAME) + "\n" + line + "\n")
    assert result.exit_code == 1
    assert "Line 2 is no JSON object" in result.output
    assert '"same":true' in result.output


def test_a_line_without_end_is_refused():
    """Input is read a line at a time, and a line is bounded."""
    result = run("x" * ((1 << 20) + 2))
    assert result.exit_code == 1
    assert "Line 1 is longer" in result.output


def test_what_is_equal_in_words_but_far_in_meaning_is_refused():
    """The threshold is part of the verdict."""
    assert decide("a b", "a b", 0.2, 0.85).rule == "similarity"
    assert decide("a b", "a b", 0.9, 0.85).same
    assert decide("a b", "a b", None, 0.85).same
