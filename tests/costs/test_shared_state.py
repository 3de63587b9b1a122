"""Breakpoints where several proxies share a Redis, and where that Redis hangs."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.anthropic_cache import Service
from tests.support.cloud import as_sent, send, turn, without_marks
from tests.support.proxy import Proxy
from tests.support.valkey import Valkey

pytestmark = pytest.mark.process

CANARY = "canary-quince-7431"
# The contract allows 50 ms while a breaker opens; the rest is for two cores shared with everything else.
PATIENCE_S = 1.0


def started(folder: Path, service: Service, **more: Any) -> Proxy:
    return Proxy(folder, service.backend.url, backend_kind="anthropic", breakpoints="auto", **more).start()


def test_another_process_knows_what_was_seen(valkey: Valkey, tmp_path: Path) -> None:
    """The second turn comes in elsewhere; what Redis holds of it is hashes, not words."""
    shared = {"redis_url": valkey.url, "key_file": tmp_path / "install.key"}
    with Service() as service:
        proxies = [started(tmp_path / str(number), service, **shared) for number in range(2)]
        try:
            end = time.monotonic() + 10
            while any(proxy.json("/status")["state"]["mode"] != "redis" for proxy in proxies):
                assert time.monotonic() < end
                time.sleep(0.05)
            for number in range(4):
                value = turn(number, system=f"{CANARY} " * 800)
                answer = send(proxies[number % 2], value, "shared")
                assert ("fix" in answer.ours) is (number > 0)
                assert without_marks(service.bodies[-1]) == as_sent(value)
            assert service.usages[-1].read >= service.usages[-2].total - 1
            with valkey.client() as client:
                held = b"".join(key + (client.dump(key) or b"") for key in client.scan_iter())
            assert CANARY.encode() not in held
        finally:
            for proxy in proxies:
                proxy.stop()


def test_a_hung_redis_holds_no_request_up(valkey: Valkey, tmp_path: Path) -> None:
    """Requests wait for the verdict no longer than the state's budget; then this process knows itself."""
    with Service() as service:
        proxy = started(tmp_path / "one", service, redis_url=valkey.url)
        try:
            send(proxy, turn(0), "hung")
            valkey.freeze()
            for number in range(1, 5):
                before = time.monotonic()
                send(proxy, turn(number), "hung")
                assert time.monotonic() - before < PATIENCE_S
            assert json.loads(service.bodies[-1])["messages"]
            assert service.refused == []
        finally:
            valkey.thaw()
            proxy.stop()


def test_beside_the_response_cache(valkey: Valkey, tmp_path: Path) -> None:
    """What is answered from it is not sent and costs nothing; what is sent has its breakpoints."""
    with Service() as service:
        proxy = started(tmp_path / "one", service, redis_url=valkey.url, response_cache="exact")
        try:
            end = time.monotonic() + 10
            while proxy.json("/status")["state"]["mode"] != "redis":
                assert time.monotonic() < end
                time.sleep(0.05)
            first = send(proxy, turn(0, temperature=0), "cached")
            end = time.monotonic() + 10
            while (again := send(proxy, turn(0, temperature=0), "cached")).ours["cache"] != "hit":
                assert time.monotonic() < end
            assert again.body == first.body
            sent = len(service.bodies)
            assert "fix" in send(proxy, turn(1, temperature=0), "cached").ours
            assert len(service.bodies) == sent + 1
        finally:
            proxy.stop()
