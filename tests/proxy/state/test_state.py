"""What either state promises: the same tests run against Redis and against the in-process twin."""

import secrets

import msgspec
import pytest

from services.proxy.state import limits
from services.proxy.state.base import Marks, Settled
from services.proxy.state.local import LocalState
from services.proxy.state.redis import RedisState
from tests.support.queries import KEY, make_query

DAY = 86_400_000


class Alone(RedisState):
    """Redis without this process's own memory, so that only what it tells other processes is seen."""

    async def place(self, query):
        self._me = secrets.token_bytes(len(self._me))
        own, self.local = self.local, LocalState(self.local.max_bytes)
        try:
            return await super().place(query)
        finally:
            self.local = own
            await own.place(query)

    async def marks(self, request_id):
        own, self.local = self.local, LocalState(self.local.max_bytes)
        try:
            return await super().marks(request_id)
        finally:
            self.local = own


@pytest.fixture(params=["local", pytest.param("redis", marks=pytest.mark.process)])
async def make_state(request):
    states = []

    async def make(max_bytes=16 << 20):
        local = LocalState(max_bytes)
        if request.param == "local":
            return local
        server = request.getfixturevalue("valkey")
        state = Alone(server.url, KEY, local)
        states.append(state)
        await state.start()
        assert state.status()["mode"] == "redis"
        return state

    yield make
    for state in states:
        await state.close()


@pytest.fixture
async def state(make_state):
    return await make_state()


async def adopt(state, query, lineage=None):
    state.adopt(msgspec.structs.replace(query.node, lineage=lineage or query.node.id))
    await landed(state)


async def settle(state, query, marks=None, **more):
    settled = Settled(id=query.call.id, lineage="", ended=1, status="completed", **more)
    state.settle(query, settled, marks)
    await landed(state)


async def landed(state):
    """Background writes are in Redis."""
    if isinstance(state, RedisState):
        await state._connection.written(1.0)


def ids(sighting):
    return [past.node.id for past in sighting.candidates]


async def test_the_first_request_sees_nothing(state):
    sighting = await state.place(make_query())
    assert (sighting.system_seen, sighting.tools_seen, sighting.exact_seen) == (False, False, False)
    assert sighting.candidates == []
    assert sighting.calls == []


async def test_a_system_prompt_and_tools_are_seen_again_from_any_scope(state):
    await state.place(make_query(scope="one", tools="T"))
    sighting = await state.place(make_query(scope="two", tools="T", chunks=("sys", "other")))
    assert sighting.system_seen
    assert sighting.tools_seen
    assert not sighting.exact_seen
    assert sighting.candidates == []


async def test_shared_parts_are_counted_by_backend_and_model(state):
    await state.place(make_query(model="a", tools="T"))
    other_model = await state.place(make_query(model="b", tools="T"))
    other_backend = await state.place(make_query(model="a", tools="T", backend="else:2"))
    for sighting in (other_model, other_backend):
        assert not sighting.system_seen
        assert not sighting.tools_seen


async def test_shared_parts_stay_inside_a_tenant(state):
    await state.place(make_query(tenant="t1"))
    assert not (await state.place(make_query(tenant="t2"))).system_seen
    assert (await state.place(make_query(tenant="t1", scope="another"))).system_seen


async def test_a_system_prompt_seen_only_with_tools_is_not_seen_without(state):
    await state.place(make_query(tools="T"))
    bare = await state.place(make_query())
    assert bare.system_seen
    assert not bare.tools_seen
    again = await state.place(make_query())
    assert again.tools_seen


async def test_the_same_chain_is_exact_in_its_own_scope_only(state):
    await state.place(make_query(scope="a"))
    assert not (await state.place(make_query(scope="b"))).exact_seen
    assert (await state.place(make_query(scope="a"))).exact_seen


async def test_candidates_never_cross_scope_backend_or_model(state):
    mine = make_query()
    await state.place(mine)
    for stranger in ({"scope": "x"}, {"model": "x"}, {"backend": "x:1"}):
        assert ids(await state.place(make_query(**stranger))) == []
    assert ids(await state.place(make_query())) == [mine.node.id]


async def test_candidates_come_most_recent_first_with_what_became_of_them(state):
    first, second = make_query(), make_query(chunks=("sys", "hi", "more"))
    await state.place(first)
    await adopt(state, first)
    await settle(state, first, prompt_tokens=7)
    await state.place(second)
    await adopt(state, second, first.node.id)
    sighting = await state.place(make_query())
    assert ids(sighting) == [second.node.id, first.node.id]
    assert sighting.candidates[1].settled.prompt_tokens == 7
    assert sighting.candidates[0].settled is None
    assert {past.node.lineage for past in sighting.candidates} == {first.node.id}
    assert sighting.candidates[1].node == msgspec.structs.replace(first.node, lineage=first.node.id)


async def test_an_old_conversation_is_found_by_session_and_by_first_message_among_many(state):
    by_session = make_query(session="s", chunks=("sys", "a long time ago"))
    by_first = make_query(chunks=("sys", "once upon a time"))
    for query in (by_session, by_first):
        await state.place(query)
    for n in range(3 * limits.BY_RECENCY):
        await state.place(make_query(chunks=("sys", f"noise {n}")))
    assert by_session.node.id in ids(await state.place(make_query(session="s", chunks=("sys", "new"))))
    assert by_first.node.id in ids(await state.place(make_query(chunks=("sys", "once upon a time", "x"))))


