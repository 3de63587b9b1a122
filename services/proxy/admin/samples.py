"""What model servers counted of themselves over time, for charts."""

import datetime as dt
from typing import Any

from litestar import Request, get
from litestar.exceptions import ClientException

from services.proxy.admin.filters import refuse_unknown
from services.proxy.admin.history import History
from services.proxy.admin.pages.trends import SPANS, USUAL, Span


def routes(history: History) -> list[Any]:
    """``/samples``, below ``/api``."""

    @get("/samples", summary="Counters of the model servers over time, in equal steps", tags=["history"])
    async def samples(request: Request[Any, Any, Any], span: Span = USUAL) -> dict[str, Any]:
        refuse_unknown(request, "span")
        if span not in SPANS:
            raise ClientException(f"span: {span[:20]!r} is not one of {', '.join(SPANS)}.")
        return await history.ask(_series, span)

    return [samples]


def _series(connection: Any, span: str) -> dict[str, Any]:
    from services.watch import samples  # noqa: PLC0415  # not before somebody looks

    now = dt.datetime.now(dt.UTC)
    length, step, _ = SPANS[span]
    return samples.series(connection, now - dt.timedelta(seconds=length), step, now)
