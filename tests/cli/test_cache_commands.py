"""`metalanchor cache`, through a running proxy."""

import json
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.cli import run
from services.settings import load
from tests.support.backend import as_json
from tests.support.bodies import keep
from tests.support.caching import CHAT, Caching, chat, said
from tests.support.rows import wait_for

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def at_the_proxy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands find the shared proxy."""
    caching: Caching = request.getfixturevalue("caching")
    monkeypatch.setenv("METALANCHOR_PORT", str(caching.proxy.port))


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command and gives what it says."""

    def say(*arguments: str, code: int = 0) -> str:
        assert run(["cache", *arguments]) == code
        out, err = capsys.readouterr()
        return out if code == 0 else out + err

    return say


def stored(caching: Caching, text: str, **how: Any) -> None:
    """Have a question answered and kept."""
    caching.ask(chat(text), **how)
    assert wait_for(lambda: caching.ask(chat(text), **how).ours["cache"] == "hit")


def test_stats_and_list_show_what_is_there(caching: Caching, told: Any) -> None:
    """As a table for people, as JSON for programs."""
    stored(caching, "Capital of France?")
    assert "hit rate" in told("stats")
    assert json.loads(told("stats", "--json"))["entries"] >= 1
    table = told("list", "--limit", "1")
    assert table.splitlines()[0].startswith("key\t")
    assert "Capital of France?" in table
    page = json.loads(told("list", "--limit", "1", "--json"))
    assert page["items"][0]["model"] == caching.model


def test_explain_tells_of_a_question_a_request_and_a_key(caching: Caching, told: Any) -> None:
    """In sentences; what nobody knows is a failure that says where ids are."""
    missed = caching.ask(chat("Who wrote Faust?")).ours["request-id"]
    stored(caching, "Who wrote Faust?", control="namespace=other")
    assert "other" in told("explain", "Who wrote Faust?", "--model", caching.model)
    told_of_request = told("explain", missed)
    assert told_of_request.startswith("miss: No equal request was stored")
    key = json.loads(told("explain", missed, "--json"))["entry"]["key"]
    assert "METALANCHOR_RESPONSE_CACHE=semantic" in told("explain", key)
    assert "metalanchor cache list" in told("explain", "0" * 32, code=1)


def test_invalidate_only_counts_without_yes(caching: Caching, told: Any) -> None:
    """A dry run first; a selector that selects nothing says so."""
    stored(caching, "Where is Lyon?", control="tag=city")
    selected = ["invalidate", "--model", caching.model, "--tag", "city"]
    assert told(*selected) == "1 answers would be dropped. --yes drops them.\n"
    assert caching.verdicts(chat("Where is Lyon?")) == ["hit"]
    assert told(*selected, "--older-than", "1h", "--yes") == "0 answers were dropped.\n"
    assert json.loads(told(*selected, "--yes", "--json")) == {"count": 1, "dry_run": False}
    assert caching.verdicts(chat("Where is Lyon?")) == ["miss"]
    assert "Say what is to be dropped" in told("invalidate", code=1)
    assert "no age" in told("invalidate", "--older-than", "soon", code=2)


def test_what_the_cache_lacks_is_said_with_its_setting(caching: Caching, told: Any) -> None:
    """Aliases are not learned here."""
    assert "METALANCHOR_ALIASES_URL" in told("aliases", code=1)


def test_a_proxy_that_is_not_there_is_said_so(
    told: Any, monkeypatch: pytest.MonkeyPatch, unused_port: int
) -> None:
    """Exit code 3, and how to start one."""
    monkeypatch.setenv("METALANCHOR_PORT", str(unused_port))
    assert "metalanchor up" in told("stats", code=3)


def lines(folder: Path, *values: Any) -> str:
    """A file of JSON lines."""
    path = folder / "requests.jsonl"
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values))
    return str(path)


