"""Usage as services, gateways and accidents report it: what is odd is unknown, never a wrong amount."""

import json
from typing import Any

import pytest

from services.costs.prices import load_prices
from services.proxy.backends.backend import Backend
from services.proxy.flow import Flow
from services.proxy.settling.billing import Billing
from services.proxy.settling.usage import measure
from tests.support.requests import CHAT, MESSAGES, RESPONSES, dialect_of

BILLING = Billing(load_prices())
START = {
    "input_tokens": 25, "cache_creation_input_tokens": 1_000, "cache_read_input_tokens": 4_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 400, "ephemeral_1h_input_tokens": 600},
    "output_tokens": 1,
}  # fmt: skip
# Sonnet 5: 25 × 2 + 4,000 × 0.2 + 400 × 2.5 + 600 × 4, and 10 for each token of output, in millionths.
ZEROS = {"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
PROMPT = (50 + 800 + 1_000 + 2_400) / 1e6


def named(*events: dict[str, Any]) -> bytes:
    return b"".join(b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events)


def data(*events: Any) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(e).encode() for e in events) + b"data: [DONE]\n\n"


def start(usage: Any = START) -> dict[str, Any]:
    return {
        "type": "message_start",
        "message": {"id": "m", "role": "assistant", "content": [], "usage": usage},
    }


def delta(usage: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn", **more}, "usage": usage}


SAID = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}}
STOP = {"type": "message_stop"}


def cost(
    answer: bytes,
    path: str = MESSAGES,
    model: str = "claude-sonnet-5",
    kind: str = "anthropic",
    piece: int = 7,
):
    """What an answer costs, read in small pieces as a network delivers it."""
    dialect = dialect_of(path)
    stream = not answer.startswith(b"{")
    prompt = dialect.read(
        json.dumps({"model": model, "messages": [], "input": [], "stream": stream}).encode(), "b"
    )
    tap = dialect.tap(prompt, "text/event-stream" if stream else "application/json", "")
    for at in range(0, len(answer), piece):
        tap.feed(answer[at : at + piece], 1.0)
    flow = Flow(
        backend=Backend(name="b", url="https://api.example.com", kind=kind),
        method="POST", path=path, dialect=dialect, prompt=prompt, outcome=tap.close(2.0),
    )  # fmt: skip
    flow.measured = measure(flow.outcome, dialect, flow.backend)
    found = BILLING.bill(flow)
    return None if found is None else found.cost_usd


@pytest.mark.parametrize(
    ("last", "output"),
    [
        ({"output_tokens": 30}, 30),
        ({**START, "output_tokens": 30}, 30),
        ({**START, "cache_creation": None, "output_tokens": 30}, 30),
        ({**ZEROS, "output_tokens": 30}, 30),
        ({"input_tokens": None, "cache_read_input_tokens": None, "output_tokens": 30}, 30),
        ({"output_tokens": 30, "server_tool_use": {"web_search_requests": 3}}, 30),
        ({"output_tokens": 30, "output_tokens_details": {"thinking_tokens": 20}}, 30),
        ({}, 1),
        (None, 1),
        ("30", 1),
    ],
)  # fmt: skip
def test_the_last_event_of_a_stream(last, output):
    """Totals, the output alone, zeros and nulls of gateways: the prompt is charged once, as reported."""
    found = cost(named(start(), SAID, {"type": "ping"}, delta(last), STOP))
    assert found == pytest.approx(PROMPT + output * 1e-5)


def test_several_last_events_are_totals_of_one():
    """Each repeats what came before and adds to it."""
    found = cost(
        named(
            start(), delta({"output_tokens": 10}, stop_reason=None), SAID, delta({"output_tokens": 30}), STOP
        )
    )
    assert found == pytest.approx(PROMPT + 30e-5)


def test_a_stream_that_fails_midway_costs_what_it_had_reported():
    failed = {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}
    assert cost(named(start(), SAID, failed)) == pytest.approx(PROMPT + 1e-5)


def test_an_answer_in_one_piece_counts_the_same():
    answer = {
        "type": "message",
        "content": [],
        "stop_reason": "end_turn",
        "usage": {**START, "output_tokens": 30},
    }
    assert cost(json.dumps(answer).encode()) == pytest.approx(PROMPT + 30e-5)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # The parts leave something of the total: that has the lifetime of a breakpoint that names none.
        ({"cache_creation": {"ephemeral_1h_input_tokens": 600}}, PROMPT),
        ({"cache_creation": {"ephemeral_5m_input_tokens": 400}}, PROMPT - 2_400e-6 + 1_500e-6),
        ({"cache_creation": None}, PROMPT - 2_400e-6 + 1_500e-6),
        ({"cache_creation": {}}, PROMPT - 2_400e-6 + 1_500e-6),
        # The parts without their total.
        ({"cache_creation_input_tokens": None}, PROMPT),
        # More in the parts than in the total: each part was written.
        ({"cache_creation_input_tokens": 500}, PROMPT),
        ({"cache_creation_input_tokens": 0}, PROMPT),
    ],
)
def test_writes_by_lifetime(change, expected):
    answer = {"type": "message", "content": [], "usage": {**START, **change}}
    assert cost(json.dumps(answer).encode()) == pytest.approx(expected + 1e-5)


