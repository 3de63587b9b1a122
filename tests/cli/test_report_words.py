"""A report names the few questions that make the hits; their words come from the live cache alone."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from services.cli import run
from tests.support.admin import fill
from tests.support.backend import Backend, as_json
from tests.support.caching import chat, said
from tests.support.proxy import Proxy, StartProxy
from tests.support.records import make_record
from tests.support.rows import wait_for
from tests.support.valkey import Valkey

pytestmark = pytest.mark.process

ASKED = "What are your opening hours?"
INVALIDATE = "/metalanchor/api/cache/invalidate"


@pytest.fixture
def served(
    tmp_path: Path, start_proxy: StartProxy, valkey: Valkey, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> Proxy:
    """A proxy whose cache gave one answer sixty times; its history has these rows."""
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    backend.answer(lambda received: as_json(said()))
    proxy = start_proxy(redis_url=valkey.url, response_cache="exact", database_url=url)
    original = proxy.chat({"model": "m", **chat(ASKED)}, [("X-MetalAnchor-Cache-Control", "ttl=600")])
    assert wait_for(lambda: proxy.json("/api/cache/entries")["items"])
    now = time.time_ns() // 1_000_000
    row: dict[str, Any] = {"response_cache": "hit", "status": "response_cache", "saved_tokens": 25}
    fill(url, [
        make_record(received_at=now - place, answered_by=original.ours["request-id"], **row)
        for place in range(60)
    ])  # fmt: skip
    monkeypatch.setenv("METALANCHOR_DATABASE_URL", url)
    monkeypatch.setenv("METALANCHOR_PORT", str(proxy.port))
    return proxy


def test_words_are_said_while_the_answer_is_cached(served: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    """On the command line and over HTTP, in every form; once it is dropped only its request is named."""
    assert run(["report"]) == 0
    out = capsys.readouterr().out
    assert "The same few questions" in out
    assert ASKED in out
    for form in ("md", "html"):
        page = served.request("GET", f"/metalanchor/api/report?format={form}").body.decode()
        assert ASKED in page
    (item,) = served.json("/api/report")["homogeneity"]["few"]
    assert (item["question"], item["hits"], item["saved_tokens"]) == (ASKED, 60, 1_500)

    body = json.dumps({"dry_run": False, "everything": True}).encode()
    assert served.request("POST", INVALIDATE, body, [("Content-Type", "application/json")]).status == 200
    assert served.json("/api/report")["homogeneity"]["few"][0]["question"] is None
    assert run(["report", "--json"]) == 0
    told = capsys.readouterr().out
    assert ASKED not in told
    assert item["request"] in told
