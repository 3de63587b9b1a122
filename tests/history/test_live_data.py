"""Live data before stable text, and what moving it to the end would save, on both databases."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection

from services.history import live_data as module
from services.history.engine import open_engine
from services.history.live_data import live_data
from services.history.queries import Filters
from services.logger.store import Store
from services.record import Record
from tests.support.records import make_record

pytestmark = pytest.mark.process


def broken(cause: str = "timestamp", at: str = "system[0]", behind: int = 4_000, **more: Any) -> Record:
    """A turn whose prompt broke there, before so many bytes that were equal again."""
    causes = [{"code": cause, "severity": "break", "at": at, "detail": {"equal_after_divergence": behind}}]
    figures = {"prompt_tokens": 2_000, "cached_tokens": 100, "lost_tokens": 1_000, "lost_ms": 500.0}
    return make_record(cause=cause, diverged_at=at, causes=causes, **{**figures, **more})


@pytest.fixture
def history(history_url: str) -> Iterator[Connection]:
    """Clocks at the head, one at the end, one of an unmeasured request, and edits that are no live data."""
    engine = open_engine(history_url)
    Store(engine).save([
        broken(), broken(lost_tokens=500, lost_ms=250.0),
        broken(cached_tokens=None, lost_tokens=900),
        broken("counter", "messages[3]", 50, agent="cline", lost_tokens=10, lost_ms=5.0),
        broken("counter", "messages[5]", 50, agent="cline", lost_tokens=10, lost_ms=5.0),
        broken(at="messages[9]", behind=0, agent="late"),
        broken("system_edit", agent="editor"),
        make_record(cause=None, causes=None, diverged_at=None),
    ])  # fmt: skip
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_each_place_is_named_with_what_moving_it_would_save(history: Connection) -> None:
    """Dearest first, places in a conversation together; what was not measured is counted, not guessed."""
    found = live_data(history, Filters())
    assert found["items"] == [
        {"agent": "hermes", "cause": "timestamp", "at": "system[0]", "requests": 3, "behind_bytes": 12_000,
         "measured": 2, "saves_tokens": 1_500, "saves_ms": 750.0},
        {"agent": "cline", "cause": "counter", "at": "messages[…]", "requests": 2, "behind_bytes": 100,
         "measured": 2, "saves_tokens": 20, "saves_ms": 10.0},
    ]  # fmt: skip
    assert (found["requests"], found["saves_tokens"], found["saves_ms"]) == (5, 1_520, 760.0)


def test_filters_narrow_it(history: Connection) -> None:
    """As every figure of a report."""
    assert [item["agent"] for item in live_data(history, Filters(agent="cline"))["items"]] == ["cline"]
    assert live_data(history, Filters(agent="nobody"))["items"] == []


def test_only_so_many_requests_are_looked_at(history: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer takes its time by that number, not by the length of the history."""
    monkeypatch.setattr(module, "NEWEST", 0)
    assert live_data(history, Filters())["items"] == []
