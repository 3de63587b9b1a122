"""Reading resumes where a known conversation ended, and is never any different for it."""

import json
import threading
from hashlib import sha1

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.proxy.chunking import analysis
from services.proxy.chunking.analysis import Analyser
from services.proxy.dialects.base import UnparsedError
from tests.support.requests import CHAT, MESSAGES, OLLAMA, RESPONSES, dialect_of, dump

MEMORY = 16 << 20
FILLER = "The quick brown fox. " * 40


@pytest.fixture(autouse=True)
def _resume_small_bodies(monkeypatch):
    """So that the small bodies of a test are remembered, and taken for each other's relatives."""
    monkeypatch.setattr(analysis, "RESUME_FROM", 0)
    monkeypatch.setattr(analysis, "KEY_BYTES", 8)


def cold(path, body):
    return Analyser(0).read(dialect_of(path), body, "b")


def known(analyser):
    return sum(len(siblings) for siblings in analyser._trails.values())


texts = st.sampled_from(
    ["", "hi", "中文\n", 'say "x"', "\\u0041", "x" * 300, "[]", "{}", '],"messages":[']
) | st.text(max_size=8)
roles = st.sampled_from(["user", "assistant", "tool", "system", "developer"])


@st.composite
def items(draw, path):
    """One message in the shapes of a dialect."""
    role = draw(roles)
    content = draw(
        st.one_of(
            texts,
            st.none(),
            st.lists(st.builds(lambda text: {"type": "text", "text": text}, texts), max_size=2),
            st.just([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]),
        )
    )
    item = {"role": role, "content": content}
    if path == RESPONSES:
        kind = draw(st.sampled_from(["message", "function_call", "function_call_output", "reasoning", "odd"]))
        shapes = {
            "message": item,
            "function_call": {"type": kind, "name": "f", "arguments": draw(texts), "call_id": draw(texts)},
            "function_call_output": {"type": kind, "output": draw(texts)},
            "reasoning": {"type": kind, "summary": [{"type": "summary_text", "text": draw(texts)}]},
            "odd": {"type": kind, "action": {"x": draw(texts)}},
        }
        return shapes[kind]
    if role == "assistant" and draw(st.booleans()):
        arguments = {"a": draw(texts)}
        function = {"name": "f", "arguments": arguments if path == OLLAMA else json.dumps(arguments)}
        item["tool_calls"] = [{"id": draw(texts), "function": function}]
    return item


@st.composite
def layouts(draw, path):
    """How an agent writes: which members in which order, how spaced, how escaped."""
    name = "input" if path == RESPONSES else "messages"
    others = ["model", "tools", "system" if path == MESSAGES else "instructions", "think", "stream"]
    before = draw(st.lists(st.sampled_from(others), unique=True, max_size=2))
    after = [key for key in draw(st.permutations(others)) if key not in before]
    keys = [*before, name, *after[: draw(st.integers(0, 4))]]
    if draw(st.integers(0, 9)) == 0:
        keys.append(draw(st.sampled_from(keys)))  # a duplicate key now and then
    return keys, draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " : ")])), draw(st.booleans())


def written(layout, values):
    """A body in a layout."""
    keys, (comma, colon), ascii_only = layout
    parts = (
        json.dumps(key) + colon + json.dumps(values[key], separators=(comma, colon), ensure_ascii=ascii_only)
        for key in keys
    )
    return ("{" + comma.join(parts) + "}").encode("utf-8", "replace")


@st.composite
def members(draw, messages):
    """What stands in a body besides its layout."""
    system = draw(st.sampled_from(["S", "S", "S", "T", "", None]))
    return {
        "model": draw(st.sampled_from(["m", "m", "m", "n"])),
        "messages": messages,
        "input": messages,
        "tools": draw(st.sampled_from([[], [{"name": "f"}], [{"name": "g", "description": FILLER}]])),
        "system": system,
        "instructions": system,
        "think": draw(st.sampled_from([True, "high", None])),
        "stream": draw(st.booleans()),
    }


