"""What the commands that read the history share: opening it read-only, and its errors as sentences."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from services.cli.errors import Failure, Unreachable
from services.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy import Connection


@contextmanager
def history_errors() -> Iterator[None]:
    """Turn a database error into one sentence with exit code 3."""
    from services.history.engine import HistoryError  # noqa: PLC0415 - SQLAlchemy is slow to import

    try:
        yield
    except HistoryError as error:
        raise Unreachable(str(error)) from None


def refuse_absent(settings: Settings) -> None:
    """Raise `Unreachable` where there is no SQLite file yet: opening one to write would make it, empty."""
    from services.history.engine import sqlite_path  # noqa: PLC0415

    file = sqlite_path(settings.database)
    if file is not None and not file.is_file():
        raise Unreachable(f"There is no history yet at {file}. Start MetalAnchor with `metalanchor up`.")


@contextmanager
def reading(settings: Settings) -> Iterator["Connection"]:
    """A read-only connection to the history; a history without its tables yet is a failure that says so."""
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    from services.history.engine import lacks_schema, open_engine, unreachable  # noqa: PLC0415

    with history_errors():
        refuse_absent(settings)
        engine = open_engine(settings.database, read_only=True)
        try:
            with engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            if lacks_schema(error):
                text = "The history lacks tables or columns of this version. Run `metalanchor migrate`."
                raise Failure(text) from None
            raise unreachable(error) from None
        finally:
            engine.dispose()
