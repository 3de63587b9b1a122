"""Listening to answers: counters, first token, end, error and reply, however the network cuts them."""

import gzip
import json
import time

import pytest

from services.proxy.dialects import tap as tapping
from tests.support.answers import heard, named, ndjson, pieces, said, sse
from tests.support.requests import CHAT, GENERATE, MESSAGES, OLLAMA, RESPONSES, dialect_of, dump, read, texts

USER = {"role": "user", "content": "go"}
STREAMED = read(OLLAMA, model="m", messages=[USER])
WHOLE = read(OLLAMA, model="m", messages=[USER], stream=False)


def delta(**parts):
    return {"choices": [{"index": 0, "delta": parts, "finish_reason": None}]}


CHAT_STREAM = sse(
    delta(role="assistant", content=""),
    delta(reasoning_content="R"),
    delta(content="日"),
    delta(content="🌍"),
    delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "read", "arguments": ""}}]),
    delta(tool_calls=[{"index": 0, "function": {"arguments": '{"p": '}}]),
    delta(tool_calls=[{"index": 0, "function": {"arguments": '"é"}'}}]),
    {
        "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}],
        "timings": {"cache_n": 500, "prompt_n": 20},
    },
    {
        "choices": [],
        "usage": {"prompt_tokens": 520, "prompt_tokens_details": {"cached_tokens": 500, "x": None}},
    },
    "[DONE]",
)
CHAT_REPLY = [
    (".reasoning", "reasoning", "R"),
    ("", "text", "日🌍"),
    (".tool_calls[0].name", "name", "read"),
    (".tool_calls[0].arguments", "json", '{"p": "é"}'),
]


@pytest.mark.parametrize("size", [1, 2, 7, 64, 100_000])
def test_a_chat_stream_is_understood_in_any_cut(size):
    """One byte a read included, inside characters included."""
    outcome = heard(dialect_of(CHAT), pieces(CHAT_STREAM, size))
    assert said(outcome) == CHAT_REPLY
    assert (outcome.finish_reason, outcome.terminal, outcome.error) == ("tool_calls", True, None)
    assert (outcome.streamed_deltas, outcome.unparsed) == (6, None)
    assert outcome.reported == {
        "timings.cache_n": 500,
        "timings.prompt_n": 20,
        "usage.prompt_tokens": 520,
        "usage.prompt_tokens_details.cached_tokens": 500,
    }


def test_a_relayed_reply_has_the_sections_of_its_replay():
    """So that a client that alters it is caught, and one that does not is not."""
    outcome = heard(dialect_of(CHAT), [CHAT_STREAM])
    call = {"id": "c", "function": {"name": "read", "arguments": '{"p": "é"}'}}
    message = {"role": "assistant", "content": "日🌍", "reasoning_content": "R", "tool_calls": [call]}
    replayed = dialect_of(CHAT).sections("message", dump(message))
    assert outcome.reply is not None
    assert outcome.reply.sections == replayed


@pytest.mark.parametrize(
    "first",
    [
        b":\n\n",
        b": prefill\n\n",
        b": keepalive 10/20\n\n",
        sse(delta(role="assistant")),
        sse(delta(role="assistant", content=None)),
        sse(delta(content="", reasoning="")),
        sse({"choices": [], "prompt_progress": {"total": 10, "cache": 4, "processed": 6, "time_ms": 1}}),
    ],
)
def test_comments_roles_and_empty_deltas_are_no_first_token(first):
    """Time to first token ends with text, reasoning or a tool call."""
    reads = [first, first, sse(delta(content="x")), sse(delta(content="y"))]
    assert heard(dialect_of(CHAT), reads).first_token_at == 3.0


@pytest.mark.parametrize(
    "part",
    [
        {"content": "x"},
        {"reasoning_content": "x"},
        {"reasoning": "x"},
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]},
        {"function_call": {"name": "f"}},
    ],
)
def test_text_reasoning_and_calls_are_first_tokens(part):
    """In whichever member the server puts them."""
    outcome = heard(dialect_of(CHAT), [sse(delta(role="assistant")), sse(delta(**part))])
    assert (outcome.first_token_at, outcome.streamed_deltas) == (2.0, 1)


