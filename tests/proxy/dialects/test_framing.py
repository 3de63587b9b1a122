"""Streams cut anywhere: events and lines come out whole, and nothing grows without bound."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.proxy.dialects import ndjson, sse
from services.proxy.dialects.decoding import Decoding, UndecodedError
from services.proxy.dialects.ndjson import Lines
from services.proxy.dialects.sse import Events
from tests.support.answers import pieces


def split(splitter, reads):
    return [item for data in reads for item in splitter.feed(data)] + splitter.close()


STREAM = (
    '﻿: comment\n\ndata: {"a": "日🌍"}\n\n'
    "event: ping\ndata: {}\n\n:\n\nid: 7\nretry: 5\ndata: one\ndata:two\n\n\n\ndata: last"
)  # fmt: skip
EVENTS = [(b"", '{"a": "日🌍"}'.encode()), (b"ping", b"{}"), (b"", b"one\ntwo"), (b"", b"last")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_events_are_whole_however_they_are_cut(end, size):
    """A BOM, comments, ids, several data lines, a missing last blank line, each kind of line end."""
    data = STREAM.replace("\n", end).encode()
    assert split(Events(), pieces(data, size)) == EVENTS


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_give_the_same_events_in_any_cut(data, size):
    """The cut never shows."""
    assert split(Events(), pieces(data, size)) == split(Events(), [data])
    assert split(Lines(), pieces(data, size)) == split(Lines(), [data])


def test_an_endless_line_is_dropped_and_counted(monkeypatch):
    """A server gone mad does not fill the memory, and what follows is read again."""
    monkeypatch.setattr(sse, "MAX_EVENT", 100)
    monkeypatch.setattr(ndjson, "MAX_LINE", 100)
    for splitter, good in ((Events(), b"\n\ndata: x\n\n"), (Lines(), b'\n{"a":1}\n')):
        for _ in range(50):
            splitter.feed(b"y" * 30)
            assert len(splitter._rest) <= 130
        assert splitter.feed(good)[-1][1] in (b"x", b'{"a":1}')
        assert splitter.dropped > 0


def test_lines_are_whole_without_blank_ones():
    """The last may lack its newline."""
    assert split(Lines(), pieces(b'{"a":1}\n\n{"b":2}\r\n{"c":3}', 2)) == [
        (b"", b'{"a":1}'),
        (b"", b'{"b":2}\r'),
        (b"", b'{"c":3}'),
    ]


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("", bytes),
        ("identity", bytes),
        ("gzip", gzip.compress),
        ("X-GZip ", gzip.compress),
        ("gzip", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_compressed_answers_are_decoded_as_they_pass(encoding, pack, size):
    """Members of gzip, one or several, deflate with and without its header, cut anywhere."""
    text = "data: 日🌍\n\n".encode() * 20
    decoding = Decoding(encoding)
    assert b"".join(decoding.decode(data) for data in pieces(pack(text), size)) == text


@pytest.mark.parametrize(
    ("encoding", "reason"),
    [("br", "encoding_br"), ("zstd", "encoding_zstd"), ("gzip, br", "encoding_gzipbr")],
)
def test_unknown_encodings_say_which(encoding, reason):
    """They are relayed all the same, but nobody here reads them."""
    with pytest.raises(UndecodedError, match=reason):
        Decoding(encoding)


def test_a_header_that_lies_is_noticed():
    """Plain text announced as gzip."""
    with pytest.raises(UndecodedError, match="encoding_broken"):
        Decoding("gzip").decode(b"data: plain\n\n")


def test_a_bomb_is_given_up():
    """A few kilobytes that claim to be a gigabyte cost a few milliseconds."""
    bomb = gzip.compress(b"\0" * (64 << 20))
    with pytest.raises(UndecodedError, match="encoding_too_large"):
        Decoding("gzip").decode(bomb)


def test_a_slow_bomb_is_given_up_too(monkeypatch):
    """In small reads it reaches the total bound."""
    monkeypatch.setattr("services.proxy.dialects.decoding.MAX_TOTAL", 1 << 20)
    decoding = Decoding("gzip")
    reads = pieces(gzip.compress(b"\0" * (8 << 20)), 100)
    with pytest.raises(UndecodedError, match="encoding_too_large"):
        b"".join(map(decoding.decode, reads))
