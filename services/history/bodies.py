"""Bodies of requests and answers, for users who want them kept: the table, and how one is read.

It owns no state. They are in a table of their own: most histories have none, and reading rows must not read
past them. The SQL console reads everything but these.
"""

import zlib
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Connection, Index, LargeBinary, String, Table, select

from services.history.tables import UtcTime, metadata

# Compressed with zlib; the sizes are those of the bodies as they passed.
bodies = Table(
    "bodies",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("received_at", UtcTime, nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("request_bytes", BigInteger, nullable=False),
    Column("request_cut", Boolean, nullable=False),
    Column("answer", LargeBinary),
    Column("answer_bytes", BigInteger, nullable=False),
    Column("answer_cut", Boolean, nullable=False),
)
Index("ix_bodies_received_at", bodies.c.received_at)

MOST = 4 << 20  # bytes of one text: more than any proxy keeps


def get_bodies(connection: Connection, request_id: str) -> dict[str, Any] | None:
    """``{"id", "request": {"text", "bytes", "cut"}, "answer": …}`` of one request, None where none is kept.

    `bytes` is the size as it passed, `cut` whether only its head was kept; `answer` None where none came.
    """
    row = connection.execute(select(bodies).where(bodies.c.id == request_id)).mappings().first()
    if row is None:
        return None
    return {"id": request_id, "request": _body(row, "request"), "answer": _body(row, "answer")}


def inflated(packed: bytes | None) -> bytes | None:
    """A body as it passed, or its head; None where there is none, or none that can be read."""
    try:
        return None if packed is None else zlib.decompressobj().decompress(packed, MOST)
    except zlib.error:
        return None


def _body(row: Any, name: str) -> dict[str, Any] | None:
    text = inflated(row[name])
    if text is None:
        return None
    shown = text.decode("utf-8", "replace")
    return {"text": shown, "bytes": row[f"{name}_bytes"], "cut": row[f"{name}_cut"]}