def test_prompt_progress_is_kept():
    """Cached tokens are left out of what was to do."""
    progress = {
        "choices": [],
        "prompt_progress": {"total": 1000, "cache": 400, "processed": 700, "time_ms": 5},
    }
    assert heard(dialect_of(CHAT), [sse(progress)]).progress == (300, 600)


def test_a_stream_without_its_end_is_not_terminal():
    """Two deltas and a clean close."""
    outcome = heard(dialect_of(CHAT), [sse(delta(content="a"), delta(content="b"))])
    assert not outcome.terminal
    assert outcome.finish_reason is None


def test_surrogates_in_two_events_are_one_character():
    """A server that decodes token by token cuts emoji in two; a half that stays alone is U+FFFD."""
    halves = [r"\ud83c", r"\udf0d", "x", r"\ud83c"]
    stream = b"".join(
        b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % half.encode() for half in halves
    )
    outcome = heard(dialect_of(CHAT), pieces(stream, 5))
    assert said(outcome) == [("", "text", "🌍x�")]


def test_a_whole_chat_answer_has_no_first_token():
    """There is no stream to time."""
    body = {
        "choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
        "timings": {"cache_n": 2, "prompt_n": 1},
    }
    outcome = heard(dialect_of(CHAT), pieces(json.dumps(body, indent=2).encode(), 9))
    assert said(outcome) == [("", "text", "hi")]
    assert (outcome.first_token_at, outcome.streamed_deltas) == (None, 0)
    assert (outcome.finish_reason, outcome.terminal) == ("stop", True)
    assert outcome.reported["timings.cache_n"] == 2


CLAUDE_STREAM = named(
    {"type": "message_start", "message": {"usage": {"input_tokens": 25, "cache_read_input_tokens": 0}}},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "R"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "日🌍"}},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "name": "Read", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": '{"p": '},
    },
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "1}"}},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use"},
        "usage": {
            "input_tokens": 5,
            "cache_read_input_tokens": 20,
            "cache_creation": {"ephemeral_5m_input_tokens": 0},
        },
    },
    {"type": "message_stop"},
)


@pytest.mark.parametrize("size", [1, 11, 100_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_messages_stream_is_understood_in_any_cut(size, end):
    """The first usage is kept apart from the last one."""
    outcome = heard(dialect_of(MESSAGES), pieces(CLAUDE_STREAM.replace(b"\n", end), size))
    assert said(outcome) == [
        (".reasoning", "reasoning", "R"),
        ("", "text", "日🌍"),
        (".tool_calls[0].name", "name", "Read"),
        (".tool_calls[0].arguments", "json", '{"p": 1}'),
    ]
    assert (outcome.finish_reason, outcome.terminal, outcome.streamed_deltas) == ("tool_use", True, 5)
    assert outcome.reported["message_start.usage.input_tokens"] == 25
    assert outcome.reported["usage.input_tokens"] == 5
    assert outcome.reported["usage.cache_creation.ephemeral_5m_input_tokens"] == 0


def test_a_whole_messages_answer_is_understood():
    """Nulls are not reported."""
    body = {
        "type": "message",
        "content": [
            {"type": "text", "text": "A"},
            {"type": "tool_use", "name": "f", "input": {"b": 1, "a": 2}},
        ],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "cache_read_input_tokens": None},
    }
    outcome = heard(dialect_of(MESSAGES), [dump(body)])
    assert said(outcome)[-1] == (".tool_calls[0].arguments", "json", '{"b":1,"a":2}')
    assert outcome.reported == {"usage.input_tokens": 3}


def response(kind, **members):
    return {"type": f"response.{kind}", "response": {"status": kind, **members}}


OUTPUT = [
    {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "R"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "日🌍"}]},
    {"type": "function_call", "name": "sh", "arguments": '{"a": 1}', "call_id": "c"},
]
RESPONSE_REPLY = [
    ("[0].reasoning", "reasoning", "R"),
    ("[1]", "text", "日🌍"),
    ("[2].name", "name", "sh"),
    ("[2].arguments", "json", '{"a": 1}'),
]


