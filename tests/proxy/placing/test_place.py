"""Where a request stands: what it continues, what it shares, which break comes first, what may be reused."""

import copy

import pytest

from services.proxy.placing.place import query_of
from services.proxy.state.local import LocalState
from services.proxy.state.redis import RedisState
from tests.support.placing import Proxy, assistant, calls, seen, system, tool, tool_result, user
from tests.support.queries import KEY

RULES = "You are a careful assistant. " * 40


@pytest.fixture
def proxy():
    return Proxy()


@pytest.fixture
async def shared_states(valkey):
    states = [RedisState(valkey.url, KEY, LocalState(1 << 24)) for _ in range(2)]
    for state in states:
        await state.start()
    yield states
    for state in states:
        await state.close()


def turns(count):
    return [user(f"question {i}") if i % 2 == 0 else assistant(f"answer {i}") for i in range(count)]


def verdict(flow):
    return flow.verdict.relation, flow.verdict.hit


# The hits and relations of the contract


async def test_a_conversation_from_its_first_turn_on(proxy):
    first = await proxy.chat(system(RULES), user("hi"), tools=[tool("a")])
    assert verdict(first) == ("first", "none")
    assert first.verdict.parent is None
    second = await proxy.chat(system(RULES), user("hi"), assistant("yes"), user("go"), tools=[tool("a")])
    assert verdict(second) == ("append", "prefix")
    assert second.verdict.parent.node.id == first.id
    assert second.verdict.lineage == first.verdict.lineage
    assert second.verdict.breakers == []
    assert second.verdict.reused_chunks == 3
    assert len(second.prompt.chunks) == 5
    assert 0.9 < second.verdict.predicted_reuse < 1
    again = await proxy.chat(system(RULES), user("hi"), assistant("yes"), user("go"), tools=[tool("a")])
    assert verdict(again) == ("exact_repeat", "exact")
    assert again.verdict.predicted_reuse == 1.0
    assert again.verdict.parent.node.id == second.id


async def test_a_new_conversation_with_the_same_system_and_tools_is_a_fork(proxy):
    first = await proxy.chat(system(RULES), user("hi"), tools=[tool("a")])
    fork = await proxy.chat(system(RULES), user("other"), tools=[tool("a")])
    assert verdict(fork) == ("fork", "system+tools")
    assert fork.verdict.parent.node.id == first.id
    assert fork.verdict.lineage == fork.id
    assert fork.verdict.breakers == []
    assert fork.verdict.reused_chunks == 2
    assert fork.verdict.predicted_reuse > 0.9


async def test_a_conversation_whose_tools_became_those_of_another_one_hits_what_that_one_warmed(proxy):
    """A head that is only known from other conversations is no `prefix` of this one."""
    await proxy.chat(system(RULES), user("hi"), tools=[tool("a"), tool("b")])
    await proxy.chat(system(RULES), user("other"), tools=[tool("a"), tool("c")])
    changed = await proxy.chat(system(RULES), user("hi"), tools=[tool("a"), tool("c")])
    assert verdict(changed) == ("rewrite", "system+tools")
    assert changed.verdict.predicted_reuse > 0.9
    assert changed.verdict.breakers[0].path == "tools[1]"


async def test_partly_equal_heads(proxy):
    await proxy.chat(system(RULES), user("hi"), tools=[tool("a")])
    only_system = await proxy.chat(system(RULES), user("x"), tools=[tool("b")])
    assert verdict(only_system) == ("first", "system_only")
    only_tools = await proxy.chat(system("Something else."), user("y"), tools=[tool("a")])
    assert verdict(only_tools) == ("first", "tools_only")
    no_system = await proxy.chat(user("z"), tools=[tool("a")])
    assert verdict(no_system) == ("first", "tools_only")
    nothing = await proxy.chat(system("Quite different."), user("w"), tools=[tool("c")])
    assert verdict(nothing) == ("first", "none")
    assert nothing.verdict.parent is None


async def test_a_system_prompt_without_tools_counts_with_no_tools(proxy):
    await proxy.chat(system(RULES), user("hi"))
    assert (await proxy.chat(system(RULES), user("other"))).verdict.hit == "system+tools"
    assert (await proxy.chat(system(RULES), user("more"), tools=[tool("a")])).verdict.hit == "system_only"


async def test_neither_system_nor_tools_share_nothing(proxy):
    await proxy.chat(user("one thing"))
    flow = await proxy.chat(user("another thing"))
    assert verdict(flow) == ("first", "none")
    assert flow.verdict.parent is None


