"""Writes the hashed lock files in ``requirements/`` from ``pyproject.toml``: ``python tools/lock.py``.

Needs pip-tools (``.venv/bin/pip install pip-tools``). One file a purpose, so that each machine installs what
it needs: ``runtime`` (the product with its embedded server and the PostgreSQL driver), ``proxy`` and
``worker`` (what their container images need of it), ``test`` (runners and linters), ``engine`` (the stand-in
model server) and ``semantic`` (embeddings). They name no registry and carry the hashes of every wheel of a
version, so the same file serves Linux and macOS.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
OPTIONS = (
    "--quiet", "--generate-hashes", "--allow-unsafe", "--strip-extras", "--no-annotate",
    "--no-emit-index-url", "--no-emit-trusted-host", "--no-emit-find-links",
)  # fmt: skip
# redis-py and valkey-py want it below Python 3.11.3, and Debian 12 ships 3.11.2; a resolver that runs on a
# newer Python leaves it out, and a hashed install then refuses.
OLD_PYTHON = ("async-timeout>=4.0.3",)
# What `metalanchor worker` and `metalanchor migrate` import; tests/compose runs both from an image of these.
WORKER = frozenset({
    "alembic", "click", "hiredis", "msgspec", "platformdirs",
    "prometheus-client", "redis", "rq", "sqlalchemy",
})  # fmt: skip


def wanted(project: dict[str, Any]) -> dict[str, list[str]]:
    """The requirements of each lock file, by its name."""
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    dependencies = project["project"]["dependencies"]
    common = [*extras["postgres"], *project["build-system"]["requires"], *OLD_PYTHON]
    return {
        "runtime": [*dependencies, *extras["embedded"], *common],
        "proxy": [*dependencies, *common],
        "worker": [*(line for line in dependencies if _name(line) in WORKER), *common],
        "test": [*groups["test"], *groups["lint"]],
        "engine": extras["engine"],
        "semantic": extras["semantic"],
    }


def _name(line: str) -> str:
    return re.split(r"[^\w-]", line, maxsplit=1)[0]


def compile_lock(name: str, requirements: list[str]) -> None:
    """Resolve one lock file; what runtime pins binds the others."""
    bound = [] if name == "runtime" else ["--constraint", "requirements/runtime.txt"]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "piptools",
            "compile",
            *OPTIONS,
            *bound,
            "-o",
            f"requirements/{name}.txt",
            "-",
        ],
        input="\n".join(requirements),
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "CUSTOM_COMPILE_COMMAND": "python tools/lock.py"},
    )


if __name__ == "__main__":
    for lock, requirements in wanted(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))).items():
        compile_lock(lock, requirements)
