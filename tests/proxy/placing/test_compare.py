"""Two requests compared: every break in prompt order, to the byte, and what stays equal behind it."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.proxy.chunking.analysis import Analyser
from services.proxy.dialects import for_route
from services.proxy.placing.compare import compare
from services.proxy.placing.marks import MarkCache
from services.proxy.placing.outline import outline
from services.proxy.placing.sides import newer, older
from services.proxy.placing.spans import common_prefix, common_suffix, divergence
from services.proxy.placing.texts import Texts
from services.proxy.state.base import Marks
from tests.support.placing import CHAT, assistant, calls, system, tool, tool_result, user
from tests.support.queries import KEY, make_query

RESPONSES, MESSAGES, GENERATE = "/v1/responses", "/v1/messages", "/api/generate"


def understood(body, path=CHAT):
    dialect = for_route("POST", path)
    return Analyser(0).read(dialect, json.dumps(body, ensure_ascii=False).encode(), "engine"), dialect


def node_for(prompt):
    lines = outline(prompt)
    node = make_query().node
    node.kinds, node.roles, node.chunks, node.sizes = lines.kinds, lines.roles, lines.hashes, lines.sizes
    return node


def compared(old, new, path=CHAT, *, text=True, marks=False):
    """The comparison of two bodies, with the older one's text at hand, its marks, or nothing."""
    (before, dialect), (now, _) = understood(old, path), understood(new, path)
    texts = Texts(1 << 26, 60, text)
    texts.put(before, dialect)
    texts.put(now, dialect)
    found = (
        MarkCache(KEY, 1 << 20).marks(before.chunks, lambda c: dialect.sections(c.kind, c.raw))
        if marks
        else None
    )
    assert found is None or isinstance(found, Marks)
    there, here = node_for(before), node_for(now)
    return compare(older(there, texts, found, KEY), newer(now, here, texts))


def chat(*messages, **more):
    return {"model": "m", "messages": list(messages), **more}


def breaks(old, new, path=CHAT, **how):
    return [f"{b.change} {b.path}@{b.offset}" for b in compared(old, new, path, **how).breakers]


def only(old, new, path=CHAT, **how):
    found = compared(old, new, path, **how).breakers
    assert len(found) == 1, found
    return found[0]


# Nothing breaks


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (chat(system("s"), user("a")), chat(system("s"), user("a"))),
        (chat(system("s"), user("a")), chat(system("s"), user("a"), assistant("b"), user("c"))),
        (chat(user("hi")), chat(user([{"type": "text", "text": "hi"}]), assistant("b"))),
        (
            chat(user([{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}])),
            chat(user("hi")),
        ),
        (chat(user("a"), assistant("b"), user("c")), chat(user("a"))),
    ],
    ids=["equal", "append", "string and one block", "marker", "rewound"],
)
def test_what_keeps_the_prefix_is_no_break(old, new):
    assert breaks(old, new) == []


def test_new_tool_call_ids_are_no_break():
    again = calls("{}")
    again["tool_calls"][0]["id"] = "other"
    assert breaks(chat(user("a"), calls("{}")), chat(user("a"), again, user("x"))) == []


# System


def test_a_clock_in_the_system_prompt():
    text = "You are Claw.\n## Current Date & Time\nMonday 10:%d\n## Rules\n" + "r" * 2000
    found = only(chat(system(text % 41), user("hi")), chat(system(text % 42), user("hi"), assistant("x")))
    assert (found.section, found.path, found.offset) == ("system", "system", 48)
    assert (found.inserted, found.deleted) == (1, 1)
    assert found.equal_after == 2000 + len("\n## Rules\n") + len("hi")
    assert found.precision == 1


def test_the_offset_counts_bytes_and_points_at_the_first_byte_of_the_character():
    assert only(chat(system("日期：五月"), user("x")), chat(system("日期：六月"), user("x"))).offset == 9
    assert only(chat(system("é"), user("x")), chat(system("è"), user("x"))).offset == 0
    assert only(chat(system("a😀"), user("x")), chat(system("a😁b"), user("x"))).offset == 1


