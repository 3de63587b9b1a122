"""The hot path gives what the general way gives, for every message and every tool."""

import json
from hashlib import sha1

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.proxy import cut
from services.proxy.dialects.build import message_chunk
from services.proxy.dialects.normal import digest
from services.proxy.dialects.tools import read_tools, tool_sections
from tests.support.requests import CHAT, MESSAGES, OLLAMA, RESPONSES, dialect_of

text = st.text(max_size=12) | st.sampled_from(["", "a\nb", '"q"', "中", "\\"])
optional = st.none() | text
arguments = text | st.dictionaries(text, text, max_size=2) | st.none() | st.integers()
calls = st.lists(
    st.builds(
        lambda name, value, odd: {"id": "c"} if odd else {"function": {"name": name, "arguments": value}},
        optional,
        arguments,
        st.just(False) | st.booleans(),
    ),
    max_size=3,
)
blocks = st.lists(
    st.one_of(
        st.builds(
            lambda kind, value: {"type": kind, "text": value}, st.sampled_from(["text", "input_text"]), text
        ),
        st.builds(lambda value: {"type": "thinking", "thinking": value}, text),
        st.builds(lambda value: {"type": "redacted_thinking", "data": value}, text),
        st.builds(lambda name, value: {"type": "tool_use", "name": name, "input": value}, text, arguments),
        st.builds(lambda value: {"type": "tool_result", "content": value}, text),
        st.builds(lambda value: {"type": "tool_result", "content": [{"type": "text", "text": value}]}, text),
        st.just({"type": "image", "source": {"data": "AAAA"}}),
        st.just({"type": "odd", "x": 1}),
    ),
    max_size=4,
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system", "User", "odd", ""])},
    optional={
        "content": optional | blocks | st.integers(),
        "reasoning_content": optional,
        "reasoning": optional,
        "name": optional,
        "tool_calls": calls | st.none(),
        "function_call": st.fixed_dictionaries({"name": text, "arguments": text}),
        "refusal": optional,
        "images": st.just(["AAAA"]),
    },
)
responses_items = st.one_of(
    messages,
    st.fixed_dictionaries(
        {"type": st.sampled_from(["function_call", "custom_tool_call"]), "name": optional},
        optional={"arguments": arguments, "input": text},
    ),
    st.fixed_dictionaries({"type": st.just("function_call_output"), "output": text | blocks}),
    st.fixed_dictionaries({"type": st.just("reasoning"), "summary": blocks}),
)


@pytest.mark.parametrize("path", [CHAT, MESSAGES, OLLAMA, RESPONSES])
def test_messages_come_out_as_by_their_sections(path):
    """Hash, sizes, role and media, whichever shape the message has."""
    dialect = dialect_of(path)

    @settings(max_examples=200, deadline=None)
    @given(st.lists(responses_items if path == RESPONSES else messages, max_size=3))
    def check(found):
        raws = cut.elements(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
        general = [message_chunk(i, digest(*dialect.opaque(raw)), raw) for i, raw in enumerate(raws)]
        assert dialect.chunks(raws, 0) == general

    check()


schema = st.dictionaries(text, text, max_size=2)
tools = st.one_of(
    st.fixed_dictionaries({"name": text, "description": text, "input_schema": schema}),
    st.fixed_dictionaries({"type": st.just("web_search")}),
    st.builds(
        lambda name, about, value, extra: {
            "type": "function",
            "function": {"name": name, "description": about, "parameters": value} | extra,
        },
        text,
        text,
        schema,
        st.sampled_from([{}, {"strict": True}]),
    ),
    st.builds(
        lambda name, about, value: {
            "type": "function",
            "name": name,
            "description": about,
            "parameters": value,
        },
        text,
        text,
        schema,
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(tools, min_size=1, max_size=3))
def test_tools_come_out_as_by_their_sections(found):
    """Whether a definition is common or odd."""
    raw = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
    hashes = [digest("tool", tool_sections("", item)) for item in cut.elements(raw)]
    known = read_tools(raw)
    assert (known.size, known.wide) == (sum(d.size for d in hashes), sum(d.wide for d in hashes))
    assert known.hash == sha1(b"tools" + b"".join(d.hash for d in hashes)).digest()