async def test_another_model_shares_nothing(proxy):
    await proxy.chat(system(RULES), user("hi"), tools=[tool("a")])
    flow = await proxy.send({"model": "n", "messages": [system(RULES), user("yo")], "tools": [tool("a")]})
    assert verdict(flow) == ("first", "none")


async def test_nothing_but_shared_heads_crosses_a_scope(proxy):
    body = {"model": "m", "messages": [system(RULES), user("hi")], "tools": [tool("a")]}
    await proxy.send(body, {"Authorization": "Bearer a"})
    flow = await proxy.send(body, {"Authorization": "Bearer b"})
    assert verdict(flow) == ("first", "system+tools")
    assert flow.verdict.parent is None
    assert flow.verdict.reused_chunks == 2


async def test_shared_heads_stay_inside_a_tenant_once_there_are_tenants():
    proxy = Proxy(tenant_header="X-Team")
    body = {"model": "m", "messages": [system(RULES), user("hi")]}
    await proxy.send(body, {"X-Team": "red"})
    assert (await proxy.send(body, {"X-Team": "blue"})).verdict.hit == "none"
    assert (await proxy.send(body)).verdict.hit == "none"
    assert (await proxy.send(body, {"X-Team": "red"})).verdict.hit == "exact"


async def test_a_lineage_stands_in_for_a_session(proxy):
    first = await proxy.chat(user("hi"))
    second = await proxy.chat(user("hi"), assistant("a"), user("b"))
    assert first.identity.session == second.identity.session == first.verdict.lineage
    assert second.identity.session_source == "lineage"
    named = await proxy.chat(user("hello"), session="mine")
    assert (named.identity.session, named.identity.session_source) == ("mine", "x-metalanchor-session")


# Which lineage is continued


async def test_an_outlier_is_named_and_the_best_ancestor_is_compared_with(proxy):
    """Tools vanish for one request and come back: what the engine cached before may still be there."""
    history = [user("use mcp_x please"), assistant("calling"), user("go on")]
    both, one = [tool("read"), tool("mcp_x")], [tool("read")]
    first = await proxy.chat(*history, tools=both)
    outlier = await proxy.chat(history[0], assistant("[tool gone]"), history[2], tools=one)
    assert outlier.verdict.relation == "rewrite"
    assert seen(outlier) == ["removed tools[1]@0", "edit messages[1]@0"]
    back = await proxy.chat(*history, assistant("x"), user("y"), tools=both)
    assert verdict(back) == ("append", "prefix")
    assert back.verdict.parent.node.id == first.id
    assert back.verdict.intervening == outlier.id


async def test_a_rewrite_is_compared_with_the_latest_request_not_with_an_earlier_one_it_still_contains(proxy):
    await proxy.chat(user("w"))
    latest = await proxy.chat(user("w"), calls('{"city":"T","unit":"c"}'), tool_result("20"))
    flow = await proxy.chat(
        user("w"), calls('{"unit":"c","city":"T"}'), tool_result("20"), assistant("k"), user("t")
    )
    assert flow.verdict.parent.node.id == latest.id
    assert seen(flow) == ["edit messages[1].tool_calls[0].arguments@2"]
    assert flow.verdict.relation == "rewrite"


async def test_a_clock_that_changes_every_turn_is_compared_with_the_turn_before(proxy):
    ids = []
    for n in range(3):
        flow = await proxy.chat(system(f"Now 10:4{n}\n" + RULES), *turns(1 + 2 * n))
        ids.append(flow.id)
    assert flow.verdict.parent.node.id == ids[1]
    assert seen(flow) == ["edit system@8"]
    assert flow.verdict.hit == "none"
    assert flow.verdict.breakers[0].equal_after > len(RULES)


async def test_a_pruned_history_is_continued_although_most_of_its_bytes_went(proxy):
    history = turns(12)
    history[3] = tool_result("x" * 4000)
    await proxy.chat(*history)
    history[3] = tool_result("[tool output removed]")
    flow = await proxy.chat(*history, assistant("n"), user("m"))
    assert flow.verdict.relation == "rewrite"
    assert seen(flow) == ["edit messages[3]@0"]


async def test_a_compacted_session_is_continued(proxy):
    await proxy.chat(system(RULES), *turns(21), session="s", tools=[tool("a")])
    flow = await proxy.chat(system(RULES), user("A summary"), user("go"), session="s", tools=[tool("a")])
    assert flow.verdict.relation == "rewrite"
    assert flow.verdict.breakers[0].path == "messages[1]"


