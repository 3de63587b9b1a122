"""Changes inside system prompts and old messages are told apart, the particular before the general."""

import pytest

from services.proxy.causes.blocks import enclosing, is_workspace
from services.proxy.causes.prose import change_of, recognise

TOKEN = "x-anthropic-billing-header: cc_version={}; cc_entrypoint=cli; cch={};"


def code(old: str, new: str, older: tuple[str, ...] = ()) -> str | None:
    texts = tuple(text.encode() for text in older)
    return recognise(change_of(old.encode(), new.encode(), 0, texts))


def framed(text: str) -> str:
    return f"You are X.\n{text}\n" + "Rules. " * 200


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (TOKEN.format("2.1.90.aaa", "11111"), TOKEN.format("2.1.90.aaa", "22222")),
        (TOKEN.format("2.1.332.a1f", "0"), TOKEN.format("2.1.332.9c0", "0")),
        (
            TOKEN.format("2.1.90", "1") + "\nYou are a helper.",
            TOKEN.format("2.1.90", "2") + "\nYou are a helper.",
        ),
    ],
)
def test_an_accounting_token_is_recognised(old: str, new: str) -> None:
    assert code(old, new) == "client_attribution_token"


def test_a_change_behind_the_token_is_not_the_tokens() -> None:
    head = TOKEN.format("2.1.90", "1") + "\n"
    assert code(head + "Be brief.", head + "Be thorough.") is None


SNAPSHOTS = [
    (
        "<env>\nIs git repo: yes\ngit status:\n M a.py\n</env>",
        "<env>\nIs git repo: yes\ngit status:\n M a.py\n?? b\n</env>",
    ),
    (
        "gitStatus: branch main\nRecent commits:\nabc1234 one",
        "gitStatus: branch main\nRecent commits:\n1234abc two\nabc1234 one",
    ),
    ("## Workspace\nbranch: main (clean)", "## Workspace\nbranch: main (2 modified)"),
    ("<git>\nahead of origin/main by 3 commits\n</git>", "<git>\nahead of origin/main by 4 commits\n</git>"),
    ("# Current Working Directory (/x) Files\na.py", "# Current Working Directory (/x) Files\na.py\nb.py"),
    ("【工作区】\n当前分支：main", "【工作区】\n当前分支：dev"),
]


@pytest.mark.parametrize(("old", "new"), SNAPSHOTS)
def test_a_work_tree_block_is_a_snapshot(old: str, new: str) -> None:
    assert code(framed(old), framed(new)) == "workspace_snapshot"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Always commit your work early.", "Always commit your work late."),
        ("The user is Anna.", "The user is Bert."),
        ("Use git when asked.", "Use tools when asked."),
        ("session 8f3ab2c1-1111-4222", "session 7e2ab2c1-9999-4222"),
    ],
)
def test_ordinary_edits_have_no_particular_name(old: str, new: str) -> None:
    assert code(framed(old), framed(new)) is None


def test_only_the_date_in_a_git_block_is_still_a_date() -> None:
    block = "<env>\nIs git repo: yes\ngit status: clean\nToday's date: {}\n</env>"
    assert code(framed(block.format("2026-07-09")), framed(block.format("2026-07-10"))) == "date_rollover"


def test_a_clock_beside_another_edit_is_what_breaks_first() -> None:
    assert code(framed("now 10:41 tea"), framed("now 10:42 coffee")) == "timestamp"


def test_an_edit_before_a_clock_is_what_breaks_first() -> None:
    assert code(framed("tea at 10:41"), framed("coffee at 10:42")) is None


def test_a_block_is_dynamic_only_when_it_changed_before_too() -> None:
    one, two, three = (
        framed(f"<memory>\n{text}\n</memory>") for text in ("likes tea", "likes tests", "works late")
    )
    assert code(two, three) is None
    assert code(two, three, (two,)) is None
    assert code(two, three, (one,)) == "dynamic_block"


def test_a_change_elsewhere_before_does_not_make_a_block_dynamic() -> None:
    two, three = (framed(f"<memory>\n{text}\n</memory>") for text in ("likes tests", "works late"))
    assert code(two, three, (two.replace("You are X", "You are Y"),)) is None


def test_the_innermost_block_is_found() -> None:
    text = "<a>\n<b>\nhere\n</b>\n</a>"
    assert enclosing(text, text.index("here")).title == "b"
    text = "# One\nx\n\n# Two\nhere\n\n# Three\ny"
    assert enclosing(text, text.index("here")).title == "Two"


def test_a_place_outside_of_a_work_tree_block_is_not_in_it() -> None:
    text = "Be kind.\n\n<git_status>\nOn branch main\n</git_status>\n\nBe brief."
    assert is_workspace(text, text.index("main"), text.index("main") + 4)
    assert not is_workspace(text, text.index("brief"), text.index("brief") + 5)
