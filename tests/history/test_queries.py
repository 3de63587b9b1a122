"""Lists, single rows and sums, the same on both databases."""

from datetime import UTC, datetime, timedelta

import pytest

from services.history import queries
from services.history.queries import Filters
from tests.support.records import START_MS, make_record, make_records

pytestmark = pytest.mark.process


def save(history, records):
    history.info["store"].save(records)
    return records


def test_pages_newest_first_without_gaps_or_repeats(history):
    """Keyset paging: pages join to the whole list, also while rows are added."""
    records = save(history, make_records(25))
    seen, cursor = [], None
    while True:
        answer = queries.list_requests(history, Filters(), cursor, 10)
        seen += [item["id"] for item in answer["items"]]
        history.rollback()
        save(history, [make_record()])
        cursor = answer["next"]
        if cursor is None:
            break
    assert seen == [record.id for record in reversed(records)]


def test_the_last_page_has_no_next(history):
    """`next` is null exactly when nothing follows."""
    save(history, make_records(10))
    assert queries.list_requests(history, Filters(), None, 10)["next"] is None
    assert queries.list_requests(history, Filters(), None, 9)["next"] is not None


@pytest.mark.parametrize("name", ["session", "agent", "model", "hit", "cause", "status", "kind", "lineage"])
def test_each_filter_selects_its_value(history, name):
    """A filter is equality on its column."""
    save(history, make_records(4))
    wanted = save(history, [make_record(**{name: "wanted"})])
    answer = queries.list_requests(history, Filters(**{name: "wanted"}))
    assert [item["id"] for item in answer["items"]] == [wanted[0].id]


def test_since_is_inclusive_and_until_exclusive(history):
    """Neighbouring windows share no row and miss none."""
    save(history, make_records(10))
    start = datetime.fromtimestamp(START_MS / 1000, UTC)
    window = Filters(since=start + timedelta(seconds=3), until=start + timedelta(seconds=6))
    times = [item["received_at"] for item in queries.list_requests(history, window)["items"]]
    assert times == ["2025-11-29T07:06:45.000Z", "2025-11-29T07:06:44.000Z", "2025-11-29T07:06:43.000Z"]


@pytest.mark.parametrize("cursor", ["'; DROP TABLE requests; --", "", "x" * 37])
def test_a_cursor_of_ones_own_making_is_refused(history, cursor):
    """The API answers 400 instead of an empty page."""
    with pytest.raises(queries.BadCursor):
        queries.list_requests(history, Filters(), cursor)


def test_the_limit_is_capped(history):
    """However much is asked for, a page has at most 1,000 rows."""
    save(history, make_records(1_005))
    assert len(queries.list_requests(history, Filters(), None, 10**9)["items"]) == 1_000


def test_a_row_has_every_column_ready_for_json(history):
    """Times are ISO 8601 in UTC; JSON columns are objects."""
    (record,) = save(history, [make_record()])
    row = queries.get_request(history, record.id)
    assert row["received_at"] == "2025-11-29T07:06:40.000Z"
    assert row["causes"][0]["code"] == "timestamp"
    assert queries.get_request(history, "none") is None


def test_children_are_the_requests_compared_with_one(history):
    """What came of a request: its continuation and its forks."""
    parent, child, other = make_records(3)
    child.parent_id = parent.id
    save(history, [parent, child, other])
    assert [row["id"] for row in queries.children(history, parent.id)] == [child.id]


def test_sessions_are_summed_and_paged_by_their_latest_request(history):
    """Each session once, over all pages, with its own sums."""
    records = save(history, make_records(100))
    seen, cursor = [], None
    while True:
        answer = queries.list_sessions(history, cursor, 3)
        seen += answer["items"]
        cursor = answer["next"]
        if cursor is None:
            break
    assert [group["session"] for group in seen] == [r.session for r in reversed(records[-7:])]
    first = seen[0]
    mine = [record for record in records if record.session == first["session"]]
    assert first["requests"] == len(mine)
    assert first["last_id"] == mine[-1].id
    assert first["cached_tokens"] == sum(record.cached_tokens for record in mine)
    assert first["last_agent"] == "hermes"


def test_sessions_are_found_beyond_one_stride(history, monkeypatch):
    """A chatty session does not hide the quiet ones behind it."""
    monkeypatch.setattr(queries, "STRIDE", 5)
    save(history, make_records(10, session="quiet") + make_records(40, session="chatty"))
    names = [group["session"] for group in queries.list_sessions(history)["items"]]
    assert names == ["chatty", "quiet"]


def test_unmeasured_tokens_do_not_dilute_a_session(history):
    """The reuse of a session divides by the prompts whose cached tokens are known."""
    save(history, [make_record(prompt_tokens=100, cached_tokens=50), make_record(cached_tokens=None)])
    (group,) = queries.list_sessions(history)["items"]
    assert (group["measured_prompt_tokens"], group["cached_tokens"]) == (100, 50)


def test_lineages_tell_what_happened_last(history):
    """R90: per lineage its last request, hit and what evicted it."""
    save(history, [make_record(lineage="a"), make_record(lineage="b", evicted_by="x", hit="none")])
    first, second = queries.list_lineages(history)["items"]
    assert (first["lineage"], first["evicted_by"], first["last_hit"]) == ("b", "x", "none")
    assert second["lineage"] == "a"


def test_size_counts_rows_and_bytes(history):
    """What `status` shows of the database."""
    save(history, make_records(3))
    size = queries.size(history)
    assert size["rows"] == 3
    assert size["bytes"] > 4_096
    assert (size["oldest"], size["newest"]) == ("2025-11-29T07:06:40.000Z", "2025-11-29T07:06:42.000Z")
