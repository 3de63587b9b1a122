"""What was lost adds up: by cause, agent, session and model alike, each request's loss counted once."""

from collections import Counter
from typing import Any

import pytest

from services.history import reports
from services.history.engine import open_engine
from services.history.queries import Filters
from services.logger.store import Store
from tests.support.records import make_record

pytestmark = pytest.mark.process

CAUSES = [
    ["tool_reorder", "timestamp", "history_rewrite"],  # three breaks in one request: the first is booked
    ["timestamp", "checkpoint_or_window"],
    ["model_reload", "timestamp"],
    ["evicted_by"],
    [],
]


def lossy(number: int) -> Any:
    """A request of one of five kinds, three agents, seven sessions, two models."""
    codes = CAUSES[number % 5]
    causes = [{"code": code, "at": "system", "detail": {}, "severity": "break"} for code in codes]
    lost = 100 + number if codes else None
    return make_record(
        agent=f"agent-{number % 3}", session=f"s-{number % 7}", model=f"m-{number % 2}",
        cause=codes[0] if codes else None, causes=causes or None,
        lost_tokens=lost, lost_ms=lost * 2.5 if lost else None,
    )  # fmt: skip


@pytest.fixture
def records() -> list[Any]:
    return [lossy(number) for number in range(60)]


@pytest.fixture
def history(history_url: str, records: list[Any]):
    """A connection to a history that holds them."""
    engine = open_engine(history_url)
    Store(engine).save(records)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.mark.parametrize("group", ["cause", "agent", "session", "model", "hit", "hour"])
def test_every_grouping_sums_to_the_same_loss(history: Any, records: list[Any], group: str) -> None:
    tokens = sum(record.lost_tokens or 0 for record in records)
    (whole,) = reports.figures(history, Filters())
    found = reports.figures(history, Filters(), by=group)
    assert len(found) > 0
    assert (whole["lost_tokens"], whole["lost_ms"]) == (tokens, tokens * 2.5)
    assert sum(row["lost_tokens"] or 0 for row in found) == tokens
    assert sum(row["lost_ms"] or 0 for row in found) == pytest.approx(tokens * 2.5)


def test_a_loss_is_booked_to_the_first_cause_alone(history: Any, records: list[Any]) -> None:
    wanted: Counter[str] = Counter()
    for record in records:
        if record.cause:
            wanted[record.cause] += record.lost_tokens
    found = {row["cause"]: row["lost_tokens"] for row in reports.losses(history, Filters())}
    assert found == dict(wanted)
    assert "checkpoint_or_window" not in found