async def test_a_compaction_that_keeps_the_tail_is_continued_without_an_id(proxy):
    history = turns(21)
    await proxy.chat(system(RULES), *history)
    flow = await proxy.chat(system(RULES), user("A summary"), *history[8:], assistant("x"), user("y"))
    assert flow.verdict.relation == "rewrite"


async def test_a_first_message_that_lost_its_end_is_still_the_same_conversation(proxy):
    await proxy.chat(system(RULES), user("ask me\n\n"))
    flow = await proxy.chat(system(RULES), user("ask me"), assistant("ok"), user("b\n\n"))
    assert seen(flow) == ["edit messages[1]@6"]
    assert flow.verdict.relation == "rewrite"


async def test_a_reminder_that_moves_to_the_newest_message_is_found(proxy):
    reminder = {"type": "text", "text": "<reminder>today</reminder>"}
    ask = {"type": "text", "text": "do the thing with the long text"}
    await proxy.chat(system(RULES), user([reminder, ask]))
    flow = await proxy.chat(
        system(RULES), user([ask]), assistant("ok"), user([reminder, {"type": "text", "text": "x"}])
    )
    assert seen(flow) == ["removed messages[1]@0"]


async def test_a_title_request_of_the_same_session_is_not_a_turn_of_it(proxy):
    chat = await proxy.chat(system(RULES), user("u1"), session="s", tools=[tool("a")])
    title = await proxy.chat(user("Create a 3 word title for: u1"), session="s", max_tokens=20)
    assert verdict(title) == ("first", "none")
    assert title.verdict.lineage != chat.verdict.lineage
    assert title.verdict.breakers == []
    turn = await proxy.chat(
        system(RULES), user("u1"), assistant("a1"), user("u2"), session="s", tools=[tool("a")]
    )
    assert verdict(turn) == ("append", "prefix")
    assert turn.verdict.parent.node.id == chat.id
    assert turn.verdict.intervening is None


async def test_sub_agents_with_equal_bodies_stay_apart(proxy):
    bodies = [[user("same task")], [user("same task"), assistant("a"), user("b")]]
    one = await proxy.send({"model": "m", "messages": bodies[0]}, {"x-claude-code-agent-id": "1"})
    two = await proxy.send({"model": "m", "messages": bodies[0]}, {"x-claude-code-agent-id": "2"})
    assert two.verdict.hit == "exact"
    assert two.verdict.lineage != one.verdict.lineage
    turn = await proxy.send({"model": "m", "messages": bodies[1]}, {"x-claude-code-agent-id": "1"})
    assert turn.verdict.parent.node.id == one.id
    assert turn.verdict.lineage == one.verdict.lineage


async def test_a_sub_agent_that_shares_the_head_is_a_fork_even_under_its_parents_cache_key(proxy):
    main = await proxy.chat(system(RULES), user("main task"), prompt_cache_key="k", tools=[tool("a")])
    child = await proxy.chat(system(RULES), user("side task"), prompt_cache_key="k", tools=[tool("a")])
    assert child.verdict.relation == "fork"
    assert child.verdict.lineage != main.verdict.lineage


async def test_another_process_of_the_same_agent_continues_by_content(proxy):
    first = await proxy.send({"model": "m", "messages": turns(3)}, {"User-Agent": "hermes-agent/1"})
    flow = await proxy.send({"model": "m", "messages": turns(5)}, {"User-Agent": "opencode/1"})
    assert verdict(flow) == ("append", "prefix")
    assert flow.verdict.parent.node.id == first.id


async def test_of_two_branches_the_one_that_holds_more_is_continued(proxy):
    long = await proxy.chat(*turns(9))
    await proxy.chat(*turns(3), assistant("elsewhere"), user("there"))
    flow = await proxy.chat(*turns(11))
    assert flow.verdict.parent.node.id == long.id


async def test_a_rewound_conversation_breaks_nothing(proxy):
    await proxy.chat(*turns(9))
    flow = await proxy.chat(*turns(5))
    assert flow.verdict.relation == "rewrite"
    assert flow.verdict.hit == "prefix"
    assert flow.verdict.breakers == []
    assert flow.verdict.predicted_reuse == 1.0


async def test_an_edited_system_of_a_new_conversation_lists_what_the_shared_head_lost(proxy):
    await proxy.chat(system(RULES + "Project: one"), user("hi"), tools=[tool("a")])
    flow = await proxy.chat(system(RULES + "Project: two"), user("hello"), tools=[tool("a")])
    assert verdict(flow) == ("first", "tools_only")
    assert seen(flow) == [f"edit system@{len(RULES) + len('Project: ')}"]
    assert flow.verdict.lineage == flow.id
    assert 0.8 < flow.verdict.predicted_reuse < 1


