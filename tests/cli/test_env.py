"""How agents are pointed at the proxy."""

import json
import tomllib

import pytest

from services.cli import run
from services.cli.agents import AGENTS, BY_NAME, text_for


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_every_text_carries_address_and_token(agent):
    """No placeholder is left, the address is the proxy's, and a token is where the agent sends it."""
    text = text_for(agent, "http://127.0.0.1:9", "some-model", "t0ken")
    assert "http://127.0.0.1:9" in text
    assert not {"{base}", "{model}", "{key}"} & set(text.split('"'))
    assert "t0ken" in text or agent.name in {"vibe", "ollama", "llm"}


@pytest.mark.parametrize(
    "agent", [a for a in AGENTS if a.file and a.file.endswith(".json")], ids=lambda a: a.name
)
def test_json_configurations_are_json(agent):
    """What goes into a JSON file parses."""
    json.loads(text_for(agent, "http://h:1", "m", None))


@pytest.mark.parametrize(
    "agent", [a for a in AGENTS if a.file and a.file.endswith(".toml")], ids=lambda a: a.name
)
def test_toml_configurations_are_toml(agent):
    """What goes into a TOML file parses."""
    tomllib.loads(text_for(agent, "http://h:1", "m", "t"))


def test_one_agent_prints_its_line_alone(monkeypatch, capsys):
    """Standard output can be evaluated or appended; the file's name goes to standard error."""
    monkeypatch.setenv("METALANCHOR_PORT", "9000")
    assert run(["env", "claude", "--model", "m"]) == 0
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1:9000 " in capsys.readouterr().out
    assert run(["env", "codex"]) == 0
    assert "~/.codex/config.toml" in capsys.readouterr().err


def test_without_an_agent_all_are_listed(capsys):
    """The list names every agent and where its setting goes."""
    assert run(["env", "--json"]) == 0
    assert [row["agent"] for row in json.loads(capsys.readouterr().out)["items"]] == list(BY_NAME)
    assert run(["env", "nobody"]) == 2


@pytest.mark.parametrize(("host", "shown"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]")])
def test_a_wildcard_address_is_reached_through_loopback(monkeypatch, capsys, host: str, shown: str):
    """The printed address is one that a client can connect to."""
    monkeypatch.setenv("METALANCHOR_HOST", host)
    monkeypatch.setenv("METALANCHOR_TOKEN", "t0ken")
    assert run(["env", "openai"]) == 0
    assert f"http://{shown}:8084/v1 OPENAI_API_KEY=t0ken" in capsys.readouterr().out


def test_a_model_that_is_not_named_is_said_to_be_missing(capsys):
    """On standard error, so that the line itself can still be copied by a script."""
    assert run(["env", "claude"]) == 0
    assert "--model NAME" in capsys.readouterr().err
    assert run(["env", "claude", "--model", "qwen3:8b"]) == 0
    said = capsys.readouterr()
    assert said.out.endswith("claude --model qwen3:8b\n")
    assert said.err == ""