def responses_stream(output):
    return named(
        response("created"),
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning"}},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "R"},
        {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "日"},
        {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "🌍"},
        {
            "type": "response.output_item.added",
            "output_index": 2,
            "item": {"type": "function_call", "name": "sh"},
        },
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"a": 1}'},
        response(
            "completed",
            output=output,
            usage={"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 2},
        ),
    )


@pytest.mark.parametrize("output", [OUTPUT, []])
@pytest.mark.parametrize("size", [1, 13, 100_000])
def test_a_responses_stream_is_understood_with_and_without_its_final_output(output, size):
    """Paths begin with the output item's index, because items are replayed one by one."""
    outcome = heard(dialect_of(RESPONSES), pieces(responses_stream(output), size))
    assert said(outcome) == RESPONSE_REPLY
    assert (outcome.finish_reason, outcome.terminal, outcome.streamed_deltas) == ("completed", True, 5)
    assert outcome.reported["usage.input_tokens_details.cached_tokens"] == 4


def test_a_failed_response_has_its_code():
    """And is no completed one."""
    failed = response("failed", error={"code": "server_error", "message": "secret text"})
    outcome = heard(dialect_of(RESPONSES), [named(failed)])
    assert (outcome.error, outcome.finish_reason) == ("server_error", "failed")


FINAL = {
    "done": True,
    "done_reason": "stop",
    "total_duration": 9_000_000_000,
    "load_duration": 5_000_000_000,
    "prompt_eval_count": 50,
    "prompt_eval_cached_count": 40,
    "prompt_eval_duration": 2_000_000,
    "eval_count": 3,
}