@st.composite
def histories(draw, path):
    """Bodies of one conversation: it grows, is edited, cut and retried, like those of real agents."""
    messages = draw(st.lists(items(path), min_size=1, max_size=6))
    layout = draw(layouts(path))
    values = draw(members(messages))
    bodies = []
    for _ in range(draw(st.integers(2, 6))):
        bodies.append(written(layout, values))
        change = draw(st.sampled_from(["grow", "grow", "grow", "grow", "edit", "cut", "same"]))
        messages = list(messages)
        if change == "grow":
            messages += draw(st.lists(items(path), min_size=1, max_size=3))
        elif change == "edit":
            messages[draw(st.integers(0, len(messages) - 1))] = draw(items(path))
        elif change == "cut" and len(messages) > 1:
            messages.pop(draw(st.integers(0, len(messages) - 1)))
        if draw(st.integers(0, 2)) == 0:
            values = draw(members(messages))
        values = values | {"messages": messages, "input": messages}
        if draw(st.integers(0, 5)) == 0:
            layout = draw(layouts(path))
    return bodies


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES, OLLAMA])
def test_any_history_reads_as_it_would_from_nothing(path):
    """Resumed equals cold: chunks, raw slices, hashes, hints, everything."""

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(histories(path))
    def check(bodies):
        analyser = Analyser(MEMORY)
        for body in bodies:
            assert analyser.read(dialect_of(path), body, "b") == cold(path, body)

    check()


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_tampered_tail_reads_as_it_would_from_nothing(data):
    """Whatever bytes follow a known head, the verdict is that of a cold reading, errors included."""
    messages = [{"role": "user", "content": FILLER}, {"role": "assistant", "content": "ok"}]
    body = dump({"model": "m", "messages": messages, "tools": [{"name": "f"}], "stream": True})
    analyser = Analyser(MEMORY)
    analyser.read(dialect_of(CHAT), body, "b")
    cut = data.draw(st.integers(len(FILLER), len(body)))
    tail = data.draw(
        st.sampled_from(
            [b"", b"]", b"]}", b"]]}", b"]}}", b",1]}", b",{}]}", b'],"messages":[{"role":"user"}]}', b"],}"]
        )
        | st.binary(max_size=6)
    )
    hostile = body[:cut] + tail
    try:
        expected = cold(CHAT, hostile)
    except UnparsedError:
        with pytest.raises(UnparsedError):
            analyser.read(dialect_of(CHAT), hostile, "b")
    else:
        assert analyser.read(dialect_of(CHAT), hostile, "b") == expected


def conversation(turns, **members):
    messages = [{"role": "system", "content": FILLER}, {"role": "user", "content": "go"}]
    for turn in range(turns):
        messages.append({"role": "assistant", "content": f"step {turn}"})
        messages.append({"role": "user", "content": f"result {turn}"})
    return dump({"model": "m", "messages": messages, **members})


def test_a_known_head_is_not_decoded_again(monkeypatch):
    """The next turn costs its own messages, not the conversation."""
    dialect = dialect_of(CHAT)
    analyser = Analyser(MEMORY)
    analyser.read(dialect, conversation(20), "b")
    seen = []
    chunks = type(dialect).chunks
    monkeypatch.setattr(
        type(dialect), "chunks", lambda self, raws, *more: seen.append(len(raws)) or chunks(self, raws, *more)
    )
    prompt = analyser.read(dialect, conversation(21), "b")
    assert seen == [2]
    assert prompt.message_count == 44
    assert prompt.raw_hash == sha1(conversation(21)).digest()


def test_a_moved_cache_marker_costs_only_the_last_messages(monkeypatch):
    """Claude Code rewrites its newest message each turn; checkpoints before it still hold."""
    dialect = dialect_of(MESSAGES)

    def body(count):
        messages = [{"role": "user", "content": f"{number} {FILLER}"} for number in range(count)]
        marked = {"type": "text", "text": messages[-1]["content"], "cache_control": {"type": "ephemeral"}}
        messages[-1] = {"role": "user", "content": [marked]}
        return dump({"model": "m", "messages": messages, "system": "S", "tools": [], "stream": True})

    analyser = Analyser(MEMORY)
    first = analyser.read(dialect, body(10), "b")
    seen = []
    chunks = type(dialect).chunks
    monkeypatch.setattr(
        type(dialect), "chunks", lambda self, raws, *more: seen.append(len(raws)) or chunks(self, raws, *more)
    )
    second = analyser.read(dialect, body(12), "b")
    assert seen == [3]
    assert second.prefixes[: len(first.prefixes)] == first.prefixes


