"""A whole run against a scripted llama-server, through a real proxy process and directly."""

import json
from unittest import mock

import pytest

from services.cli import run
from services.evidence.exchange import ExchangeError, Reply, send
from services.evidence.runner import Runner, Target
from services.evidence.scenarios import load
from tests.support.backend import Backend, Engine, Llama, as_json
from tests.support.backend import Reply as Scripted
from tests.support.proxy import StartProxy

pytestmark = pytest.mark.process


@pytest.fixture
def running(backend: Backend, start_proxy: StartProxy, monkeypatch):
    """A proxy on the port that the settings name, before a scripted engine."""
    backend.answer(Llama(Engine(slots=2)))
    proxy = start_proxy()
    monkeypatch.setenv("METALANCHOR_PORT", str(proxy.port))
    return proxy


def test_a_run_through_the_running_proxy(running, backend: Backend, capsys, tmp_path):
    """Every figure of the contract comes from what was sent; each prompt also goes directly, in pairs."""
    line = ["bench", "--scale", "0.1", "--length", "0.2", "--json", "--output", str(tmp_path / "run")]
    assert run(line) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert [found["scenarios"][name]["requests"] for name in "ABCDE"] == [3, 6, 5, 15, 3]
    assert found["all"]["requests"] == 32
    assert found["engine"]["kind"] == "llama-server"
    assert found["engine"]["model"] == "scripted.gguf"
    assert found["overhead_ms"]["pairs"] == 8
    assert found["scenarios"]["E"]["hits"] == {"exact": 2, "none": 1}
    assert found["scenarios"]["D"]["hits"]["prefix"] == 12
    turns = found["scenarios"]["C"]["reuse_by_turn"]
    assert turns[0] < 0.2 < turns[1] < 1
    assert err.splitlines() == [f"Scenario {name} …" for name in "ABCDE"]
    assert json.loads((tmp_path / "run.json").read_text())["all"] == found["all"]
    assert (tmp_path / "run.md").read_text().startswith("# The five scenarios")
    direct = [r for r in backend.requests if r.path.endswith("completions")]
    assert len(direct) == 32 + 2 * 8 + 2 * 5


def test_chosen_scenarios_as_markdown(running, capsys):
    """Only what was asked for is run; a second warm run finds the first one's prefix."""
    for expected in ("exact 2, none 1", "exact 3"):
        assert run(["bench", "--scenarios", "e", "--scale", "0.1", "--length", "0.2", "--warm"]) == 0
        out = capsys.readouterr().out
        assert expected in out
        assert "**E**, identical request" in out
        assert "**A**" not in out


def test_a_backend_that_refuses_ends_the_run(running, backend: Backend, capsys):
    """With what it said."""
    llama = Llama(Engine(slots=2))
    backend.answer(lambda r: as_json({"error": "no"}, status=500) if r.method == "POST" else llama(r))
    assert run(["bench", "--scenarios", "E"]) == 1
    assert "HTTP 500" in capsys.readouterr().err


def test_a_server_that_changes_under_way_ends_the_run():
    """Figures of two engines are no figures."""
    rows = iter([{"backend": "a:1"}, {"backend": "b:2"}])
    target = Target("", "", "m", lambda _: next(rows), {}, {})
    runner = Runner(target, load(0.1, 0.2, "E"), 1, "s", told=lambda _: None)
    with (
        mock.patch("services.evidence.runner.send", return_value=Reply(request_id="1")),
        pytest.raises(ExchangeError, match="from a:1 to b:2"),
    ):
        runner.run()


def test_no_such_scenario(capsys):
    """Wrong usage."""
    assert run(["bench", "--scenarios", "X"]) == 2


def test_a_stream_with_an_error_inside(backend: Backend):
    """Is no measurement."""
    data = b'data: {"error": {"message": "out of memory"}}\n\n'
    backend.answer(Scripted(writes=[(0.0, data)], framing="chunked"))
    with pytest.raises(ExchangeError, match="out of memory"):
        send(backend.url, b"{}", {})


def test_the_first_token_is_text_reasoning_or_a_call(backend: Backend):
    """Not the role that comes before it; a call that was cut off is left out."""
    role = {"choices": [{"delta": {"role": "assistant", "content": ""}}]}
    call = {"index": 0, "id": "c", "function": {"name": "list", "arguments": '{"a":'}}
    events = [role, {"choices": [{"delta": {"tool_calls": [call]}}]}, {"choices": []}]
    writes = [
        (0.0 if n == 0 else 0.2, b"data: %s\n\n" % json.dumps(e).encode()) for n, e in enumerate(events)
    ]
    backend.answer(Scripted(writes=writes, framing="chunked"))
    reply = send(backend.url, b"{}", {})
    assert reply.ttft_ms >= 150
    assert (reply.text, reply.calls) == ("", [])


def test_a_stream_of_something_else(backend: Backend):
    """An event that is no JSON ends the run with a sentence."""
    backend.answer(Scripted(writes=[(0.0, b"data: <html>\n\n")], framing="chunked"))
    with pytest.raises(ExchangeError, match="JSONDecodeError"):
        send(backend.url, b"{}", {})
