"""The requests that were sent most often, with their bodies, where the user has these kept.

It owns no state. A body is only of use when it is the one that was sent, to the byte; the hash in its row
says so, and what was cut or masked is counted and left out.
"""

from hashlib import sha1
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from services.history.bodies import bodies, inflated
from services.history.tables import requests

_columns = requests.c


class Repeated(NamedTuple):
    """One request: whose it was, where it went, and how often it was sent."""

    scope: str | None
    endpoint: str
    body: bytes
    times: int


class Found(NamedTuple):
    """The most repeated first, and how many of these have no body that can be sent again."""

    requests: list[Repeated]
    unusable: int


def most_repeated(connection: Connection, most: int) -> Found:
    """The generations with a kept body that were sent most often, at most `most`; each at least twice."""
    times = func.count().label("times")
    query = (
        select(_columns.scope, _columns.endpoint, _columns.raw_hash, func.max(bodies.c.id).label("id"), times)
        .join(bodies, bodies.c.id == _columns.id)
        .where(_columns.kind == "generation", _columns.raw_hash.is_not(None))
        .group_by(_columns.scope, _columns.endpoint, _columns.raw_hash)
        .having(func.count() > 1)
        .order_by(times.desc(), _columns.raw_hash)
        .limit(most)
    )
    found: list[Repeated] = []
    rows = connection.execute(query).all()
    for scope, endpoint, raw_hash, kept, count in rows:
        body = inflated(connection.scalar(select(bodies.c.request).where(bodies.c.id == kept)))
        if body is not None and sha1(body, usedforsecurity=False).hexdigest() == raw_hash:
            found.append(Repeated(scope, endpoint, body, count))
    return Found(found, len(rows) - len(found))