@pytest.mark.parametrize(
    "usage",
    [
        {**START, "input_tokens": -25},
        {**START, "input_tokens": 25.5},
        {**START, "input_tokens": "25"},
        {**START, "input_tokens": True},
        {**START, "input_tokens": 1e300},
        {**START, "output_tokens": -1},
        {**START, "output_tokens": None},
        {"cache_read_input_tokens": 10, "output_tokens": 1},
        [],
        "none",
        None,
        0,
    ],
)
def test_counts_that_are_none_are_not_charged(usage):
    """Half of a sum would be a wrong sum."""
    answer = {"type": "message", "content": [], "usage": usage}
    assert cost(json.dumps(answer).encode()) is None


CHUNK = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "ok"}}]}
USAGE = {
    "prompt_tokens": 3_000, "completion_tokens": 50, "total_tokens": 3_050,
    "prompt_tokens_details": {"cached_tokens": 2_048, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 40},
}  # fmt: skip
# GPT-5: 952 × 1.25 + 2,048 × 0.125 + 50 × 10.
GPT5 = (1_190 + 256 + 500) / 1e6


@pytest.mark.parametrize(
    "events",
    [
        [CHUNK, {"choices": [], "usage": USAGE}],
        [{**CHUNK, "usage": None}, {"choices": [], "usage": USAGE}],
        [{**CHUNK, "usage": {**USAGE, "completion_tokens": 1}}, {**CHUNK, "usage": USAGE}],
        [CHUNK, {"choices": [], "usage": USAGE}, {"choices": [], "usage": USAGE}],
    ],
    ids=["last chunk", "nulls before", "in every chunk", "twice"],
)
def test_a_chat_stream_counts_its_usage_once(events):
    assert cost(data(*events), CHAT, "gpt-5", "openai") == pytest.approx(GPT5)


def test_a_chat_stream_without_usage_has_no_cost():
    """The client did not ask for it; nothing is estimated."""
    assert cost(data(CHUNK), CHAT, "gpt-5", "openai") is None


@pytest.mark.parametrize(
    "change",
    [
        {"prompt_tokens_details": None},
        {"prompt_tokens_details": {}},
        {"prompt_tokens_details": {"cached_tokens": None}},
        {"prompt_tokens_details": {"cached_tokens": 3_001}},
        {"prompt_tokens_details": {"cached_tokens": 2_048, "cache_write_tokens": 2_000}},
        {"completion_tokens": None},
        {"prompt_tokens": None},
        {"prompt_tokens": 0},
    ],
)
def test_chat_usage_that_leaves_the_price_open(change):
    """Cached tokens unreported, more of them than there were, parts beyond the whole, counts missing."""
    answer = {"choices": [], "usage": {**USAGE, **change}}
    assert cost(json.dumps(answer).encode(), CHAT, "gpt-5", "openai") is None


def response(kind: str, usage: Any) -> dict[str, Any]:
    return {"type": kind, "response": {"status": "completed", "output": [], "usage": usage}}


INPUT = {
    "input_tokens": 3_000, "output_tokens": 50, "total_tokens": 3_050,
    "input_tokens_details": {"cached_tokens": 2_048}, "output_tokens_details": {"reasoning_tokens": 40},
}  # fmt: skip


@pytest.mark.parametrize("end", ["response.completed", "response.incomplete"])
def test_a_responses_stream_counts_its_final_event(end):
    """The events before carry the response too, without its usage or with an empty one."""
    events = [response("response.created", None), response("response.in_progress", {}), response(end, INPUT)]
    assert cost(named(*events), RESPONSES, "gpt-5", "openai") == pytest.approx(GPT5)


def test_a_cut_off_responses_stream_has_no_cost():
    assert cost(named(response("response.created", None)), RESPONSES, "gpt-5", "openai") is None


def test_claude_behind_an_openai_shape_has_no_price_of_openais():
    """Anthropic's own OpenAI-compatible route reports no cached tokens, and its prices are Anthropic's."""
    answer = json.dumps({"choices": [], "usage": USAGE}).encode()
    assert cost(answer, CHAT, "claude-sonnet-5", "openai") is None
    plain = json.dumps({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}).encode()
    assert cost(plain, CHAT, "claude-sonnet-5", "anthropic") == pytest.approx(0.0003)


@pytest.mark.parametrize(
    "model", ["", "\ud800", "claude-sonnet-5\n", "x" * 5_000, "🦙", "claude-sonnet-5-" + "9" * 9]
)
def test_odd_model_names_have_no_price(model):
    answer = json.dumps({"type": "message", "content": [], "usage": START}).encode()
    assert cost(answer, model=model) is None


def test_an_answer_too_long_to_keep_is_read_at_its_end():
    """The counters stand behind nine megabytes of text."""
    answer = json.dumps({"choices": [{"message": {"content": "x" * (9 << 20)}}], "usage": USAGE}).encode()
    assert cost(answer, CHAT, "gpt-5", "openai", piece=1 << 20) == pytest.approx(GPT5)
