"""The two service managers, launchd and systemd: what their files say and how they are told.

A file is rendered without touching the system; `load`, `unload` and `state` speak to the manager. Neither
needs root: the service belongs to the user whose agents it serves.
"""

import os
import plistlib
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from services.cli.errors import Failure

LABEL = "org.metalanchor"
NAME = "metalanchor.service"
# Two a relayed stream; macOS starts programs with 256.
FILES = 65_536
# The programs stop within 3 s by contract.
STOP_S = 10
PAUSE_S = 3
ASK_S = 30.0
BAD_SETTINGS = 2  # exit code; starting again would not help


class Service(NamedTuple):
    """What is to run: the command line, its environment and the folder it starts in."""

    argv: list[str]
    env: Mapping[str, str]
    folder: Path


class State(NamedTuple):
    """`running` says whether the process lives; `about` is what the manager tells of it."""

    running: bool
    about: str


class Manager(Protocol):
    """One platform's service manager."""

    @property
    def path(self) -> Path:
        """Where its file is."""

    @property
    def logs(self) -> str:
        """How its log is read."""

    @property
    def hint(self) -> str:
        """What else the user should know; empty where nothing."""

    def render(self, service: Service) -> bytes:
        """The file."""

    def load(self) -> None:
        """Start the service from its file, now and at each login; raises `Failure`."""

    def unload(self) -> None:
        """Stop it, now and for good; no error where it was not loaded."""

    def state(self) -> State:
        """Whether it runs."""


class Launchd:
    """macOS: an agent of the user's session."""

    hint = ""

    @property
    def path(self) -> Path:
        """Where its file is."""
        return Path.home() / "Library/LaunchAgents" / f"{LABEL}.plist"

    @property
    def log(self) -> Path:
        """Where output goes."""
        return Path.home() / "Library/Logs/metalanchor.log"

    @property
    def logs(self) -> str:
        """How its log is read."""
        return f"tail -f {self.log}"

    def render(self, service: Service) -> bytes:
        """A property list. `Interactive`: the system must not slow down what requests wait for."""
        return plistlib.dumps(
            {
                "Label": LABEL,
                "ProgramArguments": service.argv,
                "EnvironmentVariables": dict(service.env),
                "WorkingDirectory": str(service.folder),
                "RunAtLoad": True,
                "KeepAlive": True,
                "ThrottleInterval": PAUSE_S,
                "ExitTimeOut": STOP_S,
                "ProcessType": "Interactive",
                "SoftResourceLimits": {"NumberOfFiles": FILES},
                "StandardOutPath": str(self.log),
                "StandardErrorPath": str(self.log),
            }
        )

    def load(self) -> None:
        """Start the service from its file, now and at each login; raises `Failure`."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.unload()
        _tell("launchctl", "bootstrap", self._domain, str(self.path))

    def unload(self) -> None:
        """Stop it, now and for good; no error where it was not loaded."""
        _ask("launchctl", "bootout", f"{self._domain}/{LABEL}")

    def state(self) -> State:
        """Whether it runs."""
        code, said = _ask("launchctl", "print", f"{self._domain}/{LABEL}")
        if code:
            return State(running=False, about="not loaded")
        found = dict(re.findall(r"(?m)^\s*(state|pid|last exit code) = (.*)$", said))
        about = ", ".join(f"{name} {value}" for name, value in found.items())
        return State(found.get("state") == "running", about)

    @property
    def _domain(self) -> str:
        return f"gui/{os.getuid()}"


class Systemd:
    """Linux: a unit of the user's systemd."""

    logs = "journalctl --user -u metalanchor -f"
    hint = "It ends when you log out, unless you run once: loginctl enable-linger"

    @property
    def path(self) -> Path:
        """Where its file is."""
        base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
        return Path(base) / "systemd/user" / NAME

    def render(self, service: Service) -> bytes:
        """A unit that starts again without end, but not with settings that are not understood."""
        command = " ".join(_quoted(part.replace("$", "$$")) for part in service.argv)
        environment = [f"Environment={_quoted(f'{name}={value}')}" for name, value in service.env.items()]
        lines = [
            "[Unit]",
            "Description=MetalAnchor, the proxy between agents and the local model server",
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            "Type=exec",
            f"ExecStart={command}",
            f"WorkingDirectory={str(service.folder).replace('%', '%%')}",
            *environment,
            "Restart=always",
            f"RestartSec={PAUSE_S}",
            f"RestartPreventExitStatus={BAD_SETTINGS}",
            f"TimeoutStopSec={STOP_S}",
            f"LimitNOFILE={FILES}",
            "NoNewPrivileges=yes",
            "",
            "[Install]",
            "WantedBy=default.target",
            "",
        ]
        return "\n".join(lines).encode()

    def load(self) -> None:
        """Start the service from its file, now and at each login; raises `Failure`."""
        _tell("systemctl", "--user", "daemon-reload")
        _tell("systemctl", "--user", "enable", NAME)
        _tell("systemctl", "--user", "restart", NAME)

    def unload(self) -> None:
        """Stop it, now and for good; no error where it was not loaded."""
        _ask("systemctl", "--user", "disable", "--now", NAME)

    def state(self) -> State:
        """Whether it runs."""
        wanted = ("ActiveState", "SubState", "MainPID", "NRestarts", "Result")
        options = [part for name in wanted for part in ("-p", name)]
        code, said = _ask("systemctl", "--user", "show", *options, NAME)
        if code:
            return State(running=False, about=said.strip() or "systemd does not answer")
        found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
        return State(found.get("ActiveState") == "active", ", ".join(f"{k} {v}" for k, v in found.items()))


def manager() -> Manager:
    """The manager of this platform; raises `Failure` where there is none."""
    if sys.platform == "darwin":
        return Launchd()
    if sys.platform.startswith("linux"):
        return Systemd()
    raise Failure(f"There is no service for {sys.platform}. Run `metalanchor up` by other means.")


def _quoted(text: str) -> str:
    r"""One word of a unit file: systemd reads ``%`` and, inside quotes, ``\`` and ``"``."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _tell(*command: str) -> None:
    code, said = _ask(*command)
    if code:
        raise Failure(f"`{' '.join(command)}` failed: {said.strip() or f'exit code {code}'}")


def _ask(*command: str) -> tuple[int, str]:
    try:
        done = subprocess.run(  # noqa: S603 - argv is ours
            command, capture_output=True, text=True, timeout=ASK_S, check=False
        )
    except FileNotFoundError:
        raise Failure(
            f"{command[0]} is not on this machine. Run `metalanchor up` under the service manager you have."
        ) from None
    except subprocess.TimeoutExpired:
        return 1, f"no answer within {ASK_S:.0f} s"
    return done.returncode, done.stdout + done.stderr
