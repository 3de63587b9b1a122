"""The supervisor keeps children running and stops them all."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services import supervisor
from services.supervisor import Child, Supervisor
from tests.support.rows import wait_for

pytestmark = pytest.mark.process

SLEEP = "import time; time.sleep(60)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); {SLEEP}"
PARENT = """
import subprocess, sys, time
code = (
    "from services.supervisor import leave_with_parent; import time; leave_with_parent();"
    "print(1, flush=True); time.sleep(60)"
)
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def said() -> list[str]:
    """What the supervisor told the user."""
    return []


@pytest.fixture
def watched(said: list[str]) -> Iterator[Supervisor]:
    """A supervisor that is stopped at the end."""
    found = Supervisor(said.append)
    yield found
    found.stop()


@pytest.fixture
def child(tmp_path: Path) -> Callable[..., Child]:
    """Makes children that run a line of Python."""

    def make(name: str, code: str, stop_s: float = 5.0) -> Child:
        return Child(name, [sys.executable, "-c", code], dict(os.environ), tmp_path / f"{name}.log", stop_s)

    return make


def test_a_dead_child_is_started_again_and_told_once(watched: Supervisor, child, said: list[str]):
    """A kill brings a new process under the same name, with one sentence."""
    one = watched.add(child("one", SLEEP))
    first = one.pid
    os.kill(first, signal.SIGKILL)

    wait_for(lambda: not watched.pause(0.05) and one.pid not in (None, first))

    assert len(said) == 1
    assert "one ended (by SIGKILL)" in said[0]


def test_a_child_that_always_dies_is_retried_ever_more_slowly(watched: Supervisor, child, said: list[str]):
    """A crash loop neither floods the terminal nor the processor."""
    one = watched.add(child("one", "print('broken'); raise SystemExit(3)"))

    watched.pause(2.5)

    assert 1 <= one.restarts <= 3
    assert len(said) == 1
    assert "exit code 3" in said[0]
    assert "broken" in one.tail()


def test_stop_is_asked_for_and_waits_for_all(watched: Supervisor, child):
    """After `stop` no child is left, also one that ignores SIGTERM."""
    one, deaf = watched.add(child("one", SLEEP)), watched.add(child("deaf", DEAF, stop_s=0.3))
    wait_for(lambda: "deaf" in deaf.tail())

    watched.stop()

    assert (one.pid, deaf.pid) == (None, None)


def test_pause_ends_when_a_stop_is_asked_for(watched: Supervisor):
    """A signal handler that sets `stopping` ends the wait at once."""
    watched.stopping.set()
    start = time.monotonic()
    assert watched.pause(60)
    assert time.monotonic() - start < 10


def test_children_leave_with_their_parent():
    """A child that watches its parent ends soon after that was killed."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    with parent:
        child = int(parent.stdout.readline())
        parent.kill()
    wait_for(lambda: not _runs(child))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")  # an orphan that nobody reaps stays as a zombie
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_restarts_start_anew_after_a_healthy_life(watched: Supervisor, child, said: list[str], monkeypatch):
    """A child that ran for long before it died is told of again and restarted quickly."""
    monkeypatch.setattr(supervisor, "HEALTHY_S", 0.0)
    one = watched.add(child("one", SLEEP))
    for count in (1, 2):
        pid = one.pid
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda pid=pid: not watched.pause(0.05) and one.pid not in (None, pid))
        assert len(said) == count
