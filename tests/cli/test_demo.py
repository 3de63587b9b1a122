"""`bench` and `demo` with a stack of their own: private, told apart from the user's, and gone afterwards."""

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from services.cli import demo, run
from services.cli.private_stack import private_stack
from services.cli.stack import Stack
from services.settings import Settings
from tests.support.backend import Backend, Engine, Llama

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]


@pytest.fixture
def engine(backend: Backend, unused_port: int, monkeypatch) -> Backend:
    """A scripted llama-server that caches; the user's port is free."""
    backend.answer(Llama(Engine(slots=2, per_token=0.0005)))
    monkeypatch.setenv("METALANCHOR_PORT", str(unused_port))
    return backend


def test_demo_measures_and_names_the_dashboard(engine: Backend, monkeypatch, capsys, unused_port):
    """On the user's port where that is free; rising reuse, the gain, and where to look."""

    def on_scripted(folder, say, backend, **more):
        assert backend is None
        return private_stack(folder, say, engine.url, **more)

    monkeypatch.setattr(demo, "private_stack", on_scripted)
    assert run(["demo", "--exit"]) == 0
    out = capsys.readouterr().out
    assert "Reused at each turn of the session: 0.0%, " in out
    assert "times as fast" in out
    assert (
        out.rstrip()
        .splitlines()[-1]
        .startswith(f"The dashboard was at http://127.0.0.1:{unused_port}/metalanchor/")
    )
    assert (Settings().data_path / "demo" / "history.sqlite").is_file()


def test_bench_starts_what_it_needs_and_leaves_nothing(engine: Backend, capfd, tmp_path: Path, monkeypatch):
    """With a server named and no proxy running; a broken setting of the user's own plays no part."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    line = [
        "bench",
        "--backend",
        engine.url,
        "--scenarios",
        "E",
        "--scale",
        "0.1",
        "--length",
        "0.1",
        "--json",
    ]
    assert run(line) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["scenarios"]["E"]["hits"] == {"exact": 2, "none": 1}
    assert found["engine"]["kind"] == "llama-server"
    assert list(tmp_path.glob("ma-bench-*")) == []


def test_a_second_interrupt_does_not_keep_it_from_stopping(engine: Backend, tmp_path: Path, monkeypatch):
    """Who is impatient presses Ctrl-C twice; the children end all the same, and afterwards it works again."""
    stop = Stack.stop

    def disturbed(stack: Stack) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        stop(stack)

    monkeypatch.setattr(Stack, "stop", disturbed)
    others = set(psutil.Process().children())
    with private_stack(tmp_path, print, engine.url):
        children = set(psutil.Process().children()) - others

    _, alive = psutil.wait_procs(children, timeout=5)
    assert len(children) >= 3
    assert alive == []
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
