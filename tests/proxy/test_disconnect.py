"""A client that leaves frees the backend, in every phase and shape; a retry is told from its first try."""

import json
import socket
import struct
import time

import pytest

from tests.support.backend import NEVER, Reply, sse
from tests.support.proxy import Wire

pytestmark = pytest.mark.process

FREED_S = 0.5  # as docs/architecture.md promises

ROUTES = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}]}),
    ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}),
    ("/v1/responses", {"input": "hello"}),
    ("/api/generate", {"prompt": "hello"}),
    ("/api/chat", {"messages": [{"role": "user", "content": "hello"}]}),
]
TWO_DELTAS = [{"choices": [{"index": 0, "delta": {"content": c}}]} for c in "ab"]


def unique(body: dict, name: str) -> bytes:
    return json.dumps({"model": name, **body}).encode()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_r52_a_client_gone_in_silent_prefill_frees_the_backend(
    wire: Wire, path: str, body: dict, stream: bool
) -> None:
    """The backend sees its connection close within half a second while it is still silent."""
    wire.answer(NEVER)
    model = f"prefill-{path}-{stream}"
    with wire.proxy.client() as client:
        client.send("POST", path, unique({**body, "stream": stream}, model))
        wire.backend.wait(lambda: any(r.complete for r in wire.received))
        time.sleep(0.3)
    left = time.monotonic()

    wire.backend.wait(lambda: wire.received[0].gone_at is not None)

    assert wire.received[0].gone_at - left < FREED_S
    (row,) = wire.proxy.wait_rows(1, lambda row: row.get("model") == model)
    assert row["status"] == "client_cancelled"
    assert row.get("http_status") is None


def test_r52_a_client_gone_in_mid_stream_frees_the_backend(wire: Wire) -> None:
    """After two chunks of an endless stream the client goes; so does the upstream connection."""
    wire.answer(sse(TWO_DELTAS, end="hang"))
    with wire.proxy.client() as client:
        client.send("POST", "/v1/chat/completions", unique({"stream": True, **ROUTES[0][1]}, "midstream"))
        seen = b""
        while seen.count(b"data:") < 2:
            seen += client.socket.recv(65_536)
    left = time.monotonic()

    wire.backend.wait(lambda: wire.received[0].gone_at is not None)

    assert wire.received[0].gone_at - left < FREED_S
    (row,) = wire.proxy.wait_rows(1, lambda row: row.get("model") == "midstream")
    assert (row["status"], row["http_status"]) == ("client_cancelled", 200)
    assert row["streamed_deltas"] >= 1


def test_a_client_gone_while_a_body_is_held_frees_the_backend(wire: Wire) -> None:
    """Headers and half a body have come, the rest has not: the client goes."""
    wire.answer(Reply(writes=[(0, b'{"choices":'), (30, b"[]}")]))
    with wire.proxy.client() as client:
        client.send("POST", "/v1/chat/completions", unique(ROUTES[0][1], "half"))
        wire.backend.wait(lambda: bool(wire.received and wire.received[0].answered_at))
    left = time.monotonic()

    wire.backend.wait(lambda: wire.received[0].gone_at is not None)

    assert wire.received[0].gone_at - left < FREED_S


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_client_gone_on_a_route_we_do_not_read_frees_the_backend(wire: Wire, method: str) -> None:
    """The same holds for downloads and for anything else, with and without a body."""
    wire.answer(NEVER)
    with wire.proxy.client() as client:
        client.send(method, f"/api/pull?{method}", b"{}" if method == "POST" else b"")
        wire.backend.wait(lambda: any(r.target == f"/api/pull?{method}" for r in wire.received))
    left = time.monotonic()

    wire.backend.wait(lambda: wire.received[0].gone_at is not None)

    assert wire.received[0].gone_at - left < FREED_S


