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
        ("X-Acme-Attribution: run=17; user=b\nYou are X.", "X-Acme-Attribution: run=18; user=b\nYou are X."),
        ("  x-openclaw-billing: 9f\nYou are X.", "  x-openclaw-billing: a0\nYou are X."),
    ],
)
def test_an_accounting_token_is_recognised(old: str, new: str) -> None:
    assert code(old, new) == "client_attribution_token"


def test_a_change_behind_the_token_is_not_the_tokens() -> None:
    head = TOKEN.format("2.1.90", "1") + "\n"
    assert code(head + "Be brief.", head + "Be thorough.") is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x-request-id: 8f3ab2\nYou are X.", "x-request-id: 9d3ab2\nYou are X."),
        ("The x-acme-billing: header names the payer a.", "The x-acme-billing: header names the payer b."),
        ("Rules. " * 300 + "\nx-acme-billing: a;", "Rules. " * 300 + "\nx-acme-billing: b;"),
        ("You are X.", TOKEN.format("2.1.90", "1") + "\nYou are X."),
    ],
)
def test_what_only_looks_like_an_accounting_token_is_none(old: str, new: str) -> None:
    """Another header, a sentence about one, one far behind the head, and one that came or went as a whole."""
    assert code(old, new) != "client_attribution_token"


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
    ("<open_tabs>\na.py\n</open_tabs>", "<open_tabs>\na.py\nb.py\n</open_tabs>"),
    ("## Project structure\nsrc/\n  a.py\n", "## Project structure\nsrc/\n  a.py\n  b.py\n"),
    ("Status:\n M src/a.py\n?? b.txt", "Status:\n M src/a.py\n M src/c.py\n?? b.txt"),
    ("[Repository]\nHEAD is at 1a2b3c4", "[Repository]\nHEAD is at 5d6e7f8"),
    ("## 目录结构\nsrc/a.py", "## 目录结构\nsrc/a.py\nsrc/b.py"),
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
        ("Answer in English.", "Answer in German."),
        ("If the branch of a decision is unclear, ask.", "If the path of a decision is unclear, ask."),
        ("保持简短。", "保持详细。"),
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


@pytest.mark.parametrize(
    "block",
    [
        "## Memory\n{}\n\n## Rules\nBe kind.",
        "【记忆】\n{}\n\n【规则】\n保持礼貌。",
        "[Profile]\n{}\n\n[Tone]\nKind.",
    ],
)
def test_a_titled_block_that_keeps_changing_is_dynamic(block: str) -> None:
    """Headings of any common form; one that also changed outside of the block is an edit."""
    one, two, three = (framed(block.format(text)) for text in ("likes tea", "likes tests", "works late"))
    assert code(two, three, (one,)) == "dynamic_block"
    assert code(two, three.replace("You are X", "You are Y"), (one,)) is None


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
