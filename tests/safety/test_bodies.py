"""Bodies in the history, where the user wants them: whole installations, on both databases."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from services.history.bodies import bodies
from services.history.console import Refused, run_sql
from services.history.engine import open_engine
from services.logger.retention import prune
from tests.faults.stack import Stack, until
from tests.support.backend import Backend, as_json, sse

pytestmark = pytest.mark.process

SECRET = "second-hand-secret-0123"
SAID = {"choices": [{"index": 0, "delta": {"content": "an answer"}, "finish_reason": "stop"}]}


def asked(text: str, **more: Any) -> dict[str, Any]:
    """A chat turn."""
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


def kept(url: str) -> int:
    """How many requests have their bodies in the history."""
    engine = open_engine(url)
    with engine.connect() as connection:
        count = connection.scalar(select(func.count()).select_from(bodies)) or 0
    engine.dispose()
    return count


def installed(folder: Path, url: str, backend: Backend, **settings: Any) -> Stack:
    """A whole installation before the scripted backend."""
    stack = Stack(folder, url, **settings)
    stack.model.start = lambda: None  # type: ignore[method-assign]
    stack.proxy._settings["backend_url"] = backend.url
    return stack.start()


@pytest.fixture
def keeping(tmp_path: Path, history_url: str, backend: Backend) -> Iterator[Stack]:
    """An installation that keeps bodies."""
    stack = installed(tmp_path / "stack", history_url, backend, store_bodies=True)
    yield stack
    stack.stop()


def test_what_passed_can_be_read_again(keeping: Stack, backend: Backend) -> None:
    """Through the API, for JSON and for streams, without what the request proved itself with."""
    stream = sse([SAID, "data: [DONE]\n\n"])
    whole = as_json({"choices": [{"message": {"content": f"your key is {SECRET}"}, "finish_reason": "stop"}]})
    backend.queue(stream, whole)
    answers = [
        keeping.proxy.chat(asked("first, in a stream", stream=True), [("Authorization", f"Bearer {SECRET}")]),
        keeping.proxy.chat(asked(f"my key is {SECRET}", api_key="abc"), [("x-api-key", SECRET)]),
    ]
    until(lambda: kept(keeping.database) == 2, what="both bodies")
    first, second = [
        keeping.proxy.json(f"/api/requests/{answer.ours['request-id']}/bodies") for answer in answers
    ]
    assert json.loads(first["request"]["text"])["messages"][0]["content"] == "first, in a stream"
    assert first["answer"] == {"text": answers[0].body.decode(), "bytes": len(answers[0].body), "cut": False}
    assert json.loads(second["request"]["text"])["messages"][0]["content"] == "my key is ***"
    assert json.loads(second["request"]["text"])["api_key"] == "***"
    assert SECRET not in second["answer"]["text"]
    assert SECRET.encode() in answers[1].body
    status = keeping.proxy.json("/status")
    assert status["bodies"] == {"kept": True, "waiting": 0}
    assert status["dropped"] == {"records": 0, "bodies": 0}
    assert "METALANCHOR_STORE_BODIES is on" in keeping.proxy.log.read_text()
    for name in (
        "bodies",
        "BODIES",
        '"bodies"',
        "main.bodies" if "sqlite" in keeping.database else "public.bodies",
    ):
        with pytest.raises(Refused):
            run_sql(keeping.database, f"SELECT * FROM {name}")
    until(lambda: len(run_sql(keeping.database, "SELECT id FROM requests").rows) == 2, what="the rows")
    prune(keeping.database, datetime.now(UTC))
    assert kept(keeping.database) == 0


def test_off_nothing_is_kept(tmp_path: Path, backend: Backend) -> None:
    """The default: the route says so, and no body is written anywhere."""
    backend.answer(as_json({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}))
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    stack = installed(tmp_path / "stack", url, backend)
    try:
        answer = stack.proxy.chat(asked("nothing of this is kept"))
        until(lambda: run_sql(url, "SELECT count(*) FROM requests").rows == [[1]], what="the row")
        refused = stack.proxy.request("GET", f"/metalanchor/api/requests/{answer.ours['request-id']}/bodies")
        assert refused.status == 404
        assert b"METALANCHOR_STORE_BODIES is off" in refused.body
        assert kept(url) == 0
        assert stack.proxy.json("/status")["bodies"] == {"kept": False, "waiting": 0}
    finally:
        stack.stop()


def test_bodies_give_way_before_rows(tmp_path: Path, backend: Backend) -> None:
    """R86: no worker, a queue that may hold little: bodies are dropped and counted, every row is there."""
    backend.answer(as_json({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}))
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    stack = installed(tmp_path / "stack", url, backend, store_bodies=True, spool_max_bytes=1 << 20)
    try:
        stack.worker.kill()
        noise = [f"{number * 7919:x}" * 8 for number in range(9000)]
        before = stack.proxy.memory()
        for number in range(60):
            stack.proxy.chat(asked(f"{number} " + " ".join(noise[number:])))
        until(lambda: stack.proxy.json("/status")["dropped"]["bodies"] > 0, what="a dropped body")
        status = stack.proxy.json("/status")
        assert status["dropped"]["records"] == 0
        assert status["queue"]["bytes"] < 1 << 20
        assert stack.proxy.memory() - before < 160 << 20
        stack.worker.start()
        until(lambda: run_sql(url, "SELECT count(*) FROM requests").rows == [[60]], what="every row")
        until(lambda: 0 < kept(url) < 60, what="some bodies")
    finally:
        stack.stop()


def test_a_redis_that_is_away_costs_bodies_at_most(keeping: Stack, backend: Backend) -> None:
    """Nothing waits for it, rows are spooled, what is kept of bodies comes later."""
    backend.answer(as_json({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}))
    keeping.valkey.stop()
    begun = time.monotonic()
    for number in range(5):
        keeping.proxy.chat(asked(f"away {number}"))
    assert time.monotonic() - begun < 5
    keeping.valkey.start()
    until(lambda: len(run_sql(keeping.database, "SELECT id FROM requests").rows) == 5, what="the rows")
    until(
        lambda: kept(keeping.database) + keeping.proxy.json("/status")["dropped"]["bodies"] == 5,
        what="bodies",
    )
