"""One streamed request and what came back, timed by this side's own clock. Blocking, one connection each."""

import http.client
import json
import time
from typing import Any
from urllib.parse import urlsplit

import msgspec

from services.probe import connection_to

PATIENCE_S = 600.0  # a long cold prompt on a slow machine


class ExchangeError(RuntimeError):
    """The backend refused or broke off; the text says how."""


class Reply(msgspec.Struct):
    """An answer: `ttft_ms` from the last byte sent to the first generated token, None where none came."""

    ttft_ms: float | None = None
    text: str = ""
    calls: list[dict[str, Any]] = []
    request_id: str | None = None


def send(base: str, body: bytes, headers: dict[str, str]) -> Reply:
    """POST a chat completion below `base` and read its stream to the end; raises `ExchangeError`."""
    connection = connection_to(base, PATIENCE_S)
    path = urlsplit(base).path.rstrip("/") + "/v1/chat/completions"
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
        sent = time.perf_counter()
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise ExchangeError(_refusal(response))
        reply = Reply(request_id=response.getheader("X-MetalAnchor-Request-Id"))
        _listen(response, reply, sent)
    except (OSError, http.client.HTTPException, ValueError) as error:  # or an event that is no JSON
        raise ExchangeError(f"{type(error).__name__}: {error}") from None
    finally:
        connection.close()
    return reply


def models(base: str, headers: dict[str, str]) -> list[str]:
    """The names under ``/v1/models``; raises `ExchangeError`."""
    connection = connection_to(base, PATIENCE_S)
    try:
        connection.request("GET", urlsplit(base).path.rstrip("/") + "/v1/models", headers=headers)
        found = json.loads(connection.getresponse().read())
        return [str(item["id"]) for item in found["data"]]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        raise ExchangeError(f"no list of models: {type(error).__name__}") from None
    finally:
        connection.close()


def _refusal(response: http.client.HTTPResponse) -> str:
    text = response.read(500).decode("utf-8", "replace").strip()
    return f"HTTP {response.status}: {text}"


def _listen(response: http.client.HTTPResponse, reply: Reply, sent: float) -> None:
    calls: dict[int, dict[str, Any]] = {}
    for line in response:
        if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
            continue
        event = json.loads(line[5:])
        if "error" in event:
            raise ExchangeError(f"error in the stream: {str(event['error'])[:300]}")
        delta = (event.get("choices") or [{}])[0].get("delta") or {}
        if reply.ttft_ms is None and _generated(delta):
            reply.ttft_ms = (time.perf_counter() - sent) * 1e3
        reply.text += delta.get("content") or ""
        _gather(calls, delta.get("tool_calls") or [])
    # A call cut off by the token limit cannot be sent back.
    reply.calls = [call for call in calls.values() if _whole(call)]


def _generated(delta: dict[str, Any]) -> bool:
    names = ("content", "reasoning_content", "reasoning", "tool_calls")
    return any(delta.get(name) for name in names)


def _gather(calls: dict[int, dict[str, Any]], parts: list[dict[str, Any]]) -> None:
    for part in parts:
        empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        call = calls.setdefault(part.get("index", 0), empty)
        call["id"] = part.get("id") or call["id"]
        told = part.get("function") or {}
        call["function"]["name"] += told.get("name") or ""
        call["function"]["arguments"] += told.get("arguments") or ""


def _whole(call: dict[str, Any]) -> bool:
    try:
        return bool(call["id"] and call["function"]["name"]) and isinstance(
            json.loads(call["function"]["arguments"]), dict
        )
    except ValueError:
        return False
