"""What a chat template writes around texts, told by a server that renders and counts for others."""

import json
from typing import Any

import pytest

from services.proxy.backends.template import template_of
from tests.support.backend import Backend
from tests.support.backend.script import Received, Reply, as_json

SILENT = "{bos}"


@pytest.fixture
def backend():
    started = Backend().start()
    yield started
    started.stop()


def renders(backend: Backend, *, tools: bool = False, system: bool = True) -> None:
    """A server with three tokens around a turn, two at the end, one token a word; tools by their words."""

    def template(request: Received) -> Reply:
        body: dict[str, Any] = json.loads(request.body)
        if not system and body["messages"][0]["role"] == "system":
            return as_json({"error": {"message": "System role not supported"}}, status=500)
        text = "".join(f"<a> <b> {m['content']} <c> " for m in body["messages"])
        shown = " ".join(json.dumps(t) for t in body.get("tools", [])) if tools else ""
        return as_json({"prompt": f"{shown} {text}<a> <b>"})

    def tokenize(request: Received) -> Reply:
        body = json.loads(request.body)
        return as_json({"tokens": list(range(len(body["content"].split()) + body["add_special"]))})

    backend.answer(template, "/apply-template")
    backend.answer(tokenize, "/tokenize")


@pytest.mark.parametrize("system", [True, False])
def test_what_stands_around_a_turn_and_around_all(backend: Backend, system: bool):
    """One mark at the start and two at the end once a prompt; a template without system role tells too."""
    renders(backend, system=system)
    assert template_of(backend.url) == {"constant": 3.0, "turn": 3.0, "tools": 0.0}


def test_schemas_that_are_printed_are_counted_by_their_bytes(backend: Backend):
    renders(backend, tools=True)
    told = template_of(backend.url)
    assert told is not None
    assert 0.05 < told["tools"] < 0.3


@pytest.mark.parametrize("path", ["/apply-template", "/tokenize"])
def test_a_server_that_does_not_tell(backend: Backend, path: str):
    renders(backend)
    backend.answer(as_json({"error": "no"}, status=404), path)
    assert template_of(backend.url) is None


def test_nobody_there():
    assert template_of("http://127.0.0.1:9") is None
