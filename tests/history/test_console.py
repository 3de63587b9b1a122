"""The SQL console: it answers questions, and every way out of reading the history is shut."""

import sqlite3
import time

import pytest

from services.history.console import Refused, run_sql
from services.history.engine import HistoryError, open_engine
from services.history.migrate import upgrade
from services.logger.store import Store
from tests.support.proxy import free_port
from tests.support.records import make_records

pytestmark = pytest.mark.process


def fill(url):
    upgrade(url)
    engine = open_engine(url)
    Store(engine).save(make_records(20))
    engine.dispose()
    return url


# One history for the whole module: the point of these tests is that nothing changes it.
@pytest.fixture(scope="module")
def sqlite_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("history")


@pytest.fixture(scope="module")
def sqlite_filled(sqlite_folder):
    """The URL of a SQLite history with 20 rows."""
    return fill(f"sqlite:///{sqlite_folder / 'history.sqlite'}")


@pytest.fixture(scope="module")
def postgres_filled(postgres):
    """The URL of a PostgreSQL history with 20 rows."""
    with postgres.database() as url:
        yield fill(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def filled(request):
    """A history with 20 rows, on each database."""
    return request.getfixturevalue("sqlite_filled" if request.param == "sqlite" else "postgres_filled")


def test_a_question_is_answered(filled):
    """Columns and rows, with plain values."""
    answer = run_sql(
        filled, "SELECT agent, count(*) AS n, sum(cached_tokens) AS c FROM requests GROUP BY agent;"
    )
    assert answer.columns == ["agent", "n", "c"]
    assert answer.rows == [["hermes", 20, 37_400]]
    assert not answer.truncated


def test_common_table_expressions_and_percent_signs_work(filled):
    """LIKE patterns are no placeholders."""
    sql = "WITH r AS (SELECT model FROM requests WHERE model LIKE '%qwen%') SELECT count(*) > 0 FROM r"
    assert run_sql(filled, sql).rows in ([[True]], [[1]])


def test_more_rows_than_asked_for_are_cut(filled):
    """The answer says that it was cut."""
    answer = run_sql(filled, "SELECT id FROM requests ORDER BY id", limit=5)
    assert (len(answer.rows), answer.truncated) == (5, True)
    assert not run_sql(filled, "SELECT id FROM requests", limit=20).truncated


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM requests",
        "UPDATE requests SET status = 'x'",
        "INSERT INTO requests (id, received_at, kind, status) VALUES ('1', '2026-01-01', 'x', 'x')",
        "DROP TABLE requests",
        "CREATE TABLE t (x int)",
        "CREATE TEMPORARY TABLE t AS SELECT 1 AS x",
        "ALTER TABLE requests ADD COLUMN x int",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE requests",
        "WITH gone AS (DELETE FROM requests RETURNING id) SELECT * FROM gone",
        "BEGIN",
        "COMMIT",
        "VACUUM",
        "EXPLAIN ANALYZE DELETE FROM requests",
        "SELECT FROM WHERE",
        "",
        " ; ",
        "-- nothing",
    ],
)
def test_nothing_but_one_select_is_run(filled, sql):
    """Writes, definitions, transactions and several statements are refused on both databases."""
    with pytest.raises(Refused):
        run_sql(filled, sql)
    assert run_sql(filled, "SELECT count(*) FROM requests").rows == [[20]]


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH DATABASE '{folder}/other.sqlite' AS other",
        "VACUUM INTO '{folder}/copy.sqlite'",
        "PRAGMA query_only = OFF",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA writable_schema = ON",
        "PRAGMA temp_store_directory = '{folder}'",
        "SELECT * FROM pragma_database_list",
        "SELECT load_extension('{folder}/evil')",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('{folder}/x', 'y')",
        "SELECT edit('x')",
        "SELECT fts3_tokenizer('simple')",
        "CREATE VIRTUAL TABLE v USING fts5(x)",
        "SELECT zeroblob(1000000000)",
        "SELECT printf('%.*c', 1000000000, 'x')",
        "REINDEX",
        "ANALYZE",
        "DETACH DATABASE main",
        "EXPLAIN SELECT 1; ATTACH 'x' AS y",
    ],
)
def test_sqlite_leaves_the_file_and_the_folder_alone(sqlite_filled, sqlite_folder, sql):
    """What a read-only file still allows is refused by the authoriser or a limit."""
    with pytest.raises(Refused):
        run_sql(sqlite_filled, sql.format(folder=sqlite_folder))
    names = {path.name for path in sqlite_folder.iterdir()}
    assert names <= {"history.sqlite", "history.sqlite-wal", "history.sqlite-shm"}


@pytest.mark.parametrize(
    "sql",
    [
        "COPY requests TO '/tmp/metalanchor-console-escape'",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "COPY requests TO STDOUT",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_ls_dir('/')",
        "SELECT pg_stat_file('/etc/passwd')",
        "SELECT lo_import('/etc/passwd')",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'owner'",
        "SELECT pg_reload_conf()",
        "SELECT rolpassword FROM pg_authid",
        "SELECT nextval('x')",
        "SET ROLE owner",
        "RESET ROLE",
        "SET SESSION AUTHORIZATION owner",
        "SELECT set_config('role', 'owner', true)",
        "SELECT set_config('session_authorization', 'owner', true)",
        "SELECT set_config('transaction_read_only', 'off', true)",
        "SELECT query_to_xml('DELETE FROM requests', true, true, '')",
        "SELECT set_config('role', 'none', true), query_to_xml('TABLE pg_authid', true, true, '')",
        "DO $$ BEGIN PERFORM 1; END $$",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "SELECT 1 FOR UPDATE; COMMIT; DROP TABLE requests",
        "SELECT * FROM alembic_version",
        "SELECT id FROM requests FOR UPDATE",
        "LISTEN x",
        "CALL nothing()",
        "PREPARE p AS SELECT 1",
        "LOAD 'x'",
        "SELECT dblink('x', 'y')",
    ],
)
def test_postgres_session_is_nothing_but_a_reader(postgres_filled, sql):
    """No statement reads files, becomes another role, ends others' sessions or writes."""
    with pytest.raises(Refused):
        run_sql(postgres_filled, sql)


