"""`metalanchor top`: what is under way and what ended, from a running proxy's events."""

import json
import threading

import pytest

from services.cli import run
from services.cli.top import Board
from services.settings import load
from tests.support.backend import Backend, sse
from tests.support.proxy import StartProxy
from tests.support.rows import wait_for

ROW = {
    "id": "1", "received_at": "2026-01-01T00:00:00.000Z", "agent": "hermes", "session": "s" * 40,
    "model": "m", "hit": "prefix", "predicted_reuse": 0.96, "cached_tokens": None, "prompt_tokens": 100,
    "ttft_ms": None, "cause": None, "status": "completed",
}  # fmt: skip
LIVE = {
    "id": "2", "phase": "queued", "ahead": 2, "elapsed_ms": 1_500, "agent": None, "session": None,
    "model": "m", "hit": None, "predicted_reuse": None,
    "progress": {"done": 50, "total": 200, "source": "rate"},
}  # fmt: skip


def test_a_board_shows_the_newest_first_and_leaves_the_unknown_empty():
    """Unmeasured is no zero; a guess at progress says so."""
    board = Board()
    board.take("history", {"items": [ROW, {**ROW, "id": "3", "cached_tokens": 50}]})
    board.take("underway", {"items": [LIVE], "total": 1})
    first, second = board.ended(5)
    assert (first["id"], first["measured"], second["measured"]) == ("3", "50%", None)
    assert (second["predicted"], second["session"]) == ("96%", "s" * 12)
    (live,) = board.underway()
    assert (live["phase"], live["progress"]) == ("queued (2 before)", "about 25% of 200 tokens")
    assert live["elapsed_s"] >= 1.5


def test_a_board_forgets_the_old():
    """It runs for days."""
    board = Board()
    for number in range(500):
        board.take("ended", {"items": [{**ROW, "id": str(number)}]})
    assert len(board.ended(1_000)) == 200
    assert board.ended(1)[0]["id"] == "499"


def test_no_proxy_is_said(unused_port, monkeypatch, capsys):
    """With the next step, and exit code 3."""
    monkeypatch.setenv("METALANCHOR_PORT", str(unused_port))
    assert run(["top", "--once"]) == 3
    assert "metalanchor up" in capsys.readouterr().err


@pytest.mark.process
def test_a_snapshot_of_a_running_proxy(backend: Backend, start_proxy: StartProxy, monkeypatch, capsys):
    """One request that is under way, one that ended; the same as text and as JSON."""
    hold = threading.Event()
    delta = {"choices": [{"index": 0, "delta": {"content": "a"}}]}
    backend.answer(lambda received: sse([delta, "data: [DONE]\n\n"], first=20.0 if hold.is_set() else 0.0))
    proxy = start_proxy()
    monkeypatch.setenv("METALANCHOR_PORT", str(proxy.port))
    assert load().port == proxy.port
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    done = proxy.chat(body)
    hold.set()
    with proxy.client() as client:
        client.send(
            "POST", "/v1/chat/completions", json.dumps(body).encode(), [("Content-Type", "application/json")]
        )
        wait_for(lambda: len(backend.requests) and backend.requests[-1].complete and hold.is_set())
        assert run(["top", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [row["id"] for row in found["ended"]] == [done.ours["request-id"]]
        assert run(["top", "--once"]) == 0
        text = capsys.readouterr().out
    assert "Under way: 1" in text
    assert found["underway"][0]["phase"] in {"prefill", "queued"}
    assert done.ours["request-id"] in text


@pytest.mark.process
def test_a_token_that_is_missing_is_said(backend: Backend, start_proxy: StartProxy, monkeypatch, capsys):
    """With the setting that names it."""
    proxy = start_proxy(token="sesame")
    monkeypatch.setenv("METALANCHOR_PORT", str(proxy.port))
    assert run(["top", "--once"]) == 1
    assert "METALANCHOR_TOKEN" in capsys.readouterr().err