def test_one_of_several_system_blocks():
    def body(token):
        blocks = [f"x-anthropic-billing-header: cch={token};", "You are a helper."]
        return {"model": "m", "max_tokens": 1, "system": [{"type": "text", "text": t} for t in blocks],
                "messages": [user("hi")]}  # fmt: skip

    found = only(body("11111"), body("22222"), MESSAGES)
    assert (found.path, found.offset) == ("system[0]", 32)
    assert found.equal_after == len(";") + len("You are a helper.") + len("hi")


def test_system_blocks_that_come_and_go():
    one, two = system("a"), system("b")
    assert breaks(chat(one, user("x")), chat(one, two, user("x"))) == ["added system[1]@0"]
    assert breaks(chat(one, two, user("x")), chat(one, user("x"))) == ["removed system[1]@0"]
    assert breaks(chat(user("x")), chat(one, user("x"))) == ["added system@0"]
    assert breaks(chat(one, user("x")), chat(user("x"))) == ["removed system@0"]


# Tools


def tools(*listed):
    return chat(user("x"), tools=list(listed))


def test_reordered_tools_name_the_moved_ones():
    a, b, c = tool("a"), tool("b"), tool("c")
    found = only(tools(a, b), tools(b, a))
    assert (found.change, found.path, found.offset, found.names) == ("reorder", "tools[0]", 0, ("b",))
    assert only(tools(a, b, c), tools(b, c, a)).names == ("a",)
    assert only(tools(a, b, c), tools(a, c, b)).path == "tools[1]"


def test_tools_that_came_and_went_are_named():
    a, b, c = tool("a"), tool("b"), tool("c")
    added = only(tools(a, c), tools(a, b, c))
    assert (added.change, added.path, added.names) == ("added", "tools[1]", ("b",))
    assert added.equal_after == sum(map(len, ("c", "does it", '{"type": "object"}'))) + len("x")
    removed = only(tools(a, b, c), tools(a))
    assert (removed.change, removed.path, removed.names, removed.count) == (
        "removed",
        "tools[1]",
        ("b", "c"),
        2,
    )
    assert only(chat(user("x")), tools(a, b)).names == ("a", "b")


def test_edits_inside_a_tool():
    old, new = tool("a", "version one"), tool("a", "version two")
    assert breaks(tools(tool("z"), old), tools(tool("z"), new)) == ["edit tools[1].description@8"]
    found = only(tools(tool("a", type="object", x=1)), tools(tool("a", type="object", x=2)))
    assert (found.path, found.kind, found.names) == ("tools[0].parameters", "json", ("a",))
    assert found.offset == json.dumps({"type": "object", "x": 1}).index("1")


def test_a_renamed_tool_is_an_edit_of_its_name():
    words = "Reads a file and returns its text with line numbers. Large files are cut."
    assert breaks(tools(tool("read", words)), tools(tool("reads", words))) == ["edit tools[0].name@4"]
    assert breaks(tools(tool("read", "r")), tools(tool("mail", "r"))) == [
        "added tools[0]@0",
        "removed tools[0]@0",
    ]


def test_several_changes_to_the_tools_are_each_listed():
    old = tools(tool("a"), tool("b", "one"), tool("c"), tool("d"))
    new = tools(tool("c"), tool("b", "two"), tool("a"), tool("e"))
    found = breaks(old, new)
    assert "edit tools[1].description@0" in found
    assert "added tools[3]@0" in found
    assert "removed tools[3]@0" in found
    assert "reorder tools[0]@0" in found
    assert len(found) == 4


def test_two_tools_of_one_name_are_told_apart():
    old, new = tools(tool("a", "1"), tool("a", "2")), tools(tool("a", "1"), tool("a", "3"))
    assert breaks(old, new) == ["edit tools[1].description@0"]


# Params


def test_each_template_input_is_its_own_break():
    old = chat(user("x"), reasoning_effort="low", tool_choice="auto")
    new = chat(user("x"), reasoning_effort="high", chat_template_kwargs={"enable_thinking": False})
    found = breaks(old, new)
    assert "edit params.reasoning_effort@0" in found
    assert "removed params.tool_choice@0" in found
    assert "added params.chat_template_kwargs.enable_thinking@0" in found


