"""R89: secrets in all their forms, through proxy, Redis, worker and SQL, failures included: no trace."""

import base64
import hashlib
import json
import sqlite3
from urllib.parse import quote

import pytest

from tests.faults.ledger import read_rows
from tests.faults.stack import Stack, until
from tests.support.backend import as_json

pytestmark = pytest.mark.process

CANARY = "CANARY-123/ü"
KEY = "CANARY-123"
HEADERS = [
    ("Authorization", f"Bearer {KEY}"),
    ("x-api-key", KEY),
    ("Cookie", f"session={KEY}"),
    ("Proxy-Authorization", "Basic " + base64.b64encode(f"user:{KEY}".encode()).decode()),
    ("X-Goog-Api-Key", KEY),
    ("X-Custom", KEY),
]  # fmt: skip


def forms() -> list[bytes]:
    """The secret as it may turn up: plain, escaped, encoded, or as an unkeyed digest."""
    raw = [KEY.encode(), f"Bearer {KEY}".encode(), CANARY.encode()]
    found = [KEY.encode(), quote(CANARY, safe="").encode(), KEY.replace("-", "%2D").encode()]
    found += [rb"CANARY\u002d123", KEY.lower().encode(), KEY[::-1].encode(), KEY.encode("utf-16-le")]
    for text in raw:
        found += [base64.b64encode(text), base64.urlsafe_b64encode(text).rstrip(b"="), text.hex().encode()]
        for make in (hashlib.md5, hashlib.sha1, hashlib.sha256):
            found += [make(text).hexdigest().encode(), make(text).digest()]
    return found


def bodies() -> list[tuple[str, bytes]]:
    """The secret in every place of a body that has a meaning to us, and in one that has none."""
    said = [
        {"role": "system", "content": f"key {CANARY}"},
        {"role": "user", "content": f"my key is {CANARY}"},
    ]
    call = {
        "id": KEY,
        "type": "function",
        "function": {"name": "run", "arguments": json.dumps({"key": CANARY})},
    }
    talk = [*said, {"role": "assistant", "content": CANARY, "reasoning": CANARY, "tool_calls": [call]}]
    talk += [{"role": "tool", "tool_call_id": KEY, "content": CANARY}]
    tool = {
        "type": "function",
        "function": {"name": "run", "description": CANARY, "parameters": {"const": CANARY}},
    }
    extra = {
        "api_key": KEY,
        "user": KEY,
        "metadata": {"user_id": KEY, "token": KEY},
        "safety_identifier": KEY,
    }
    chat = {"model": "m", "stream": False, "tools": [tool], "messages": talk, **extra}
    return [
        ("/v1/chat/completions", json.dumps(chat).encode()),
        ("/v1/chat/completions", json.dumps(chat).replace("CANARY", "C\\u0041NARY").encode()),
        ("/api/chat", json.dumps({**chat, "options": {"num_ctx": 4096, "stop": [CANARY]}}).encode()),
        ("/api/generate", json.dumps({"model": "m", "prompt": CANARY, "system": CANARY, **extra}).encode()),
        ("/v1/messages", json.dumps({**chat, "system": CANARY, "max_tokens": 9}).encode()),
        (
            "/v1/responses",
            json.dumps({"model": "m", "instructions": CANARY, "input": CANARY, **extra}).encode(),
        ),
        ("/v1/embeddings", json.dumps({"model": "m", "input": [CANARY], **extra}).encode()),
        ("/v1/chat/completions", f'{{"messages": broken {CANARY}'.encode()),
        ("/anything", KEY.encode()),
    ]


def ask_everything(stack: Stack) -> None:
    """All bodies with all headers and the key in the query; then our own routes with it."""
    for path, raw in bodies():
        stack.proxy.request("POST", f"{path}?key={KEY}&q={quote(CANARY)}", raw, HEADERS)
    stack.proxy.request("GET", f"/metalanchor/api/requests?session={KEY}&model={KEY}")
    stack.proxy.request("GET", f"/metalanchor/api/requests/{KEY}", headers=HEADERS)
    stack.proxy.request(
        "POST", "/metalanchor/api/sql", json.dumps({"sql": f"SELECT '{KEY}' FROM nothing"}).encode()
    )
    stack.proxy.request("GET", f"/metalanchor/{KEY}?x={KEY}", headers=HEADERS)
    stack.proxy.request("GET", "/x", headers=HEADERS, host=f"{KEY}.example")


def pages(stack: Stack) -> bytes:
    """Everything our own routes show afterwards, explanations apart: those show text to who may see it."""
    paths = (
        "/",
        "/status",
        "/metrics",
        "/api/lineages",
        "/api/sessions",
        "/api/requests?limit=100",
        "/api/report",
    )
    return b"".join(stack.proxy.request("GET", f"/metalanchor{path}").body for path in paths)


def everything(stack: Stack) -> dict[str, bytes]:
    """All that any part of ours keeps or wrote: files, keys, values."""
    found = {str(p): p.read_bytes() for p in stack.folder.rglob("*") if p.is_file()}
    database = stack.database.removeprefix("sqlite:///")
    with sqlite3.connect(database) as connection:
        found["SQL"] = "\n".join(connection.iterdump()).encode()
    connection.close()
    with stack.valkey.client() as client:
        for key in client.scan_iter():
            found[f"key {key!r}"] = key + (client.dump(key) or b"")
            if client.type(key) == b"hash":
                found[f"hash {key!r}"] = b"\0".join(
                    part for pair in client.hgetall(key).items() for part in pair
                )
    return found


@pytest.fixture
def stack(tmp_path, backend):
    """A whole installation whose backend repeats the key in a 401, in an answer, and in a broken stream."""
    told = iter(range(1_000))

    def answer(received):
        if received.header("accept") == "application/json" and received.method == "GET":
            return as_json({}, status=404)
        number = next(told)
        if number % 3 == 0:
            return as_json(
                {"error": {"message": f"bad key {KEY}", "type": f"auth {KEY}", "code": KEY + " no"}},
                status=401,
            )
        message = {"role": "assistant", "content": f"your key is {CANARY}"}
        return as_json({"choices": [{"index": 0, "message": message, "finish_reason": f"stop {KEY}"}]})

    backend.answer(answer)
    made = Stack(tmp_path / "stack", f"sqlite:///{tmp_path / 'history.sqlite'}")
    made.model.start = lambda: None
    made.proxy._settings["backend_url"] = backend.url
    made.start()
    yield made
    made.stop()


def test_r89_no_secret_is_kept_anywhere(stack: Stack) -> None:
    """Not by a file, a key, a log, a job, a row or a page; not when the worker failed over it either."""
    ask_everything(stack)
    database = stack.database.removeprefix("sqlite:///")
    with sqlite3.connect(database) as connection:
        connection.execute("ALTER TABLE requests RENAME TO away")
    connection.close()
    ask_everything(stack)
    until(lambda: "takes no rows" in stack.worker.text(), what="the worker's complaint")
    failing = everything(stack)
    with sqlite3.connect(database) as connection:
        connection.execute("ALTER TABLE away RENAME TO requests")
    connection.close()
    until(lambda: len(read_rows(stack.database)) >= 2 * len(bodies()), what="the last row")
    seen = pages(stack)
    assert stack.proxy.stop() == 0
    kept = everything(stack)

    shapes = forms()
    for when, places in (("failing", failing), ("kept", kept), ("pages", {"pages": seen})):
        for place, content in places.items():
            found = [shape for shape in shapes if shape in content]
            assert not found, (when, place, found)
