"""Redis absent, hung, refusing, restarted: no request waits beyond its budget, and Redis is found again."""

import asyncio
import time

import msgspec
import pytest

from services.proxy.state import open_state
from services.proxy.state.local import LocalState
from services.proxy.state.redis import RedisState
from services.settings import Settings
from tests.support.faulty_redis import FaultyRedis
from tests.support.queries import KEY, make_query

pytestmark = pytest.mark.process

CONTRACT_S = 0.05
SLACK_S = 0.1  # a loaded test machine; what is tested is that no socket time limit is waited for


@pytest.fixture
async def make_state():
    states = []

    async def make(url):
        state = RedisState(url, KEY, LocalState(16 << 20))
        states.append(state)
        await state.start()
        return state

    yield make
    for state in states:
        await state.close()


async def back(state):
    async with asyncio.timeout(20):
        while state.status()["mode"] != "redis":  # noqa: ASYNC110 - seen from outside, as a user would
            await asyncio.sleep(0.02)


async def timed(state, query):
    began = time.perf_counter()
    sighting = await state.place(query)
    return time.perf_counter() - began, sighting


async def check_goes_on_alone(state):
    """Two requests in a row are answered in time from this process's own memory."""
    first = make_query(chunks=("own", "words"))
    took, _ = await timed(state, first)
    assert took < CONTRACT_S + SLACK_S
    assert state.status()["mode"] == "local"
    took, sighting = await timed(state, make_query(chunks=("own", "words", "more")))
    assert took < SLACK_S
    assert sighting.system_seen
    assert sighting.candidates[0].node.id == first.node.id


async def test_without_an_address_the_state_is_local():
    state = open_state(Settings(), KEY)
    assert isinstance(state, LocalState)
    assert state.status()["mode"] == "local"


async def test_redis_absent_at_start_is_found_when_it_comes(valkey, make_state):
    valkey.stop()
    state = await make_state(valkey.url)
    await check_goes_on_alone(state)
    valkey.start()
    await back(state)
    await state.place(make_query())


async def test_redis_stopped_and_restarted_without_its_data(valkey, make_state):
    state = await make_state(valkey.url)
    before = make_query(session="s")
    await state.place(before)
    valkey.client().flushall()
    valkey.stop()
    await check_goes_on_alone(state)
    valkey.start()
    await back(state)
    sighting = await state.place(make_query(session="s"))
    assert before.node.id in [past.node.id for past in sighting.candidates]
    assert sighting.system_seen


async def test_a_frozen_redis_delays_the_requests_that_meet_it_by_at_most_the_budget(valkey, make_state):
    state = await make_state(valkey.url)
    await state.place(make_query())
    valkey.freeze()
    took = await asyncio.gather(*(timed(state, make_query(session=str(n))) for n in range(50)))
    assert max(seconds for seconds, _ in took) < CONTRACT_S + SLACK_S
    await check_goes_on_alone(state)
    valkey.thaw()
    await back(state)


@pytest.mark.parametrize("mode", ["hang", "refuse", "slow", "loading"])
async def test_a_redis_that_misbehaves_on_the_wire(valkey, make_state, mode):
    async with FaultyRedis(valkey.port) as relay:
        state = await make_state(relay.url)
        assert state.status()["mode"] == "redis"
        relay.mode = mode
        if mode == "refuse":
            await state._connection.close()
        await check_goes_on_alone(state)
        relay.mode = "pass"
        await back(state)
        await state.close()


@pytest.mark.parametrize(
    ("commands", "undo"),
    [
        ([("REPLICAOF", "127.0.0.1", "1")], [("REPLICAOF", "NO", "ONE")]),
        ([("CONFIG", "SET", "maxmemory", "1")], [("CONFIG", "SET", "maxmemory", "0")]),
        ([("CONFIG", "SET", "requirepass", "x"), ("CLIENT", "KILL", "SKIPME", "yes")], []),
    ],
    ids=["READONLY", "OOM", "NOAUTH"],
)
async def test_a_redis_that_refuses_commands(valkey, make_state, commands, undo):
    state = await make_state(valkey.url)
    admin = valkey.client()
    for command in commands:
        admin.execute_command(*command)
    await check_goes_on_alone(state)
    await asyncio.sleep(0.6)  # probes do not take a refusing server for a healthy one
    assert state.status()["mode"] == "local"
    for command in undo or [("CONFIG", "SET", "requirepass", "")]:
        admin.execute_command(*command)
    admin.close()
    await back(state)


async def test_cancelled_requests_leave_no_reply_for_the_next(valkey, make_state):
    """Half of many requests are cancelled in the middle of a Redis read; no one sees another's answer."""
    async with FaultyRedis(valkey.port) as relay:
        state = await make_state(relay.url)
        known = [make_query(session=f"s{n}", chunks=("sys", f"first {n}")) for n in range(40)]
        for query in known:
            await state.place(query)
        state.local = LocalState(1 << 20)  # what comes back now is Redis's
        relay.delay_s = 0.01

        async def ask(n):
            return await state.place(make_query(scope=f"x{n}", session=f"s{n}", chunks=(f"sys {n}", "x")))

        tasks = [asyncio.create_task(ask(n)) for n in range(40)]
        await asyncio.sleep(0.005)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        relay.delay_s = 0
        await back(state)
        for n in range(40):
            state.local = LocalState(1 << 20)
            sighting = await state.place(make_query(session=f"s{n}", scope="scope", chunks=("other", "x")))
            if state.status()["mode"] == "redis":
                assert known[n].node.id in [past.node.id for past in sighting.candidates]
        await state.close()


async def test_two_processes_share_one_state(valkey, make_state):
    one, two = await make_state(valkey.url), await make_state(valkey.url)
    query = make_query(session="s", tools="T")
    await one.place(query)
    one.adopt(msgspec.structs.replace(query.node, lineage=query.node.id))
    await one._connection.written(1.0)
    sighting = await two.place(make_query(session="s", tools="T"))
    assert (sighting.system_seen, sighting.tools_seen, sighting.exact_seen) == (True, True, True)
    assert [past.node.lineage for past in sighting.candidates] == [query.node.id]


async def test_a_process_that_is_not_alone_tells_the_others_at_once(valkey, make_state):
    """Alone it lets what nobody waits for leave with its next command; then another one makes calls."""
    one, two = await make_state(valkey.url), await make_state(valkey.url)
    await one.place(make_query(session="a"))
    await one.place(make_query(session="a"))
    assert not one._connection.hurried
    await two.place(make_query(session="b"))
    await one.place(make_query(session="a"))
    assert one._connection.hurried


async def test_status_warns_of_another_installation_key(valkey, make_state):
    mine = await make_state(valkey.url)
    assert "warning" not in mine.status()
    stranger = RedisState(valkey.url, b"another key of thirty-two bytes!", LocalState(1 << 20))
    await stranger.start()
    assert "key" in stranger.status()["warning"]
    await stranger.close()


async def test_redis_holds_no_text_and_every_key_is_under_the_prefix(valkey, make_state):
    state = await make_state(valkey.url)
    for n in range(3):
        await state.place(make_query(session=f"s{n}", tools="T"))
    client = valkey.client()
    assert all(key.startswith(b"metalanchor:{state}:") for key in client.keys("*"))
    client.close()
