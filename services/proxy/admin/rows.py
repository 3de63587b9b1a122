"""Requests, sessions and explanations as JSON, from the history; the lists of the contract."""

from typing import Any

from litestar import Request, Router, get
from litestar.exceptions import ClientException, NotFoundException

from services.proxy.admin.errors import HistoryUnavailable
from services.proxy.admin.filters import (
    All,
    Cursor,
    Hit,
    Kind,
    Limit,
    Name,
    Status,
    When,
    moment,
    one_of,
    refuse_unknown,
)
from services.proxy.admin.history import History
from services.proxy.admin.metrics import KINDS
from services.proxy.admin.parts import Parts
from services.proxy.settling.explain import explain_row
from services.record import HITS, STATUSES

NAMES = ("session", "agent", "model", "backend", "cause", "lineage")
LISTED = (*NAMES, "hit", "status", "kind", "since", "until", "all", "cursor", "limit")


def routes(ctx: Parts, history: History) -> Router:
    """The row routes below ``/api``."""

    @get("/requests", summary="Requests, newest first; generations unless `all` or `kind` says otherwise")
    async def list_requests(
        request: Request[Any, Any, Any],
        *,
        session: Name = None,
        agent: Name = None,
        model: Name = None,
        backend: Name = None,
        cause: Name = None,
        lineage: Name = None,
        hit: Hit = None,
        status: Status = None,
        kind: Kind = None,
        since: When = None,
        until: When = None,
        all: All = False,  # noqa: A002  # its name on the wire
        cursor: Cursor = None,
        limit: Limit = 100,
    ) -> dict[str, Any]:
        refuse_unknown(request, *LISTED)
        names = {
            "session": session, "agent": agent, "model": model, "backend": backend, "cause": cause,
            "lineage": lineage,
        }  # fmt: skip
        conditions = {
            **names,
            "hit": one_of("hit", hit, frozenset(HITS)),
            "status": one_of("status", status, frozenset(STATUSES)),
            "kind": one_of("kind", kind, KINDS) or (None if all else "generation"),
            "since": moment("since", since),
            "until": moment("until", until),
        }
        return await history.ask(_requests, conditions, cursor, limit)

    @get("/requests/{request_id:str}", summary="One request: every figure with its source")
    async def get_request(request_id: str) -> dict[str, Any]:
        return await row_of(ctx, history, request_id)

    @get("/requests/{request_id:str}/explain", summary="Why it cost what it cost")
    async def explain(request_id: str) -> dict[str, Any]:
        remembered = ctx.explanations.get(request_id)
        return remembered if remembered is not None else explain_row(await row_of(ctx, history, request_id))

    @get("/sessions", summary="Sessions, the one used last first")
    async def list_sessions(
        request: Request[Any, Any, Any], cursor: Cursor = None, limit: Limit = 100
    ) -> dict[str, Any]:
        refuse_unknown(request, "cursor", "limit")
        return await history.ask(_sessions, cursor, limit)

    return Router("/", route_handlers=[list_requests, get_request, explain, list_sessions], tags=["history"])


async def row_of(ctx: Parts, history: History, request_id: str) -> dict[str, Any]:
    """A request's row: fresh from this process, else from the history; 404 where there is none."""
    row = ctx.recent.get(request_id)
    if row is None:
        # Its last byte may be with the client an instant before its row is written: look again afterwards.
        try:
            row = await history.ask(_request, request_id) or ctx.recent.get(request_id)
        except HistoryUnavailable:
            row = ctx.recent.get(request_id)
            if row is None:
                raise
    if row is None:
        raise NotFoundException("No request of that id is in the history, or it has not ended yet.")
    return row


def _requests(connection: Any, conditions: dict[str, Any], cursor: str | None, limit: int) -> dict[str, Any]:
    from services.history import queries  # noqa: PLC0415  # not before somebody looks

    try:
        return queries.list_requests(connection, queries.Filters(**conditions), cursor, limit)
    except queries.BadCursor as error:
        raise ClientException(f"cursor: {error}.") from None


def _request(connection: Any, request_id: str) -> dict[str, Any] | None:
    from services.history import queries  # noqa: PLC0415

    return queries.get_request(connection, request_id[:36])


def _sessions(connection: Any, cursor: str | None, limit: int) -> dict[str, Any]:
    from services.history import queries  # noqa: PLC0415

    try:
        return queries.list_sessions(connection, cursor, limit)
    except queries.BadCursor as error:
        raise ClientException(f"cursor: {error}.") from None