# Model switch


async def test_a_switched_model_starts_a_lineage_and_switching_back_finds_the_old_one(proxy):
    def body(model, *more, word="word"):
        return {"model": model, "messages": [system(RULES + word), user("hi"), *more]}

    first = await proxy.send(body("m1"))
    switched = await proxy.send(body("m2"))
    assert verdict(switched) == ("first", "none")
    assert switched.verdict.parent is None
    (breaker,) = switched.verdict.breakers
    assert (breaker.path, breaker.change, breaker.offset) == ("model", "model", 0)
    assert breaker.detail == {"from": "m1", "to": "m2", "previous": first.id}
    back = await proxy.send(body("m1", assistant("a"), user("b"), word="wort"))
    assert back.verdict.parent.node.id == first.id
    assert seen(back) == [f"edit system@{len(RULES) + 3}"]


async def test_a_common_greeting_to_another_model_is_no_switch(proxy):
    await proxy.send({"model": "m1", "messages": [user("hi")]})
    flow = await proxy.send({"model": "m2", "messages": [user("hi")]})
    assert flow.verdict.breakers == []
    other = await proxy.send({"model": "m3", "messages": [system("Else"), user("hi")]})
    assert other.verdict.breakers == []


async def test_a_title_by_another_model_is_no_switch(proxy):
    await proxy.chat(system(RULES), user("u1"), session="s")
    title = {"model": "small", "messages": [user("Generate a concise title for this chat: u1")]}
    flow = await proxy.send(title, {"X-MetalAnchor-Session": "s"})
    assert flow.verdict.breakers == []


# Params


async def test_changed_params_are_listed_but_not_held_against_reuse(proxy):
    await proxy.chat(system(RULES), user("hi"), reasoning_effort="low")
    flow = await proxy.chat(system(RULES), user("hi"), assistant("a"), user("b"), reasoning_effort="high")
    assert seen(flow) == ["edit params.reasoning_effort@0"]
    assert verdict(flow) == ("append", "prefix")
    assert flow.verdict.predicted_reuse > 0.9
    assert flow.verdict.reused_chunks == 2


# One text


async def test_a_completion_that_goes_on_is_an_append(proxy):
    path = "/api/generate"
    first = await proxy.send({"model": "m", "prompt": "Once upon a time"}, path=path)
    assert verdict(first) == ("first", "none")
    more = await proxy.send({"model": "m", "prompt": "Once upon a time there was"}, path=path)
    assert verdict(more) == ("append", "prefix")
    assert more.verdict.predicted_reuse == pytest.approx(16 / 26, abs=0.1)
    other = await proxy.send({"model": "m", "prompt": "Something else entirely"}, path=path)
    assert verdict(other) == ("first", "none")


# Prediction


async def test_the_prediction_reaches_into_the_diverging_chunk(proxy):
    await proxy.chat(system("a" * 1000), user("hi"))
    flow = await proxy.chat(system("a" * 500 + "b" + "a" * 499), user("hi"), assistant("x"))
    assert flow.verdict.predicted_reuse == pytest.approx(0.5, abs=0.01)
    assert flow.verdict.reused_chunks == 0
    assert flow.verdict.hit == "none"


async def test_a_conversation_kept_for_over_half_of_a_chunk_that_broke_late_is_a_prefix(proxy):
    """As an agent's does whose system prompt ends with the date: what it reuses is no `none`."""
    await proxy.chat(system(RULES + "Today is Mon 30 Nov"), user("hi"))
    flow = await proxy.chat(system(RULES + "Today is Tue 1 Dec"), user("hi"), assistant("x"), user("go"))
    assert flow.verdict.predicted_reuse > 0.9
    assert verdict(flow) == ("rewrite", "prefix")


async def test_predictions_use_the_learnt_ratio(proxy):
    flow = await proxy.chat(user("word " * 1000))
    proxy.estimator.learn("engine:1 m", flow.prompt, 2500)
    again = await proxy.chat(user("word " * 1000), assistant("y"))
    assert again.verdict.prompt_estimate == pytest.approx(2500, rel=0.05)
    assert again.verdict.predicted_tokens == pytest.approx(2500, rel=0.05)


# Without text, and with others


