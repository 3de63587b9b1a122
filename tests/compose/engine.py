"""The Docker engine the tests use: the one that answers, else one of their own for as long as they run."""

import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.rows import wait_for

log = logging.getLogger("compose")
ROOT = Path(__file__).parent.parent.parent
# Images and layers of an engine of our own; kept, so that the next run does not build everything anew.
OWN_DATA = ROOT / ".compose"
START_S = 30.0


class EngineError(RuntimeError):
    """No Docker engine can be used; the text says what to do."""


def run(*command: str, env: dict[str, str] | None = None, check: bool = True, cwd: Path = ROOT) -> str:
    """One command's standard output and error; fails with all of it."""
    done = subprocess.run(
        command, env=env, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert not check or done.returncode == 0, f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}"
    return done.stdout.strip()


def answers(env: dict[str, str]) -> bool:
    """Whether an engine answers the docker client."""
    if shutil.which("docker") is None:
        return False
    done = subprocess.run(["docker", "version"], env=env, capture_output=True, timeout=20, check=False)
    return done.returncode == 0


@contextmanager
def engine() -> Iterator[dict[str, str]]:
    """The environment in which ``docker`` reaches an engine."""
    env = dict(os.environ)
    if answers(env):
        log.info("engine: the one that answers")
        yield env
        return
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        raise EngineError("No Docker engine answers. Start one (on Debian: apt-get install docker.io).")
    with tempfile.TemporaryDirectory(prefix="ma-docker-") as folder, _own(Path(folder), env) as process:
        log.info("engine: a dockerd of our own, process %d", process.pid)
        yield env


@contextmanager
def _own(folder: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    env["DOCKER_HOST"] = f"unix://{folder}/docker.sock"
    OWN_DATA.mkdir(exist_ok=True)
    with (OWN_DATA / "dockerd.log").open("wb") as output:
        process = subprocess.Popen(
            [
                "dockerd", "--host", env["DOCKER_HOST"], "--data-root", str(OWN_DATA / "docker"),
                "--exec-root", str(folder / "exec"), "--pidfile", str(folder / "docker.pid"),
            ],
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(lambda: answers(env) or process.poll() is not None, START_S)
        if process.poll() is not None:
            raise EngineError((OWN_DATA / "dockerd.log").read_text()[-3000:])
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()
        process.wait()
        _unmount(folder)


def _unmount(folder: Path) -> None:
    """An engine that has ended leaves its network name spaces and, when killed, its layers mounted."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in reversed(mounts):
        if Path(place).is_relative_to(folder) or Path(place).is_relative_to(OWN_DATA):
            run("umount", place, check=False)
