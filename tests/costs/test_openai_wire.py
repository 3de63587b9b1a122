"""Costs of OpenAI-shaped services through a real proxy: streamed chat, Responses, embeddings, errors."""

from collections.abc import Iterator

import pytest

from tests.support.backend import Backend, as_json, sse
from tests.support.proxy import Proxy

pytestmark = pytest.mark.process

CHAT, RESPONSES, EMBEDDINGS = "/v1/chat/completions", "/v1/responses", "/v1/embeddings"
SAY = {"messages": [{"role": "user", "content": "hi"}], "stream": True}


@pytest.fixture(scope="module")
def service() -> Iterator[Backend]:
    backend = Backend().start()
    yield backend
    backend.stop()


@pytest.fixture(scope="module")
def proxy(service: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy whose user said that the server on this machine is a gateway to OpenAI."""
    made = Proxy(tmp_path_factory.mktemp("openai"), service.url, backend_kind="openai").start()
    yield made
    made.stop()


def test_a_chat_stream(service: Backend, proxy: Proxy) -> None:
    """GPT-4.1: 1,000 × 2 + 3,000 × 0.50 + 200 × 8 millionths."""
    usage = {
        "prompt_tokens": 4_000, "completion_tokens": 200, "prompt_tokens_details": {"cached_tokens": 3_000},
    }  # fmt: skip
    chunk = {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": None}], "usage": None}
    service.queue(sse([chunk, {"choices": [], "usage": usage}, "data: [DONE]\n\n"]))
    row = proxy.row(proxy.chat({"model": "gpt-4.1-2025-04-14", **SAY}, path=CHAT))
    assert row["cost_usd"] == pytest.approx(0.0051)
    assert row["savings_usd"] == pytest.approx(0.0045)


def test_a_responses_stream_that_writes(service: Backend, proxy: Proxy) -> None:
    """GPT-5.6 Terra: 500 × 2 + 1,000 × 0.2 + 2,500 × 2.5 + 100 × 12 millionths; dearer than no caching."""
    usage = {
        "input_tokens": 4_000, "output_tokens": 100,
        "input_tokens_details": {"cached_tokens": 1_000, "cache_write_tokens": 2_500},
    }  # fmt: skip
    events = [
        ("response.created", {"type": "response.created", "response": {"status": "in_progress"}}),
        ("response.completed", {"type": "response.completed", "response": {"usage": usage}}),
    ]  # fmt: skip
    service.queue(sse(events))
    row = proxy.row(proxy.chat({"model": "gpt-5.6-terra", "input": "hi", "stream": True}, path=RESPONSES))
    assert row["cost_usd"] == pytest.approx(0.00865)
    assert row["savings_usd"] == pytest.approx(0.0092 - 0.00865)
    assert row["written_tokens"] == 2_500


def test_embeddings(service: Backend, proxy: Proxy) -> None:
    """5,000 × 0.02 millionths."""
    service.queue(as_json({"data": [], "usage": {"prompt_tokens": 5_000, "total_tokens": 5_000}}))
    row = proxy.row(proxy.chat({"model": "text-embedding-3-small", "input": "hi"}, path=EMBEDDINGS))
    assert row["cost_usd"] == pytest.approx(0.0001)


def test_what_failed_has_no_cost(service: Backend, proxy: Proxy) -> None:
    service.queue(as_json({"error": {"type": "server_error", "message": "x"}}, status=500))
    row = proxy.row(proxy.chat({"model": "gpt-4.1", **SAY}, path=CHAT))
    assert "cost_usd" not in row


def test_a_model_without_a_price_is_named(service: Backend, proxy: Proxy) -> None:
    """In /status, and so by the doctor."""
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}
    service.queue(as_json({"choices": [], "usage": usage}))
    row = proxy.row(proxy.chat({"model": "gpt-99", "messages": []}, path=CHAT))
    assert "cost_usd" not in row
    prices = proxy.json("/status")["prices"]
    assert {"backend": service.url.removeprefix("http://"), "model": "gpt-99"} in prices["unpriced"]
    assert prices["rows"] > 50
