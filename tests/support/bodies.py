"""Histories that hold the bodies of their requests."""

import zlib
from hashlib import sha1
from typing import Any

from sqlalchemy import insert

from services.history.bodies import bodies
from services.history.engine import open_engine
from services.history.tables import time_of
from services.logger.store import Store
from tests.support.records import make_record


def keep(url: str, sent: list[tuple[bytes, dict[str, Any]]], kept: bytes | None = None) -> None:
    """Rows of requests with these bodies, `kept` in place of the bodies themselves."""
    engine = open_engine(url)
    records = [
        make_record(raw_hash=sha1(body, usedforsecurity=False).hexdigest(), **more) for body, more in sent
    ]
    Store(engine).save(records)
    with engine.begin() as connection:
        for (body, _), record in zip(sent, records, strict=True):
            packed = zlib.compress(body if kept is None else kept)
            connection.execute(insert(bodies).values(
                id=record.id, received_at=time_of(record.received_at), request=packed,
                request_bytes=len(body), request_cut=False, answer=None, answer_bytes=0, answer_cut=False,
            ))  # fmt: skip
    engine.dispose()
