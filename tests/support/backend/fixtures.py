"""The fixture `backend`; registered in tests/conftest.py."""

from collections.abc import Iterator

import pytest

from tests.support.backend import Backend


@pytest.fixture
def backend() -> Iterator[Backend]:
    """A scripted backend that answers 200 with an empty body until told otherwise."""
    server = Backend().start()
    yield server
    server.stop()
