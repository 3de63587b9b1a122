"""Fetching a server's metrics: bounded, and with a clear word where there are none."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from services.watch.scrape import Unwatchable, advice, base_of, scrape
from tests.support.modelserver import KINDS, ModelServer
from tests.support.proxy import free_port

pytestmark = pytest.mark.process
FOLDER = Path(__file__).with_name("metrics")
Serve = Callable[[dict[str, Any]], ModelServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers that answer what they are given."""
    started: list[ModelServer] = []

    def start(answers: dict[str, Any]) -> ModelServer:
        started.append(ModelServer(answers))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/", "/metrics"])
def test_the_address_that_clients_are_given_will_do(serve: Serve, ending: str):
    """People paste what they have."""
    server = serve({"/metrics": (200, text_of("vllm"))})
    assert scrape(server.url + ending).exporter == "vllm"
    assert server.asked == ["/metrics"]


def test_a_base_path_is_kept(serve: Serve):
    """A server may stand behind a path."""
    server = serve({"/llm/metrics": (200, text_of("vllm"))})
    assert base_of(server.url + "/llm/v1/") == server.url + "/llm"
    assert scrape(server.url + "/llm/v1").hits == 800_000


def test_llama_server_s_slots_say_how_full_it_is(serve: Serve):
    """The fullest one counts; a slot that was never used holds nothing."""
    slots = [
        {"id": 0, "n_ctx": 4096, "is_processing": False},
        {"id": 1, "n_ctx": 4096, "is_processing": True, "id_task": 7, "n_prompt_tokens": 3072},
    ]
    server = serve({"/metrics": (200, text_of("llama-server")), "/slots": (200, slots)})
    assert (scrape(server.url).kv_usage, scrape(server.url).facts["slots"]) == (0.75, "2")


@pytest.mark.parametrize(
    "slots",
    [(501, {"error": {"type": "not_supported_error"}}), (200, "no json"), (200, {}), (200, [{"n_ctx": 0}])],
)
def test_without_slots_that_stays_unknown(serve: Serve, slots: tuple[int, Any]):
    """`--no-slots`, an older release, another shape."""
    server = serve({"/metrics": (200, text_of("llama-server")), "/slots": slots})
    reading = scrape(server.url)
    assert (reading.kv_usage, reading.hits) == (None, 7_500)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((401, "no"), "unauthorized"),
        ((403, "no"), "unauthorized"),
        ((404, "no"), "no_metrics"),
        ((501, {"error": {"message": "This server does not support metrics endpoint."}}), "no_metrics"),
        ((200, "<html></html>"), "not_prometheus"),
        ((200, ""), "not_prometheus"),
        ((200, "# TYPE up gauge\nup 1\n"), "no_counters"),
        ((200, "x" * (9 << 20)), "too_large"),
    ],
)
def test_each_trouble_has_its_word(serve: Serve, answer: tuple[int, Any], code: str):
    """And a sentence that names the address."""
    server = serve({"/metrics": answer})
    with pytest.raises(Unwatchable, match=server.url) as caught:
        scrape(server.url)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("kind", "words"),
    [("llama-server", "--metrics"), ("vllm", "--disable-log-stats"), ("ollama", "metalanchor top")],
)
def test_the_flag_that_turns_counters_on_is_named(serve: Serve, kind: str, words: str):
    """By what the server says it is."""
    assert words in advice(serve(KINDS[kind]).url)


def test_a_server_of_an_unknown_kind_gets_no_invented_advice(serve: Serve):
    """Nor does one that is away."""
    assert advice(serve({}).url) == ""
    assert advice(f"http://127.0.0.1:{free_port()}") == ""


def test_nobody_there_is_unreachable():
    """No traceback of a library."""
    with pytest.raises(Unwatchable) as caught:
        scrape(f"http://127.0.0.1:{free_port()}")
    assert caught.value.code == "unreachable"


def test_a_key_is_sent_as_bearer():
    """llama-server guards its metrics with its key."""
    with _Raw(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n") as server:
        with pytest.raises(Unwatchable):
            scrape(server.url, api_key="k1")
        assert b"Authorization: Bearer k1\r\n" in server.received


@pytest.mark.parametrize("drip", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\nvllm:x 1\n"])
def test_a_server_that_hangs_or_drips_costs_its_limit_and_no_more(drip: bytes):
    """Each byte would start a socket's time limit anew."""
    with _Raw(drip, dripping=True) as server:
        began = time.monotonic()
        with pytest.raises(Unwatchable) as caught:
            scrape(server.url, limit_s=0.6)
        assert caught.value.code == "timeout"
        assert time.monotonic() - began < 5  # generous: a loaded machine


def test_json_for_all_is_not_taken_for_metrics(serve: Serve):
    """Some servers answer 200 to everything."""
    server = serve({"/metrics": (200, json.dumps({"error": "Unexpected endpoint"}))})
    with pytest.raises(Unwatchable) as caught:
        scrape(server.url)
    assert caught.value.code == "not_prometheus"


class _Raw:
    """A listener that answers these bytes to one connection, and then, dripping, a blank again and again."""

    def __init__(self, answer: bytes, *, dripping: bool = False) -> None:
        self._answer, self._dripping = answer, dripping
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.received = b""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            self.received = connection.recv(65536)
            connection.sendall(self._answer)
            while self._dripping and not self._over.wait(0.05):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return
