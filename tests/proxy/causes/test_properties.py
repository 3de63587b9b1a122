"""Whatever two texts are, their differences rebuild them, and naming a change never fails."""

from hypothesis import given
from hypothesis import strategies as st

from services.proxy.causes.blocks import enclosing, is_workspace
from services.proxy.causes.hunks import edit_of
from services.proxy.causes.prose import change_of, is_blank, recognise
from services.proxy.causes.schema import equal_parsed

WORDS = (
    "10:41",
    "2026-07-09",
    "Jul 9",
    "45%",
    "v1.2",
    "<a>",
    "</a>",
    "# T",
    "\n",
    " ",
    "git",
    "branch",
    "年",
    "月",
    "é",
    "3",
)
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=30).map("".join)


@given(TEXTS, TEXTS)
def test_differences_rebuild_the_newer_text(old: str, new: str) -> None:
    edit = edit_of(old.encode("utf-8", "replace"), new.encode("utf-8", "replace"))
    rebuilt, at = "", 0
    for hunk in edit.hunks:
        assert at <= hunk.old_start <= hunk.old_end
        rebuilt += edit.old[at : hunk.old_start] + edit.new[hunk.new_start : hunk.new_end]
        at = hunk.old_end
    assert rebuilt + edit.old[at:] == edit.new


@given(TEXTS)
def test_a_text_does_not_differ_from_itself(text: str) -> None:
    raw = text.encode("utf-8", "replace")
    assert edit_of(raw, raw).hunks == ()
    assert recognise(change_of(raw, raw, 0)) is None
    assert not is_blank(raw, raw, 0)


@given(TEXTS, TEXTS, st.integers(0, 200))
def test_naming_a_change_never_fails(old: str, new: str, offset: int) -> None:
    left, right = old.encode("utf-8", "replace"), new.encode("utf-8", "replace")
    code = recognise(change_of(left, right, min(offset, len(left), len(right)), (right,)))
    assert code is None or code.islower()


@given(TEXTS, st.integers(0, 200))
def test_a_block_holds_the_place_it_was_found_for(text: str, place: int) -> None:
    place = min(place, len(text))
    block = enclosing(text, place)
    assert block.start <= place <= block.end <= len(text)
    assert is_workspace(text, place, place) in (True, False)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_unreadable_json_is_never_equal(left: bytes, right: bytes) -> None:
    assert equal_parsed(left, right) in (True, False)
    assert not equal_parsed(b"{", b"{")
