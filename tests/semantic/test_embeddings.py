"""Where vectors come from: the bundled model, and servers of both shapes, with their failures."""

import asyncio
import math
import threading
from typing import Any

import numpy as np
import pytest

from services.semantic.embeddings import WAITING, EmbeddingError, Threaded, conflict, open_embedder
from services.settings import Settings, SettingsError, load
from tests.support.jsonserver import JsonServer


def embedder(server: JsonServer, path: str = "") -> Threaded:
    found = open_embedder(Settings(embeddings_url=server.url + path, embeddings_model="e"))
    assert isinstance(found, Threaded)
    return found


async def test_the_bundled_model_brings_near_what_is_near():
    """In two languages, offline; vectors have length one."""
    model = open_embedder(Settings())
    assert model is not None
    german, chinese, other = [
        await model.embed(t) for t in ("What is a dog?", "什么是狗？", "Sort a list in Rust")
    ]
    assert math.isclose(float(np.linalg.norm(german)), 1, abs_tol=1e-3)
    assert german @ chinese > german @ other
    await model.close()


@pytest.mark.parametrize(
    ("path", "asked", "reply"),
    [
        ("", "/v1/embeddings", {"data": [{"embedding": [3, 4]}]}),
        ("/v1", "/v1/embeddings", {"data": [{"embedding": [3, 4]}]}),
        ("/proxy/v1/embeddings", "/proxy/v1/embeddings", {"data": [{"embedding": [3, 4]}]}),
        ("/api/embed", "/api/embed", {"embeddings": [[3, 4]]}),
    ],
)
async def test_both_shapes_of_servers_are_spoken(json_server: JsonServer, path: str, asked: str, reply: Any):
    """OpenAI's by default, Ollama's where the path says so; the vector is brought to length one."""
    json_server.answer = lambda path, body: reply
    model = embedder(json_server, path)
    vector = await model.embed("hello")
    assert vector.tolist() == pytest.approx([0.6, 0.8])
    assert json_server.seen == [(asked, {"model": "e", "input": "hello"})]
    await model.embed("hello")
    assert len(json_server.seen) == 1, "the latest texts are not asked for twice"
    await model.close()


@pytest.mark.parametrize(
    "reply",
    [500, b"no json", b"[]", {}, {"data": []}, {"data": [{"embedding": [0, 0]}]}, {"embeddings": [["x"]]},
     {"data": [{"embedding": [[1]]}]}, {"data": [{"embedding": [1e999, 1]}]}],
)  # fmt: skip
async def test_a_server_that_fails_gives_no_vector(json_server: JsonServer, reply: Any):
    """Whatever it answers; the error holds no text of the question."""
    json_server.answer = lambda path, body: reply
    model = embedder(json_server)
    with pytest.raises(EmbeddingError) as caught:
        await model.embed("canary")
    assert "canary" not in str(caught.value)
    await model.close()


async def test_a_server_that_is_away_gives_no_vector(json_server: JsonServer):
    """And is used again when it is back."""
    url = json_server.url
    json_server.close()
    model = open_embedder(Settings(embeddings_url=url, embeddings_model="e"))
    assert model is not None
    with pytest.raises(EmbeddingError, match="unreachable"):
        await model.embed("hello")
    await model.close()


async def test_who_would_have_to_wait_long_is_refused():
    """One thread works; behind a few that wait, the next is a miss at once."""
    go = threading.Event()
    model = Threaded("slow", 0.5, lambda text: go.wait(20) and np.ones(1, np.float32))
    waiting = [asyncio.create_task(model.embed(str(number))) for number in range(WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(EmbeddingError, match="busy"):
        await model.embed("one more")
    go.set()
    await asyncio.gather(*waiting)
    await model.embed("one more")
    await model.close()


def test_an_embedding_model_on_the_backends_server_is_warned_of():
    """It may evict the chat model, and with it the cache that this proxy is about."""
    settings = Settings(embeddings_url="http://localhost:11434/api/embed", embeddings_model="e")
    assert "evict" in (conflict(settings, ["http://127.0.0.1:11434"]) or "")
    assert conflict(settings, ["http://127.0.0.1:8080", "https://localhost"]) is None
    assert conflict(Settings(), ["http://127.0.0.1:11434"]) is None


@pytest.mark.parametrize("what", ["EMBEDDINGS", "ALIASES"])
def test_a_server_and_its_model_are_set_together(what: str):
    """One without the other is an error that names both."""
    with pytest.raises(SettingsError, match="set together"):
        load({f"METALANCHOR_{what}_MODEL": "e"})
    with pytest.raises(SettingsError, match="http"):
        load({f"METALANCHOR_{what}_MODEL": "e", f"METALANCHOR_{what}_URL": "nowhere"})
