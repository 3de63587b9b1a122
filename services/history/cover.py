"""Divides a span of time into what the rollups hold and what has to be read from the rows.

Owns nothing. The largest rollups are taken that lie whole in the span and are not due; the rest, such as
the hour that has not ended, an hour that rows came late to, or the first minutes of the span, is left to the
rows.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from services.history.rollups import DAY, HOUR, LEVELS, QUARTER, rollups_due
from services.history.tables import requests, time_of

# More pieces than these would make statements that take longer to plan than the rows take to read.
MOST_PIECES = 60


class Piece(NamedTuple):
    """Consecutive rollups of one length, in epoch seconds, `past` exclusive."""

    span: int
    first: int
    past: int


class Gap(NamedTuple):
    """A time to be read from the rows; None is open."""

    first: datetime | None
    past: datetime | None


class Cover(NamedTuple):
    """Pieces and gaps that together hold every instant of a span once."""

    pieces: tuple[Piece, ...]
    gaps: tuple[Gap, ...]


def covering(
    connection: Connection, since: datetime | None, until: datetime | None, now: float, longest: int = DAY
) -> Cover:
    """The cover of a span, with rollups of at most `longest` seconds; with 0 there are none."""
    if since is None:
        since = connection.scalar(select(func.min(requests.c.received_at)))
    if since is None:
        return Cover((), (Gap(None, until),))
    first = int(since.timestamp()) // DAY * DAY
    query = select(rollups_due.c.span_s, rollups_due.c.start_s).distinct()
    marks = connection.execute(query.where(rollups_due.c.start_s >= first)).all()
    return cover(since, until, [(span, start) for span, start in marks], now, longest)


def cover(
    since: datetime, until: datetime | None, due: Iterable[tuple[int, int]], now: float, longest: int = DAY
) -> Cover:
    """The cover of a span where the rollups `due` ((length, start) each) may not be used."""
    begin = -(-_micros(since) // (HOUR * 1_000_000)) * HOUR
    over = int(now) // HOUR * HOUR
    end = over if until is None else min(over, _micros(until) // (HOUR * 1_000_000) * HOUR)
    levels = [level for level in reversed(LEVELS) if level <= max(longest, HOUR)] if longest else []
    taken = _taken(begin, end, frozenset(due), levels)
    if longest == QUARTER:  # what is good for an hour is good for its quarters
        taken = [Piece(QUARTER, piece.first, piece.past) for piece in taken]
    gaps: list[Gap] = []
    reached: datetime = since
    for piece in taken:
        start = time_of(piece.first * 1_000)
        if reached < start:
            gaps.append(Gap(reached, start))
        reached = time_of(piece.past * 1_000)
    if until is None or reached < until:
        gaps.append(Gap(reached, until))
    if len(taken) + len(gaps) > MOST_PIECES:
        return Cover((), (Gap(since, until),))
    return Cover(tuple(taken), tuple(gaps))


def _taken(begin: int, end: int, due: frozenset[tuple[int, int]], levels: Sequence[int]) -> list[Piece]:
    blocked = {(level, start // level * level) for span, start in due for level in levels if level >= span}
    # A longer one stands on shorter ones: while one of those is due, it may not be used either.
    taken: list[Piece] = []
    at = begin
    while at < end:
        for level in levels:
            if at % level == 0 and at + level <= end and (level, at) not in blocked:
                _take(taken, Piece(level, at, at + level))
                at += level
                break
        else:
            at += HOUR
    return taken


def _take(taken: list[Piece], piece: Piece) -> None:
    if taken and taken[-1].span == piece.span and taken[-1].past == piece.first:
        taken[-1] = Piece(piece.span, taken[-1].first, piece.past)
    else:
        taken.append(piece)


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)
