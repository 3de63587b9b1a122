"""The programs that run on this machine beside the containers, told where they are by metalanchor.toml."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.compose.engine import ROOT
from tests.compose.stack import Stack
from tests.support.proxy import Proxy


class Native:
    """A proxy and the command line, with a home of their own in which the example settings are."""

    def __init__(self, folder: Path, stack: Stack, backend_url: str) -> None:
        self.proxy = Proxy(folder, backend_url)
        self._stack = stack
        self._folder = folder
        self._write_settings()

    def command(self, *arguments: str, check: bool = True) -> Any:
        """One `metalanchor` command's JSON."""
        own = {
            "HOME": str(self._folder),
            "XDG_CONFIG_HOME": str(self._folder / "config"),
            "METALANCHOR_PORT": str(self.proxy.port),
            "METALANCHOR_DATA_DIR": str(self._folder / "data"),
            "METALANCHOR_BACKEND_URL": self.backend_url,
        }
        done = subprocess.run(
            [sys.executable, "-m", "services.cli", *arguments, "--json"],
            env=self._stack.env | own, cwd=self._folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    @property
    def backend_url(self) -> str:
        return str(self.proxy._settings["backend_url"])

    def rows(self, columns: str) -> list[dict[str, Any]]:
        """Columns of all generations, in the order of their ids, as `metalanchor query` prints them."""
        statement = f"SELECT {columns} FROM requests WHERE kind = 'generation' ORDER BY id"
        return self.command("query", statement, "--limit", "1000000")["items"]

    def advice(self) -> dict[str, dict[str, str]]:
        """The doctor's verdicts by check."""
        found = self.command("doctor", check=False)
        return {row["check"]: row for row in found["items"]}

    def _write_settings(self) -> None:
        text = (ROOT / "metalanchor.example.toml").read_text("utf-8")
        for service, port in (("redis", "6384"), ("postgres", "5484")):
            assert f"127.0.0.1:{port}/" in text
            text = text.replace(f"127.0.0.1:{port}/", f"127.0.0.1:{self._stack.ports[service]}/")
        folders = {"darwin": self._folder / "Library/Application Support"}
        target = folders.get(sys.platform, self._folder / "config") / "metalanchor/metalanchor.toml"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")


def on_this_kernel(pid: int) -> bool:
    """Whether a container's process is one that we may kill: root, and no virtual machine between."""
    return os.geteuid() == 0 and Path(f"/proc/{pid}").is_dir()