@pytest.mark.parametrize("size", [1, 9, 100_000])
def test_an_ollama_stream_is_understood_in_any_cut(size):
    """The last line carries the counters."""
    lines = ndjson(
        {"message": {"role": "assistant", "content": "", "thinking": "R"}, "done": False},
        {"message": {"content": "He"}, "done": False},
        {"message": {"content": "llo日"}, "done": False},
        {
            "message": {"content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"b": 1}}}]},
            "done": False,
        },
        {"message": {"content": ""}} | FINAL,
    )
    outcome = heard(dialect_of(OLLAMA), pieces(lines, size), prompt=STREAMED)
    assert said(outcome) == [
        (".reasoning", "reasoning", "R"),
        ("", "text", "Hello日"),
        (".tool_calls[0].name", "name", "f"),
        (".tool_calls[0].arguments", "json", '{"b": 1}'),
    ]
    assert (outcome.finish_reason, outcome.terminal, outcome.streamed_deltas) == ("stop", True, 4)
    assert outcome.reported["prompt_eval_cached_count"] == 40
    assert outcome.reported["load_duration"] == 5e9


def test_zeros_and_absent_counters_of_ollama_are_told_apart():
    """Zero was reported; absent was not."""
    outcome = heard(dialect_of(OLLAMA), [ndjson({"done": True, "prompt_eval_count": 0})], prompt=STREAMED)
    assert outcome.reported == {"prompt_eval_count": 0}


def test_a_whole_ollama_answer_and_generate_are_understood():
    """One object, with or without its newline."""
    outcome = heard(dialect_of(OLLAMA), [dump({"message": {"content": "hi"}} | FINAL)], prompt=WHOLE)
    assert said(outcome) == [("", "text", "hi")]
    assert outcome.first_token_at is None
    generate = read(GENERATE, model="m", prompt="x")
    stream = ndjson(
        {"response": "a", "done": False}, {"response": "b", "done": False}, {"response": ""} | FINAL
    )
    outcome = heard(dialect_of(GENERATE), pieces(stream, 4), prompt=generate)
    assert said(outcome) == [("", "text", "ab")]


@pytest.mark.parametrize("size", [1, 100_000])
def test_completions_and_llamas_own_route_are_understood(size):
    """`text` in choices, `content` in pieces."""
    stream = sse(
        {"choices": [{"text": "a"}]}, {"choices": [{"text": "b", "finish_reason": "stop"}]}, "[DONE]"
    )
    outcome = heard(dialect_of("/v1/completions"), pieces(stream, size))
    assert (said(outcome), outcome.finish_reason) == ([("", "text", "ab")], "stop")
    last = {
        "content": "",
        "stop": True,
        "stop_type": "limit",
        "tokens_evaluated": 9,
        "timings": {"cache_n": 7, "prompt_n": 2},
    }
    outcome = heard(dialect_of("/completion"), pieces(sse({"content": "a"}, {"content": "b"}, last), size))
    assert said(outcome) == [("", "text", "ab")]
    assert (outcome.finish_reason, outcome.terminal, outcome.streamed_deltas) == ("limit", True, 2)
    assert outcome.reported == {"timings.cache_n": 7, "timings.prompt_n": 2, "tokens_evaluated": 9}
    outcome = heard(dialect_of("/completion"), [dump(last | {"content": "ab"})])
    assert (said(outcome), outcome.terminal) == ([("", "text", "ab")], True)


@pytest.mark.parametrize(
    ("path", "answer", "code"),
    [
        (OLLAMA, ndjson({"message": {"content": "a"}}, {"error": "runner crashed: secret"}), "backend_error"),
        (
            CHAT,
            sse(delta(content="a"), {"error": {"code": 500, "type": "server_error", "message": "x"}}),
            "server_error",
        ),
        (
            CHAT,
            b'event: error\ndata: {"error":{"message":"x","code":"context_length_exceeded"}}\n\n',
            "context_length_exceeded",
        ),
        (CHAT, b'error: {"code":500,"message":"x"}\n\n', "500"),
        (
            MESSAGES,
            named({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}),
            "overloaded_error",
        ),
        (RESPONSES, named({"type": "error", "code": "rate_limit", "message": "x"}), "rate_limit"),
        ("/completion", sse({"content": "a"}, {"error": {"code": 500, "message": "x"}}), "500"),
        (
            CHAT,
            b'{"error":{"code":400,"type":"exceed_context_size_error","message":"m"}}',
            "exceed_context_size_error",
        ),
        (CHAT, b'{"error":{"code":null,"type":"a message with spaces","message":"m"}}', "backend_error"),
        (MESSAGES, b'{"type":"error","error":{"type":"not_found_error","message":"m"}}', "not_found_error"),
        (OLLAMA, b'{"error":"model \'m\' not found"}', "backend_error"),
    ],
)
def test_errors_are_codes_and_never_texts(path, answer, code):
    """In the middle of a 200 or as the whole answer."""
    outcome = heard(dialect_of(path), [answer], prompt=STREAMED if path == OLLAMA else None)
    assert outcome.error == code


def test_events_that_are_no_json_are_passed_over():
    """One broken event does not hide the rest."""
    outcome = heard(
        dialect_of(CHAT), [sse(delta(content="a")) + b"data: {broken\n\n" + sse(delta(content="b"))]
    )
    assert said(outcome) == [("", "text", "ab")]


def test_an_answer_of_another_kind_is_unparsed():
    """A page of HTML, a plain text: relayed, and no counters."""
    for body in (b"<html>502</html>", b"404 page not found", b"data"):
        assert heard(dialect_of(CHAT), [body]).unparsed == "not_json"


def test_an_empty_answer_says_nothing():
    """The client left before a byte came."""
    outcome = heard(dialect_of(CHAT), [])
    assert (outcome.reply, outcome.reported, outcome.terminal, outcome.unparsed) == (None, {}, False, None)


@pytest.mark.parametrize("size", [1, 50, 100_000])
def test_a_compressed_stream_is_read_from_a_copy(size):
    """SSE under gzip, cut anywhere."""
    outcome = heard(dialect_of(CHAT), pieces(gzip.compress(CHAT_STREAM), size), encoding="gzip")
    assert said(outcome) == CHAT_REPLY


def test_an_unknown_encoding_is_said():
    """Unknown is not zero."""
    outcome = heard(dialect_of(CHAT), [b"\x1b\x03"], encoding="br")
    assert (outcome.unparsed, outcome.reported) == ("encoding_br", {})


def test_a_whole_answer_of_any_size_is_bounded_and_its_tail_read(monkeypatch):
    """Vectors come before the counters."""
    monkeypatch.setattr(tapping, "MAX_WHOLE", 1000)
    monkeypatch.setattr(tapping, "TAIL", 400)
    body = dump({"data": [0.5] * 5000, "model": "m", "usage": {"prompt_tokens": 8, "total_tokens": 8}})
    tap = dialect_of("/v1/embeddings").tap(None, "", "")
    for data in pieces(body, 300):
        tap.feed(data, 1.0)
        assert sum(map(len, tap._held)) + len(tap._tail) <= 1700
    outcome = tap.close(2.0)
    assert (outcome.unparsed, outcome.reported["usage.prompt_tokens"]) == ("too_large", 8)


def test_a_reply_of_any_size_is_bounded(monkeypatch):
    """Deltas are counted on; the text says that it was cut."""
    monkeypatch.setattr("services.proxy.dialects.reply.MAX_REPLY", 100)
    outcome = heard(dialect_of(CHAT), [sse(*[delta(content="x" * 30)] * 50)])
    assert outcome.reply is not None
    assert outcome.reply.truncated
    assert outcome.streamed_deltas == 50
    assert len(outcome.reply.sections[0].text) <= 100


def test_equal_replies_have_equal_hashes():
    """Streamed or not, however cut: a repeat at temperature zero can be compared."""
    call = {"id": "other", "function": {"name": "read", "arguments": '{"p": "é"}'}}
    message = {"role": "assistant", "content": "日🌍", "reasoning": "R", "tool_calls": [call]}
    whole = dump({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    hashes = {
        heard(dialect_of(CHAT), pieces(CHAT_STREAM, 3)).output_hash,
        heard(dialect_of(CHAT), [CHAT_STREAM]).output_hash,
        heard(dialect_of(CHAT), [whole]).output_hash,
    }
    assert len(hashes) == 1


def test_only_the_first_of_several_choices_is_the_reply():
    """All of them count as deltas."""
    second = {"choices": [{"index": 1, "delta": {"content": "B"}}]}
    outcome = heard(dialect_of(CHAT), [sse(delta(content="A"), second)])
    assert (said(outcome), outcome.streamed_deltas) == ([("", "text", "A")], 2)


def test_embedding_answers_are_read_for_their_counters():
    """OpenAI's and Ollama's."""
    outcome = heard(dialect_of("/v1/embeddings"), [dump({"data": [], "usage": {"prompt_tokens": 4}})])
    assert outcome.reported == {"usage.prompt_tokens": 4}
    outcome = heard(
        dialect_of("/api/embed"), [dump({"embeddings": [[1]], "load_duration": 7, "prompt_eval_count": 2})]
    )
    assert outcome.reported == {"load_duration": 7, "prompt_eval_count": 2}


def test_a_tap_never_raises(monkeypatch):
    """A fault in listening is a reason without counters, never the end of an answer."""
    tap = dialect_of(CHAT).tap(None, "", "")
    monkeypatch.setattr(tap._reader, "event", lambda name, data: 1 / 0)
    tap.feed(sse(delta(content="x")), 1.0)
    assert tap.close(2.0).unparsed == "tap_ZeroDivisionError"


def test_replayed_texts_have_the_contracts_paths():
    """The same paths on the request's side."""
    prompt = read(CHAT, messages=[USER, {"role": "assistant", "content": "A", "reasoning_content": "R"}])
    assert set(texts(CHAT, prompt)) == {"messages[0]", "messages[1]", "messages[1].reasoning"}


def test_a_whole_answer_in_many_small_reads_costs_each_byte_once():
    """Found by fuzzing: each read joined all reads before it, which an answer of megabytes made seconds."""
    dialect = dialect_of("/v1/embeddings")
    tap = dialect.tap(None, "application/json", "")
    started = time.process_time()
    tap.feed(b'{"data":[', 0.0)
    for _ in range(60_000):
        tap.feed(b"0.123456789,", 0.0)
    tap.feed(b'0],"usage":{"prompt_tokens":7}}', 0.0)

    assert tap.close(1.0).reported["usage.prompt_tokens"] == 7
    assert time.process_time() - started < 10.0  # joining anew each time moves 22 GB
