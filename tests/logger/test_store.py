"""Rows: each id once, whatever arrives, in whichever order, on both databases."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from services.history.engine import open_engine
from services.history.tables import requests
from services.logger.store import Saved, Store, Unavailable
from tests.support.records import START_MS, make_record, make_records

pytestmark = pytest.mark.process


@pytest.fixture
def store(history_url):
    engine = open_engine(history_url)
    yield Store(engine)
    engine.dispose()


def rows(store):
    with store._engine.connect() as connection:
        return connection.execute(select(requests).order_by(requests.c.id)).mappings().all()


def test_every_field_comes_back_as_it_was(store):
    """Nothing is renamed, rounded or lost between record and row."""
    record = make_record()
    assert store.save([record]) == Saved(stored=1)
    row = dict(rows(store)[0])
    assert row.pop("received_at") == datetime.fromtimestamp(START_MS / 1000, UTC)
    assert row == {name: getattr(record, name) for name in row}


def test_unknown_stays_null(store):
    """A counter that nobody reported is NULL, not zero."""
    store.save([make_record(cached_tokens=None, causes=None, fixes=None, stream=None)])
    row = rows(store)[0]
    assert row["cached_tokens"] is row["causes"] is row["fixes"] is row["stream"] is None


def test_a_batch_sent_twice_is_stored_once(store):
    """R94: after a kill between commit and job end, the job runs again."""
    records = make_records(50)
    assert store.save(records) == Saved(stored=50)
    assert store.save(records) == Saved(repeated=50)
    assert len(rows(store)) == 50


def test_an_id_repeated_in_one_batch_is_one_row(store):
    """A spool replayed next to the queue may carry the same record twice."""
    record = make_record()
    assert store.save([record, record]) == Saved(stored=1, repeated=1)


@pytest.mark.parametrize("first", ["completed", "proxy_lost"])
def test_a_real_record_wins_over_a_lost_one_in_either_order(store, first):
    """`proxy_lost` only says that nobody knew; the row of that id is the real one, and one."""
    real = make_record()
    lost = make_record(id=real.id, status="proxy_lost", prompt_tokens=None)
    for record in [real, lost] if first == "completed" else [lost, real]:
        store.save([record])
    (row,) = rows(store)
    assert (row["status"], row["prompt_tokens"]) == ("completed", 2_000)
    store.save([lost, real])
    assert [row["status"] for row in rows(store)] == ["completed"]


def test_a_row_the_database_refuses_is_stored_bare(store):
    """One absurd number from a backend neither holds up the batch nor loses the row."""
    records = [*make_records(20), make_record(prompt_tokens=2**80, error="x")]
    assert store.save(records) == Saved(stored=20, refused=1)
    bare = [row for row in rows(store) if row["error"] == "record_refused"]
    assert [row["id"] for row in bare] == [records[-1].id]
    assert bare[0]["prompt_tokens"] is None


def test_nul_characters_do_not_refuse_a_row(store):
    """PostgreSQL has no NUL in text or JSON; a hostile name must not cost the row."""
    assert store.save([make_record(agent="a\0b", causes=[{"code": "x\0y"}])]) == Saved(stored=1)
    (row,) = rows(store)
    assert (row["agent"], row["causes"]) == ("a\ufffdb", [{"code": "x\ufffdy"}])


def test_text_that_copy_treats_specially_survives(store):
    """Tabs, newlines, backslashes and the COPY marks are data like any other."""
    store.save([make_record(session="a\tb\nc\\d\r\\N\\.", model="\\N", error="模型 ❤")])
    (row,) = rows(store)
    assert (row["session"], row["model"], row["error"]) == ("a\tb\nc\\d\r\\N\\.", "\\N", "模型 ❤")


def test_without_a_schema_nothing_is_dropped(database_url):
    """A worker that starts before the migration waits, and says what is missing."""
    engine = open_engine(database_url)
    with pytest.raises(Unavailable, match="requests"):
        Store(engine).save([make_record()])
    with pytest.raises(Unavailable, match="requests"):
        Store(engine).probe()
    engine.dispose()


def test_probe_changes_nothing(store):
    """The worker asks whether writes work before it takes up jobs again."""
    store.save(make_records(3))
    store.probe()
    assert len(rows(store)) == 3


def test_a_figure_that_no_engine_counts_to_is_stored_bare(store):
    """Two of them would overflow the sums of their hour, and hold up the worker for ever."""
    absurd = make_record(prompt_tokens=1 << 62, cached_tokens=1 << 62)
    assert store.save([absurd, *make_records(2)]) == Saved(stored=2, refused=1)
    assert rows(store)[0]["prompt_tokens"] in {None, 2_000}
