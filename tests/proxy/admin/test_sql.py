"""The SQL console over HTTP: it reads the history and refuses the rest, in time."""

import json
import time

import pytest

from tests.support.admin import Office

pytestmark = pytest.mark.process


def test_a_query_answers_columns_and_rows(office: Office):
    """One statement on the table of requests."""
    answer = office.post(
        "/api/sql", {"sql": "SELECT kind, count(*) AS n FROM requests GROUP BY kind ORDER BY n"}
    )
    found = json.loads(answer.body)

    assert answer.status == 200
    assert found["columns"] == ["kind", "n"]
    assert found["rows"] == [["embedding", 1], ["management", 5], ["generation", len(office.records) - 6]]
    assert found["truncated"] is False


def test_rows_are_limited(office: Office):
    """A longer answer is cut and says so."""
    found = json.loads(office.post("/api/sql", {"sql": "SELECT id FROM requests", "limit": 7}).body)

    assert len(found["rows"]) == 7
    assert found["truncated"] is True


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM requests",
        "UPDATE requests SET model = 'x'",
        "DROP TABLE requests",
        "ATTACH '/tmp/stolen.sqlite' AS other",
        "VACUUM INTO '/tmp/stolen.sqlite'",
        "PRAGMA journal_mode = DELETE",
        "SELECT 1; SELECT 2",
        "SELECT no_such_column FROM requests",
        "not sql at all",
    ],
)
def test_what_is_no_plain_question_is_refused(office: Office, sql):
    """400 with a reason; the history is as before."""
    answer = office.post("/api/sql", {"sql": sql})

    assert answer.status == 400
    assert json.loads(answer.body)["error"]["message"]
    count = json.loads(office.post("/api/sql", {"sql": "SELECT count(*) FROM requests"}).body)
    assert count["rows"] == [[len(office.records)]]


def test_a_query_without_end_is_ended(office: Office):
    """In its own time limit, while other requests go on."""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    started = time.monotonic()
    answer = office.post("/api/sql", {"sql": endless, "timeout_s": 0.5})

    assert answer.status in (400, 503)
    assert time.monotonic() - started < 5.0
    assert office.get("/healthz").status == 200


@pytest.mark.parametrize(
    "body",
    [{}, {"sql": ""}, {"sql": 5}, {"sql": "SELECT 1", "limit": 0}, {"sql": "SELECT 1", "timeout_s": 900},
     {"sql": "SELECT 1", "write": True}, [], "SELECT 1"],
)  # fmt: skip
def test_a_malformed_question_is_refused(office: Office, body):
    """400 that names what is wrong."""
    answer = office.post("/api/sql", body)

    assert answer.status == 400
    assert json.loads(answer.body)["error"]["code"] == "bad_request"


def test_a_page_of_another_site_may_not_ask(office: Office):
    """A browser sends an Origin; only our own pages are answered."""
    headers = [("Content-Type", "text/plain"), ("Origin", "https://evil.example")]
    body = json.dumps({"sql": "SELECT 1"}).encode()

    assert office.proxy.request("POST", "/metalanchor/api/sql", body, headers).status == 403
