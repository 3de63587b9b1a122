"""The official Python clients work through the proxy as they do without it, each request with its row."""

import base64
import time
from collections.abc import Callable
from typing import Any

import anthropic
import ollama
import openai
import pytest

from services.ids import new_id
from tests.agents.model import Model
from tests.support.backend import Anthropic, Engine, Ollama, OpenAI, Reply, as_json, ndjson, sse
from tests.support.proxy import Wire

pytestmark = pytest.mark.process

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
QUESTION: list[Any] = [{"role": "user", "content": "Was steht in hello.py? 你好"}]
FUNCTION = {
    "name": "read_file",
    "description": "Reads a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
TOOLS: list[Any] = [{"type": "function", "function": FUNCTION}]
ANTHROPIC_TOOLS: list[Any] = [
    {"name": "read_file", "description": "Reads a file.", "input_schema": FUNCTION["parameters"]}
]
LastRow = Callable[..., dict[str, Any]]
SLOW = 0.2  # seconds between deltas: long enough to leave in the middle


def openai_client(wire: Wire) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{wire.proxy.url}/v1", api_key="sk-test", max_retries=0)


def anthropic_client(wire: Wire) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=wire.proxy.url, api_key="sk-test", max_retries=0)


@pytest.fixture
def last_row(wire: Wire) -> LastRow:
    """Waits for the rows of this test's requests to a path and gives the last one."""
    started = new_id()

    def find(path: str, count: int = 1) -> dict[str, Any]:
        def ours(row: dict[str, Any]) -> bool:
            return row["id"] > started and row.get("endpoint") == path

        return wire.proxy.wait_rows(count, ours)[-1]

    return find


def left_soon(wire: Wire) -> bool:
    """Whether the backend saw its client leave within half a second, and some for the test."""
    end = time.monotonic() + 2
    while time.monotonic() < end:
        if wire.received and wire.received[-1].gone_at is not None:
            return True
        time.sleep(0.01)
    return False


def test_openai_streams_a_chat_with_usage(wire: Wire, last_row: LastRow) -> None:
    """Deltas add up to the answer, and the usage chunk is the client's own."""
    wire.backend.answer(OpenAI(Engine(slots=1)))
    with openai_client(wire) as client:
        chunks = list(
            client.chat.completions.create(
                model="m", messages=QUESTION, stream=True, stream_options={"include_usage": True}
            )
        )
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    row = last_row("/v1/chat/completions")

    assert text == Engine().answer
    assert chunks[-1].usage is not None
    assert row["prompt_tokens"] == chunks[-1].usage.prompt_tokens
    assert (row["status"], row["stream"], row["finish_reason"]) == ("completed", True, "stop")


def test_openai_calls_a_tool_and_sends_its_result(wire: Wire, last_row: LastRow) -> None:
    """A tool round trip is two requests, the second an append of the first."""
    wire.backend.answer(Model())
    with openai_client(wire) as client:
        first = client.chat.completions.create(model="m", messages=QUESTION, tools=TOOLS)
        call = first.choices[0].message.tool_calls[0]
        history = [
            *QUESTION,
            first.choices[0].message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": "print('hello')"},
        ]
        second = client.chat.completions.create(model="m", messages=history, tools=TOOLS)
    row = last_row("/v1/chat/completions", 2)

    assert call.function.name == "read_file"
    assert "hello" in (second.choices[0].message.content or "")
    assert (row["relation"], row["hit"], row["tool_count"]) == ("append", "prefix", 1)


def test_openai_sends_an_image(wire: Wire, last_row: LastRow) -> None:
    """A data URL arrives byte for byte and is counted as media."""
    wire.backend.answer(OpenAI())
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    content: list[Any] = [{"type": "text", "text": "What is this?"}, image]
    with openai_client(wire) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": content}])

    assert wire.received[-1].json()["messages"][0]["content"][1] == image
    assert last_row("/v1/chat/completions")["has_media"] is True


def test_openai_raises_the_backends_own_error(wire: Wire, last_row: LastRow) -> None:
    """A 400 keeps its status, body and type."""
    error = {"code": 400, "message": "prompt longer than context", "type": "exceed_context_size_error"}
    wire.backend.answer(as_json({"error": error}, status=400))
    with openai_client(wire) as client, pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="m", messages=QUESTION)

    assert caught.value.body == error
    assert last_row("/v1/chat/completions")["error"] == "exceed_context_size_error"


def test_openai_leaves_in_the_middle_of_a_stream(wire: Wire, last_row: LastRow) -> None:
    """Closing a stream frees the backend."""
    wire.backend.answer(OpenAI(Engine(gap=SLOW)))
    with openai_client(wire) as client:
        stream = client.chat.completions.create(model="m", messages=QUESTION, stream=True)
        next(iter(stream))
        stream.close()

        assert left_soon(wire)
    assert last_row("/v1/chat/completions")["status"] == "client_cancelled"


def test_openai_streams_a_response(wire: Wire, last_row: LastRow) -> None:
    """The Responses API's typed events come through with their usage."""
    wire.backend.answer(OpenAI())
    with openai_client(wire) as client:
        events = list(client.responses.create(model="m", input="Hello?", stream=True))

    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == Engine().answer
    assert last_row("/v1/responses")["prompt_tokens"] == events[-1].response.usage.input_tokens


