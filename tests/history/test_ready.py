"""The ready queries run through the console as they stand, on both databases."""

import pytest

from services.history.console import run_sql
from services.history.engine import open_engine
from services.history.ready import QUERIES
from services.logger.store import Store
from tests.support.records import make_record, make_records

pytestmark = pytest.mark.process


@pytest.fixture
def filled_url(history_url):
    """A history in which every ready query finds something."""
    engine = open_engine(history_url)
    store = Store(engine)
    first, *rest = make_records(30, lost_ms=12_000.0, lost_tokens=900, cached_tokens=900)
    store.save([first, *rest])
    store.save([make_record(evicted_by=first.id, lost_ms=9_000.0, cause="evicted_by", agent="codex")])
    store.save([make_record(model="claude-sonnet-5", cost_usd=0.25, savings_usd=0.75)])
    store.save([make_record(status="upstream_error", http_status=500, error="out_of_memory")])
    engine.dispose()
    return history_url


def test_each_finds_something(filled_url):
    """One statement each, accepted by the fences, with named columns and at least one row."""
    for ready in QUERIES:
        answer = run_sql(filled_url, ready.sql)
        assert answer.rows, ready.name
        assert len(set(answer.columns)) == len(answer.columns), ready.name


def test_each_runs_on_an_empty_history(history_url):
    """The first day."""
    for ready in QUERIES:
        assert run_sql(history_url, ready.sql).rows == [], ready.name


def test_losses_come_worst_first(filled_url):
    """The first page's question, in SQL."""
    sql = next(ready.sql for ready in QUERIES if ready.name == "lost-by-agent")
    answer = run_sql(filled_url, sql)
    place = answer.columns.index("lost_s")
    lost = [row[place] for row in answer.rows]
    assert lost == sorted(lost, reverse=True)
    assert lost[0] == 360


def test_names_are_unique_and_fit_an_address():
    """They are in links and commands."""
    names = [ready.name for ready in QUERIES]
    assert len(names) == len(set(names))
    assert all(name.replace("-", "").isalpha() for name in names)
