"""Work that may wait: in order, soon, piece by piece, and at once when somebody asks for it."""

import asyncio
from functools import partial

from services.proxy.later import DELAY_S, Later


async def test_work_is_done_in_order_a_moment_later() -> None:
    later, done = Later(), list[int]()
    for number in range(5):
        later.put(partial(done.append, number))
    assert done == []
    await asyncio.sleep(10 * DELAY_S)
    assert done == [0, 1, 2, 3, 4]
    assert len(later) == 0


async def test_other_callbacks_have_their_turn_between_two_pieces() -> None:
    """A loop that is busy with old work for long would hold up the first byte of an answer."""
    later, order, over = Later(), list[str](), asyncio.Event()
    later.put(partial(order.append, "work"))
    later.put(lambda: asyncio.get_running_loop().call_soon(order.append, "answer"))
    for _ in range(3):
        later.put(partial(order.append, "work"))
    later.put(over.set)
    await asyncio.wait_for(over.wait(), 5)
    assert order.index("answer") < len(order) - 1


async def test_flushing_leaves_nothing_and_later_work_is_still_done() -> None:
    later, done = Later(), list[int]()
    later.put(partial(done.append, 1))
    later.flush()
    assert done == [1]
    later.put(partial(done.append, 2))
    await asyncio.sleep(10 * DELAY_S)
    assert done == [1, 2]


async def test_a_piece_that_fails_does_not_stop_those_behind_it() -> None:
    later, done, failed = Later(), list[int](), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context["exception"]))
    later.put(partial(done.append, 1))
    later.put(partial(done.remove, 7))
    later.put(partial(done.append, 2))
    await asyncio.sleep(10 * DELAY_S)
    assert done == [1, 2]
    assert len(failed) == 1
