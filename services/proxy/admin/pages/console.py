"""The SQL console: a statement, the ready ones, and the answer as a table. It runs as `/api/sql` does."""

import time
from typing import Any

from litestar import Request, Response, get, post
from litestar.exceptions import ClientException

from services.proxy.admin.errors import HistoryUnavailable
from services.proxy.admin.history import History
from services.proxy.admin.pages.site import Site
from services.proxy.admin.sql import Question, ask

ROWS = 500
MOST = 20_000  # characters of a statement that the page takes
FIRST = (
    "SELECT agent, count(*) AS requests, round(sum(lost_ms) / 1000) AS lost_s\n"
    "FROM requests\nWHERE kind = 'generation'\nGROUP BY agent\nORDER BY lost_s DESC"
)


def routes(history: History, site: Site) -> list[Any]:
    """``/sql``."""

    @get("/sql", summary="The SQL console")
    async def console(request: Request[Any, Any, Any]) -> Response[str]:
        return _page(site, request, _first(request.query_params.get("ready")))

    @post("/sql", summary="Run a statement and show its answer", status_code=200)
    async def run(request: Request[Any, Any, Any]) -> Response[str]:
        fields = await request.form()
        sql = str(fields.get("sql") or "")[:MOST]
        started = time.perf_counter()
        answer, problem = None, None
        try:
            answer = await ask(history, Question(sql=sql, limit=ROWS))
        except (ClientException, HistoryUnavailable) as error:
            problem = error.detail if isinstance(error, ClientException) else str(error)
        taken = (time.perf_counter() - started) * 1e3
        return _page(site, request, sql, answer=answer, problem=problem, taken=taken)

    return [console, run]


def _page(site: Site, request: Request[Any, Any, Any], sql: str, **found: Any) -> Response[str]:
    from services.history.ready import QUERIES  # noqa: PLC0415

    values = {"answer": None, "problem": None, "taken": None, **found}
    return site.page(request, "sql", here="sql", sql=sql, ready=QUERIES, **values)


def _first(name: str | None) -> str:
    from services.history.ready import QUERIES  # noqa: PLC0415

    return next((query.sql for query in QUERIES if query.name == name), FIRST)
