"""A proxy over a history that is already filled, for tests of the proxy's own routes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.history.engine import open_engine
from services.history.migrate import upgrade
from services.logger.store import Store
from services.record import Record
from tests.support.backend import Backend
from tests.support.http import Answer
from tests.support.proxy import Proxy
from tests.support.records import make_record, make_records

Row = dict[str, Any]


def fill(url: str, records: list[Record]) -> None:
    """Make the schema and store the records."""
    upgrade(url)
    store = Store(open_engine(url))
    store.save(records)
    store.close()


class Office:
    """The proxy's own routes over `records`, oldest first."""

    def __init__(self, proxy: Proxy, records: list[Record]) -> None:
        self.proxy, self.records = proxy, records

    def get(self, target: str) -> Answer:
        """One of the proxy's own routes."""
        return self.proxy.request("GET", f"/metalanchor{target}")

    def json(self, target: str, status: int = 200) -> Any:
        """Its JSON, with the status that is expected."""
        answer = self.get(target)
        assert answer.status == status, answer.body
        return json.loads(answer.body)

    def post(self, target: str, value: Any) -> Answer:
        """Send JSON to one of them."""
        headers = [("Content-Type", "application/json")]
        return self.proxy.request("POST", f"/metalanchor{target}", json.dumps(value).encode(), headers)

    def ids(self, target: str) -> list[str]:
        """The ids of a list."""
        return [row["id"] for row in self.json(target)["items"]]


def some_records() -> list[Record]:
    """Turns of several sessions, probes, an embedding, and names as a stranger might send them."""
    records = make_records(240)
    records += [make_record(kind="management", hit=None, cause=None, endpoint="/api/tags") for _ in range(5)]
    records.append(make_record(kind="embedding", hit=None, cause=None, endpoint="/v1/embeddings"))
    records.append(make_record(agent="<script>alert(1)</script>", model='"><img src=x>', session="odd"))
    records.append(
        make_record(hit="system+tools", cause="evicted_by", status="client_cancelled", session="cut")
    )
    return records


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """One proxy with a filled SQLite history for the tests that only read."""
    folder: Path = tmp_path_factory.mktemp("office")
    url = f"sqlite:///{folder / 'history.sqlite'}"
    records = some_records()
    fill(url, records)
    backend = Backend().start()
    proxy = Proxy(folder, backend.url, database_url=url).start()
    yield Office(proxy, records)
    assert proxy.stop() == 0
    backend.stop()
    assert "Traceback" not in proxy.log.read_text()
