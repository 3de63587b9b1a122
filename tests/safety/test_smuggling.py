"""Requests whose end two readers might see at different places: the backend sees one, or none, never two."""

import itertools
import socket
import time

import pytest

from tests.support.backend import Received, as_json
from tests.support.proxy import Wire

pytestmark = pytest.mark.process

HOST = b"Host: 127.0.0.1\r\n"
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_numbers = itertools.count()
CHUNKED = b"Transfer-Encoding: chunked\r\n"
ROUTES = (b"/x", b"/v1/chat/completions")

REFUSED = {
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
    "a list of lengths": b"Content-Length: 5, 5\r\n\r\nabcde",
    "a signed length": b"Content-Length: +5\r\n\r\nabcde",
    "a negative length": b"Content-Length: -1\r\n\r\nabcde",
    "a length beyond all numbers": b"Content-Length: 99999999999999999999999\r\n\r\nabcde",
    "identity": b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nabcde",
    "almost chunked": b"Transfer-Encoding: xchunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
    "chunked, but not last": b"Transfer-Encoding: chunked, identity\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
    "two encodings": CHUNKED + b"Transfer-Encoding: gzip\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
    "a blank before the colon": b"Transfer-Encoding : chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
    "a vertical tab": b"Transfer-Encoding: \x0bchunked\r\nContent-Length: 5\r\n\r\nabcde",
    "a folded encoding": b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a folded header": b"X-A: b\r\n c\r\n\r\n",
    "a bare CR": b"X-A: b\rX-B: c\r\n\r\n",
    "a NUL": b"X-A: b\0c\r\n\r\n",
    "a name with a blank": b"X A: b\r\n\r\n",
    "no name": b": b\r\n\r\n",
}
BROKEN = {
    "a negative chunk": b"-5\r\nabcde\r\n0\r\n\r\n",
    "a chunk beyond all numbers": b"fffffffffffffffff\r\nabcde\r\n0\r\n\r\n",
    "a chunk in another notation": b"0x5\r\nabcde\r\n0\r\n\r\n",
    "chunks ended by LF": b"5\nabcde\n0\n\n",
    "bytes after a chunk": b"5\r\nabcdeXX0\r\n\r\n",
}
ONE = {
    "a length beside chunks": (b"Content-Length: 60\r\n" + CHUNKED + b"\r\n0\r\n\r\n", b""),
    "chunks beside a length": (CHUNKED + b"Content-Length: 60\r\n\r\n0\r\n\r\n", b""),
    "a length that Connection would take away": (
        b"Connection: content-length, host\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN), HIDDEN,
    ),
    "a request as a body": (b"Content-Length: %d\r\n\r\n" % len(HIDDEN), HIDDEN),
    "a length among the trailers": (CHUNKED + b"\r\n5\r\nabcde\r\n0\r\nContent-Length: 9\r\n\r\n", b"abcde"),
}  # fmt: skip


def talk(port: int, data: bytes) -> bytes:
    """All that comes back until the server closes, or says nothing more for a while."""
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.settimeout(0.5)
        line.sendall(data)
        said = b""
        try:
            while more := line.recv(65_536):
                said += more
        except (TimeoutError, ConnectionResetError):
            pass
        return said


def post(path: bytes, rest: bytes) -> bytes:
    return b"POST %b HTTP/1.1\r\n" % path + HOST + rest


def mark(path: bytes) -> bytes:
    """A target that no other test has: what an earlier one broke off may still reach the backend."""
    return b"%b?n=%d" % (path, next(_numbers))


def arrived(wire: Wire, target: bytes) -> list[Received]:
    """What the backend received under that target, or hidden behind it."""
    time.sleep(0.1)
    names = {target.decode(), "/hidden"}
    return [received for received in wire.received if received.target in names]


@pytest.fixture
def answering(wire: Wire) -> Wire:
    wire.answer(as_json({"choices": []}))
    return wire


