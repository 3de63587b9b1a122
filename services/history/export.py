"""Writes rows of the history as Parquet, CSV or JSON lines, in steps, so that a million need little memory.

It owns no state. Columns have the same names and types in all three forms; times are instants in UTC.
"""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import msgspec
from sqlalchemy import BigInteger, Boolean, Connection, Double, Integer, select

from services.history.queries import Filters, narrow, plain
from services.history.tables import UtcTime, requests

# Rows read and written at a time: some megabytes.
STEP = 5_000
DOCUMENTS = tuple(column.name for column in requests.columns if "JSON" in type(column.type).__name__.upper())
NAMES = tuple(column.name for column in requests.columns)
Row = dict[str, Any]


class MissingPackage(RuntimeError):  # noqa: N818
    """A form needs a package that is not installed; the text says which."""


def write_rows(connection: Connection, filters: Filters, form: str, target: BinaryIO) -> int:
    """Write the rows, oldest first, in one of the forms ``parquet``, ``csv``, ``jsonl``; how many there were.

    Raises `MissingPackage` before anything is written.
    """
    writer: Callable[[Iterator[Sequence[Row]], BinaryIO], int] = {
        "parquet": _parquet,
        "csv": _csv,
        "jsonl": _json_lines,
    }[form]
    return writer(_steps(connection, filters), target)


def _steps(connection: Connection, filters: Filters) -> Iterator[Sequence[Row]]:
    query = narrow(select(requests), filters).order_by(requests.c.id)
    result = connection.execution_options(stream_results=True, yield_per=STEP).execute(query)
    for part in result.mappings().partitions(STEP):
        yield [dict(row) for row in part]


def _json_lines(steps: Iterator[Sequence[Row]], target: BinaryIO) -> int:
    encoder = msgspec.json.Encoder()
    count = 0
    for rows in steps:
        target.write(encoder.encode_lines([plain(row) for row in rows]))
        count += len(rows)
    return count


def _csv(steps: Iterator[Sequence[Row]], target: BinaryIO) -> int:
    out = io.TextIOWrapper(target, "utf-8", newline="", write_through=True)
    writer = csv.writer(out)
    writer.writerow(NAMES)
    count = 0
    for rows in steps:
        writer.writerows([_cell(value) for value in plain(_flat(row)).values()] for row in rows)
        count += len(rows)
    out.detach()
    return count


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else value


def _parquet(steps: Iterator[Sequence[Row]], target: BinaryIO) -> int:
    try:
        import pyarrow as pa  # noqa: PLC0415 - optional
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise MissingPackage("Parquet needs pyarrow: pip install 'metalanchor[parquet]'.") from None
    schema = pa.schema([(column.name, _arrow_type(pa, column.type)) for column in requests.columns])
    count = 0
    with parquet.ParquetWriter(target, schema, compression="zstd") as writer:
        for rows in steps:
            writer.write_table(pa.Table.from_pylist([_flat(row) for row in rows], schema=schema))
            count += len(rows)
    return count


def _flat(row: Row) -> Row:
    """Documents as JSON text, which every reader of tables takes."""
    for name in DOCUMENTS:
        if row[name] is not None:
            row[name] = msgspec.json.encode(row[name]).decode()
    return row


def _arrow_type(pa: Any, kind: Any) -> Any:
    if isinstance(kind, UtcTime):
        return pa.timestamp("ms", tz="UTC")
    if isinstance(kind, Boolean):
        return pa.bool_()
    if isinstance(kind, BigInteger):
        return pa.int64()
    if isinstance(kind, Integer):
        return pa.int32()
    return pa.float64() if isinstance(kind, Double) else pa.string()
