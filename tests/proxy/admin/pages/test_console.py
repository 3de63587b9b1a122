"""The SQL console as a page: it works without a script, runs what `/api/sql` runs, and refuses the same."""

from urllib.parse import urlencode

import pytest

from services.history.ready import QUERIES
from tests.support.admin import Office

pytestmark = pytest.mark.process


def run(office: Office, sql: str) -> str:
    """The page after a statement was sent from its form."""
    form = [("Content-Type", "application/x-www-form-urlencoded")]
    answer = office.proxy.request("POST", "/metalanchor/sql", urlencode({"sql": sql}).encode(), form)
    assert answer.status == 200, answer.body
    return answer.body.decode()


def test_the_answer_is_a_table_with_links(office: Office):
    """Columns, values, NULL for what is unknown, a link behind each id."""
    page = run(office, "SELECT id, agent, NULL AS blank FROM requests ORDER BY id DESC LIMIT 1")

    assert '<th scope="col">blank</th>' in page
    assert "NULL" in page
    assert f'href="/metalanchor/requests/{max(record.id for record in office.records)}"' in page
    assert "1 row in" in page


def test_values_are_escaped(office: Office):
    """Text from the wire is text."""
    page = run(office, "SELECT DISTINCT agent FROM requests")

    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


@pytest.mark.parametrize("sql", ["DELETE FROM requests", "", "SELECT nothing FROM requests", "x" * 30_000])
def test_what_cannot_be_run_is_told_and_kept_in_the_form(office: Office, sql):
    """With the statement still there to mend."""
    page = run(office, sql)

    assert 'role="alert"' in page
    assert sql[:20] in page


def test_a_limit_that_cut_the_answer_is_told(office: Office):
    """Nobody takes a part for the whole."""
    page = run(office, "SELECT a.id FROM requests a, requests b")

    assert "500 rows in" in page
    assert "there are more" in page


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_every_ready_question_opens_and_runs(office: Office, query):
    """By its address."""
    page = office.get(f"/sql?ready={query.name}").body.decode()

    assert "FROM requests" in page
    assert 'role="alert"' not in run(office, query.sql)
