"""A history to ask, on each of the two databases."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection

from services.history.engine import open_engine
from services.logger.store import Store


@pytest.fixture
def history(history_url: str) -> Iterator[Connection]:
    """A connection to a history; `.info["store"]` writes to it."""
    engine = open_engine(history_url)
    with engine.connect() as connection:
        connection.info["store"] = Store(engine)
        yield connection
    engine.dispose()