def test_a_reset_counts_as_leaving(wire: Wire) -> None:
    """A client that resets its connection is gone like one that closes it."""
    wire.answer(NEVER)
    client = wire.proxy.client()
    client.send("POST", "/v1/chat/completions", unique(ROUTES[0][1], "reset"))
    wire.backend.wait(lambda: bool(wire.received))
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()

    wire.backend.wait(lambda: wire.received[0].gone_at is not None, FREED_S + 0.5)


def test_an_upload_broken_off_never_reaches_the_backend(wire: Wire) -> None:
    """Half a body on an analysed route: no upstream call, one row."""
    headers = [("Content-Length", "5000"), ("X-MetalAnchor-Session", "broken-off")]
    with wire.proxy.client() as client:
        client.send("POST", "/v1/chat/completions", b'{"model":', headers)
        time.sleep(0.2)

    (row,) = wire.proxy.wait_rows(1, lambda row: row.get("session") == "broken-off")
    assert row["status"] == "client_cancelled"
    assert not wire.received


def test_r53_a_hundred_departures_leave_nothing_behind(wire: Wire) -> None:
    """After 100 clients left in silent prefill no upstream connection and no live flow remains."""
    wire.answer(NEVER)
    clients = [wire.proxy.client() for _ in range(100)]
    for number, client in enumerate(clients):
        client.send("POST", "/v1/chat/completions", unique({"n": number, **ROUTES[0][1]}, "hundred"))
    wire.backend.wait(lambda: len(wire.received) == 100)
    for client in clients:
        client.close()

    wire.backend.wait(lambda: wire.backend.open_connections == 0, 5)
    rows = wire.proxy.wait_rows(100, lambda row: row.get("model") == "hundred")
    assert {row["status"] for row in rows} == {"client_cancelled"}


def test_r54_the_proxy_never_gives_up_first(wire: Wire) -> None:
    """Silence before the headers, and between headers and data, lasts as long as the backend likes."""
    wire.answer(
        sse(
            [{"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}], head_delay=2.5
        ),
        sse([{"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}], first=2.5),
    )
    for _ in range(2):
        answer = wire.proxy.chat({"model": "slow", "stream": True, **ROUTES[0][1]})
        assert (answer.status, answer.broken) == (200, False)
        assert wire.proxy.row(answer)["ttft_ms"] > 2_400


def test_r55_a_retry_finds_the_backend_free_and_names_its_first_try(wire: Wire) -> None:
    """The same bytes sent again after a departure: never two active at once, relation and note in the row."""
    body = unique({"stream": True, **ROUTES[0][1]}, "retried")
    wire.answer(NEVER)
    with wire.proxy.client() as client:
        client.send("POST", "/v1/chat/completions", body)
        wire.backend.wait(lambda: bool(wire.received))
        time.sleep(0.3)
    time.sleep(0.1)
    wire.answer(sse(TWO_DELTAS))

    answer = wire.proxy.request("POST", "/v1/chat/completions", body)

    assert wire.received[0].gone_at < wire.received[1].at
    first, second = wire.proxy.wait_rows(2, lambda row: row.get("model") == "retried")
    assert second["id"] == answer.ours["request-id"]
    assert (second["relation"], second["hit"], second["parent_id"]) == ("exact_repeat", "exact", first["id"])
    notes = {cause["code"]: cause["detail"] for cause in second["causes"]}
    assert notes["retry_of"]["request"] == first["id"]


def test_a_client_that_has_all_it_wants_did_not_cancel(wire: Wire) -> None:
    """Clients that close at the end marker, before the last chunk, have a completed request."""
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    wire.answer(sse([*TWO_DELTAS, end, "data: [DONE]\n\n"], end="hang"))
    with wire.proxy.client() as client:
        client.send("POST", "/v1/chat/completions", unique({"stream": True, **ROUTES[0][1]}, "satisfied"))
        seen = b""
        while b"[DONE]" not in seen:
            seen += client.socket.recv(65_536)

    (row,) = wire.proxy.wait_rows(1, lambda row: row.get("model") == "satisfied")
    assert (row["status"], row["finish_reason"]) == ("completed", "stop")
