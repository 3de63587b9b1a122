"""The queue's jobs, which `services.record.JOB` and `services.bodies.JOB` name: no proxy imports them.

It owns this process's store, opened on first use from the settings or given by the worker, and the tally of
what became of the rows. Importing it does nothing.
"""

import logging

import msgspec

from services import bodies, settings
from services.history.engine import open_engine
from services.logger.store import Saved, Store, Unavailable
from services.logger.telemetry import Telemetry
from services.record import Record, decode_batch

log = logging.getLogger("metalanchor.worker")

tally = Saved()
_store: Store | None = None
_telemetry: Telemetry | None = None


def use(store: Store | None, telemetry: Telemetry | None = None) -> None:
    """Let this process's jobs write to `store` and tell `telemetry`; None forgets the present one, closed."""
    global _store, _telemetry  # noqa: PLW0603 - a job is a bare function; what it writes to is the process's
    _telemetry = telemetry
    if _store is not None and _store is not store:
        _store.close()
    _store = store


def persist(batch: str) -> int:
    """Store a batch (`record.encode_batch`); answers the rows that are new.

    Raises `services.logger.store.Unavailable` when the database takes nothing; the batch may then be sent
    again whole. Records that cannot be read are counted as dropped and do not hold up the others.
    """
    store = _opened()
    records, unreadable = _decode(batch)
    try:
        saved = store.save(records)
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001 - its text may hold values, and rq keeps tracebacks in Redis
        raise Unavailable(type(error).__name__) from None
    saved.dropped += unreadable
    tally.add(saved)
    if _telemetry is not None:
        _telemetry.put(records)
    if saved.dropped or saved.refused:
        log.warning("batch of %d: %d stored bare, %d dropped", len(records), saved.refused, saved.dropped)
    return saved.stored


def keep(batch: str) -> int:
    """Store copies of bodies; answers how many are new. Raises `services.logger.store.Unavailable`."""
    try:
        copies = bodies.decode(batch)
    except msgspec.DecodeError:
        log.warning("a batch of bodies cannot be read and was thrown away")
        return 0
    try:
        return _opened().keep(copies)
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        raise Unavailable(type(error).__name__) from None


def _opened() -> Store:
    if _store is None:
        use(Store(open_engine(settings.load().database)))
    assert _store is not None
    return _store


def _decode(batch: str) -> tuple[list[Record], int]:
    try:
        return decode_batch(batch), 0
    except msgspec.DecodeError:
        pass
    try:
        parts = msgspec.json.decode(batch, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        return [], 1
    records = [record for part in parts if (record := _decode_one(part))]
    return records, len(parts) - len(records)


def _decode_one(part: msgspec.Raw) -> Record | None:
    try:
        return msgspec.json.decode(part, type=Record)
    except msgspec.DecodeError:
        return None
