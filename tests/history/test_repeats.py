"""What was sent again: tool calls made twice and chunks that came back elsewhere, on both databases."""

import pytest

from services.history import repeats
from services.history.engine import open_engine
from services.history.queries import Filters
from services.logger.store import Store
from tests.support.records import START_MS, make_record

pytestmark = pytest.mark.process

EVERYTHING = Filters()
LIST, READ, TEXT, OTHER = "a" * 12, "b" * 12, "c" * 12, "d" * 12


@pytest.fixture
def history(history_url):
    """A connection to three requests of two sessions."""
    engine = open_engine(history_url)
    Store(engine).save(
        [
            make_record(session="1", new_chunks=[f"m{TEXT}300", f"c{LIST}1000", f"s{OTHER}5000"]),
            make_record(session="1", new_chunks=[f"c{LIST}900", f"c{READ}50"], received_at=START_MS + 60_000),
            make_record(session="2", new_chunks=[f"m{TEXT}300", f"c{LIST}1000", f"m{OTHER}70000"]),
            make_record(session="3", new_chunks=None),
        ]
    )
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_tool_calls_made_again_count_the_results_that_came_again(history):
    """Three times the same call: two results need not have been sent, the largest of them had to."""
    found = repeats.repeated_calls(history, EVERYTHING)
    assert (found["calls"], found["repeated"], found["bytes"]) == (4, 2, 1_900)
    assert found["items"] == [
        {"kind": "c", "hash": LIST, "times": 3, "sessions": 2, "size": 1_000, "bytes": 1_900}
    ]


def test_chunks_that_came_back_elsewhere(history):
    """A message another session sent before; a system prompt with a message's hash is something else."""
    found = repeats.moved_chunks(history, EVERYTHING)
    assert (found["chunks"], found["repeated"], found["bytes"]) == (4, 1, 300)
    assert [(item["hash"], item["sessions"]) for item in found["items"]] == [(TEXT, 2)]


def test_only_so_many_requests_are_looked_at_the_newest_ones(history, monkeypatch):
    """The answer takes its time by that number, not by the length of the history."""
    monkeypatch.setattr(repeats, "NEWEST", 1)
    found = repeats.repeated_calls(history, EVERYTHING)
    assert (found["calls"], found["repeated"], found["newest"]) == (2, 0, 1)


def test_message_sizes_cover_every_class(history):
    """Messages alone, each where it was added."""
    counts = [row["count"] for row in repeats.message_sizes(history, EVERYTHING)]
    assert counts == [0, 2, 0, 0, 0, 1, 0]


def test_filters_and_empty_histories(history):
    """Nothing added is zero of nothing."""
    assert repeats.repeated_calls(history, Filters(session="3")) == {
        "calls": 0, "repeated": 0, "bytes": 0, "items": [], "newest": repeats.NEWEST,
    }  # fmt: skip
