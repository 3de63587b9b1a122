"""`metalanchor report` and `export`, on a history without a running proxy."""

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet
import pytest

from services.cli import run

pytestmark = pytest.mark.process

EVER = ["--since", "2025-01-01"]


def test_report_prints_tables(recorded, capsys):
    """Generations of the span, with a title that names it."""
    assert run(["report", *EVER]) == 0
    out = capsys.readouterr().out
    assert out.startswith("MetalAnchor report, 2025-01-01T00:00:00Z to ")
    assert "Times, cold against warm" in out


@pytest.mark.parametrize("by", ["agent", "session", "model", "cause", "hit", "hour"])
def test_report_groups(recorded, capsys, by):
    """As JSON, in the shape of /api/report."""
    assert run(["report", *EVER, "--by", by, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["total"]["requests"] == sum(row["requests"] for row in found["groups"]) == 10


def test_report_in_other_forms(recorded, capsys):
    """CSV, Markdown and a page, each whole; probes with --all."""
    assert run(["report", *EVER, "--csv", "--by", "agent", "--all"]) == 0
    assert next(csv.DictReader(io.StringIO(capsys.readouterr().out)))["requests"] == "11"
    assert run(["report", *EVER, "--md"]) == 0
    assert capsys.readouterr().out.startswith("# MetalAnchor report")
    assert run(["report", *EVER, "--html"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("</html>")


def test_an_empty_span_says_how_to_widen_it(recorded, capsys):
    """The records are older than the seven days a report spans by default."""
    assert run(["report"]) == 0
    assert "--since 90d" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_export_writes_a_file_by_its_ending(recorded, tmp_path: Path, capsys, ending):
    """And nothing beside it."""
    folder = tmp_path / "out"
    folder.mkdir()
    file = folder / f"rows.{ending}"
    assert run(["export", str(file)]) == 0
    assert "10 rows" in capsys.readouterr().err
    assert list(folder.iterdir()) == [file]
    if ending == "parquet":
        assert pyarrow.parquet.read_table(file).num_rows == 10
    else:
        assert len(file.read_text().splitlines()) == (11 if ending == "csv" else 10)


def test_export_to_standard_output(recorded, capfdbinary):
    """`-` needs a format."""
    assert run(["export", "-", "--format", "jsonl", "--all"]) == 0
    assert len(capfdbinary.readouterr().out.splitlines()) == 11
    assert run(["export", "-"]) == 2


def test_export_says_what_is_wrong(recorded, tmp_path: Path, capsys):
    """An unknown ending is wrong usage, a folder that does not exist a failure."""
    assert run(["export", "rows.xlsx"]) == 2
    assert run(["export", str(tmp_path / "none" / "rows.csv")]) == 1
    assert "cannot be written" in capsys.readouterr().err
