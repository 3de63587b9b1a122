"""Which model server `up` starts with."""

from pathlib import Path

import pytest

from services import local_backend
from services.local_backend import OLLAMA_URL, choose
from services.probe import Found
from services.settings import BackendSetting, Settings


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch):
    """A machine where nothing runs and nothing is installed."""
    monkeypatch.setattr(local_backend, "find_local_backend", lambda: None)
    monkeypatch.setattr(local_backend.shutil, "which", lambda _: None)
    monkeypatch.setattr(local_backend.Path, "exists", lambda _: False)


def test_the_configured_one_is_not_doubted():
    """A configured address is served, and stays."""
    choice = choose(Settings(backend_url="http://gpu:8000"))
    assert (choice.url, choice.provisional) == ("http://gpu:8000", False)
    assert choose(Settings(backend=(BackendSetting("a", "http://a:1"),))).url is None


def test_a_running_one_is_found(monkeypatch: pytest.MonkeyPatch):
    """A server that answers on a well-known port is served."""
    monkeypatch.setattr(
        local_backend, "find_local_backend", lambda: ("http://x:1", Found("vllm", "0.11", {}))
    )
    choice = choose(Settings())
    assert choice == ("http://x:1", "Found vLLM 0.11 at http://x:1.", False)


def test_an_installed_but_idle_one_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    """No stand-in is fetched where Ollama only has to be started; the sentence says how."""
    monkeypatch.setattr(
        local_backend.shutil, "which", lambda name: "/bin/ollama" if name == "ollama" else None
    )
    choice = choose(Settings())
    assert choice.url == OLLAMA_URL
    assert choice.provisional
    assert "ollama serve" in choice.sentence


def test_an_app_counts_as_installed(monkeypatch: pytest.MonkeyPatch):
    """The Mac apps put nothing on PATH until they are set up."""
    monkeypatch.setattr(
        local_backend.Path, "exists", lambda path: path == Path("/Applications/LM Studio.app")
    )
    assert "LM Studio is installed" in choose(Settings()).sentence


def test_nothing_at_all_gets_the_stand_in():
    """One plain sentence says that it is small, and how to use one's own."""
    choice = choose(Settings())
    assert choice.url is None
    assert choice.provisional
    assert "stand-in" in choice.sentence
    assert "METALANCHOR_BACKEND_URL" in choice.sentence


def test_the_stand_in_can_be_forbidden_or_demanded(monkeypatch: pytest.MonkeyPatch):
    """`never` waits for a server; `always` takes the stand-in before a running one, and keeps it."""
    assert choose(Settings(embedded_engine="never")).url == OLLAMA_URL
    monkeypatch.setattr(local_backend, "find_local_backend", lambda: ("http://x:1", Found("vllm", None, {})))
    choice = choose(Settings(embedded_engine="always"))
    assert (choice.url, choice.provisional) == (None, False)
