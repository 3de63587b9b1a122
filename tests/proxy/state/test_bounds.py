"""How much state takes: a thousand live conversations of 100 KB each fit the default cap."""

import hashlib
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from services.ids import new_id
from services.proxy.placing.marks import Marker
from services.proxy.prompt import Section
from services.proxy.state import layout
from services.proxy.state.base import Call, Marks, Node, Query, Settled
from services.proxy.state.local import LocalState
from services.settings import Settings
from tests.support.queries import KEY

LINEAGES, MESSAGES, TURNS = 1000, 100, 3
TEXT = "word " * 200  # 1,000 bytes a message


def turn(lineage: int, number: int) -> Query:
    """Turn `number` of a conversation of its own, that long and two messages a turn longer."""
    count = MESSAGES + 2 * number
    request_id, at = new_id(), 1_800_000_000_000 + lineage + number
    hashes = [hashlib.sha1(f"{lineage} {i}".encode()).digest()[:12] for i in range(count)]
    digest = hashlib.sha1(f"{lineage} {number}".encode()).hexdigest()
    node = Node(
        id=request_id, at=at, scope="a" * 32, lineage="", session=f"session-{lineage}", agent="hermes",
        system=digest, tools=digest, params=None, first=hashes[0].hex(), request=digest, raw=digest,
        kinds="ts" + "m" * (count - 2), roles="-s" + "ua" * (count // 2 - 1), chunks=b"".join(hashes),
        sizes=(1000,) * count, estimate=25_000, stream=True, dialect="openai_chat",
    )  # fmt: skip
    call = Call(id=request_id, at=at, kind="generation", scope=node.scope, model="m", session=node.session)
    return Query(
        scope=node.scope, group="engine:1\x1fm", backend="engine:1", tenant=None, node=node, call=call
    )


MARKS = Marks(sections=[(i, *Marker(KEY).mark(Section("", "text", TEXT.encode()))) for i in range(MESSAGES)])


def settled(query: Query) -> Settled:
    return Settled(
        id=query.call.id, lineage=query.node.lineage, ended=1, status="completed", prompt_tokens=25_000
    )


@pytest.mark.process
def test_redis_stays_under_the_cap_by_its_own_count_and_keeps_every_lineage(valkey):
    client, cap = valkey.client(), Settings().state_max_bytes
    script = client.register_script(Path(layout.__file__).with_name("script.lua").read_bytes())
    empty = client.info("memory")["used_memory_dataset"]
    lineages = [""] * LINEAGES
    for number in range(TURNS):
        for n in range(LINEAGES):
            query = turn(n, number)
            script(keys=[layout.BASE], args=layout.place(query, b"self", cap))
            lineages[n] = lineages[n] or query.node.id
            node = msgspec.structs.replace(query.node, lineage=lineages[n])
            script(keys=[layout.BASE], args=layout.adopt(node, b"self", "engine:1"))
            script(keys=[layout.BASE], args=layout.settle(query, b"self", settled(query), MARKS, cap))
    used = client.info("memory")["used_memory_dataset"] - empty
    counted = int(client.get(layout.BASE + b"bytes"))
    reply = script(keys=[layout.BASE], args=[b"overview", 2 * LINEAGES])
    assert used < cap
    assert used < 1.25 * counted + (8 << 20)
    assert len(layout.overview(reply).lineages) == LINEAGES
    client.close()


async def test_this_process_keeps_its_own_memory_under_the_cap():
    cap = 8 << 20
    state = LocalState(cap)
    tracemalloc.start()
    try:
        for n in range(1500):
            query = turn(n, n % 3)
            await state.place(query)
            state.adopt(msgspec.structs.replace(query.node, lineage=query.node.id))
            state.settle(query, settled(query), MARKS)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert state.status()["requests"] > 100
    assert used < cap
