"""Questions to the history that the API and the command line ask. Every answer is plain data, ready for JSON.

It owns no state; each function takes a connection, so that callers decide on its life and put several
together. Lists are newest first and page by key, not by offset: a page costs the same however deep it lies.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, case, func, select, text

from services.history.tables import requests

MAX_LIMIT = 1_000
# Rows looked at in one step while collecting the sessions seen last; a session has some dozen requests.
STRIDE = 4_000

_columns = requests.c
_cursor = re.compile(r"[0-9a-f-]{1,36}")


class Filters(msgspec.Struct, kw_only=True, frozen=True):
    """What a list shows; None is no condition. `since` and `until` are aware times, `until` exclusive."""

    session: str | None = None
    agent: str | None = None
    model: str | None = None
    backend: str | None = None
    hit: str | None = None
    cause: str | None = None
    status: str | None = None
    kind: str | None = None
    lineage: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class BadCursor(ValueError):  # noqa: N818
    """A cursor that no answer gave out."""


def narrow(query: Select[Any], filters: Filters) -> Select[Any]:
    """The query with the filters as conditions."""
    for name in ("session", "agent", "model", "backend", "hit", "cause", "status", "kind", "lineage"):
        value = getattr(filters, name)
        if value is not None:
            query = query.where(_columns[name] == value)
    if filters.status not in {None, "completed"}:
        query = query.where(text("requests.status <> 'completed'"))  # as the partial index says it
    if filters.since is not None:
        query = query.where(_columns.received_at >= filters.since)
    if filters.until is not None:
        query = query.where(_columns.received_at < filters.until)
    return query


def list_requests(
    connection: Connection, filters: Filters, cursor: str | None = None, limit: int = 100
) -> dict[str, Any]:
    """A page of rows ``{"items": [...], "next": cursor | None}``; raises `BadCursor`."""
    size = _size(limit)
    query = narrow(select(requests), filters).order_by(_columns.id.desc()).limit(size + 1)
    if cursor is not None:
        query = query.where(_columns.id < _checked(cursor))
    items = [plain(row) for row in connection.execute(query).mappings()]
    return page(items, size, "id")


def get_request(connection: Connection, request_id: str) -> dict[str, Any] | None:
    """One row, None when there is none of that id."""
    row = connection.execute(select(requests).where(_columns.id == request_id)).mappings().first()
    return plain(row) if row else None


def children(connection: Connection, request_id: str, limit: int = 100) -> list[dict[str, Any]]:
    """The requests that were compared with this one, oldest first."""
    query = select(requests).where(_columns.parent_id == request_id).order_by(_columns.id)
    return [plain(row) for row in connection.execute(query.limit(_size(limit))).mappings()]


def list_sessions(connection: Connection, cursor: str | None = None, limit: int = 100) -> dict[str, Any]:
    """Sessions by their latest request: who, requests, tokens sent and reused, first and last time."""
    return _list_groups(connection, "session", cursor, limit)


def list_lineages(connection: Connection, cursor: str | None = None, limit: int = 100) -> dict[str, Any]:
    """Lineages by their latest request, shaped like sessions."""
    return _list_groups(connection, "lineage", cursor, limit)


def size(connection: Connection) -> dict[str, Any]:
    """How large the history is: ``rows``, ``bytes`` on disk, ``oldest`` and ``newest`` time."""
    query = select(func.count(), func.min(_columns.received_at), func.max(_columns.received_at))
    rows, oldest, newest = connection.execute(query.select_from(requests)).one()
    if connection.dialect.name == "sqlite":
        measure = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    else:
        measure = f"SELECT pg_total_relation_size('{requests.name}')"
    used = connection.scalar(text(measure))
    return {"rows": rows, "bytes": used, "oldest": _stamp(oldest), "newest": _stamp(newest)}


def plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row as JSON has it: times as ISO 8601 in UTC."""
    return {key: _stamp(value) if isinstance(value, datetime) else value for key, value in row.items()}


def page(items: list[dict[str, Any]], size: int, key: str) -> dict[str, Any]:
    """Cut a list that was asked for with one item more than `size`."""
    more = len(items) > size
    items = items[:size]
    return {"items": items, "next": items[-1][key] if more else None}


def _list_groups(connection: Connection, name: str, cursor: str | None, limit: int) -> dict[str, Any]:
    size = _size(limit)
    bound = _checked(cursor) if cursor is not None else None
    found: dict[str, dict[str, Any]] = {}
    while len(found) <= size:
        names, bound = _step(connection, name, bound)
        fresh = [value for value in names if value not in found]
        for group in _summaries(connection, name, fresh):
            # One that has newer requests than the cursor stood on an earlier page.
            if cursor is None or group["last_id"] < cursor:
                found[group[name]] = group
        if bound is None:
            break
    ordered = sorted(found.values(), key=lambda group: group["last_id"], reverse=True)
    return page(ordered, size, "last_id")


def _step(connection: Connection, name: str, bound: str | None) -> tuple[list[str], str | None]:
    query = select(_columns.id, _columns[name]).order_by(_columns.id.desc()).limit(STRIDE)
    if bound is not None:
        query = query.where(_columns.id < bound)
    rows = connection.execute(query).all()
    names = dict.fromkeys(value for _, value in rows if value is not None)
    return list(names), rows[-1][0] if len(rows) == STRIDE else None


def _summaries(connection: Connection, name: str, values: Iterable[str]) -> list[dict[str, Any]]:
    column = _columns[name]
    both = case((_columns.cached_tokens.is_not(None), _columns.prompt_tokens))
    totals = (
        select(
            column.label(name),
            func.max(_columns.id).label("last_id"),
            func.count().label("requests"),
            func.min(_columns.received_at).label("first_at"),
            func.sum(_columns.prompt_tokens).label("prompt_tokens"),
            func.sum(_columns.cached_tokens).label("cached_tokens"),
            func.sum(both).label("measured_prompt_tokens"),
            func.sum(_columns.lost_tokens).label("lost_tokens"),
        )
        .where(column.in_(list(values)))
        .group_by(column)
        .subquery()
    )
    shown = ("session", "session_source", "agent", "model", "backend", "lineage", "hit", "relation", "cause")
    details = [_columns[key].label(f"last_{key}") for key in shown if key != name]
    query = select(totals, _columns.received_at.label("last_at"), *details, _columns.evicted_by).join_from(
        totals, requests, _columns.id == totals.c.last_id
    )
    return [_rounded(plain(row)) for row in connection.execute(query).mappings()]


def _rounded(group: dict[str, Any]) -> dict[str, Any]:
    # PostgreSQL sums big integers into decimals.
    for key in ("prompt_tokens", "cached_tokens", "measured_prompt_tokens", "lost_tokens"):
        group[key] = None if group[key] is None else int(group[key])
    return group


def _stamp(value: datetime | None) -> str | None:
    if value is None:
        return None
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _size(limit: int) -> int:
    return max(1, min(limit, MAX_LIMIT))


def _checked(cursor: str) -> str:
    if not _cursor.fullmatch(cursor):
        raise BadCursor("the cursor is none that this list gave out")
    return cursor
