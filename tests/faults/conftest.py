"""Fixtures of the fault suite, and the table it leaves in docs/reliability.md when every fault was run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults import report
from tests.faults.drill import Drill, Result
from tests.faults.stack import Stack
from tests.faults.traffic import Traffic
from tests.support.postgres import Postgres, running
from tests.support.valkey import Valkey

DURABLE = {
    "synchronous_commit": "on",
    "full_page_writes": "on",
}  # as delivered: a killed server keeps commits
_results: list[Result] = []


@pytest.fixture(scope="session")
def durable() -> Iterator[Postgres]:
    """A PostgreSQL of this suite's own, since it is killed and frozen."""
    with running(DURABLE) as server:
        yield server


@pytest.fixture
def make_stack(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Stack]]:
    """Starts an installation on SQLite, or with ``database="postgresql"`` on a fresh PostgreSQL database."""
    stacks: list[Stack] = []
    opened: list[Any] = []

    def make(database: str = "sqlite", **settings: Any) -> Stack:
        url = f"sqlite:///{tmp_path / 'history.sqlite'}"
        if database == "postgresql":
            opened.append(request.getfixturevalue("durable").database())
            url = opened[-1].__enter__()
        elif database != "sqlite":
            url = database
        stacks.append(Stack(tmp_path / f"stack{len(stacks)}", url, **settings))
        return stacks[-1].start()

    yield make
    for stack in stacks:
        stack.stop()
    for context in opened:
        context.__exit__(None, None, None)


@pytest.fixture
def unused_valkey(tmp_path: Path) -> Iterator[Valkey]:
    """A server that a stack may start."""
    folder = tmp_path / "redis"
    folder.mkdir()
    server = Valkey(folder)
    yield server
    server.stop()


@pytest.fixture
def drill() -> Callable[..., Any]:
    """Steady traffic for the length of a block, and what a fault in it did."""

    @contextmanager
    def begin(name: str, stack: Stack, **traffic: Any) -> Iterator[Drill]:
        with Traffic(stack.proxy.port, **traffic) as flowing:
            yield Drill(name, stack, flowing)

    return begin


@pytest.fixture
def done() -> Callable[[Result], None]:
    """Puts a line into the table."""
    return _results.append


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the table after a run of everything that passed; print it in any case."""
    report.finish(_results, whole=exitstatus == 0 and report.is_whole(_results))
