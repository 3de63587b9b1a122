"""Several backends in one proxy, a port each; base paths; settings from the file."""

import json
from pathlib import Path

import pytest

from tests.support.backend import Backend, as_json, body
from tests.support.proxy import StartProxy, free_port

pytestmark = pytest.mark.process

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello there"}]}


def test_each_backend_has_its_port(start_proxy: StartProxy, backend: Backend, tmp_path: Path) -> None:
    """The port decides where a request goes; rows and status name the backend; no hit crosses over."""
    other = Backend().start()
    first, second = free_port(), free_port()
    file = tmp_path / "metalanchor.toml"
    file.write_text(
        f'[[backend]]\nname = "one"\nurl = "{backend.url}"\nport = {first}\n'
        f'[[backend]]\nname = "two"\nurl = "{other.url}/base/"\nport = {second}\nkind = "llama-server"\n'
    )
    backend.answer(body("from one"), "/x")
    other.answer(body("from two"), "/base/x")
    proxy = start_proxy(backend_url=None, port=first, config=file)

    answers = [proxy.request("GET", "/x?q=1")]
    raw = json.dumps(CHAT).encode()
    backend.answer(as_json({}), "/v1/chat/completions")
    other.answer(as_json({}), "/base/v1/chat/completions")
    chats = [proxy.request("POST", "/v1/chat/completions", raw)]
    proxy.port = second
    answers.append(proxy.request("GET", "/x?q=1"))
    chats.append(proxy.request("POST", "/v1/chat/completions", raw))

    assert [answer.body for answer in answers] == [b"from one", b"from two"]
    assert [proxy.row(answer)["backend"] for answer in answers] == ["one", "two"]
    assert [chat.ours["hit"] for chat in chats] == ["none", "none"]
    assert "/base/x?q=1" in [received.target for received in other.requests]
    assert [entry["name"] for entry in proxy.json("/status")["backends"]] == ["one", "two"]
    assert proxy.stop() == 0
    other.stop()
