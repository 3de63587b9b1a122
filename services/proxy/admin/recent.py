"""The rows that ended last in this process, so that a request can be looked up the moment its answer ended.

Its way through queue, worker and database takes about a second; whoever got an id in a header asks
at once. Bounded in number; rows hold no text.
"""

import datetime as dt
from collections import OrderedDict
from typing import Any

import msgspec

from services.record import Record

# About 2 KB each. The database has a row within a second or two of its end, unless it is away.
ROWS = 512


class Recent:
    """Finished rows by request id, newest kept."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, Record] = OrderedDict()

    def put(self, record: Record) -> None:
        """Remember a row."""
        self._rows[record.id] = record
        if len(self._rows) > ROWS:
            self._rows.popitem(last=False)

    def get(self, request_id: str) -> dict[str, Any] | None:
        """A row as the history would show it; None when it is not among the latest."""
        record = self._rows.get(request_id)
        return plain(record) if record else None


def plain(record: Record) -> dict[str, Any]:
    """A record as the history shows its row: every column, times as ISO 8601 in UTC."""
    row = {name: getattr(record, name) for name in Record.__struct_fields__ if name != "v"}
    stamp = dt.datetime.fromtimestamp(record.received_at / 1e3, dt.UTC)
    row["received_at"] = stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    found: dict[str, Any] = msgspec.to_builtins(row)
    return found