# Messages


def test_reserialised_tool_arguments():
    old = chat(user("w"), calls('{"city":"T","unit":"c"}'), tool_result("20"))
    new = chat(user("w"), calls('{"unit":"c","city":"T"}'), tool_result("20"), assistant("k"))
    found = only(old, new)
    assert (found.path, found.offset) == ("messages[1].tool_calls[0].arguments", 2)
    assert found.equal_after == len('"}') + len("20") or found.equal_after >= len("20")
    spaced = chat(user("w"), calls('{"city": "T","unit":"c"}'), tool_result("20"))
    assert only(old, spaced).offset == 8


def test_a_pruned_tool_result_deep_in_the_history():
    messages = [user(f"m{i}") if i % 2 else assistant(f"m{i}") for i in range(12)]
    pruned = copy.deepcopy(messages)
    messages[3], pruned[3] = tool_result("x" * 4000), tool_result("[tool output removed]")
    found = only(chat(*messages), chat(*pruned, assistant("n"), user("n")))
    assert (found.path, found.offset, found.deleted, found.inserted) == ("messages[3]", 0, 4000, 21)
    assert (found.old_role, found.new_role) == ("tool", "tool")
    assert found.equal_after == sum(len(f"m{i}") for i in range(4, 12))


def test_all_edited_messages_are_listed():
    old = chat(system("s"), *(user(f"message {i}") for i in range(8)))
    new = copy.deepcopy(old)
    new["messages"][3]["content"] = "message X"
    new["messages"][6]["content"] = "message Y"
    assert breaks(old, new) == ["edit messages[3]@8", "edit messages[6]@8"]


def test_a_message_that_went_and_one_that_came_in_between():
    m = [user(f"m{i}") for i in range(6)]
    assert breaks(chat(*m), chat(*m[:2], *m[3:], assistant("new"))) == ["removed messages[2]@0"]
    assert breaks(chat(*m), chat(*m[:2], assistant("in"), *m[2:], assistant("new"))) == [
        "added messages[2]@0"
    ]


def test_a_last_message_that_moves_behind_the_new_ones():
    context = user("<context>internal</context>")
    old = chat(system("s"), user("u"), context)
    new = chat(system("s"), user("u"), assistant("a"), tool_result("t"), context)
    found = only(old, new)
    assert (found.change, found.path, found.old_role, found.new_role) == (
        "reorder",
        "messages[2]",
        "user",
        "assistant",
    )
    assert found.old == b"<context>internal</context>"
    later = chat(system("s"), user("u"), assistant("a"), user("<context>other</context>"))
    found = only(old, later)
    assert (found.change, found.path, found.old_role) == ("removed", "messages[2]", "user")


def test_a_compacted_history():
    old = chat(system("s"), *(user(f"m{i}") for i in range(20)))
    new = chat(system("s"), user("summary"), user("m18"), user("m19"), user("next"))
    found = compared(old, new).breakers
    assert [b.path for b in found] == ["messages[1]", "messages[2]"]
    assert found[0].equal_after == len("m18") + len("m19")
    assert (found[1].change, found[1].count) == ("removed", 17)


def test_blocks_of_a_message():
    reminder, ask = {"type": "text", "text": "<r>"}, {"type": "text", "text": "do it"}
    more = [assistant("ok"), user("next")]
    assert breaks(chat(user([reminder, ask])), chat(user("do it"), *more)) == ["removed messages[0]@0"]
    assert breaks(chat(user([ask, reminder])), chat(user("do it"), *more)) == [
        "removed messages[0].content[1]@0"
    ]
    assert breaks(chat(user("do it")), chat(user([reminder, ask]), *more)) == [
        "added messages[0].content[0]@0"
    ]
    changed = user([reminder, {"type": "text", "text": "do that"}])
    assert breaks(chat(user([reminder, ask])), chat(changed, *more)) == ["edit messages[0].content[1]@3"]


