"""Block digests: enough to find an offset to within a block from either end, nothing to guess text from."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.proxy.placing.marks import MOST_BLOCKS, MarkCache, Marker, _cost, block_length
from services.proxy.placing.pieces import Piece, same, seen, span
from services.proxy.placing.spans import divergence
from services.proxy.prompt import Chunk, Section

KEY = bytes(range(32))


def blind(text, key=KEY):
    path, kind, label, size, digest, head, tail = Marker(key).mark(Section("", "text", text))
    return Piece(path, kind, label, size, None, digest, head, tail, Marker(key))


def plain(text):
    return seen(Section("", "text", text))


texts = st.text(max_size=2000).map(str.encode)


@given(texts, texts, texts, texts)
def test_an_offset_found_blindly_is_within_one_block_before_the_true_one(head, old, new, tail):
    before, now = head + b"|" + old + b"|" + tail, head + b"|" + new + b"|" + tail
    if before == now:
        assert same(blind(before), plain(now))
        return
    assert not same(blind(before), plain(now))
    offset, suffix = divergence(before, now)
    for found in (span(blind(before), plain(now)), span(blind(before), blind(now))):
        if found.precision == block_length(len(before)) or len(before) != len(now):
            assert found.offset <= offset + 4  # a character may straddle the border of two equal blocks
            assert found.offset + found.suffix <= min(len(before), len(now))
            assert found.suffix <= suffix + 4


def test_blind_and_seen_agree_to_the_block_in_a_long_text():
    text = bytes(32 + n * 7 % 90 for n in range(9000))
    changed = text[:5000] + b"<inserted>" + text[5000:]
    found = span(blind(text), plain(changed))
    assert found.precision == 64
    assert 5000 - 64 < found.offset <= 5000
    assert 4000 - 64 < found.suffix <= 4000


@pytest.mark.parametrize("size", [0, 1, 64, 65, 16_384, 16_385, 8 << 20])
def test_the_number_of_blocks_is_bounded(size):
    assert size <= block_length(size) * MOST_BLOCKS


def test_digests_depend_on_the_installation():
    assert blind(b"hello").digest != blind(b"hello", bytes(32)).digest


def test_no_text_is_in_the_marks():
    text = b"my secret is 123456 " * 50
    piece = blind(text)
    assert b"secret" not in piece.digest + piece.head + piece.tail


def test_a_chunk_is_cut_and_marked_once_while_it_is_remembered():
    cut = []

    def sections(chunk):
        cut.append(chunk.hash)
        return [Section("", "text", chunk.raw)]

    chunks = [Chunk("message", i, "user", bytes([i]) * 20, 5, 0, 0, b"text" + bytes([i])) for i in range(5)]
    cache = MarkCache(KEY, 1 << 20)
    first = cache.marks(chunks[:4], sections)
    second = cache.marks(chunks, sections)
    assert len(cut) == 5
    assert second.sections[:4] == first.sections
    assert [mark[0] for mark in second.sections] == [0, 1, 2, 3, 4]


def test_the_memory_of_marks_is_bounded():
    cache = MarkCache(KEY, 2000)
    for i in range(100):
        chunk = Chunk("message", 0, "user", bytes([i]) * 20, 5, 0, 0, b"x" * 1000)
        cache.marks([chunk], lambda c: [Section("", "text", c.raw)])
    assert cache._bytes <= 2000


def test_threads_that_mark_at_once_disturb_neither_each_other_nor_the_bound():
    """A large prompt is marked in a thread while the event loop marks small ones."""
    cache = MarkCache(KEY, 2000)
    chunks = [Chunk("message", i, "user", bytes([i]) * 20, 5, 0, 0, b"x" * 100) for i in range(8)]

    def mark() -> None:
        for _ in range(2000):
            marks = cache.marks(chunks, lambda c: [Section("", "text", c.raw)])
            assert len(marks.sections) == 8

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(mark) for _ in range(4)]:
                done.result()
    finally:
        sys.setswitchinterval(interval)
    assert cache._bytes == sum(map(_cost, cache._held.values())) <= 2000
