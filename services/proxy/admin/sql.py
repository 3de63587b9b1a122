"""The SQL console over HTTP: one read-only statement, limited in time and rows by the history's own means."""

from typing import Annotated, Any

import msgspec
from litestar import Router, post
from litestar.exceptions import ClientException

from services.proxy.admin.errors import HistoryUnavailable
from services.proxy.admin.history import History

# The limit of the database comes first; this is for one that does not keep it.
GRACE_S = 2.0


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """A statement on table ``requests``, with limits."""

    sql: Annotated[str, msgspec.Meta(min_length=1, max_length=100_000)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1_000
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=30)] = 5.0


def routes(history: History) -> Router:
    """``/sql``, below ``/api``."""

    @post("/sql", status_code=200, summary="One read-only SQL statement on the history")
    async def run(data: Question) -> dict[str, Any]:
        return await ask(history, data)

    return Router("/", route_handlers=[run], tags=["history"])


async def ask(history: History, question: Question) -> dict[str, Any]:
    """The answer: ``columns``, ``rows``, ``truncated``. Raises `ClientException` or `HistoryUnavailable`."""
    return await history.run(_run, history.url, question, limit_s=question.timeout_s + GRACE_S)


def _run(url: str, question: Question) -> dict[str, Any]:
    from services.history.console import Refused, run_sql  # noqa: PLC0415  # not before somebody asks
    from services.history.engine import HistoryError  # noqa: PLC0415

    try:
        return msgspec.structs.asdict(run_sql(url, question.sql, question.limit, question.timeout_s))
    except Refused as error:
        raise ClientException(str(error)) from None
    except HistoryError as error:
        raise HistoryUnavailable(str(error)) from None