@pytest.mark.parametrize("name", REFUSED)
def test_an_ambiguous_head_is_refused_and_the_connection_closed(answering: Wire, name: str) -> None:
    """400 before any of it reaches the backend; what follows on the connection is not read as a request."""
    target = mark(b"/x")
    said = talk(answering.proxy.port, post(target, REFUSED[name]) + HIDDEN)

    assert said.startswith(b"HTTP/1.1 400 ")
    assert said.count(b"HTTP/1.1 ") == 1
    assert arrived(answering, target) == []


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("name", BROKEN)
def test_a_body_framed_wrongly_never_completes(answering: Wire, name: str, path: bytes) -> None:
    """The backend gets no complete request, and nothing of what follows."""
    target = mark(path)
    said = talk(answering.proxy.port, post(target, CHUNKED + b"\r\n" + BROKEN[name]) + HIDDEN)

    assert b" 200 " not in said
    found = arrived(answering, target)
    assert not [received for received in found if received.complete]
    assert "/hidden" not in {received.target for received in found}


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("name", ONE)
def test_what_has_one_meaning_arrives_with_one_framing(answering: Wire, name: str, path: bytes) -> None:
    """One request, its body whole, and one of the two framings beside it."""
    head, body = ONE[name]
    target = mark(path)
    talk(answering.proxy.port, post(target, head + (b"" if b"chunked" in head else body)))

    (received,) = arrived(answering, target)
    assert received.body == body
    assert len(received.all("content-length") + received.all("transfer-encoding")) == 1


def test_every_answer_has_its_own_request(answering: Wire) -> None:
    """Pipelined requests are answered one for one, in order."""
    count = 20
    said = talk(
        answering.proxy.port, b"".join(post(b"/%d" % i, b"Content-Length: 0\r\n\r\n") for i in range(count))
    )

    assert said.count(b"HTTP/1.1 200 ") == count
    targets = [f"/{i}" for i in range(count)]
    assert [r.target for r in answering.received if r.target in targets] == targets


def test_lines_ended_by_lf_alone_are_sent_on_as_they_should_be(answering: Wire) -> None:
    """RFC 9112 §2.2 lets a reader end lines at LF; the backend sees CRLF and the same headers."""
    target = mark(b"/x")
    talk(answering.proxy.port, b"GET %b HTTP/1.1\nHost: 127.0.0.1\nX-A: b\n\n" % target)

    (received,) = arrived(answering, target)
    assert received.head.count(b"\n") == received.head.count(b"\r\n")
    assert received.header("x-a") == "b"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443", b"403"),
        (b"CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: 127.0.0.1:443", b"501"),
        (b"GET http://evil.example/x HTTP/1.1\r\nHost: evil.example", b"403"),
        (b"GET http://127.0.0.1/metalanchor/status HTTP/1.1\r\nHost: evil.example", b"403"),
        (b"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example", b"400"),
        (b"GET /x y HTTP/1.1\r\nHost: 127.0.0.1", b"400"),
        (b"GET /x\0 HTTP/1.1\r\nHost: 127.0.0.1", b"400"),
        (b"GET /x\r\n", b"400"),
    ],
)
def test_another_machine_is_never_the_target(answering: Wire, line: bytes, status: bytes) -> None:
    """Tunnels, absolute targets of other hosts, doubled hosts and malformed lines end here."""
    said = talk(answering.proxy.port, line + b"\r\n\r\n")

    assert said.startswith(b"HTTP/1.1 " + status)
    assert not [r for r in answering.received if "evil" in f"{r.target}{r.headers}"]


def test_the_backend_of_an_absolute_target_is_the_configured_one(answering: Wire) -> None:
    """Its authority is no address to call: the backend's comes from the configuration alone."""
    target = mark(b"/x")
    talk(answering.proxy.port, b"GET http://127.0.0.1:1%b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % target)

    (received,) = arrived(answering, target)
    assert received.header("host") == f"127.0.0.1:{answering.backend.port}"