def test_reasoning_that_went():
    old = chat(user("q"), assistant("a", reasoning_content="because"), user("r"))
    found = only(old, chat(user("q"), assistant("a"), user("r"), user("s")))
    assert (found.change, found.path, found.kind) == ("removed", "messages[1].reasoning", "reasoning")
    assert found.equal_after == len("a") + len("r")


def test_items_of_the_responses_api_are_input():
    old = {"model": "m", "input": [user("a"), user("b")]}
    new = {"model": "m", "input": [user("a"), user("c"), user("d")]}
    assert breaks(old, new, RESPONSES) == ["edit input[1]@0"]


def test_repeated_short_messages_do_not_pull_the_alignment_askew():
    ok = assistant("ok")
    old = chat(*(m for i in range(10) for m in (user(f"do {i}"), ok)))
    new = copy.deepcopy(old)
    new["messages"][10]["content"] = "do X"
    assert breaks(old, new) == ["edit messages[10]@3"]


# One text


def test_a_longer_prompt_that_begins_with_the_old_one_is_no_break():
    old, new = {"model": "m", "prompt": "Once upon"}, {"model": "m", "prompt": "Once upon a time"}
    found = compared(old, new, GENERATE)
    assert found.breakers == []
    assert found.head == len("Once upon")
    assert breaks(new, old, GENERATE) == ["edit prompt@9"]
    assert compared(old, new, GENERATE, text=False, marks=True).breakers == []


# Order, and what is shared


def test_all_sections_break_in_prompt_order():
    old = chat(system("one"), user("a"), user("b"), tools=[tool("t", "1")], reasoning_effort="low")
    new = chat(system("two"), user("a"), user("c"), tools=[tool("t", "2")], reasoning_effort="high")
    assert [b.section for b in compared(old, new).breakers] == ["params", "tools", "system", "messages"]


def test_the_shared_head_is_counted_in_chunks_and_then_in_bytes():
    old = chat(system("s"), user("a"), user("hello there"), tools=[tool("t")])
    new = chat(system("s"), user("a"), user("hello you"), tools=[tool("t")], reasoning_effort="low")
    found = compared(old, new)
    assert (found.whole, found.head) == (3, len("hello "))


# Without text


def test_with_marks_alone_the_same_places_are_found_to_within_a_block():
    text = "".join(f"rule {n}\n" for n in range(2000))
    old = chat(
        system(text), user("hi"), calls('{"city":"T"}'), tool_result("y" * 500), tools=[tool("a"), tool("b")]
    )
    new = copy.deepcopy(old)
    new["messages"][0]["content"] = text[:7000] + "!" + text[7000:]
    new["messages"][3]["content"] = "gone"
    new["messages"].append(user("more"))
    new["tools"].reverse()
    exact, blocks = compared(old, new).breakers, compared(old, new, text=False, marks=True).breakers
    assert [(b.change, b.path) for b in blocks] == [(b.change, b.path) for b in exact]
    for found, true in zip(blocks, exact, strict=True):
        assert true.offset - found.precision < found.offset <= true.offset
        assert found.equal_after <= true.equal_after
        assert found.old is None
    assert blocks[1].precision == 128  # of a section of 19 KB


def test_with_neither_text_nor_marks_the_section_is_named():
    old, new = chat(system("one"), user("a"), user("b")), chat(system("two"), user("a"), user("c"), user("d"))
    assert breaks(old, new, text=False) == ["edit system@0", "edit messages[2]@0"]
    assert all(b.precision > 1 or b.deleted == 1 for b in compared(old, new, text=False).breakers)


# Properties

words = st.text(st.sampled_from("ab é日😀\n"), max_size=12)
message = st.builds(
    lambda role, text: {"role": role, "content": text}, st.sampled_from(["user", "assistant"]), words
)
body = st.builds(
    lambda head, rest, names: chat(*([system(head)] if head else []), *rest, tools=[tool(n) for n in names]),
    words,
    st.lists(message, min_size=1, max_size=6),
    st.lists(st.sampled_from("abcd"), max_size=4, unique=True),
)


