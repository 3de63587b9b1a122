"""Our own errors: each in the shape of its route's family, with a header that says whose it is, and a row."""

import json
import time

import pytest

from services.proxy.wire import errors
from tests.support.proxy import StartProxy, Wire

pytestmark = pytest.mark.process

CHAT = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
NOBODY = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/completions", "/v1/models", "/completion", "/"]
)
@pytest.mark.parametrize("status", [400, 401, 403, 408, 413, 501, 502])
def test_openai_shape(path: str, status: int) -> None:
    """/v1 and everything without a family of its own: an error object with message, type, param and code."""
    headers, raw = errors.answer(errors.RefusedError(status, "some_code", "Why."), path)

    error = json.loads(raw)["error"]
    assert error == {"message": "Why.", "type": error["type"], "param": None, "code": "some_code"}
    assert error["type"] == ("invalid_request_error" if status < 500 else "api_error")
    assert dict(headers)[b"x-metalanchor-error"] == b"some_code"


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate", "/api/tags", "/api/anything"])
def test_ollama_shape(path: str) -> None:
    """/api: the message alone."""
    _, raw = errors.answer(errors.RefusedError(502, "some_code", "Why."), path)

    assert json.loads(raw) == {"error": "Why."}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (413, "request_too_large"),
        (502, "api_error"),
    ],
)
def test_anthropic_shape(status: int, kind: str) -> None:
    """/v1/messages and below: a typed error inside a typed envelope."""
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        _, raw = errors.answer(errors.RefusedError(status, "some_code", "Why."), path)

        assert json.loads(raw) == {"type": "error", "error": {"type": kind, "message": "Why."}}


def test_credentials_in_the_backends_address_are_not_shown() -> None:
    """The address in a message is the one a person may see."""
    assert errors.shown_url("http://user:pass@host:1/base") == "http://host:1/base"
    assert errors.shown_url("https://host") == "https://host"


def test_r59_a_backend_that_is_down_is_a_502_within_a_second(start_proxy: StartProxy) -> None:
    """Each family gets its shape, at once, and the row says unreachable."""
    proxy = start_proxy(backend_url=NOBODY)
    for path in ("/v1/chat/completions", "/api/chat", "/v1/messages", "/api/tags", "/"):
        started = time.monotonic()
        answer = proxy.chat(CHAT, path=path)

        assert time.monotonic() - started < 1.0
        assert answer.status == 502
        assert answer.ours["error"] == "backend_unreachable"
        assert answer.header("content-type") == "application/json"
        assert NOBODY in answer.body.decode()
        row = proxy.row(answer)
        assert (row["status"], row["http_status"], row["error"]) == (
            "upstream_unreachable",
            502,
            "backend_unreachable",
        )
    assert proxy.request("HEAD", "/").status == 502


def test_the_row_of_a_request_that_nobody_took_says_what_was_asked(start_proxy: StartProxy) -> None:
    """Who asked which model for what, though nothing was compared: no engine has seen it."""
    proxy = start_proxy(backend_url=NOBODY)
    answer = proxy.chat(CHAT, [("X-Session-Id", "s1"), ("User-Agent", "opencode/1.2")])
    row = proxy.row(answer)
    told = {"model": "m", "message_count": 1, "stream": True, "session": "s1", "agent": "opencode"}
    assert {name: row[name] for name in told} == told
    assert (row.get("hit"), row.get("relation"), row["error"]) == (None, None, "backend_unreachable")
    assert list(answer.ours) == ["error", "request-id"]
    assert proxy.row(proxy.request("POST", "/v1/chat/completions", b"{"))["status"] == "upstream_unreachable"


def test_an_upload_that_stands_still_is_a_408(wire: Wire) -> None:
    """Half a body and then silence, on routes that are read and on those that stream."""
    for path in ("/v1/chat/completions", "/api/pull"):
        with wire.proxy.client() as client:
            client.send("POST", path, b'{"model":', [("Content-Length", "5000")])
            answer = client.answer()

        assert answer.status == 408
        assert answer.ours["error"] == "upload_stalled"
        assert "METALANCHOR_UPLOAD_IDLE_S" in answer.body.decode()
        assert wire.proxy.row(answer)["status"] == "rejected"


def test_a_slow_upload_that_moves_is_none_of_our_business(wire: Wire) -> None:
    """A body that trickles in for longer than the idle limit is no stalled one."""
    with wire.proxy.client() as client:
        client.send("POST", "/v1/chat/completions", b"", [("Content-Length", "30")])
        for _ in range(6):
            time.sleep(0.3)
            client.socket.sendall(b"     ")
        answer = client.answer()

    assert answer.status == 200
    assert wire.received[0].body == b" " * 30


def test_two_hosts_are_a_400(wire: Wire) -> None:
    """A request with two Host headers is answered by nobody else."""
    answer = wire.proxy.request("GET", "/x", headers=[("Host", "localhost")])

    assert answer.status == 400
    assert answer.ours["error"] == "bad_request"
