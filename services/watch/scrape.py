"""Fetches a model server's metrics, within a bounded time and size, and says what is wrong where it cannot.

It owns no state. Blocking: the worker samples from a thread of its own, the command line waits.
"""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec

from services.probe import connection_to, probe_blocking
from services.watch.exporters import NotMetrics, Unknown, read
from services.watch.reading import Reading

# llama-server answers between two batches of a prefill: seconds on a slow machine.
LIMIT_S = 5.0
# A vLLM with a dozen histograms for each of several models stays below 1 MiB.
MOST = 8 << 20

# What turns the counters on, by the kind of server that has none.
FLAGS = {
    "llama-server": "Start llama-server with --metrics.",
    "vllm": "Start vLLM without --disable-log-stats.",
    "ollama": "Ollama has no counters; `metalanchor top` shows what the proxy measures of it.",
    "lmstudio": "LM Studio has no counters; `metalanchor top` shows what the proxy measures of it.",
    "mlx_lm": "mlx_lm.server has no counters; `metalanchor top` shows what the proxy measures of it.",
    "ds4": "ds4 has no counters; `metalanchor top` shows what the proxy measures of it.",
    "openai": "vllm-mlx needs --enable-metrics.",
}


class Unwatchable(Exception):  # noqa: N818
    """There is no reading; `code` is a short word for programs, the text says why."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def scrape(url: str, api_key: str | None = None, limit_s: float = LIMIT_S) -> Reading:
    """One reading of the server at `url`, its base address with or without ``/v1`` or ``/metrics``.

    Takes no longer than `limit_s`, whatever the server does, name resolution excepted. Raises `Unwatchable`.
    """
    base, deadline = base_of(url), time.monotonic() + limit_s
    status, body = _fetch(base, "/metrics", api_key, deadline)
    if status in {401, 403}:
        raise Unwatchable("unauthorized", f"{base} refuses (HTTP {status}). Name its key with --api-key.")
    if status != http.client.OK:
        raise Unwatchable("no_metrics", f"{base}/metrics answers HTTP {status}.")
    try:
        found = read(body.decode("utf-8", "replace"), time.time())
    except NotMetrics as error:
        raise Unwatchable("not_prometheus", f"{base}/metrics is no Prometheus text: {error}.") from None
    except Unknown:
        text = f"{base}/metrics has metrics, but no counters of a model server."
        raise Unwatchable("no_counters", text) from None
    if found.exporter == "llama-server" and found.kv_usage is None:
        return _with_slots(found, base, api_key, deadline)
    return found


def advice(url: str) -> str:
    """What makes the counters of the server at `url` readable, by what it says it is; empty when unknown."""
    found = probe_blocking(base_of(url))
    return FLAGS.get(found.kind or "", "") if found else ""


def base_of(url: str) -> str:
    """The address below which ``/metrics`` stands: people paste the one that they give to clients."""
    base = url.rstrip("/")
    for ending in ("/metrics", "/v1"):
        base = base.removesuffix(ending).rstrip("/")
    return base


def _with_slots(found: Reading, base: str, api_key: str | None, deadline: float) -> Reading:
    """llama-server tells how full its slots are at ``/slots``, unless it runs with ``--no-slots``."""
    try:
        status, body = _fetch(base, "/slots", api_key, deadline)
        slots = json.loads(body) if status == http.client.OK else None
    except (Unwatchable, ValueError):
        return found
    if not isinstance(slots, list):
        return found
    used = [share for slot in slots if (share := _slot_usage(slot)) is not None]
    facts = {**found.facts, "slots": str(len(slots))}
    return msgspec.structs.replace(found, kv_usage=max(used, default=None), facts=facts)


def _slot_usage(slot: Any) -> float | None:
    """The share of a slot's context that holds tokens; an unused slot has no count yet."""
    if not isinstance(slot, dict) or not isinstance(slot.get("n_ctx"), int) or slot["n_ctx"] <= 0:
        return None
    tokens = slot.get("n_prompt_tokens", 0 if "id_task" not in slot else None)
    return min(1.0, tokens / slot["n_ctx"]) if isinstance(tokens, int) and tokens >= 0 else None


def _fetch(base: str, path: str, api_key: str | None, deadline: float) -> tuple[int, bytes]:
    limit_s = max(0.001, deadline - time.monotonic())
    connection = connection_to(base, limit_s)
    headers = {"Accept": "*/*", **({"Authorization": f"Bearer {api_key}"} if api_key else {})}
    try:
        connection.connect()
        with _guarded(connection.sock, deadline):
            connection.request("GET", urlsplit(base).path.rstrip("/") + path, headers=headers)
            with connection.getresponse() as response:
                status, body = response.status, response.read(MOST + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if time.monotonic() >= deadline or isinstance(error, TimeoutError):
            raise Unwatchable(
                "timeout", f"{base} did not answer in time. It may be busy; try again."
            ) from None
        text = f"Nothing that speaks HTTP answers at {base} ({type(error).__name__}). Is it running there?"
        raise Unwatchable("unreachable", text) from None
    finally:
        connection.close()
    if len(body) > MOST:
        raise Unwatchable("too_large", f"{base}{path} answers with more than {MOST >> 20} MiB.")
    return status, body


@contextmanager
def _guarded(sock: socket.socket, deadline: float) -> Iterator[None]:
    """End what is read at the deadline: a socket's own time limit starts anew with each byte."""
    guard = threading.Timer(max(0.001, deadline - time.monotonic()), _shut, (sock,))
    guard.daemon = True
    guard.start()
    try:
        yield
    finally:
        guard.cancel()
    if time.monotonic() >= deadline:  # what was read may be cut
        raise TimeoutError


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
