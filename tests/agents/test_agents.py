"""Real agents, headless, through the proxy to a scripted model: two fresh sessions and a resumed one each."""

import asyncio
from pathlib import Path

import pytest

from tests.agents.agents import AGENTS, Agent, project, run
from tests.agents.model import Model
from tests.agents.recorder import Recorder
from tests.support.backend import Backend
from tests.support.proxy import StartProxy

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

Row = dict[str, object]


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
async def test_an_agent_works_unchanged_and_is_understood(
    agent: Agent, backend: Backend, start_proxy: StartProxy, tmp_path: Path
) -> None:
    """Bodies arrive as sent, each request has its row, and agent, session, relation and hit are right."""
    backend.answer(Model())
    proxy = start_proxy()
    recorder = Recorder(proxy.port)
    await recorder.start()
    home, work = tmp_path / "home", project(tmp_path / "work")
    home.mkdir()
    try:
        for words in (agent.fresh, agent.fresh, agent.resume):
            ended = await asyncio.to_thread(run, agent, words, home, work, recorder.url)
            assert ended.returncode == 0, ended.stdout[-500:] + ended.stderr[-500:]
            assert "prints hello" in ended.stdout
        rows = await asyncio.to_thread(proxy.wait_rows, len(recorder.requests))
    finally:
        await recorder.close()

    received = [r for r in backend.requests if not _own(r)]
    assert sorted((r.method, r.target, r.body) for r in received) == sorted(
        (sent.method, sent.target, sent.body) for sent in recorder.requests
    )
    _check_rows(agent, [row for row in rows if row.get("kind") == "generation"])


def _own(received) -> bool:
    """Whether it is the proxy's own question to a backend it has not met."""
    return received.method == "GET" and received.header("accept") == "application/json"


def _check_rows(agent: Agent, rows: list[Row]) -> None:
    main = [row for row in rows if row.get("tool_count")]
    first, second, again, again_second, resumed, last = main
    assert {row["agent"] for row in rows} == {agent.name}
    assert {row["session_source"] for row in main} == {agent.session_source}
    assert {row["status"] for row in rows} == {"completed"}
    assert (first["hit"], first["relation"]) == ("none", "first")
    assert (second["hit"], second["relation"]) == ("prefix", "append")
    assert (again["hit"], again["relation"]) == ("exact", "exact_repeat")
    assert again_second["relation"] in {"append", "exact_repeat"}
    assert (resumed["hit"], resumed["relation"]) == ("prefix", agent.resumed)
    assert (last["hit"], last["relation"]) == ("prefix", "append")
    assert first["session"] == second["session"]
    assert again["session"] == again_second["session"] == resumed["session"] == last["session"]
    if agent.session_source != "lineage":
        assert first["session"] != again["session"]
    breaks = [
        c
        for row in (second, again, again_second, last)
        for c in row.get("causes") or []
        if c["severity"] == "break"
    ]
    assert not breaks
