"""An explanation as a person reads it."""

import click

from services.cli.explain import diff, lines

FOUND = {
    "id": "01a", "parent_id": "019", "relation": "append", "hit": "prefix",
    "predicted": {"reuse": 0.5, "tokens": 1000, "chunks": 2},
    "observed": {
        "prompt_tokens": 2000, "cached_tokens": 990, "source": "timings", "confidence": None, "reuse": 0.495,
    },
    "diverged_at": "system", "byte_offset": 120, "offset_precision": 1, "before": "Time: 10:15 UTC\nGo",
    "after": "Time: 10:16 UTC\nGo", "equal_after_divergence": 900,
    "causes": [{"code": "timestamp", "at": "system", "detail": {"inserted": 1}, "severity": "break"}],
    "evicted_by": None, "lost_tokens": 1000, "lost_ms": 2500.0, "advice": "Move the clock.", "fixes": [],
}  # fmt: skip


def test_everything_known_is_told():
    """Figures, place, both excerpts, cause and advice, each once."""
    text = click.unstyle("\n".join(lines(FOUND)))
    for part in (
        "Predicted  50.0% reusable (1,000 tokens)",
        "Measured   49.5% reused (990 of 2,000 tokens; timings)",
        "Lost       1,000 tokens, about 2.5 s",
        "Diverged   system at byte 120; 900 bytes behind it are equal again",
        "- Time: 10:15 UTC⏎Go",
        "+ Time: 10:16 UTC⏎Go",
        "timestamp [break] at system  inserted 1",
        "Advice     Move the clock.",
    ):
        assert text.count(part) == 1


def test_of_several_causes_the_first_is_said_to_carry_the_loss():
    """Only breaks and losses are costs; a note beside one of them changes nothing."""
    second = {"code": "timestamp", "at": "system", "detail": {}, "severity": "break"}
    first = {"code": "tool_reorder", "at": "tools[0]", "detail": {}, "severity": "break"}
    note = {"code": "retry_of", "at": None, "detail": {}, "severity": "note"}
    both = click.unstyle("\n".join(lines({**FOUND, "causes": [first, second]})))
    assert "Lost       1,000 tokens, about 2.5 s, all booked to the first cause, tool_reorder" in both
    assert "booked" not in "\n".join(lines({**FOUND, "causes": [second, note]}))


def test_unknown_is_not_zero():
    """What nobody reported is said to be unknown."""
    bare = dict.fromkeys(FOUND) | {
        "predicted": dict.fromkeys(FOUND["predicted"]),
        "observed": dict.fromkeys(FOUND["observed"]),
        "causes": [],
    }
    text = "\n".join(lines(bare))
    assert "Predicted  unknown\nMeasured   the engine did not say" in text
    assert " 0" not in text
    counted = {**FOUND, "observed": {**FOUND["observed"], "source": None}}
    assert "990 of 2,000 tokens; source unknown" in "\n".join(lines(counted))


def test_details_are_words():
    """A list is its items, what is not known is left out, and an option that was not set says so."""
    causes = [
        {"code": "tools_added", "severity": "break", "detail": {"names": ["a", "b"], "intervening": None}},
        {"code": "model_reload", "severity": "loss", "detail": {"option": "num_ctx", "old": None, "new": 8}},
        {
            "code": "evicted_by",
            "severity": "loss",
            "detail": {"kind": "fork", "agent": None, "session": None},
        },
    ]
    text = click.unstyle("\n".join(lines({**FOUND, "causes": causes})))
    assert "tools_added [break]  names a b\n" in text
    assert "model_reload [loss]  option num_ctx, old unset, new 8\n" in text
    assert "evicted_by [loss]  kind fork\n" in text
    assert "None" not in text


def test_a_block_offset_says_how_exact_it_is():
    """Where only block hashes were at hand, the offset is within a block, and there is no excerpt."""
    text = click.unstyle("\n".join(lines({**FOUND, "offset_precision": 64, "before": None, "after": None})))
    assert "(to within 64 bytes)" in text
    assert "10:15" not in text


def test_only_the_difference_is_coloured():
    """Equal text around the change stays plain, also where one side is contained in the other."""
    old, new = diff("abcXdef", "abcYYdef")
    assert click.style("X", fg="red", bold=True) in old
    assert click.style("YY", fg="green", bold=True) in new
    assert click.unstyle(diff("aa", "aaa")[1]).endswith("aaa")


def test_prompt_text_cannot_drive_the_terminal():
    """Escape sequences in a prompt are shown as marks."""
    assert "\x1b[2J" not in "".join(diff("a\x1b[2Jb", "ab"))


def test_the_exact_token_is_shown_with_its_text():
    """The token, the byte of the rendered prompt and both sides; no token where the backend tells none."""
    exact = {
        "token": 1204, "tokens": 2000, "parent_tokens": 1990, "byte_offset": 4821, "broken": True,
        "before": "It is 10:41 now", "after": "It is 10:42 now",
    }  # fmt: skip
    text = click.unstyle("\n".join(lines({**FOUND, "exact": exact})))
    assert "part at token 1,204 of 2,000, byte 4,821 of the rendered prompt" in text
    assert "+ It is 10:42 now" in text
    text = "\n".join(lines({**FOUND, "exact": {**exact, "token": None, "tokens": None}}))
    assert "part at byte 4,821 of the rendered prompt" in text
    text = "\n".join(lines({**FOUND, "exact": {**exact, "broken": False}}))
    assert "the whole rendered prompt before it is kept" in text