async def test_equal_tools_are_found_among_many(state):
    query = make_query(tools="T", chunks=("other", "x"))
    await state.place(query)
    for n in range(3 * limits.BY_RECENCY):
        await state.place(make_query(chunks=("sys", f"noise {n}")))
    assert query.node.id in ids(await state.place(make_query(tools="T")))


async def test_placing_a_request_twice_does_not_make_it_its_own_candidate(state):
    query = make_query()
    await state.place(query)
    again = await state.place(query)
    assert ids(again) == []
    assert again.calls == []
    assert len(ids(await state.place(make_query()))) == 1


async def test_the_timeline_holds_every_kind_of_call_of_the_backend_in_order(state):
    chat, embed = make_query(scope="a"), make_query(scope="b", node=False, model="e")
    await state.place(chat)
    await state.place(embed)
    await adopt(state, chat)
    await settle(state, chat, cached_tokens=5)
    await state.place(make_query(backend="else:2"))
    calls = (await state.place(make_query(scope="c"))).calls
    assert [call.id for call, _ in calls] == [chat.call.id, embed.call.id]
    assert calls[0][0].lineage == chat.node.id
    assert calls[0][1].cached_tokens == 5
    assert calls[1][1] is None


async def test_the_timeline_is_bounded(state):
    queries = [make_query(node=False) for _ in range(limits.CALLS + 5)]
    for query in queries:
        sighting = await state.place(query)
    assert [call.id for call, _ in sighting.calls] == [q.call.id for q in queries[4:-1]]


async def test_marks_come_back_for_the_latest_requests_of_a_lineage(state):
    marks = Marks(sections=[(0, "system", "text", "", 5, b"d" * 8, b"", b"")])
    queries = [make_query(chunks=("sys", "hi", *map(str, range(n)))) for n in range(4)]
    for query in queries:
        await state.place(query)
        await adopt(state, query, queries[0].node.id)
        await settle(state, query, marks)
    kept = [await state.marks(query.node.id) == marks for query in queries]
    assert kept == [False] * 2 + [True] * limits.MARKED_PER_LINEAGE


async def test_a_lineage_keeps_its_latest_requests(state):
    queries = [make_query(chunks=("sys", "hi", *map(str, range(n))), session="s") for n in range(12)]
    for query in queries:
        await state.place(query)
        await adopt(state, query, queries[0].node.id)
    found = ids(await state.place(make_query(session="s")))
    assert found == [query.node.id for query in reversed(queries[-limits.PER_LINEAGE :])]


async def test_requests_expire(state):
    old, now = make_query(at=1_000_000_000_000), 1_000_000_000_000 + limits.TTL_S * 1000 + 1
    await state.place(old)
    await adopt(state, old)
    sighting = await state.place(make_query(at=now))
    assert sighting.candidates == []
    assert not sighting.exact_seen


async def test_the_oldest_requests_go_first_when_the_cap_is_reached(make_state):
    state = await make_state(1 << 20)
    queries = [
        make_query(session=f"s{n}", chunks=("sys", *(f"{n} {m}" for m in range(200)))) for n in range(400)
    ]
    for query in queries:
        await state.place(query)
        await adopt(state, query)
    first = await state.place(make_query(session="s0", chunks=("other", "x")))
    last = await state.place(make_query(session="s399", chunks=("other", "x")))
    assert queries[0].node.id not in ids(first)
    assert queries[-1].node.id in ids(last)


async def test_the_overview_lists_lineages_and_shared_parts_most_recent_first(state):
    one, two = (
        make_query(agent="hermes", tools="T"),
        make_query(scope="b", agent="pi", chunks=("sys", "yo"), tools="T"),
    )
    for query in (one, two):
        await state.place(query)
        await adopt(state, query)
    await settle(state, two)
    await state.place(make_query(chunks=("bare", "x")))
    overview = await state.overview(10)
    assert [live.past.node.id for live in overview.lineages] == [two.node.id, one.node.id]
    assert overview.lineages[0].past.settled.status == "completed"
    assert {(live.backend, live.model, live.requests) for live in overview.lineages} == {("engine:1", "m", 1)}
    parts = {part.hash: part for part in overview.shared}
    assert set(parts) == {"sys", "T", "bare"}
    assert parts["sys"].kind == "system"
    assert parts["sys"].count == 2
    assert parts["sys"].agents == {"hermes": 1, "pi": 1}
    assert (parts["T"].first_seen, parts["T"].last_seen) == (one.node.at, two.node.at)
    assert len((await state.overview(1)).lineages) == 1


async def test_agent_names_of_a_part_are_bounded(state):
    for n in range(60):
        await state.place(make_query(agent=f"agent-{n}"))
    shared = next(part for part in (await state.overview(5)).shared if part.kind == "system")
    assert shared.count == 60
    assert sum(shared.agents.values()) == 60
    assert len(shared.agents) <= limits.AGENTS + 5
