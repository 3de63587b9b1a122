"""`metalanchor up` on a machine without a model server: it serves through the stand-in."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from services import engine
from tests.support.http import Client
from tests.support.proxy import free_port
from tests.support.rows import wait_for

pytestmark = [pytest.mark.engine, pytest.mark.process]


def test_the_main_job_runs_on_a_machine_that_has_nothing(tmp_path: Path):
    """One command, and an OpenAI-shaped request is answered by a real engine and recorded."""
    data, port, log = tmp_path / "data", free_port(), tmp_path / "up.txt"
    env = {
        **os.environ,
        "METALANCHOR_DATA_DIR": str(data),
        "METALANCHOR_PORT": str(port),
        "METALANCHOR_EMBEDDED_ENGINE": "always",
    }
    with log.open("wb") as out:
        up = subprocess.Popen([sys.executable, "-m", "services.cli", "up"], env=env, stdout=out, stderr=out)
    try:
        wait_for(lambda: up.poll() is not None or "serves at" in log.read_text(), 60)
        assert up.poll() is None, log.read_text()
        wait_for(lambda: _chat(port) == 200, 60)
        recorded = [sys.executable, "-m", "services.cli", "requests", "--json"]
        items = wait_for(lambda: json.loads(subprocess.check_output(recorded, env=env))["items"])
        assert items[0]["backend_kind"] == "llama-server"
    finally:
        up.terminate()
        assert up.wait(20) == 0


def test_openmp_is_found_in_a_wheel_where_the_system_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """On a bare Linux the child gets a library folder; where the system has OpenMP it gets nothing."""
    if not sys.platform.startswith("linux"):
        pytest.skip("only the Linux wheel of llama.cpp takes OpenMP from elsewhere")
    monkeypatch.setattr(engine, "_loads", lambda _: False)
    folder = Path(engine.environment(tmp_path)["LD_LIBRARY_PATH"].split(":")[0])
    subprocess.run(
        [sys.executable, "-c", "import ctypes; ctypes.CDLL('libgomp.so.1').GOMP_parallel"],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
        check=True,
    )
    assert folder.is_relative_to(tmp_path)
    monkeypatch.setattr(engine, "_loads", lambda _: True)
    assert engine.environment(tmp_path) == {}


def _chat(port: int) -> int:
    body = json.dumps({"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]})
    with Client(port, timeout=60) as client:
        return client.request("POST", "/v1/chat/completions", body.encode()).status