async def test_without_text_the_same_verdicts_come_with_offsets_to_a_block():
    blind = Proxy(keep_text=False)
    text = "".join(f"rule {n}\n" for n in range(400))
    await blind.chat(system(text), user("hi"), tools=[tool("a")])
    changed = text[:1000] + "#" + text[1001:]
    flow = await blind.chat(system(changed), user("hi"), assistant("x"), user("y"), tools=[tool("a")])
    (breaker,) = flow.verdict.breakers
    assert breaker.path == "system"
    assert breaker.precision == 64
    assert 1000 - 64 < breaker.offset <= 1000
    assert breaker.old is None
    assert len(blind.texts) == 0


async def test_two_processes_with_one_state_judge_as_one(proxy):
    other = Proxy(proxy.state)
    history = [system(RULES), *turns(3)]
    first = await proxy.chat(*history, tools=[tool("a")])
    flow = await other.chat(*history, assistant("x"), user("y"), tools=[tool("a")])
    assert verdict(flow) == ("append", "prefix")
    assert flow.verdict.parent.node.id == first.id


@pytest.mark.process
async def test_two_processes_with_one_redis_find_a_break_to_within_a_block(valkey, shared_states):
    """The second process never saw the text: it compares with the block digests that the first one left."""
    one, two = (Proxy(state, redis_url=valkey.url) for state in shared_states)
    text = "".join(f"rule {n}\n" for n in range(400))
    first = await one.chat(system(text), user("hi"), tools=[tool("a"), tool("b")])
    await shared_states[0]._connection.written(1.0)
    changed = text[:1000] + "#" + text[1001:]
    flow = await two.chat(system(changed), user("hi"), assistant("x"), tools=[tool("b"), tool("a")])
    assert flow.verdict.parent.node.id == first.id
    assert flow.verdict.lineage == first.verdict.lineage
    reorder, edit = flow.verdict.breakers
    assert (reorder.change, reorder.names) == ("reorder", ("b",))
    assert (edit.path, edit.precision) == ("system", 64)
    assert 1000 - 64 < edit.offset <= 1000
    assert edit.equal_after > len(text) - 1000 - 2 * 64
    again = await two.chat(system(text), user("hi"), tools=[tool("a"), tool("b")])
    assert verdict(again) == ("exact_repeat", "exact")
    with valkey.client() as client:
        dump = b"".join(client.dump(key) for key in client.keys("*"))
    assert b"rule 1" not in dump


async def test_every_call_is_in_the_timeline_and_only_generations_are_compared_with(proxy):
    flow = proxy.read({"model": "m", "messages": [user("hi")]})
    assert query_of(flow, proxy.settings, proxy.estimator).node is not None
    await proxy.chat(user("hi"))
    load = proxy.read({"model": "m", "keep_alive": "10m"}, path="/api/generate")
    query = query_of(load, proxy.settings, proxy.estimator)
    assert query.node is None
    assert query.call.kind == "load"
    assert query.call.keep_alive_s == 600


@pytest.mark.parametrize(
    ("messages", "more", "side"),
    [
        ([user("Create a 3 word title for: u1/a1")], {"max_tokens": 20}, True),
        ([system("You are a title generator. You output ONLY a thread title."), user("x" * 3000)], {}, True),
        (
            [user("### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history")],
            {},
            True,
        ),
        ([user("Suggest 3-5 relevant follow-up questions the user might ask")], {}, True),
        ([user("请为这段对话生成一个简短的标题")], {}, True),
        ([user("label this")], {"max_tokens": 8}, True),
        ([user("What is the capital of France?")], {}, False),
        ([system(RULES), user("hi")], {"max_tokens": 8}, False),
        ([user("Create a title for: u1")], {"tools": [tool("a")]}, False),
        (turns(5), {"max_tokens": 8}, False),
    ],
)
def test_side_requests_are_told_from_turns(proxy, messages, more, side):
    flow = proxy.read({"model": "m", "messages": messages, **more})
    assert query_of(flow, proxy.settings, proxy.estimator).call.side is side


async def test_a_request_never_changes_what_earlier_ones_were(proxy):
    """Verdicts are values: placing more requests changes none that was given."""
    first = await proxy.chat(system(RULES), user("hi"))
    before = copy.deepcopy(first.verdict)
    await proxy.chat(system(RULES), user("hi"), assistant("a"))
    assert first.verdict == before


async def test_the_state_may_be_as_small_as_it_likes():
    proxy = Proxy(LocalState(1))
    for n in range(5):
        await proxy.chat(system(RULES), *turns(1 + 2 * n))
    assert (await proxy.chat(system(RULES), *turns(11))).verdict.relation in {"append", "first"}