def test_postgres_session_is_no_superuser(postgres_filled):
    """The role behind the console, as the server itself sees it."""
    sql = "SELECT session_user = current_user, rolsuper, rolcreaterole FROM pg_roles"
    sql += " WHERE rolname = session_user"
    assert run_sql(postgres_filled, sql).rows == [[True, False, False]]


@pytest.mark.parametrize(
    "sql",
    [
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT x FROM n WHERE x > 1",
        f"SELECT count(*) FROM {', '.join(f'requests r{n}' for n in range(8))}",
    ],
)
def test_what_never_ends_is_ended(filled, sql):
    """Endless recursion and products of tables stop at the time limit, with a text that helps."""
    started = time.monotonic()
    with pytest.raises(Refused, match="longer than"):
        run_sql(filled, sql, timeout=0.5)
    assert time.monotonic() - started < 20


def test_sleeping_on_the_server_is_ended(postgres_filled):
    """pg_sleep is a plain function; the time limit holds it."""
    with pytest.raises(Refused, match="longer than"):
        run_sql(postgres_filled, "SELECT pg_sleep(60)", timeout=0.5)


def test_a_huge_answer_is_cut(filled):
    """Many large values do not fill the asker's memory."""
    wide = (
        "replace(hex(zeroblob(100000)), '0', 'x')" if filled.startswith("sqlite") else "repeat('x', 500000)"
    )
    answer = run_sql(filled, f"SELECT {wide} FROM requests a, requests b", limit=5_000, timeout=20)
    assert answer.truncated
    assert len(answer.rows) < 100


def test_a_server_that_hangs_does_not_hold_the_asker(postgres_filled, postgres):
    """A frozen PostgreSQL is left after the time limit."""
    import os
    import signal
    import threading

    def freeze():
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'metalanchor console'"
        for (pid,) in postgres.run(query):
            os.kill(pid, signal.SIGSTOP)
            frozen.append(pid)

    frozen = []
    threading.Timer(0.5, freeze).start()
    try:
        with pytest.raises(Refused):
            run_sql(postgres_filled, "SELECT pg_sleep(60)", timeout=2)
        assert frozen
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)


def test_no_file_yet_says_what_to_do(tmp_path):
    """The console does not create a database."""
    with pytest.raises(HistoryError, match="metalanchor migrate"):
        run_sql(f"sqlite:///{tmp_path / 'none.sqlite'}", "SELECT 1")
    assert not (tmp_path / "none.sqlite").exists()


def test_errors_are_clear_text(filled):
    """What the database says about the statement, without a traceback."""
    with pytest.raises(Refused, match="nonsense"):
        run_sql(filled, "SELECT nonsense FROM requests")


def test_readers_do_not_wait_for_a_writer(tmp_path):
    """A write transaction under way does not hold up the console."""
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    upgrade(url)
    writer = sqlite3.connect(tmp_path / "history.sqlite", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    assert run_sql(url, "SELECT count(*) FROM requests").rows == [[0]]
    writer.close()


def test_without_the_right_to_create_roles_all_but_the_console_works(postgres, postgres_url):
    """A plain owner can migrate; the console then says what is missing, and runs nothing as more."""
    name = postgres_url.rpartition("/")[2]
    postgres.run(f"CREATE ROLE plain_{name} LOGIN PASSWORD 'plain'")
    postgres.run(f"ALTER DATABASE {name} OWNER TO plain_{name}")
    url = f"postgresql://plain_{name}:plain@127.0.0.1:{postgres.port}/{name}"
    try:
        upgrade(url)
        with pytest.raises(HistoryError, match="metalanchor migrate"):
            run_sql(url, "SELECT 1")
        upgrade(postgres_url)
        assert run_sql(postgres_url, "SELECT count(*) FROM requests").rows == [[0]]
    finally:
        postgres.run(f"DROP DATABASE {name} WITH (FORCE)")
        postgres.run(f"DROP ROLE plain_{name}")


def test_a_server_that_is_away_is_not_one_without_the_reader():
    """`migrate` would not help."""
    with pytest.raises(HistoryError, match=r"does not work.*METALANCHOR_DATABASE_URL"):
        run_sql(f"postgresql://owner:secret@127.0.0.1:{free_port()}/history", "SELECT 1")


def test_times_as_text_are_utc_whatever_the_server_thinks(postgres_filled):
    """As on SQLite: the ready query `by-hour` cuts them as text."""
    engine = open_engine(postgres_filled)
    with engine.begin() as connection:
        name = connection.exec_driver_sql("SELECT current_database()").scalar()
        connection.exec_driver_sql(f"ALTER DATABASE \"{name}\" SET timezone = 'Asia/Tokyo'")
    engine.dispose()
    sql = "SELECT substr(CAST(min(received_at) AS text), 1, 13), min(received_at) FROM requests"
    ((text, time),) = run_sql(postgres_filled, sql).rows
    assert text == time[:13].replace("T", " ")
