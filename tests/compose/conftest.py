"""An engine, images built from the sources as they are, and one set of containers for all tests."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compose import images
from tests.compose.engine import engine
from tests.compose.native import Native
from tests.compose.stack import Stack
from tests.support.backend import Backend, Engine, OpenAI

log = logging.getLogger("compose")


@pytest.fixture(scope="session")
def docker() -> Iterator[dict[str, str]]:
    """The environment in which `docker` reaches an engine that has all base images."""
    with engine() as env:
        images.prepare(env)
        yield env


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources that the images are built from."""
    return images.copy_context(tmp_path_factory.mktemp("build") / "context")


@pytest.fixture(scope="session")
def built(docker: dict[str, str], context: Path) -> dict[str, str]:
    """The same environment, once both images are built."""
    images.build("metalanchor-worker", context, docker)
    images.build("metalanchor-proxy", context, docker, "--build-arg", "PART=proxy")
    log.info("both images are built")
    return docker


@pytest.fixture(scope="session")
def shared_stack(built: dict[str, str]) -> Iterator[Stack]:
    """One set of containers."""
    stack = Stack(built, "metalanchor-test")
    stack.down()
    yield stack
    stack.down()


@pytest.fixture
def stack(shared_stack: Stack) -> Stack:
    """The shared containers, brought up as people do it."""
    shared_stack.up("redis", "worker")
    return shared_stack


@pytest.fixture
def native(stack: Stack, tmp_path: Path) -> Iterator[Native]:
    """A native proxy before a scripted model server, told by metalanchor.toml where the containers are."""
    backend = Backend().start()
    backend.answer(OpenAI(Engine(slots=8)))
    found = Native(tmp_path / "native", stack, backend.url)
    found.proxy.start()
    yield found
    found.proxy.kill()
    backend.stop()
    text = found.proxy.log.read_text()
    assert "Traceback" not in text, text