@given(words, words)
def test_the_offset_is_the_first_differing_byte_of_a_character(old, new):
    a, b = old.encode(), new.encode()
    offset, suffix = divergence(a, b)
    assert a[:offset] == b[:offset]
    a[:offset].decode()
    assert a == b or a[offset : offset + 4] != b[offset : offset + 4] or len(a) != len(b)
    assert old[: len(a[:offset].decode()) + 1] != new[: len(a[:offset].decode()) + 1] or a == b
    assert suffix <= min(len(a), len(b)) - offset
    assert a[len(a) - suffix :] == b[len(b) - suffix :]
    a[len(a) - suffix :].decode()


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_common_prefix_and_suffix_are_the_longest(a, b):
    prefix = common_prefix(a, b)
    assert a[:prefix] == b[:prefix]
    assert prefix == min(len(a), len(b)) or a[prefix] != b[prefix]
    limit = min(len(a), len(b)) - prefix
    suffix = common_suffix(a, b, limit)
    assert a[len(a) - suffix :] == b[len(b) - suffix :]
    assert suffix == limit or a[len(a) - suffix - 1] != b[len(b) - suffix - 1]


@settings(deadline=None, max_examples=60)
@given(body, st.lists(message, max_size=3))
def test_an_append_never_breaks(old, more):
    assert breaks(old, {**old, "messages": [*old["messages"], *more]}) == []


@settings(deadline=None, max_examples=60)
@given(body, body)
def test_breaks_are_found_exactly_where_normalised_chunks_differ(old, new):
    (before, _), (now, _) = understood(old), understood(new)
    a, b = [c.hash for c in before.chunks], [c.hash for c in now.chunks]
    found = compared(old, new).breakers
    if b[: len(a)] == a or a[: len(b)] == b:
        assert found == []
    else:
        assert found


@settings(deadline=None, max_examples=60)
@given(body, body)
def test_comparing_the_other_way_finds_the_same_sections_and_the_same_shared_head(old, new):
    one, two = compared(old, new), compared(new, old)
    assert (one.whole, one.head) == (two.whole, two.head)
    assert {b.section for b in one.breakers} - {"messages"} == {b.section for b in two.breakers} - {
        "messages"
    }


@settings(deadline=None, max_examples=60)
@given(body, body)
def test_each_break_is_ordered_and_its_figures_are_possible(old, new):
    found = compared(old, new).breakers
    now, _ = understood(new)
    total = sum(c.size for c in now.chunks)
    order = {"params": 0, "tools": 1, "system": 2, "messages": 3}
    assert [order[b.section] for b in found] == sorted(order[b.section] for b in found)
    for b in found:
        assert 0 <= b.equal_after <= total
        assert b.offset >= 0
        assert b.inserted >= 0
        assert b.deleted >= 0
        if b.change == "edit" and b.old is not None and b.new is not None:
            assert b.old != b.new
            assert b.old[: b.offset] == b.new[: b.offset]
            assert len(b.old) - b.deleted == len(b.new) - b.inserted


@settings(deadline=None, max_examples=60)
@given(body, st.integers(0, 5), words)
def test_equal_after_is_what_an_edit_leaves_equal_behind_it(old, at, text):
    messages, at = old["messages"], at % len(old["messages"])
    target = messages[at]
    if target["content"] == text:
        return
    edited = [*messages[:at], {**target, "content": text}, *messages[at + 1 :]]
    found = compared(old, {**old, "messages": edited}).breakers
    if len(found) != 1 or found[0].change != "edit":
        return
    a, b = target["content"].encode(), text.encode()
    _, suffix = divergence(a, b)
    behind = sum(len(m["content"].encode()) for m in messages[at + 1 :])
    assert found[0].equal_after == suffix + behind


def test_eight_megabytes_against_eight_megabytes():
    """A byte changed in the middle of a long prompt is found without looking at bytes one by one."""
    block = "0123456789abcdef" * 64
    text = block * 8192
    old = chat(system(text), user("x"))
    new = chat(system(text[: 4 << 20] + "X" + text[(4 << 20) + 1 :]), user("x"))
    found = only(old, new)
    assert found.offset == 4 << 20
    assert found.equal_after == (4 << 20) - 1 + len("x")
