"""The chunk strip as numbers; pure."""

from array import array

import pytest

from services.proxy.admin.pages.language import ENGLISH
from services.proxy.admin.pages.strip import NARROW, WIDTH, draw
from services.proxy.admin.strips import Strip, blocks_of

ROW = {
    "chunk_hashes": "0123456789abcdef" * 4, "message_count": 2, "tools_hash": "t", "system_hash": "s",
    "parent_id": "p", "reused_chunks": 1, "predicted_reuse": 0.3, "prompt_tokens": 1_000,
    "cached_tokens": 250, "causes": [],
}  # fmt: skip


def strip(kinds, *sizes):
    """A remembered strip; every message is a user's."""
    return Strip(kinds, "".join("u" if kind == "m" else "-" for kind in kinds), array("q", sizes))


def shown(row, remembered):
    """Kind and state of each block."""
    return [(block.kind, block.state) for block in blocks_of(row, remembered)]


def test_widths_are_by_size_and_tokens_by_share():
    """The prompt's own token count is spread over the chunks."""
    blocks = blocks_of(ROW, strip("tsmm", 100, 300, 500, 100))

    assert [block.share for block in blocks] == [0.1, 0.3, 0.5, 0.1]
    assert [block.tokens for block in blocks] == [100, 300, 500, 100]
    assert [block.state for block in blocks] == ["reused", "changed", "again", "again"]


def test_without_sizes_blocks_are_alike_and_tokens_unknown():
    """From a row alone: kinds as far as it tells them."""
    blocks = blocks_of(ROW, None)

    assert [block.share for block in blocks] == [0.25] * 4
    assert [block.kind for block in blocks] == ["t", "s", "m", "m"]
    assert {block.tokens for block in blocks} == {None}


def test_a_request_compared_with_nothing_has_no_changed_chunk():
    """It is new, not different."""
    row = {**ROW, "parent_id": None, "reused_chunks": 2}

    assert [state for _, state in shown(row, None)] == ["reused", "reused", "again", "again"]


@pytest.mark.parametrize(
    ("changes", "states"),
    [
        ({"reused_chunks": 3}, ["reused", "reused", "reused", "changed"]),
        (
            {"reused_chunks": 2, "causes": [{"at": "params.think"}]},
            ["changed", "reused", "reused", "changed"],
        ),
        ({"reused_chunks": 2, "parent_id": None}, ["again", "reused", "reused", "again"]),
    ],
)
def test_parameters_count_as_reused_only_when_equal(changes, states):
    """They stand first in the prompt, but do not end its common part."""
    assert [state for _, state in shown({**ROW, **changes}, strip("psmm", 10, 300, 500, 100))] == states


def test_a_row_that_was_not_analysed_has_no_strip():
    """Nothing to draw."""
    drawing = draw(blocks_of({"chunk_hashes": None}, None), {"cached_tokens": None}, exact=False, say=ENGLISH)

    assert drawing.parts == []
    assert drawing.measured is None


def test_the_chunk_that_differs_is_split_where_it_differs():
    """What stands before the first differing byte is reusable."""
    drawing = draw(blocks_of(ROW, strip("tsmm", 100, 300, 500, 100)), ROW, exact=True, say=ENGLISH)

    assert [(part.x, part.width, part.state) for part in drawing.parts] == [
        (0, 100, "reused"),
        (100, 200, "reused"),
        (300, 100, "changed"),
        (400, 500, "again"),
        (900, 100, "again"),
    ]
    assert drawing.measured == 250
    assert drawing.counts == {"reused": 1, "changed": 1, "again": 2}


def test_very_many_chunks_run_together_but_are_all_listed():
    """A drawing of a thousand messages has no more parts than can be told apart."""
    row = {**ROW, "reused_chunks": 900}
    drawing = draw(blocks_of(row, strip("m" * 1_000, *[10] * 1_000)), row, exact=True, say=ENGLISH)

    assert len(drawing.parts) <= WIDTH / NARROW + 3
    assert sum(part.width for part in drawing.parts) == pytest.approx(WIDTH)
    assert len(drawing.lines) == 1_000
