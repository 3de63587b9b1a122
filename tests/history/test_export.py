"""Exports: the same rows in three forms, on both databases."""

import csv
import io
import json
import sys

import pyarrow.parquet
import pytest

from services.history.engine import open_engine
from services.history.export import NAMES, MissingPackage, write_rows
from services.history.queries import Filters
from services.logger.store import Store
from tests.support.records import START_MS, make_record, make_records

pytestmark = pytest.mark.process


@pytest.fixture
def connection(history_url):
    """A connection to a history of eleven rows, one of them nearly empty."""
    engine = open_engine(history_url)
    store = Store(engine)
    store.save(make_records(10, new_chunks=["m0123456789ab12"]))
    store.save([make_record(kind="management", received_at=START_MS + 60_000, **dict.fromkeys(UNKNOWN))])
    with engine.connect() as opened:
        yield opened
    engine.dispose()


UNKNOWN = ("session", "causes", "cached_tokens", "stream", "ttft_ms", "fixes")


def written(connection, form: str, **filters) -> tuple[int, bytes]:
    target = io.BytesIO()
    return write_rows(connection, Filters(**filters), form, target), target.getvalue()


def test_json_lines_are_the_apis_rows(connection):
    """Oldest first, null where unknown, documents as documents."""
    count, text = written(connection, "jsonl")
    rows = [json.loads(line) for line in text.splitlines()]
    assert count == len(rows) == 11
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    assert rows[0]["causes"][0]["code"] == "timestamp"
    assert all(rows[-1][name] is None for name in UNKNOWN)


def test_csv_has_every_column_and_empty_cells_for_the_unknown(connection):
    """Documents are JSON text in a cell."""
    count, text = written(connection, "csv", kind="generation")
    rows = list(csv.DictReader(io.StringIO(text.decode())))
    assert count == len(rows) == 10
    assert list(rows[0]) == list(NAMES)
    assert json.loads(rows[0]["new_chunks"]) == ["m0123456789ab12"]
    assert rows[0]["stream"] == "true"


def test_parquet_keeps_types(connection):
    """Instants in UTC, whole numbers, numbers, truth values; null where unknown."""
    count, data = written(connection, "parquet")
    table = pyarrow.parquet.read_table(io.BytesIO(data))
    assert count == table.num_rows == 11
    assert table.column_names == list(NAMES)
    types = {
        name: str(table.schema.field(name).type)
        for name in ("received_at", "prompt_tokens", "ttft_ms", "stream")
    }
    assert types == {
        "received_at": "timestamp[ms, tz=UTC]", "prompt_tokens": "int64", "ttft_ms": "double",
        "stream": "bool",
    }  # fmt: skip
    last = table.slice(10).to_pylist()[0]
    assert all(last[name] is None for name in UNKNOWN)
    assert last["received_at"].timestamp() * 1_000 == START_MS + 60_000


def test_an_empty_selection_is_a_valid_file(connection):
    """Of no rows."""
    assert pyarrow.parquet.read_table(io.BytesIO(written(connection, "parquet", agent="x")[1])).num_rows == 0
    assert written(connection, "csv", agent="x")[1].decode().splitlines() == [",".join(NAMES)]
    assert written(connection, "jsonl", agent="x") == (0, b"")


def test_without_pyarrow_parquet_says_what_to_install(connection, monkeypatch):
    """And writes nothing."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPackage, match=r"metalanchor\[parquet\]"):
        written(connection, "parquet")
