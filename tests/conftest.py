"""What every test can rely on: an empty home, no settings from outside, and that leaks fail."""

import asyncio
import os
from asyncio import runners
from collections.abc import Iterator

import pytest

pytest_plugins = [
    "tests.support.backend.fixtures",
    "tests.support.jsonserver",
    "tests.support.modelserver",
    "tests.support.postgres",
    "tests.support.proxy",
    "tests.support.story",
    "tests.support.valkey",
    "tests.support.sentinel",
    "tests.support.vector_redis",  # after the one it is made of
    "tests.support.admin",  # after those it is made of
    "tests.support.caching",
    "tests.support.gallery",
    "tests.support.browser",
]

_cancel_all_tasks = runners._cancel_all_tasks


def _fail_on_leaked_tasks(loop: asyncio.AbstractEventLoop) -> None:
    leaked = [repr(task) for task in asyncio.all_tasks(loop)]
    _cancel_all_tasks(loop)
    assert not leaked, f"tasks outlived their test: {leaked}"


@pytest.fixture(autouse=True, scope="session")
def leaked_tasks_fail() -> Iterator[None]:
    """A task that is still pending when the event loop of a test closes fails that test.

    Sockets and files need no help: their ResourceWarning is an error.
    """
    runners._cancel_all_tasks = _fail_on_leaked_tasks
    yield
    runners._cancel_all_tasks = _cancel_all_tasks


@pytest.fixture(autouse=True)
def isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Home and configuration folders are new and empty; no METALANCHOR_ variable is set."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    for name in [name for name in os.environ if name.startswith("METALANCHOR_")]:
        monkeypatch.delenv(name)
