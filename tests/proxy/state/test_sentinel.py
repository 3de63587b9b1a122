"""A shared Redis that Sentinel watches over: hit state and queue find the master, also the next one."""

from pathlib import Path

import pytest

from services.history.console import run_sql
from services.redis_address import parse
from services.settings import SettingsError, load
from tests.faults.stack import Stack, until
from tests.support.backend import Backend, as_json
from tests.support.sentinel import Watched


def test_a_sentinel_url_names_hosts_master_and_logins() -> None:
    """Default port, IPv6, percent-encoded password, database, TLS, and the Sentinels' own password."""
    found = parse("rediss+sentinel://me:p%40ss@a,b:1,[::1]:3/main/2?sentinel_password=other")
    assert found is not None
    assert found.hosts == [("a", 26379), ("b", 1), ("::1", 3)]
    assert found.service == "main"
    assert found.master == {"username": "me", "password": "p@ss", "db": 2, "ssl": True}
    assert found.own == {"password": "other"}
    assert parse("redis://a/0") is None


@pytest.mark.parametrize(
    "url", ["redis+sentinel://a", "redis+sentinel://a:port/m", "redis+sentinel://a/m?x=1", "sentinel://a/m"]
)
def test_a_sentinel_url_that_says_too_little_is_refused(url: str) -> None:
    """At the start, by the setting's name."""
    with pytest.raises(SettingsError, match="METALANCHOR_REDIS_URL"):
        load({"METALANCHOR_REDIS_URL": url})


def told(number: int) -> dict[str, object]:
    """A conversation's turn so many."""
    said = [{"role": "system", "content": "You watch over a master. " * 20}]
    for turn in range(number):
        said += [{"role": "user", "content": f"turn {turn}"}, {"role": "assistant", "content": "ok"}]
    return {"model": "m", "messages": [*said, {"role": "user", "content": f"turn {number}"}]}


@pytest.mark.process
def test_a_failover_costs_no_request_and_no_row(watched: Watched, tmp_path: Path, backend: Backend) -> None:
    """The master dies under proxy and worker: requests pass, state and queue move to the next master."""
    choice = {"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop", "index": 0}
    backend.answer(as_json({"choices": [choice]}))
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    stack = Stack(tmp_path / "stack", url, redis_url=watched.url, valkey=watched.master)
    stack.model.start = lambda: None  # type: ignore[method-assign]
    stack.valkey.start = lambda: None  # type: ignore[method-assign]
    stack.proxy._settings["backend_url"] = backend.url
    try:
        stack.start()
        for number in range(3):
            assert stack.proxy.chat(told(number)).status == 200
        until(lambda: run_sql(url, "SELECT count(*) FROM requests").rows == [[3]], what="rows before")
        watched.fail_over()
        for number in range(3, 6):
            assert stack.proxy.chat(told(number)).ours["hit"] == "prefix"
        until(stack.healthy, what="the next master in use")
        for number in range(6, 9):
            assert stack.proxy.chat(told(number)).ours["hit"] == "prefix"
        until(lambda: run_sql(url, "SELECT count(*) FROM requests").rows == [[9]], what="every row")
        with watched.master.client() as client:
            assert client.info("replication")["role"] == "master"
            assert list(client.scan_iter(match="metalanchor:*"))
    finally:
        stack.proxy.kill()
        stack.worker.kill()
