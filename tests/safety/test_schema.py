"""Every route of the schema with every parameter it names, and values nobody would send: never a 500."""

import json
from urllib.parse import quote

import pytest

from tests.support.admin import Office

pytestmark = pytest.mark.process

JUNK = (
    "",
    " ",
    "\0",
    "é",
    "-1",
    "1e999",
    "nan",
    "null",
    "9" * 400,
    "'",
    "%",
    "../..",
    "{}",
    "2026-13-45T99:99",
    "\r\nX: y",
)
BODIES = (
    b"",
    b"null",
    b"[]",
    b'{"sql":1}',
    b'{"sql":"SELECT 1","limit":-1}',
    b"\xff",
    b'{"sql":"\\ud800"}',
    b"[" * 5000,
)


def test_no_value_of_a_parameter_makes_an_error_of_ours(office: Office) -> None:
    """Refused by name or answered; 500 is neither."""
    paths = json.loads(office.get("/schema/openapi.json").body)["paths"]
    asked = 0
    for path, methods in paths.items():
        if path.endswith("/events") or "get" not in methods:
            continue
        parameters = [p for p in methods["get"].get("parameters", ()) if p["in"] in {"query", "path"}]
        for parameter in parameters:
            for value in JUNK:
                name, sent = parameter["name"], quote(value, safe="")
                target = path.replace(f"{{{name}}}", sent or "x").partition("{")[0]
                query = f"?{name}={sent}" if parameter["in"] == "query" else ""
                answer = office.proxy.request("GET", target + query)
                assert answer.status < 500, (target, query, answer.body[:300])
                asked += 1
    assert asked > 100


@pytest.mark.parametrize("body", BODIES)
def test_no_body_makes_an_error_of_ours(office: Office, body: bytes) -> None:
    """Whatever is posted to whichever route that takes something."""
    paths = json.loads(office.get("/schema/openapi.json").body)["paths"]
    for path in (path for path, methods in paths.items() if "post" in methods):
        for kind in ("application/json", "application/x-www-form-urlencoded", "text/plain"):
            answer = office.proxy.request("POST", path, body, [("Content-Type", kind)])
            assert answer.status < 500, (path, kind, answer.body[:300])
