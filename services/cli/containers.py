"""The command that brings a missing container back, as ``metalanchor doctor`` tells it.

It owns no state: it looks whether the settings point at containers, which Compose there is, and whether its
engine answers.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import services
from services.settings import is_loopback

FILE_NAME = "docker-compose.yml"
# A server on this machine at its usual port was installed here; docker-compose.yml publishes on other ports.
USUAL_PORTS = {"redis": 6379, "rediss": 6379, "postgres": 5432, "postgresql": 5432}
ASK_S = 5.0  # a client that has to look for a sleeping engine takes about one second


def start(url: str | None, *names: str) -> str | None:
    """The command that starts these services, where `url` leads to a container; None where it does not."""
    file = _compose_file()
    if url is None or file is None or not _is_published(url):
        return None
    command = _compose()
    if command is None:
        return f"Install Docker with Compose, then: docker compose {_chosen(file)}up -d {' '.join(names)}"
    up = f"{' '.join(command)} {_chosen(file)}up -d {' '.join(names)}"
    if not _succeeds("docker", "info"):
        wake = "open -a Docker" if sys.platform == "darwin" else "sudo systemctl start docker"
        return f"{wake}; then: {up}"
    return up


def _is_published(url: str) -> bool:
    try:
        parts = urlsplit(url)
        usual = USUAL_PORTS.get(parts.scheme.partition("+")[0])
        return usual is not None and is_loopback(parts.hostname or "") and (parts.port or usual) != usual
    except ValueError:
        return False


def _compose_file() -> Path | None:
    """The file in the present folder, else the one of the clone that this program runs from."""
    clone = Path(services.__file__).resolve().parent.parent
    return next((place / FILE_NAME for place in (Path.cwd(), clone) if (place / FILE_NAME).is_file()), None)


def _chosen(file: Path) -> str:
    return "" if file.parent == Path.cwd() else f"-f {file} "


def _compose() -> tuple[str, ...] | None:
    if _succeeds("docker", "compose", "version"):
        return ("docker", "compose")
    return ("docker-compose",) if shutil.which("docker-compose") else None


def _succeeds(*command: str) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=ASK_S, check=False)  # noqa: S603 - ours
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
