"""The rows that ended last in this process, so that a request can be looked up the moment its answer ended.

Its way through queue, worker and database takes about a second; whoever got an id in a header asks
at once. Bounded in number; rows hold no text. Whoever follows along remembers a mark and asks for what came
since: nothing is pushed, so that a burst of requests costs the followers, not the requests.
"""

import datetime as dt
from collections import OrderedDict
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from services.record import Record

# What a list shows of a row.
SHOWN = (
    "id", "received_at", "agent", "session", "model", "backend", "endpoint", "kind", "hit", "relation",
    "predicted_reuse", "prompt_tokens", "cached_tokens", "cached_source", "completion_tokens", "cause",
    "diverged_at", "lost_tokens", "lost_ms", "ttft_ms", "total_ms", "status", "http_status",
)  # fmt: skip
# About 2 KB each. The database has a row within a second or two of its end, unless it is away.
ROWS = 512


class News(NamedTuple):
    """Rows that ended since a mark, oldest first, the new mark, and how many came too fast to be kept."""

    records: list[Record]
    mark: int
    missed: int


class Recent:
    """Finished rows by request id, newest kept."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, Record] = OrderedDict()
        self.mark = 0

    def put(self, record: Record) -> None:
        """Remember a row."""
        self._rows[record.id] = record
        self.mark += 1
        if len(self._rows) > ROWS:
            self._rows.popitem(last=False)

    def get(self, request_id: str) -> dict[str, Any] | None:
        """A row as the history would show it; None when it is not among the latest."""
        record = self._rows.get(request_id)
        return plain(record) if record else None

    def since(self, mark: int, most: int) -> News:
        """At most `most` of the rows that ended since `mark`, the newest ones."""
        new = self.mark - mark
        records = list(islice(reversed(self._rows.values()), min(new, most)))[::-1]
        return News(records, self.mark, new - len(records))


def plain(record: Record) -> dict[str, Any]:
    """A record as the history shows its row: every column, times as ISO 8601 in UTC."""
    row = {name: getattr(record, name) for name in Record.__struct_fields__ if name != "v"}
    row["received_at"] = iso(record.received_at)
    found: dict[str, Any] = msgspec.to_builtins(row)
    return found


def brief(row: dict[str, Any]) -> dict[str, Any]:
    """What a list shows of a row."""
    return {name: row[name] for name in SHOWN}


def iso(milliseconds: int) -> str:
    """Epoch milliseconds as ISO 8601 in UTC."""
    stamp = dt.datetime.fromtimestamp(milliseconds / 1e3, dt.UTC)
    return stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")