def test_a_changed_envelope_after_a_known_head_is_read_anew():
    """Codex shuffles its metadata; tools and params may change while the messages stand."""
    analyser = Analyser(MEMORY)
    dialect = dialect_of(CHAT)
    analyser.read(dialect, conversation(5, tools=[{"name": "f"}]), "b")
    changed = conversation(6, tools=[{"name": "g"}], think=True)
    prompt = analyser.read(dialect, changed, "b")
    assert prompt == cold(CHAT, changed)
    assert prompt.hints.tool_names == ("g",)


def test_nothing_is_kept_where_text_may_not_be():
    """With no memory every body is read from its beginning, with the same result."""
    analyser = Analyser(0)
    body = conversation(5)
    assert analyser.read(dialect_of(CHAT), body, "b") == cold(CHAT, body)
    assert known(analyser) == 0


def test_memory_is_bounded_in_bytes():
    """Old conversations go first."""
    analyser = Analyser(100_000)
    for number in range(60):
        analyser.read(
            dialect_of(CHAT), conversation(40, user=str(number)).replace(b'"m"', b'"m%d"' % number), "b"
        )
    assert analyser._bytes <= 100_000
    assert 0 < known(analyser) < 60
    assert analyser._bytes == sum(
        trail.weight for siblings in analyser._trails.values() for trail in siblings.values()
    )


def test_memory_is_bounded_in_time():
    """Text older than its time limit is gone with the next body that is read."""
    analyser = Analyser(MEMORY, ttl_s=-1.0)
    analyser.read(dialect_of(CHAT), conversation(5), "b")
    assert known(analyser) == 0


def test_the_turns_of_one_conversation_take_the_place_of_one():
    """A day's session holds one body, not hundreds."""
    analyser = Analyser(MEMORY)
    for turn in range(30):
        analyser.read(dialect_of(CHAT), conversation(turn + 1), "b")
    assert known(analyser) == 1


def test_a_prompt_may_be_changed_by_its_flow():
    """What one request does with its prompt does not reach the next."""
    analyser = Analyser(MEMORY)
    body = conversation(5)
    prompt = analyser.read(dialect_of(CHAT), body, "b")
    prompt.chunks.clear()
    prompt.prefixes.clear()
    prompt.hints.tool_names = ("changed",)
    prompt.engine.load = True
    assert analyser.read(dialect_of(CHAT), body, "b") == cold(CHAT, body)


def test_threads_read_at_the_same_time():
    """Large bodies are read in threads; results and accounts stay right."""
    analyser = Analyser(400_000)
    failures = []

    def work(number):
        for turn in range(1, 30):
            body = conversation(turn, user=str(number))
            if analyser.read(dialect_of(CHAT), body, "b") != cold(CHAT, body):
                failures.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert analyser._bytes == sum(
        trail.weight for siblings in analyser._trails.values() for trail in siblings.values()
    )


def test_a_next_turn_that_adds_little_is_resumed_as_it_would_be_read():
    """Then reading it needs no thread, however long the conversation is."""
    analyser, dialect = Analyser(MEMORY), dialect_of(CHAT)
    assert analyser.resume(dialect, conversation(20), "b", 10_000) is None
    analyser.read(dialect, conversation(20), "b")
    assert analyser.resume(dialect, conversation(21), "b", 10_000) == cold(CHAT, conversation(21))
    assert analyser.resume(dialect, conversation(22), "b", 10_000) == cold(CHAT, conversation(22))


def test_what_would_take_long_is_not_resumed():
    """Another conversation, one that changed further up, or one that grew by much."""
    analyser, dialect = Analyser(MEMORY), dialect_of(CHAT)
    analyser.read(dialect, conversation(20), "b")
    changed = conversation(21).replace(b"step 3", b"STEP 3")
    assert analyser.resume(dialect, changed, "b", 10_000) is None
    assert analyser.resume(dialect, conversation(21), "else", 10_000) is None
    assert analyser.resume(dialect, conversation(90), "b", 1_000) is None
    assert analyser.resume(dialect_of(MESSAGES), conversation(21), "b", 10_000) is None
