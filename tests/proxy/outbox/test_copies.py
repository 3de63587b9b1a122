"""Copies of bodies for users who want them kept: bounded, masked, and less worth than any row."""

import gzip
import json
import zlib

import pytest

from services.bodies import Bodies, decode
from services.proxy.dialects import for_route
from services.proxy.outbox.copies import KEPT, Copies, Copy, Listening
from services.proxy.outbox.redaction import credentials, redacted


def a_copy(request: bytes = b"{}", answer: bytes = b"", encoding: str = "") -> Copy:
    """A copy whose answer came in two pieces."""
    copy = Copy("id", 1, request, (b"hunter2hunter2",))
    copy.encoding = encoding
    for piece in (answer[:7], answer[7:]):
        if piece:
            copy.hear(piece)
    return copy


def text(packed: bytes | None) -> bytes:
    """A kept body as it reads."""
    assert packed is not None
    return zlib.decompress(packed)


def test_both_bodies_are_kept_compressed_with_their_sizes() -> None:
    """What is handed to the worker reads as what passed."""
    packed = a_copy(b'{"a":1}', b'{"answer":"yes"}').packed()
    assert (text(packed.request), packed.request_bytes, packed.request_cut) == (b'{"a":1}', 7, False)
    assert (text(packed.answer), packed.answer_bytes, packed.answer_cut) == (b'{"answer":"yes"}', 16, False)


def test_the_head_of_a_long_body_is_kept() -> None:
    """However long, no copy holds more than the bound of each side."""
    copy = a_copy(b"q" * (KEPT + 5), b"a" * (KEPT * 3))
    packed = copy.packed()
    assert copy.size == 2 * KEPT
    assert (len(text(packed.request)), packed.request_bytes, packed.request_cut) == (KEPT, KEPT + 5, True)
    assert (len(text(packed.answer)), packed.answer_bytes, packed.answer_cut) == (KEPT, KEPT * 3, True)


def test_no_answer_is_none() -> None:
    """Unknown is not empty."""
    assert a_copy().packed().answer is None


def test_a_compressed_answer_is_kept_readable() -> None:
    """What passed as gzip is stored as its text; an encoding we cannot read leaves the size."""
    answer = gzip.compress(b"plain text")
    packed = a_copy(answer=answer, encoding="gzip").packed()
    assert (text(packed.answer), packed.answer_bytes) == (b"plain text", len(answer))
    packed = a_copy(answer=b"brotli bytes", encoding="br").packed()
    assert (text(packed.answer), packed.answer_cut) == (b"", True)


def test_a_compressed_bomb_stays_small() -> None:
    """A kilobyte that claims to be a gigabyte is cut."""
    packed = a_copy(answer=gzip.compress(b"\0" * (64 << 20)), encoding="gzip").packed()
    assert len(text(packed.answer)) <= KEPT
    assert packed.answer_cut


def test_the_oldest_give_way_and_are_counted() -> None:
    """The bound is in bytes of both bodies."""
    copies = Copies(max_bytes=1000)
    for number in range(6):
        copies.put(Copy(str(number), 1, b"x" * 300, ()))
    assert (len(copies), copies.dropped) == (3, 3)
    batch = decode(b"[" + b",".join(copies.take()) + b"]")
    assert [one.id for one in batch] == ["3", "4", "5"]
    assert copies.take() == []


def test_a_batch_survives_its_way() -> None:
    """Bytes in JSON and back, whatever they are."""
    copies = Copies()
    copies.put(a_copy(bytes(range(256)), b"\xff\x00"))
    (one,) = decode(b"[" + b",".join(copies.take()) + b"]")
    assert isinstance(one, Bodies)
    assert text(one.request) == bytes(range(256))
    assert text(one.answer) == b"\xff\x00"


def test_listening_changes_nothing_for_the_tap() -> None:
    """The copy hears the very bytes that the tap reads."""
    dialect = for_route("POST", "/api/chat")
    assert dialect is not None
    copy = Copy("id", 1, b"{}", ())
    tap = Listening(dialect.tap(None, "", ""), copy)
    line = b'{"message":{"content":"hi"},"done":true,"eval_count":3}\n'
    tap.feed(line, 1.0)
    assert tap.close(2.0).reported == {"eval_count": 3.0}
    assert text(copy.packed().answer) == line


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdEFGH1234567890", "Bearer abcdefgh12345678", "ghp_abcdefghijklmnopqrstuvwxyz",
        "AKIAIOSFODNN7EXAMPLE", "hf_abcdefghijklmnopqrstuvw", "xoxb-123456789012-abc",
        "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF2QT4", "hunter2hunter2",
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_masked(secret: str) -> None:
    """In text, in JSON inside JSON, and the words of the request's own credentials."""
    inner = json.dumps({"run": f"curl -H '{secret}' x"})
    body = json.dumps({"messages": [{"content": f"use {secret} now"}, {"arguments": inner}]}).encode()
    masked = redacted(body, (b"hunter2hunter2",))
    assert secret.encode() not in masked
    assert json.loads(masked)["messages"][0]["content"].startswith("use ")


@pytest.mark.parametrize(
    "name", ["api_key", "token", "client_secret", "password", "Authorization", "accessToken"]
)
def test_members_named_like_secrets_are_masked(name: str) -> None:
    """Whatever their value looks like, and in arguments that are JSON within a text."""
    body = json.dumps({name: "correct horse", "arguments": json.dumps({name: "battery"}), "n": 1}).encode()
    masked = redacted(body)
    assert b"correct" not in masked
    assert b"battery" not in masked
    assert json.loads(masked)["n"] == 1


def test_ordinary_text_stays() -> None:
    """Words about secrets are none."""
    said = "the token count, a password prompt, sk-learn, Bearer of news"
    body = json.dumps({"content": said, "max_tokens": 5}).encode()
    assert redacted(body) == body


def test_credentials_are_the_words_of_their_headers() -> None:
    """Schemes and placeholders are too short to be searched for."""
    headers = [
        (b"authorization", b"Bearer hunter2hunter2"),
        (b"x-api-key", b"x"),
        (b"user-agent", b"curl/8000"),
    ]
    assert set(credentials(headers, b"model=llama3-instruct&key=abcdef123")) == {
        b"hunter2hunter2",
        b"abcdef123",
    }