def test_a_file_is_warmed_once(caching: Caching, told: Any, tmp_path: Path) -> None:
    """Chat bodies, and requests that say where they go; a second time they are cached already, unsaved."""
    body = {"model": caching.model, **chat("Warm?")}
    other = {"path": "/v1/completions", "body": {"model": caching.model, "prompt": "x", "echo": True}}
    apart = {"body": body, "headers": {"X-MetalAnchor-Namespace": "n"}}
    path = lines(tmp_path, body, other, apart)
    first = json.loads(told("warm", path, "--json"))
    assert (first["requests"], first["asked"], first["failed"]) == (3, 3, 0)
    assert wait_for(lambda: caching.ask(chat("Warm?")).ours["cache"] == "hit")
    before = json.loads(told("stats", "--json"))
    assert "2 were cached already" in told("warm", path, "--concurrency", "2")
    after = json.loads(told("stats", "--json"))
    assert (after["hits"], after["saved_tokens"]) == (before["hits"], before["saved_tokens"])
    assert caching.ask(chat("Warm?"), control="namespace=n").ours["cache"] == "hit"


def test_what_cannot_be_cached_is_told_by_its_reason(caching: Caching, told: Any, tmp_path: Path) -> None:
    """It is answered all the same."""
    path = lines(tmp_path, {"model": caching.model, **chat("What is the weather today?")})
    assert "1 cannot be cached (volatile)." in told("warm", path)


def test_a_line_that_is_no_request_is_named(caching: Caching, told: Any, tmp_path: Path) -> None:
    """By its number, before anything is sent; and what cannot be sent at all is refused."""
    path = lines(tmp_path, {"model": caching.model, **chat("One?")}, ["two"])
    assert "Line 2" in told("warm", path, code=1)
    assert not caching.calls
    path = lines(tmp_path, {"path": "/metalanchor/api/sql", "body": {}})
    assert "Line 1: `path` is the backend's" in told("warm", path, code=1)
    told("warm", code=2)
    told("warm", path, "--from-history", "3", code=2)


def test_warming_fails_by_name(caching: Caching, told: Any, tmp_path: Path) -> None:
    """A backend that refuses is counted, the rest goes on, and the exit code says so."""
    caching.answer(as_json({"error": {"message": "no"}}, status=500), as_json(said()))
    path = lines(tmp_path, *({"model": caching.model, **chat(text)} for text in ("One?", "Two?")))
    text = told("warm", path, code=1)
    assert "1 were answered by the backend, 1 failed" in text
    assert "HTTP 500" in text


def test_warming_waits_for_others(caching: Caching, told: Any, tmp_path: Path) -> None:
    """As long as the proxy works for somebody else, nothing is sent."""
    slow = replace(as_json(said()), head_delay=1.5)
    caching.answer(slow, as_json(said()))
    live = threading.Thread(target=caching.ask, args=(chat("Live?"),))
    live.start()
    assert wait_for(lambda: caching.calls)
    time.sleep(0.3)  # the proxy tells four times a second
    tally = json.loads(told("warm", lines(tmp_path, {"model": caching.model, **chat("Warm?")}), "--json"))
    live.join(10)
    assert tally["asked"] == 1
    assert tally["waited_s"] > 0.3


def test_ctrl_c_ends_warming_at_once(caching: Caching, tmp_path: Path) -> None:
    """The request under way is given up, which frees the backend; nothing more is sent."""
    caching.answer(replace(as_json(said()), head_delay=30.0))
    path = lines(tmp_path, *({"model": caching.model, **chat(text)} for text in ("One?", "Two?")))
    command = [sys.executable, "-m", "services.cli", "cache", "warm", path]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as warming:
        assert wait_for(lambda: caching.calls)
        warming.send_signal(signal.SIGINT)
        assert warming.wait(5) == 130
    assert len(caching.calls) == 1


def test_history_without_bodies_says_which_setting_keeps_them(
    recorded: Any, caching: Caching, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text is not in the history otherwise."""
    monkeypatch.setenv("METALANCHOR_PORT", str(caching.proxy.port))
    assert "METALANCHOR_STORE_BODIES=true" in told("warm", "--from-history", "5", code=1)


def test_the_most_repeated_requests_of_the_history_are_warmed(
    recorded: Any, caching: Caching, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte; a second time they are cached."""
    monkeypatch.setenv("METALANCHOR_PORT", str(caching.proxy.port))
    body = json.dumps({"model": caching.model, **chat("Again?")}).encode()
    keep(load().database, [(body, {"endpoint": CHAT})] * 2)
    assert json.loads(told("warm", "--from-history", "5", "--json"))["asked"] == 1
    assert wait_for(
        lambda: caching.proxy.request("POST", "/v1/chat/completions", body).ours["cache"] == "hit"
    )
    again = json.loads(told("warm", "--from-history", "5", "--json"))
    assert (again["requests"], again["cached"]) == (1, 1)