def test_openai_embeds(wire: Wire, last_row: LastRow) -> None:
    """Embeddings are rows of their own kind."""
    wire.backend.answer(OpenAI())
    with openai_client(wire) as client:
        answer = client.embeddings.create(model="m", input="Hello", encoding_format="float")

    assert answer.data[0].embedding == [0.5, 0.25]
    assert last_row("/v1/embeddings")["kind"] == "embedding"


def test_anthropic_streams_a_message(wire: Wire, last_row: LastRow) -> None:
    """Named events and pings come through; usage is the sum of its three parts."""
    wire.backend.answer(Anthropic(Engine(slots=1), pings=2))
    with (
        anthropic_client(wire) as client,
        client.messages.stream(model="m", max_tokens=64, messages=QUESTION) as stream,
    ):
        text = "".join(stream.text_stream)
        usage = stream.get_final_message().usage
    row = last_row("/v1/messages")

    assert text == Engine().answer
    assert row["prompt_tokens"] == usage.input_tokens + (usage.cache_read_input_tokens or 0)
    assert (row["status"], row["cached_source"]) == ("completed", "anthropic")


def test_anthropic_uses_a_tool_and_sends_an_image(wire: Wire, last_row: LastRow) -> None:
    """A tool use with an image in the question arrives whole."""
    wire.backend.answer(Model())
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    content: list[Any] = [{"type": "image", "source": source}, {"type": "text", "text": "Read it"}]
    with anthropic_client(wire) as client:
        message = client.messages.create(
            model="m", max_tokens=64, messages=[{"role": "user", "content": content}], tools=ANTHROPIC_TOOLS
        )

    assert message.stop_reason == "tool_use"
    assert message.content[0].input == {"path": "hello.py"}
    assert last_row("/v1/messages")["has_media"] is True


def test_anthropic_raises_an_error_inside_a_stream(wire: Wire, last_row: LastRow) -> None:
    """An error event under status 200 reaches the client and the row."""
    start = {"id": "x", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    wire.backend.answer(
        sse([("message_start", {"type": "message_start", "message": start}), ("error", error)])
    )
    with (
        anthropic_client(wire) as client,
        pytest.raises(anthropic.APIStatusError),
        client.messages.stream(model="m", max_tokens=9, messages=QUESTION) as stream,
    ):
        stream.until_done()
    row = last_row("/v1/messages")

    assert (row["status"], row["error"]) == ("error_midstream", "overloaded_error")


def test_anthropic_leaves_during_prefill(wire: Wire, last_row: LastRow) -> None:
    """A client's own time limit frees the backend before it has said a word."""
    wire.backend.answer(Reply(framing="raw", end="hang"))
    with anthropic_client(wire) as client, pytest.raises(anthropic.APITimeoutError):
        client.messages.create(model="m", max_tokens=9, messages=QUESTION, timeout=0.4)

    assert left_soon(wire)
    assert last_row("/v1/messages")["status"] == "client_cancelled"


def test_ollama_streams_a_chat(wire: Wire, last_row: LastRow) -> None:
    """NDJSON lines come one by one; the counters are the final object's."""
    wire.backend.answer(Ollama(Engine(slots=1)))
    client = ollama.Client(host=wire.proxy.url)
    parts = list(client.chat(model="qwen3:8b", messages=QUESTION, stream=True))
    client.close()
    row = last_row("/api/chat")

    assert "".join(p.message.content or "" for p in parts) == Engine().answer
    assert parts[-1].done
    assert (row["status"], row["prompt_tokens"]) == ("completed", parts[-1].prompt_eval_count)


def test_ollama_calls_a_tool(wire: Wire, last_row: LastRow) -> None:
    """A call's arguments stay an object."""
    call = {"function": {"name": "read_file", "arguments": {"path": "hello.py"}}}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    done = {"model": "m", "done": True, "done_reason": "stop", "prompt_eval_count": 20, "eval_count": 4}
    wire.backend.answer(
        ndjson([{"model": "m", "message": message, "done": False}, done | {"message": {"role": "assistant"}}])
    )
    client = ollama.Client(host=wire.proxy.url)
    parts = list(client.chat(model="m", messages=QUESTION, tools=TOOLS, stream=True))
    client.close()

    assert parts[0].message.tool_calls[0].function.arguments == {"path": "hello.py"}
    assert last_row("/api/chat")["streamed_deltas"] == 1


def test_ollama_sends_an_image_lists_models_and_raises_errors(wire: Wire, last_row: LastRow) -> None:
    """Images, management routes and native error bodies pass through."""
    wire.backend.answer(Ollama())
    client = ollama.Client(host=wire.proxy.url)
    client.generate(model="qwen3:8b", prompt="What is this?", images=[PIXEL])
    sent = wire.received[-1].json()
    listed = client.list()
    wire.backend.answer(as_json({"error": "model 'nope' not found"}, status=404))
    with pytest.raises(ollama.ResponseError, match="not found"):
        client.chat(model="nope", messages=QUESTION)
    client.close()

    assert sent["images"] == [PIXEL]
    assert listed.models[0].model == "qwen3:8b"
    assert last_row("/api/chat")["http_status"] == 404
