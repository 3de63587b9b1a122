"""The client's books against SQL, row by row. Pure but for `read_rows`."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from services.history.engine import open_engine
from services.history.tables import requests
from tests.faults.traffic import Entry

LOST = "proxy_lost"
REFUSED = {"upstream_unreachable", "upstream_reset"}
STATUSES = {
    "ok": {"completed"},
    "error": {"upstream_error"},
    "leave": {"client_cancelled", "completed"},
    "cut": {"upstream_reset"},
}


@dataclass
class Books:
    """What the comparison found; entries owed a row, rows that no entry explains, rows that say otherwise."""

    matched: int = 0
    lost: list[Entry] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def read_rows(url: str) -> list[dict[str, Any]]:
    """All rows of the history, as far as the books need them."""
    names = ("id", "session", "endpoint", "status", "http_status")
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            found = connection.execute(select(*(requests.c[name] for name in names)))
            return [dict(row._mapping) for row in found]
    finally:
        engine.dispose()


def as_planned(entry: Entry) -> bool:
    """Whether a request went for its client as it would have gone without a proxy."""
    if entry.plan in {"ok", "error"}:
        return entry.end == "answered" and entry.status == (200 if entry.plan == "ok" else 404)
    if entry.plan == "leave":
        return entry.end == "left"
    return entry.end in {"answered", "broken"} and (entry.status in {None, 200, 502})


def compare(entries: Iterable[Entry], rows: list[dict[str, Any]], received: set[int]) -> Books:
    """Hold every entry against its row.

    A request that never reached the proxy is owed none: that is one without a row, an id, or a trace at the
    model server. One that a kill cut off before its answer has a `proxy_lost` row, which knows no session.
    """
    books = Books()
    by_session: dict[str, list[dict[str, Any]]] = defaultdict(list)
    nameless: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["session"] is None or row["status"] == LOST:
            nameless[row["id"]] = row
        else:
            by_session[row["session"]].append(row)
    without: list[Entry] = []
    for entry in entries:
        found = by_session.pop(entry.session, [])
        if not found and entry.id in nameless:
            found = [nameless.pop(entry.id)]
        books.doubled += [entry.session] * (len(found) > 1)
        if found:
            books.matched += 1
            books.wrong += _differences(entry, found[0])
        elif entry.id is not None or entry.number in received:
            without.append(entry)
    # A killed proxy told no id: its nameless rows stand for what it had open, endpoint by endpoint.
    open_then = Counter(row["endpoint"] for row in nameless.values())
    for entry in without:
        if entry.id is None and open_then[entry.path]:
            open_then[entry.path] -= 1
            books.matched += 1
        else:
            books.lost.append(entry)
    books.doubled += list(by_session)
    return books


def _differences(entry: Entry, row: dict[str, Any]) -> list[str]:
    wrong = []
    if entry.id is not None and row["id"] != entry.id:
        wrong.append(f"{entry.session}: id {row['id']} is not the answer's {entry.id}")
    if row["endpoint"] != entry.path:
        wrong.append(f"{entry.session}: endpoint {row['endpoint']} is not {entry.path}")
    if row["status"] == LOST or entry.end != "answered":
        return wrong
    if row["http_status"] != entry.status:
        wrong.append(f"{entry.session}: http_status {row['http_status']} is not {entry.status}")
    expected = REFUSED if entry.status == 502 else STATUSES.get(entry.plan, {"completed", "incomplete"})
    if entry.status in {200, 404, 502} and row["status"] not in expected:
        wrong.append(
            f"{entry.session}: status {row['status']} of a {entry.plan} is not in {expected}: {entry}"
        )
    return wrong
