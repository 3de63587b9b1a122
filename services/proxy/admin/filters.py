"""Query parameters of the lists, checked: a misspelt or malformed filter is refused, never ignored."""

import datetime as dt
import re
from collections.abc import Sequence
from typing import Annotated, Any

from litestar import Request
from litestar.exceptions import ClientException
from litestar.params import Parameter

from services.proxy.admin.metrics import KINDS
from services.record import HITS, STATUSES

AGO = re.compile(r"(\d{1,6})(s|m|h|d|w)\Z")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
LONGEST_S = 100 * 365 * 86_400


def _choice(known: Sequence[str]) -> Any:
    """A parameter that takes one of these; `one_of` checks it, since a bare plus must be allowed for."""
    said = "One of: " + ", ".join(known)
    return Parameter(description=said, schema_extra={"anyOf": [{"enum": list(known)}, {"type": "null"}]})


Limit = Annotated[int, Parameter(ge=1, le=1000, description="Items a page")]
Cursor = Annotated[
    str | None, Parameter(min_length=1, max_length=200, description="`next` of the page before")
]
Name = Annotated[str | None, Parameter(max_length=500)]
Hit = Annotated[str | None, _choice(sorted(HITS))]
Status = Annotated[str | None, _choice(STATUSES)]
Kind = Annotated[str | None, _choice(sorted(KINDS))]
When = Annotated[
    str | None,
    Parameter(
        description="ISO 8601 time, UTC unless it says otherwise, or an age such as 90m, 24h, 7d",
        schema_extra={
            "anyOf": [
                {"type": "string", "pattern": r"^\d{1,6}[smhdw]$"},
                {"type": "string", "format": "date-time"},
                {"type": "string", "format": "date"},
                {"type": "null"},
            ]
        },
    ),
]
All = Annotated[bool, Parameter(description="Every request, not generations alone")]


def refuse_unknown(request: Request[Any, Any, Any], *known: str) -> None:
    """400 for a parameter that no list has: a misspelt filter must not show everything."""
    for name in request.query_params:
        if name not in known:
            raise ClientException(f"{name[:100]!r} is no parameter here. Known: {', '.join(sorted(known))}.")


def one_of(name: str, value: str | None, known: frozenset[str]) -> str | None:
    """The value if it is one of `known`; 400 naming them otherwise."""
    if value is None:
        return None
    value = value.replace(" ", "+")  # what a bare plus in a query decodes to
    if value not in known:
        raise ClientException(f"{name}: {value[:100]!r} is not one of {', '.join(sorted(known))}.")
    return value


def moment(name: str, value: str | None) -> dt.datetime | None:
    """An aware time from ISO 8601 or an age; 400 for anything else."""
    if value is None:
        return None
    if ago := AGO.match(value):
        seconds = int(ago[1]) * UNITS[ago[2]]
        return dt.datetime.now(dt.UTC) - dt.timedelta(seconds=min(seconds, LONGEST_S))
    try:
        # A bare plus in a query decodes to a blank; an offset's plus stands right before hh:mm.
        parsed = dt.datetime.fromisoformat(
            re.sub(r" (\d\d:?\d\d)\Z", r"+\1", value) if "T" in value else value
        )
    except ValueError:
        raise ClientException(
            f"{name}: {value[:100]!r} is neither an ISO 8601 time nor an age such as 24h."
        ) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=dt.UTC)
