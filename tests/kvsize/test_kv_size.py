"""`metalanchor kv-size`: from numbers, a file and live servers, as text and as JSON."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from services.cli import run
from services.cli.kv_size import size_text
from tests.support.gguf import gguf
from tests.support.modelserver import KINDS, Answers, ModelServer
from tests.support.proxy import StartProxy, free_port

SOURCE_EXAMPLE = ["--layers", "80", "--heads", "64", "--head-dim", "128", "--context", "4096", "--batch", "8"]
GEMMA = {
    "general.architecture": "gemma3", "general.name": "Gemma 3 270m", "gemma3.block_count": 18,
    "gemma3.context_length": 32_768, "gemma3.embedding_length": 640, "gemma3.attention.head_count": 4,
    "gemma3.attention.head_count_kv": 1, "gemma3.attention.key_length": 256,
    "gemma3.attention.value_length": 256, "gemma3.attention.sliding_window": 512,
}  # fmt: skip
Serve = Callable[[Answers], ModelServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers that answer what they are given."""
    started: list[ModelServer] = []

    def start(answers: Answers) -> ModelServer:
        started.append(ModelServer(answers))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """None runs where the settings look for one."""
    monkeypatch.setenv("METALANCHOR_PORT", str(free_port()))


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """What the command answers as JSON."""
    assert run(["kv-size", *arguments, "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_the_example_of_the_source_has_its_true_figures(capsys: pytest.CaptureFixture[str]):
    """85.9 GB with a key-value head a head, 10.7 GB with 8; never 107 GB."""
    assert run(["kv-size", *SOURCE_EXAMPLE, "--dtype", "bf16"]) == 0
    assert "8 sequences of 4,096 tokens\t85.9 GB (80.0 GiB)" in capsys.readouterr().out
    assert run(["kv-size", *SOURCE_EXAMPLE, "--kv-heads", "8", "--dtype", "bf16"]) == 0
    assert "8 sequences of 4,096 tokens\t10.7 GB (10.0 GiB)" in capsys.readouterr().out


def test_what_fits_is_said_with_a_memory(capsys: pytest.CaptureFixture[str]):
    """Without a proxy the live conversations are unknown, not none."""
    found = asked(capsys, *SOURCE_EXAMPLE, "--kv-heads", "8", "--memory", "16GiB")
    assert found["fits"] == {
        "memory": 16 << 30, "tokens_in_one_sequence": 52_428, "sequences": 12, "lineages": None,
    }  # fmt: skip


def test_mla_windows_and_states_by_numbers(capsys: pytest.CaptureFixture[str]):
    """The shapes that are not heads times layers."""
    mla = asked(capsys, "--layers", "61", "--latent", "512", "--rope-dim", "64")
    assert (mla["attention"], mla["bytes_per_token"]) == ("MLA", 70_272)
    gemma = [
        "--layers",
        "62",
        "--heads",
        "32",
        "--kv-heads",
        "16",
        "--head-dim",
        "128",
        "--full-layers",
        "10",
    ]
    found = asked(capsys, *gemma, "--window", "1024", "--context", "131072")
    assert (found["bytes"], found["attention"]) == ((10 << 30) + (416 << 20), "GQA 32:16, sliding window")
    hybrid = asked(capsys, *gemma, "--state", "3MiB")
    assert (hybrid["state_bytes_per_sequence"], hybrid["attention"]) == (52 * 3 << 20, "GQA 32:16, hybrid")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--layers", "8"], "--heads and --head-dim"),
        (["--layers", "8", "--heads", "6", "--kv-heads", "4", "--head-dim", "64"], "multiple"),
        (["--layers", "8", "--heads", "8", "--head-dim", "64", "--window", "512"], "--full-layers"),
        (["--layers", "8", "--heads", "8", "--head-dim", "64", "--full-layers", "4"], "--window or --state"),
        (["--layers", "8", "--latent", "512"], "--rope-dim"),
        (["x.gguf", "--layers", "8"], "not both"),
        (["--layers", "8", "--heads", "8", "--head-dim", "8", "--memory", "many"], "16GiB"),
        ([], "GGUF file"),
    ],
)
def test_what_is_missing_or_contradicts_is_said(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
):
    """Wrong usage is exit code 2."""
    assert run(["kv-size", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_file_tells_its_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """With the windows that its architecture implies."""
    (tmp_path / "m.gguf").write_bytes(gguf(GEMMA))
    found = asked(capsys, str(tmp_path / "m.gguf"), "--context", "4096", "--batch", "2", "--unified")
    assert found["layers_by_reach"] == {"window of 512": 15, "whole context": 3}
    assert (found["bytes_per_token"], found["window_bytes_per_token"]) == (3_072, 15_360)
    assert found["llama_cpp_bytes"] == (12 << 20) + (45 << 19)
    assert run(["kv-size", str(tmp_path / "m.gguf"), "--dtype", "q8_0"]) == 0
    assert "Gemma 3 270m (gemma3): MQA, sliding window, 18 layers" in capsys.readouterr().out


@pytest.mark.parametrize("content", [None, b"no model"])
def test_no_file_and_no_gguf_are_failures(
    tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
):
    """Named, in one sentence."""
    path = tmp_path / "m.gguf"
    if content is not None:
        path.write_bytes(content)
    assert run(["kv-size", str(path)]) == 1
    assert str(path) in capsys.readouterr().err


def ollama(running: list[dict[str, Any]], *, verbose_only: bool = False) -> Answers:
    """An Ollama with one model."""
    info = {**GEMMA, "gemma3.attention.sliding_window_pattern": None} if verbose_only else GEMMA
    return {
        **KINDS["ollama"],
        "/api/ps": (200, {"models": running}),
        "/api/tags": (200, {"models": [{"name": "gemma3:270m"}]}),
        "/api/show": (200, {"model_info": info}),
    }


class Ollama(ModelServer):
    """Answers POSTs as well, and remembers their bodies."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(answers)
        self.bodies: list[dict[str, Any]] = []
        bodies, handler = self.bodies, self._server.RequestHandlerClass

        def do_post(request: Any) -> None:
            bodies.append(json.loads(request.rfile.read(int(request.headers["Content-Length"]))))
            status, value = answers.get(request.path, (404, {}))
            if bodies[-1].get("verbose"):
                value = {"model_info": GEMMA}
            request._answer(status, value)

        handler.do_POST = do_post  # type: ignore[attr-defined]


@pytest.mark.process
def test_a_running_ollama_tells_shape_and_context(capsys: pytest.CaptureFixture[str]):
    """The context that it is loaded with; the element type it does not tell, which is said."""
    server = Ollama(ollama([{"name": "gemma3:270m", "context_length": 8_192}]))
    try:
        found = asked(capsys, server.url)
        assert (found["model"], found["context"], found["bytes_per_token"]) == ("gemma3:270m", 8_192, 3_072)
        assert "OLLAMA_KV_CACHE_TYPE" in " ".join(found["notes"])
        assert server.bodies == [{"model": "gemma3:270m", "verbose": False}]
    finally:
        server.stop()


@pytest.mark.process
def test_arrays_that_ollama_left_out_are_asked_for(capsys: pytest.CaptureFixture[str]):
    """A pattern by layer comes only in the verbose answer; without a loaded model the only one is taken."""
    server = Ollama(ollama([], verbose_only=True))
    try:
        assert asked(capsys, server.url + "/v1")["context"] == 4_096
        assert [body["verbose"] for body in server.bodies] == [False, True]
    finally:
        server.stop()


@pytest.mark.process
def test_a_model_that_ollama_lacks_is_named(capsys: pytest.CaptureFixture[str]):
    """And when several are there, the user has to choose."""
    answers = ollama([])
    answers["/api/show"] = (404, {"error": "model not found"})
    answers["/api/tags"] = (200, {"models": [{"name": "a"}, {"name": "b"}]})
    server = Ollama(answers)
    try:
        assert run(["kv-size", server.url]) == 1
        assert "a, b" in capsys.readouterr().err
        assert run(["kv-size", server.url, "--model", "c"]) == 1
        assert "no model c" in capsys.readouterr().err
    finally:
        server.stop()


def props(path: str, slots: int) -> Answers:
    """A llama-server with this file."""
    value = {"default_generation_settings": {"n_ctx": 8_192}, "total_slots": slots, "model_path": path}
    return {"/": (200, ""), "/props": (200, value)}


@pytest.mark.process
def test_a_llama_server_whose_file_is_here(serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Context and slots from the server, the shape from its file; slots share a cache unless told."""
    (tmp_path / "m.gguf").write_bytes(gguf(GEMMA))
    server = serve(props(str(tmp_path / "m.gguf"), 4))
    found = asked(capsys, server.url)
    assert (found["context"], found["sequences"], found["unified"]) == (8_192, 4, True)
    assert found["llama_cpp_bytes"] == 1_024 * (3 * 8_192 + 15 * (4 * 512 + 512))
    assert asked(capsys, server.url, "--split")["llama_cpp_bytes"] == 1_024 * 4 * (3 * 8_192 + 15 * 1_024)


@pytest.mark.process
def test_servers_that_do_not_tell_are_failures(serve: Serve, capsys: pytest.CaptureFixture[str]):
    """A llama-server elsewhere, a vLLM, nobody: each with what to do."""
    for answers, words in ((props("/elsewhere/m.gguf", 1), "no file here"), (KINDS["vllm"], "--kv-heads")):
        assert run(["kv-size", serve(answers).url]) == 1
        assert words in capsys.readouterr().err
    assert run(["kv-size", f"http://127.0.0.1:{free_port()}"]) == 1
    assert "Nothing answers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (512, "512 bytes"),
        (85_899_345_920, "85.9 GB (80.0 GiB)"),
        (5 << 20, "5.2 MB (5.0 MiB)"),
        (3 << 40, "3.3 TB (3.0 TiB)"),
    ],
)
def test_sizes_are_said_in_both_units(count: int, text: str):
    """Memory is sold in one and reported in the other."""
    assert size_text(count) == text


@pytest.mark.process
def test_live_conversations_of_a_running_proxy_are_fitted_in(
    start_proxy: StartProxy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Three are known; with room for one token each only none fits, with much room all do."""
    proxy = start_proxy()
    for name in ("one", "two", "three"):
        content = f"{name}: " + "word " * 400
        answer = proxy.chat(
            {"model": "m", "messages": [{"role": "user", "content": content}]}, [("X-Session-Id", name)]
        )
        assert answer.status == 200
    monkeypatch.setenv("METALANCHOR_PORT", str(proxy.port))
    numbers = ["--layers", "1", "--heads", "1", "--head-dim", "64", "--context", "4096"]
    found = asked(capsys, *numbers, "--memory", "1GiB")["fits"]["lineages"]
    assert (found["live"], found["fit"]) == (3, 3)
    assert found["bytes"] == 256 * found["tokens"] > 0
    assert asked(capsys, *numbers, "--memory", "256")["fits"]["lineages"]["fit"] == 0
    assert run(["kv-size", *numbers, "--memory", "1GiB"]) == 0
    assert "3 of 3 live conversations, the latest first" in capsys.readouterr().out
