"""The commands that read and prune the history."""

import csv
import io
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from services.cli import requests, run


def test_requests_lists_generations_newest_first(recorded, capsys):
    """A pipe gets tab-separated lines under a head line; probes only with --all."""
    assert run(["requests"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split("\t")[-1] == "id"
    assert [line.split("\t")[-1] for line in lines] == [record.id for record in reversed(recorded)]

    assert run(["requests", "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 12


def test_requests_as_json_is_the_apis_page(recorded, capsys):
    """`--json` has the API's shape and every column; a cursor goes on where the page ended."""
    assert run(["requests", "--json", "--limit", "4"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in page["items"]] == [record.id for record in reversed(recorded)][:4]
    assert page["items"][0]["prompt_tokens"] == 2_000

    assert run(["requests", "--json", "--cursor", page["next"]]) == 0
    assert len(json.loads(capsys.readouterr().out)["items"]) == 6


def test_requests_filters(recorded, capsys):
    """Filters narrow; an impossible time is wrong usage."""
    assert run(["requests", "--session", "s-3", "--json"]) == 0
    assert {row["session"] for row in json.loads(capsys.readouterr().out)["items"]} == {"s-3"}
    assert run(["requests", "--since", "1h", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == []
    assert run(["requests", "--since", "yesterday"]) == 2
    for misspelt, meant in ((["--hit", "exakt"], "'exact'"), (["--status", "complete"], "'completed'")):
        assert run(["requests", *misspelt]) == 2
        assert meant in capsys.readouterr().err
    assert run(["requests", "--cursor", "';--"]) == 1


def test_lineages_are_summed(recorded, capsys):
    """One line a lineage, with its latest request's verdict."""
    assert run(["lineages", "--json"]) == 0
    (lineage,) = json.loads(capsys.readouterr().out)["items"]
    assert (lineage["lineage"], lineage["requests"]) == ("l-1", 11)


def test_query_prints_in_three_forms(recorded, capsys):
    """Text, CSV and JSON show the same rows; the cut is said."""
    sql = "SELECT id, cached_tokens, evicted_by FROM requests ORDER BY id LIMIT 2"
    assert run(["query", sql]) == 0
    assert capsys.readouterr().out.splitlines()[1] == f"{recorded[0].id}\t1870\t"
    assert run(["query", sql, "--csv"]) == 0
    assert list(csv.reader(io.StringIO(capsys.readouterr().out)))[1] == [recorded[0].id, "1870", ""]
    assert run(["query", sql, "--json", "--limit", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["items"] == [{"id": recorded[0].id, "cached_tokens": 1870, "evicted_by": None}]
    assert found["truncated"] is True


@pytest.mark.parametrize("sql", ["DELETE FROM requests", "SELEC 1", "ATTACH 'x' AS y", ""])
def test_query_refuses_what_is_no_reading(recorded, capsys, sql: str):
    """A refused statement is exit code 1 and one sentence."""
    assert run(["query", sql]) == 1
    assert capsys.readouterr().err.startswith("Error: ")


def test_prune_deletes_and_says_how_much(recorded, capsys):
    """Everything here is older than a day; a second run finds nothing."""
    assert run(["prune", "--days", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["deleted"] == 11
    assert run(["prune"]) == 0
    assert capsys.readouterr().out.startswith("Deleted 0 requests")


def test_prune_makes_no_history_where_there_is_none(tmp_path: Path, monkeypatch, capsys):
    """An empty file would have the next command say that tables are missing."""
    file = tmp_path / "history.sqlite"
    monkeypatch.setenv("METALANCHOR_DATABASE_URL", f"sqlite:///{file}")
    assert run(["prune"]) == 3
    assert "There is no history yet" in capsys.readouterr().err
    assert not file.exists()


def test_migrate_goes_up_and_down(tmp_path: Path, monkeypatch, capsys):
    """Up makes the table, down removes it; going down asks first."""
    file = tmp_path / "new" / "history.sqlite"
    monkeypatch.setenv("METALANCHOR_DATABASE_URL", f"sqlite:///{file}")
    assert run(["migrate"]) == 0
    assert "revision 0" in capsys.readouterr().out
    assert "requests" in _tables(file)

    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert run(["migrate", "--down", "base"]) == 130
    assert run(["migrate", "--down", "base", "--yes", "--json"]) == 0
    assert "requests" not in _tables(file)


def _tables(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


def test_a_history_without_tables_says_so(tmp_path: Path, monkeypatch, capsys):
    """An empty database names the next step."""
    file = tmp_path / "history.sqlite"
    file.touch()
    monkeypatch.setenv("METALANCHOR_DATABASE_URL", f"sqlite:///{file}")
    assert run(["requests"]) == 1
    assert "metalanchor migrate" in capsys.readouterr().err


def test_explain_tells_what_was_recorded_when_the_proxy_is_away(recorded, capsys):
    """The row alone still names hit, figures and causes; only the excerpts are missing."""
    assert run(["explain", "--last"]) == 0
    text = capsys.readouterr().out
    assert recorded[-1].id in text
    assert "93.5% reused (1,870 of 2,000 tokens; ollama)" in text
    assert "timestamp [break] at system" in text

    assert run(["explain", recorded[0].id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == recorded[0].id
    assert run(["explain", "unknown"]) == 1
    assert run(["explain"]) == 2


def test_a_ready_query_by_name(recorded, capsys):
    """Instead of a statement, never beside one."""
    assert run(["query", "--ready", "hits-by-model", "--json"]) == 0
    assert sum(row["requests"] for row in json.loads(capsys.readouterr().out)["items"]) == 10
    assert run(["query", "--ready", "hits-by-model", "SELECT 1"]) == 2
    assert run(["query"]) == 2
    assert run(["query", "--ready", "nonsense"]) == 2


def test_followed_requests_reach_the_terminal_as_text(recorded, monkeypatch, capsys):
    """A name from the wire with an escape sequence in it is one cell of one line, as in the table."""
    assert run(["requests", "--json", "--limit", "1"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["items"]
    monkeypatch.setattr(requests, "_arriving", lambda *_: [{**row, "agent": "her\x1b[2J\nmes"}])
    assert run(["requests", "--follow"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split("\t")[1] == "her [2J mes"


@pytest.mark.process
@pytest.mark.parametrize(
    "arguments",
    [["requests"], ["query", "SELECT id FROM requests", "--csv"], ["export", "-", "--format", "csv"]],
)
def test_a_reader_that_has_seen_enough_is_no_failure(recorded, arguments):
    """`metalanchor requests | head -1` ends with 0 and says nothing."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "services.cli", *arguments]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
def test_a_database_that_does_not_exist_is_no_older_schema(postgres, monkeypatch, capsys):
    """`migrate` would not help: the address is wrong."""
    monkeypatch.setenv("METALANCHOR_DATABASE_URL", postgres.url("nowhere"))
    assert run(["requests"]) == 3
    error = capsys.readouterr().err
    assert 'database "nowhere" does not exist' in error
    assert "METALANCHOR_DATABASE_URL" in error
