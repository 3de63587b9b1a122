"""Removes old rows in small batches, each a short transaction, so that writers and readers pass between.

It owns no state. On SQLite a batch holds the write lock for milliseconds and readers see their snapshot; on
PostgreSQL a delete blocks no reader at all.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, Table, delete, func, select
from sqlalchemy.exc import SQLAlchemyError

from services.history.bodies import bodies
from services.history.engine import open_engine, unreachable
from services.history.tables import EPOCH, requests, samples

# About 20 ms of write lock on SQLite with all indexes.
BATCH = 500
# A body is a hundred times a row: some 10 MB that SQLite writes to its journal.
BODIES = 100


def cutoff(days: float) -> datetime:
    """Rows received before this time are to go; more days than the calendar has keep them all."""
    try:
        return datetime.now(UTC) - timedelta(days=days)
    except OverflowError:
        return EPOCH


def prune_step(engine: Engine, before: datetime, batch: int = BATCH) -> int:
    """Delete the oldest rows before that time, at most `batch`; answers how many."""
    return _delete_oldest(engine, requests, before, batch)


def prune_bodies_step(engine: Engine, before: datetime) -> int:
    """Delete the oldest bodies before that time, at most `BODIES`; answers how many."""
    return _delete_oldest(engine, bodies, before, BODIES)


def _delete_oldest(engine: Engine, table: Table, before: datetime, batch: int) -> int:
    at = table.c.received_at
    oldest = select(table.c.id).where(at < before).order_by(at).limit(batch)
    with engine.begin() as connection:
        return connection.execute(delete(table).where(table.c.id.in_(oldest))).rowcount


def prune_samples_step(engine: Engine, before: datetime, batch: int = BATCH) -> int:
    """Delete the oldest samples of backends before that time, some `batch`; answers how many."""
    oldest = (
        select(samples.c.sampled_at)
        .where(samples.c.sampled_at < before)
        .order_by(samples.c.sampled_at)
        .limit(batch)
        .subquery()
    )
    last = select(func.max(oldest.c.sampled_at)).scalar_subquery()
    with engine.begin() as connection:
        return connection.execute(delete(samples).where(samples.c.sampled_at <= last)).rowcount


def prune(
    url: str, before: datetime, progress: Callable[[int, int], None] | None = None, batch: int = BATCH
) -> int:
    """Delete all requests and bodies received before that time, and samples of backends taken before it.

    Answers how many requests; calls `progress(done, total)` with them. Raises `HistoryError`.
    """
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            query = select(func.count()).select_from(requests).where(requests.c.received_at < before)
            total = connection.scalar(query) or 0
        done = 0
        while step := prune_step(engine, before, batch):
            done += step
            if progress is not None:
                progress(done, max(total, done))
        while prune_bodies_step(engine, before):
            pass
        while prune_samples_step(engine, before, batch):
            pass
    except SQLAlchemyError as error:
        raise unreachable(error) from None
    else:
        return done
    finally:
        engine.dispose()
