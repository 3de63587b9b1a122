"""What the command line's tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.record import Record
from tests.support.admin import fill
from tests.support.proxy import free_port
from tests.support.records import make_records


@pytest.fixture
def unused_port() -> int:
    """A port where nothing listens."""
    return free_port()


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unused_port: int) -> Iterator[list[Record]]:
    """Ten recorded generations and a probe, in the history that the settings name; no proxy runs."""
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    monkeypatch.setenv("METALANCHOR_DATABASE_URL", url)
    monkeypatch.setenv("METALANCHOR_PORT", str(unused_port))
    records = make_records(10)
    probe = make_records(1, kind="management", endpoint="/api/tags")
    fill(url, [*records, *probe])
    return records
