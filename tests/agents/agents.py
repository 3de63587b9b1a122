"""How each real agent is pointed at the proxy and run headless; one table row an agent.

Command lines are those a user would type, with an empty home and a small git project to work in.
"""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.agents.install import executable, node_bin

PROMPT = "Read hello.py"
FOLLOW_UP = "And README?"
MODEL = "small-model"
RUN_S = 120  # the slowest first run measured was 16 s on two cores


@dataclass(frozen=True)
class Agent:
    """One agent: its name in the history, how to configure a home, what to type, and what it is known to do.

    `resumed` is the relation of the first request of a resumed session: some agents rewrite their history.
    """

    name: str
    session_source: str
    configure: Callable[[Path, str], dict[str, str]]
    fresh: tuple[str, ...]
    resume: tuple[str, ...]
    resumed: str = "append"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _claude(_home: Path, url: str) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": "x", "DISABLE_TELEMETRY": "1"}


def _codex(home: Path, url: str) -> dict[str, str]:
    _write(
        home / ".codex" / "config.toml",
        f'model = "{MODEL}"\nmodel_provider = "ma"\napproval_policy = "never"\n'
        f'sandbox_mode = "danger-full-access"\n[model_providers.ma]\nname = "ma"\n'
        f'base_url = "{url}/v1"\nwire_api = "responses"\n',
    )
    return {}


def _opencode(home: Path, url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "x"},
        "models": {MODEL: {"limit": {"context": 131072, "output": 8192}}},
    }
    config = {"model": f"local/{MODEL}", "small_model": f"local/{MODEL}", "autoupdate": False}
    _write(
        home / ".config" / "opencode" / "opencode.json",
        json.dumps(config | {"provider": {"local": provider}}),
    )
    return {}


def _hermes(home: Path, url: str) -> dict[str, str]:
    _write(
        home / ".hermes" / "config.yaml",
        f'model:\n  provider: custom\n  base_url: "{url}/v1"\n  default: {MODEL}\n  context_length: 131072\n',
    )
    return {"OPENAI_API_KEY": "x"}


def _pi(home: Path, url: str) -> dict[str, str]:
    model = {
        "id": MODEL,
        "name": MODEL,
        "reasoning": True,
        "input": ["text"],
        "contextWindow": 131072,
        "maxTokens": 8192,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "x", "models": [model]}
    _write(home / ".pi" / "agent" / "models.json", json.dumps({"providers": {"local": provider}}))
    return {}


_PI = ("pi", "--provider", "local", "--model", MODEL)

AGENTS = (
    Agent(
        "claude-code",
        "x-claude-code-session-id",
        _claude,
        ("claude", "-p", PROMPT, "--model", MODEL, "--allowedTools", "Read"),
        ("claude", "-c", "-p", FOLLOW_UP, "--model", MODEL, "--allowedTools", "Read"),
    ),
    Agent(
        "codex",
        "thread-id",
        _codex,
        ("codex", "exec", PROMPT),
        ("codex", "exec", "resume", "--last", FOLLOW_UP),
    ),
    Agent(
        "opencode",
        "x-session-affinity",
        _opencode,
        ("opencode", "run", PROMPT),
        ("opencode", "run", "-c", FOLLOW_UP),
    ),
    Agent(
        "hermes",
        "lineage",
        _hermes,
        ("hermes", "chat", "--yolo", "-q", PROMPT),
        ("hermes", "chat", "--yolo", "-c", "-q", FOLLOW_UP),
        # On resume it drops the name of tool messages, so the first tool result breaks the history.
        resumed="rewrite",
    ),
    Agent("pi", "lineage", _pi, (*_PI, "-p", PROMPT), (*_PI, "-c", "-p", FOLLOW_UP)),
)


def project(folder: Path) -> Path:
    """A three-file git project for an agent to work in."""
    folder.mkdir(parents=True)
    (folder / "hello.py").write_text('print("hello")\n')
    (folder / "README.md").write_text("# Hello\n\nPrints hello.\n")
    (folder / "notes.txt").write_text("nothing\n")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "start"]):
        subprocess.run([*git, *command], cwd=folder, check=True)
    return folder


def run(
    agent: Agent, words: tuple[str, ...], home: Path, work: Path, url: str
) -> subprocess.CompletedProcess[str]:
    """Run one headless turn; the output is kept for the failure message only."""
    environment = {
        "HOME": str(home),
        "PATH": f"{node_bin()}{os.pathsep}{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "IS_SANDBOX": "1",
    } | agent.configure(home, url)
    return subprocess.run(
        [str(executable(words[0])), *words[1:]],
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
