"""What was sent again without being reused: tool calls made twice, and chunks that came back elsewhere.

It owns no state. Both read `new_chunks`, what each request added to its conversation
(`services.proxy.settling.fresh`); a chunk that is added twice was not at the head of what the engine had.
"""

from typing import Any

from sqlalchemy import BigInteger, Connection, Select, String, case, cast, func, select, true
from sqlalchemy.dialects.postgresql import JSONB

from services.history import reports, rolled
from services.history.queries import Filters, narrow
from services.history.spans import open_span
from services.history.tables import requests

# Upper bounds of the size buckets of messages, in bytes; the last bucket is open.
SIZES = (1 << 8, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10)
# Whether an entry came before cannot be summed up by the hour: all have to be looked at, and these many take
# less than 100 ms. Few people send more in a week.
NEWEST = 5_000
MOST = 20  # items listed
ITEM = ("kind", "hash", "times", "sessions", "size", "bytes")

_columns = requests.c
Row = dict[str, Any]


def repeated_calls(connection: Connection, filters: Filters) -> Row:
    """Tool calls with the same name and arguments: what remembering their results could have saved.

    ``calls`` in all, ``repeated`` of them were made before, ``bytes`` is the size of the results that came
    again; ``items``, worst first, say how many ``times`` and in how many ``sessions`` each was made. All of
    the ``newest`` so many requests of the span.
    """
    return _repeats(connection, filters, ("c",), "calls")


def moved_chunks(connection: Connection, filters: Filters) -> Row:
    """Messages, system prompts and tools that were new to their place but had been sent before.

    Reuse of anything but prefixes could have saved their ``bytes``; shaped like `repeated_calls`.
    """
    return _repeats(connection, filters, ("m", "s", "t", "r"), "chunks")


def message_sizes(connection: Connection, filters: Filters) -> list[Row]:
    """How many messages had up to so many bytes: ``{"up_to": n | None, "count"}``. Each counts once."""
    if span := open_span(connection, filters):
        return reports.listed(rolled.message_sizes(span, SIZES), SIZES)
    entries = _entries(connection, filters, ("m", "r")).subquery()
    bounds = [(entries.c.bytes <= bound, place) for place, bound in enumerate(SIZES)]
    place = case(*bounds, else_=len(SIZES)).label("place")
    found = connection.execute(select(place, func.count()).group_by(place))
    counts = {row[0]: row[1] for row in found}
    return reports.listed(counts, SIZES)


def _repeats(connection: Connection, filters: Filters, letters: tuple[str, ...], name: str) -> Row:
    entries = _entries(connection, filters, letters, NEWEST).cte("entries")
    again = (
        select(
            entries.c.kind,
            entries.c.hash,
            func.count().label("times"),
            func.count(entries.c.session.distinct()).label("sessions"),
            func.max(entries.c.bytes).label("size"),
            (func.sum(entries.c.bytes) - func.max(entries.c.bytes)).label("bytes"),
        )
        .group_by(entries.c.kind, entries.c.hash)
        .cte("again")
    )
    # In one pass, totals beside the worst: unpacking is what it costs.
    repeated = again.c.times > 1
    query = select(
        again,
        func.sum(again.c.times).over().label("every"),
        func.sum(again.c.times - 1).over().label("more"),
        func.sum(again.c.bytes).over().label("saved"),
    ).order_by(repeated.desc(), again.c.bytes.desc(), again.c.hash)
    rows = [_plain(row) for row in connection.execute(query.limit(MOST)).mappings()]
    totals = rows[0] if rows else {"every": 0, "more": 0, "saved": 0}
    items = [{key: row[key] for key in ITEM} for row in rows if row["times"] > 1]
    found = {name: totals["every"], "repeated": totals["more"], "bytes": totals["saved"], "items": items}
    return found | {"newest": NEWEST}


def _entries(
    connection: Connection, filters: Filters, letters: tuple[str, ...], newest: int | None = None
) -> Select[Any]:
    """One row an entry: ``kind``, ``hash``, ``bytes``, ``session``; of the `newest` requests, if given."""
    base = narrow(select(_columns.session, _columns.new_chunks), filters)
    base = base.where(_columns.new_chunks.is_not(None))
    if newest is not None:
        base = base.order_by(_columns.received_at.desc()).limit(newest)
    rows = base.cte("added").prefix_with("MATERIALIZED")
    if connection.dialect.name == "sqlite":
        unpacked = func.json_each(rows.c.new_chunks)
    else:
        unpacked = func.jsonb_array_elements_text(cast(rows.c.new_chunks, JSONB))
    each = unpacked.table_valued("value", name="each")
    value = cast(each.c.value, String)
    kind = func.substr(value, 1, 1)
    return (
        select(
            kind.label("kind"),
            func.substr(value, 2, 12).label("hash"),
            cast(func.substr(value, 14), BigInteger).label("bytes"),
            rows.c.session,
        )
        .select_from(rows)
        .join(each, true())
        .where(kind.in_(letters))
    )


def _plain(row: Any) -> Row:
    return {name: value if isinstance(value, str) else int(value) for name, value in row.items()}
