"""The schema: the same on both databases, moved up and down under a lock."""

import multiprocessing

import pytest
from alembic import command
from sqlalchemy import inspect, text

from services.history import migrate
from services.history.engine import HistoryError, open_engine
from services.history.tables import requests
from services.record import Record

pytestmark = pytest.mark.process


def test_columns_are_the_fields_of_a_record():
    """A field added to the contract without a column, or the other way round, is noticed here."""
    assert {column.name for column in requests.columns} == set(Record.__struct_fields__) - {"v"}


def test_up_down_up(database_url):
    """The schema goes up, away and up again, and nothing of ours is left in between."""
    assert migrate.current(database_url) is None
    assert migrate.upgrade(database_url) == migrate.newest()
    assert migrate.downgrade(database_url) is None
    engine = open_engine(database_url)
    assert set(inspect(engine).get_table_names()) <= {"alembic_version"}
    engine.dispose()
    assert migrate.upgrade(database_url) == migrate.newest() == migrate.current(database_url)


def test_upgrading_again_changes_nothing(history_url):
    """`up` migrates at every start."""
    assert migrate.upgrade(history_url) == migrate.newest()


def test_models_and_revisions_agree(history_url):
    """`alembic check` finds nothing to generate."""
    with migrate._locked(history_url) as connection:
        command.check(migrate._config(connection))


def test_named_indexes_exist(history_url):
    """The questions people ask have their indexes, by name, on both databases."""
    engine = open_engine(history_url)
    found = {index["name"]: index["column_names"] for index in inspect(engine).get_indexes("requests")}
    engine.dispose()
    assert found["ix_requests_session_received_at"] == ["session", "received_at"]
    assert found["ix_requests_model_received_at"] == ["model", "received_at"]
    assert found["ix_requests_system_hash"] == ["system_hash"]
    assert found["ix_requests_tools_hash"] == ["tools_hash"]
    assert found["ix_requests_hit_received_at"] == ["hit", "received_at"]


def test_processes_that_migrate_at_once_all_succeed(database_url):
    """R88: the lock lets one work and the others find it done."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        assert pool.map(migrate.upgrade, [database_url] * 3) == [migrate.newest()] * 3


def test_sqlite_uses_write_ahead_log(tmp_path):
    """Readers never wait for the writer, and a writer waits for another instead of failing."""
    engine = open_engine(f"sqlite:///{tmp_path / 'deep' / 'history.sqlite'}")
    with engine.connect() as connection:
        assert connection.scalar(text("PRAGMA journal_mode")) == "wal"
        assert connection.scalar(text("PRAGMA synchronous")) == 1
        assert connection.scalar(text("PRAGMA busy_timeout")) >= 5000
    engine.dispose()


@pytest.mark.parametrize("url", ["mysql://x/y", "not a url", "sqlite://", "sqlite:///:memory:"])
def test_an_unusable_address_is_named(url):
    """The error names the setting, so that the user knows what to change."""
    with pytest.raises(HistoryError, match="METALANCHOR_DATABASE_URL"):
        open_engine(url)


def test_a_server_that_is_away_is_one_clear_line():
    """No traceback of a driver, no password."""
    with pytest.raises(HistoryError, match="METALANCHOR_DATABASE_URL") as caught:
        migrate.current("postgresql://someone:secret-password@127.0.0.1:1/none")
    assert "secret-password" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_revision_nobody_knows_is_said(history_url):
    """As after going back to an older version of the program."""
    with pytest.raises(HistoryError, match=rf"'9999'.*{migrate.newest()}"):
        migrate.upgrade(history_url, "9999")
