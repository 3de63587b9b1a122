"""Requests that come at once are read one a turn of the loop; one that is alone does not wait."""

import asyncio
import itertools

from services.proxy.chunking.turns import Turns


async def test_one_that_is_alone_goes_straight_on() -> None:
    turns = Turns()
    for _ in range(3):
        taking = turns.take()
        try:
            taking.send(None)
        except StopIteration:
            pass
        else:
            raise AssertionError("it waited")
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_several_go_one_a_turn_in_their_order() -> None:
    turns, loop = Turns(), asyncio.get_running_loop()
    seen: list[int | str] = []

    async def read(number: int) -> None:
        await turns.take()
        seen.append(number)

    def look() -> None:
        seen.append("sockets")
        if len(seen) < 20:
            loop.call_soon(look)

    loop.call_soon(look)
    await asyncio.gather(*[read(number) for number in range(4)])
    assert [entry for entry in seen if entry != "sockets"] == [0, 1, 2, 3]
    places = [seen.index(number) for number in range(4)]
    assert all("sockets" in seen[a:b] for a, b in itertools.pairwise(places))


async def test_one_that_leaves_holds_nobody_up() -> None:
    turns = Turns()
    await turns.take()
    waiting = [asyncio.create_task(turns.take()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait_for(asyncio.gather(*waiting[1:]), 5)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.wait_for(turns.take(), 5)
