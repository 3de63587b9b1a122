"""Every page, list, report option, ready query and export says the same over PostgreSQL as over SQLite."""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from services.cli import run
from services.history.ready import QUERIES
from services.proxy.admin.pages.trends import SPANS
from services.report.document import GROUPS
from tests.support.admin import Office, fill
from tests.support.backend import Backend
from tests.support.proxy import Proxy

pytestmark = pytest.mark.process

EVER = "since=2025-01-01"
LISTS = (
    "/api/requests?limit=7", "/api/requests?all=true&status=client_cancelled",
    "/api/requests?hit=exact&limit=3",
    "/api/requests?model=gemma3:270m&cause=timestamp", "/api/sessions?limit=5", "/api/lineages?limit=5",
)  # fmt: skip
REPORTS = (
    *(f"/api/report?{EVER}&by={by}" for by in GROUPS), f"/api/report?{EVER}&all=true",
    f"/api/report?{EVER}&agent=hermes&model=gemma3:270m", f"/api/report?{EVER}&session=s-1",
    "/api/report?since=2025-11-29T07:00:00Z&until=2025-11-29T07:08:00Z",
)  # fmt: skip
FORMS = tuple(f"/api/report?{EVER}&by=agent&format={form}" for form in ("md", "csv", "html"))
PAGES = (
    "/", "/?agent=hermes&hit=exact", "/lineages", "/health", *(f"/trends?span={span}" for span in SPANS),
    *(f"/sql?ready={ready.name}" for ready in QUERIES),
)  # fmt: skip


@pytest.fixture(scope="module")
def urls(office: Office, postgres, tmp_path_factory) -> Iterator[dict[str, str]]:
    """The address of a history with the same rows on each database."""
    lite = f"sqlite:///{tmp_path_factory.mktemp('lite') / 'history.sqlite'}"
    with postgres.database() as url:
        for each in (lite, url):
            fill(each, office.records)
        yield {"sqlite": lite, "postgresql": url}


@pytest.fixture(scope="module")
def other(office: Office, urls, tmp_path_factory) -> Iterator[Office]:
    """A proxy over the one on PostgreSQL."""
    folder: Path = tmp_path_factory.mktemp("other")
    backend = Backend().start()
    proxy = Proxy(folder, backend.url, database_url=urls["postgresql"]).start()
    yield Office(proxy, office.records)
    assert proxy.stop() == 0
    backend.stop()
    assert "Traceback" not in proxy.log.read_text()


def plain(value):
    """Without the moment of asking, and with sums of fractions as far as both databases add them alike."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if name != "made_at"}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return round(value, 6) if isinstance(value, float) else value


@pytest.mark.parametrize("target", [*LISTS, *REPORTS])
def test_answers_are_equal(office: Office, other: Office, target):
    """Row for row, figure for figure."""
    assert plain(other.json(target)) == plain(office.json(target))


@pytest.mark.parametrize("target", FORMS)
def test_written_reports_are_equal(office: Office, other: Office, target):
    """But for the times in their titles."""
    here, there = (each.get(target).body.decode() for each in (office, other))
    moment = re.compile(r"20\d\d-\d\d-\d\dT[\d:]+Z")
    assert moment.sub("then", there) == moment.sub("then", here)


@pytest.mark.parametrize("target", PAGES)
def test_pages_are_served_without_complaint(other: Office, target):
    """Whole, and none with the sentence that stands for a history that cannot be read."""
    answer = other.get(target)
    assert answer.status == 200
    assert b'role="alert">The history' not in answer.body


def test_a_request_and_the_series_of_each_span(office: Office, other: Office):
    """One row with its page; and charts, which show the last of a span, with nothing in it here."""
    ident = office.records[0].id
    assert other.json(f"/api/requests/{ident}") == office.json(f"/api/requests/{ident}")
    assert other.get(f"/requests/{ident}").status == 200
    for span in SPANS:
        here, there = (each.json(f"/api/series?span={span}") for each in (office, other))
        assert there.keys() == here.keys()
        assert sum(there["requests"]) == sum(here["requests"]) == 0


@pytest.mark.parametrize("ready", QUERIES, ids=lambda ready: ready.name)
def test_ready_queries_answer_in_the_console(office: Office, other: Office, ready):
    """The same columns and as many rows."""
    here, there = (json.loads(each.post("/api/sql", {"sql": ready.sql}).body) for each in (office, other))
    assert there["columns"] == here["columns"]
    assert len(there["rows"]) == len(here["rows"])


@pytest.mark.parametrize(
    "command",
    [
        *(["report", "--since", "2025-01-01", "--by", by, "--json"] for by in GROUPS),
        ["report", "--since", "2025-01-01", "--md"],
        ["report", "--since", "2025-01-01", "--csv", "--all"],
        ["report", "--since", "2025-01-01", "--agent", "hermes"],
        ["query", "--json", "SELECT agent, count(*) AS n FROM requests GROUP BY agent ORDER BY n DESC"],
        ["query", "--csv", "--ready", "failures"],
        ["requests", "--all", "--json", "--limit", "5"],
    ],
    ids=" ".join,
)
def test_commands_say_the_same(urls, monkeypatch, capsys, command):
    """Whatever form was asked for."""
    said = []
    for url in urls.values():
        monkeypatch.setenv("METALANCHOR_DATABASE_URL", url)
        assert run(command) == 0
        out = capsys.readouterr().out
        said.append(plain(json.loads(out)) if "--json" in command else out.splitlines()[1:])
    assert said[0] == said[1]


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_exports_hold_the_same_rows(urls, monkeypatch, tmp_path, form):
    """In the same order; keys inside JSON columns have none."""
    found = []
    for name, url in urls.items():
        monkeypatch.setenv("METALANCHOR_DATABASE_URL", url)
        path = tmp_path / f"{name}.{form}"
        assert run(["export", str(path), "--since", "2025-01-01"]) == 0
        found.append([{key: parsed(value) for key, value in row.items()} for row in read(path, form)])
    assert found[0] == found[1]


def read(path, form):
    """The rows of an export."""
    import pyarrow.parquet

    if form == "parquet":
        return pyarrow.parquet.read_table(path).to_pylist()
    with path.open() as file:
        return list(csv.DictReader(file)) if form == "csv" else [json.loads(line) for line in file]


def parsed(value):
    """A JSON column as the value that it holds."""
    return json.loads(value) if isinstance(value, str) and value[:1] in {"[", "{"} else value


def test_names_of_filters_go_through_as_they_are(office: Office, other: Office):
    """Also those that a stranger chose."""
    odd = quote("<script>alert(1)</script>")
    assert other.ids(f"/api/requests?agent={odd}") == office.ids(f"/api/requests?agent={odd}") != []
