"""A model server is known by its answers, whatever port it is on."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from services import probe
from services.probe import Found, find_local_backend, probe_blocking
from services.proxy.backends.backend import Backend
from services.proxy.backends.watcher import BackendWatcher


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


@pytest.mark.parametrize(
    ("server", "kind", "version"),
    [
        ("ollama", "ollama", "0.33.3"),
        ("llama-server", "llama-server", "b10472-abc"),
        ("lmstudio", "lmstudio", None),
        ("old lmstudio", "lmstudio", None),
        ("vllm", "vllm", "0.11.2"),
        ("ds4", "ds4", None),
        ("mlx_lm", "mlx_lm", None),
        ("openai", "openai", None),
        ("website", None, None),
    ],
)
def test_each_kind_is_told_by_its_answers(model_server, server: str, kind: str | None, version: str | None):
    """Several kinds share a port; only what they answer tells them apart."""
    found = probe_blocking(model_server(server).url)
    assert found is not None
    assert found[:2] == (kind, version)


def test_facts_of_llama_server(model_server):
    """Context size and slot count come with the kind."""
    assert probe_blocking(model_server("llama-server").url).facts == {"n_ctx": 8192, "total_slots": 4}


def test_a_base_path_is_asked_below(model_server):
    """The questions go below the configured base path."""
    server = model_server("ollama")
    probe_blocking(server.url + "/base/")
    assert set(server.asked) >= {"/base/", "/base/api/version"}


def test_nobody_there_is_none(nobody: str):
    """A refused connection is no server."""
    assert probe_blocking(nobody) is None
    assert probe_blocking(nobody, "ollama") is None


def test_json_nested_beyond_reading_is_no_json():
    """The watcher goes on, whatever a server answers."""
    assert probe._json(b"[" * 200_000) is None


def test_a_silent_server_is_busy_not_gone(silent: str, monkeypatch: pytest.MonkeyPatch):
    """A single-threaded server in mid-generation accepts and says nothing; that is not down."""
    monkeypatch.setattr(probe.ask, "__defaults__", (0.2,))
    assert probe_blocking(silent) == Found(None, None, {"busy": True})


def test_a_loading_server_is_busy(model_server):
    """llama-server answers 503 while it loads its model."""
    assert probe_blocking(model_server("loading llama-server").url) == Found(
        "llama-server", None, {"busy": True}
    )


def test_a_configured_kind_is_believed(model_server):
    """The user's word stands; the server is only asked for its version."""
    assert probe_blocking(model_server("website").url, "mlx_lm") == Found("mlx_lm", None, {})
    assert probe_blocking(model_server("ollama").url, "ollama") == Found("ollama", "0.33.3", {})


def test_a_known_server_is_asked_its_own_question_first(model_server):
    """The second probe does not fill its log with questions meant for others."""
    server = model_server("vllm")
    probe_blocking(server.url, "auto", "vllm")
    assert server.asked == ["/", "/v1/models", "/version"]


def test_the_first_answering_local_server_is_taken(model_server, nobody: str):
    """Dead ports, strangers and the stand-in are passed over."""
    website, ollama = model_server("website"), model_server("ollama")
    assert find_local_backend([nobody, website.url, ollama.url])[0] == ollama.url
    assert find_local_backend([nobody, website.url]) is None


async def test_the_watcher_writes_down_what_it_sees(model_server):
    """Up with kind and version; down keeps the kind; up again is noticed."""
    server = model_server("ollama")
    backend = Backend(name="b", url=server.url)
    watcher = BackendWatcher(backend)
    await watcher.look()
    assert (backend.status, backend.kind, backend.version) == ("up", "ollama", "0.33.3")

    server.stop()
    await watcher.look()
    assert (backend.status, backend.kind) == ("down", "ollama")


async def test_a_failure_on_the_wire_makes_the_watcher_look_at_once(model_server):
    """`notice` ends the half minute's pause; `retire` ends the task."""
    server = model_server("ollama")
    backend = Backend(name="b", url=server.url)
    watcher = BackendWatcher(backend)
    task = asyncio.create_task(watcher.run())
    while backend.status != "up":  # noqa: ASYNC110 - watched from outside
        await asyncio.sleep(0.01)
    seen = len(server.asked)

    watcher.notice()
    while len(server.asked) == seen:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    watcher.retire()
    await asyncio.wait_for(task, 10)


async def test_another_process_behind_the_same_address(model_server):
    """llama-server shows a mark that is drawn anew at each start; only what it was launched with is named."""
    server = model_server("llama-server")
    props = dict(server.answers["/props"][1], chat_template="{{ x }}", model_path="/models/m.gguf")
    backend = Backend(name="b", url=server.url)
    watcher = BackendWatcher(backend)
    for mark, context in (("<a>", 8192), ("<a>", 8192), ("<b>", 8192), ("<b>", 4096)):
        told = {**props, "media_marker": mark, "default_generation_settings": {"n_ctx": context}}
        server.answers["/props"] = (200, told)
        await watcher.look()
    first, second = backend.restarts
    assert (first.evidence, first.option) == ("new_process", None)
    assert (second.evidence, second.option, second.old, second.new) == ("options", "n_ctx", 8192, 4096)
    assert backend.facts["model"] == "m.gguf"
    assert "{{ x }}" not in str(backend.facts)


async def test_a_glance_asks_one_question_and_not_again_within_the_second(model_server):
    """While requests come, a server that shows its template is looked at, by what it answers from memory."""
    server = model_server("llama-server")
    server.answers["/props"] = (200, {**server.answers["/props"][1], "chat_template": "x"})
    backend = Backend(name="b", url=server.url)
    watcher = BackendWatcher(backend)
    task = asyncio.create_task(watcher.run())
    while backend.status != "up":  # noqa: ASYNC110 - watched from outside
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    server.asked.clear()
    watcher.glance()
    await asyncio.sleep(0.1)
    assert server.asked == []
    watcher._looked = float("-inf")  # as a second later
    watcher.glance()
    while not server.asked:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    watcher.retire()
    await asyncio.wait_for(task, 10)
    assert server.asked == ["/props"]
