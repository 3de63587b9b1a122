"""The store keeps answers in Redis: bounded, checked, and gone at once when they are to be gone."""

import asyncio

import pytest

from services.proxy.answers.base import Selector
from services.proxy.answers.store import BASE, RedisStore
from services.proxy.state.client import Client
from tests.proxy.answers.conftest import key, make_answer

pytestmark = pytest.mark.process


async def test_an_answer_comes_back_as_it_was_put(shelf):
    """Bytes, pieces, headers and what is known of it."""
    stored = make_answer("Paris.", tags=("geo",))
    stored.pieces = [b"data: 1\n\n", b"data: 2\n\n"]
    stored.headers = [(b"content-type", b"text/event-stream")]
    assert await shelf.get(1) is None
    assert await shelf.put(1, stored)
    assert await shelf.get(1) == stored
    assert await shelf.get(2) is None


async def test_another_process_reads_what_one_wrote(shelf, make_shelf):
    """Nothing of it is in a process's memory."""
    await shelf.put(1, make_answer())
    other = await make_shelf()
    assert (await other.get(1)).body == b"Paris."


async def test_an_answer_ends_with_its_time_and_leaves_nothing(shelf, valkey):
    """The text goes by Redis itself, the rest when it is next looked for."""
    await shelf.put(1, make_answer(), ttl_s=0.05)
    await shelf.put(2, make_answer())
    await asyncio.sleep(0.1)
    with valkey.client() as client:
        assert len([name for name in client.keys("*:v:*") if client.exists(name)]) == 1
    await shelf.store._reap()
    assert await shelf.held(1, 2) == [2]
    told = await shelf.store.stats()
    assert (told.entries, told.expired) == (1, 1)


async def test_all_keys_share_one_slot_and_a_dropped_cache_leaves_only_its_books(shelf, valkey):
    """Every index, set and value of an entry goes with it."""
    for number in range(20):
        await shelf.put(number, make_answer(f"text {number}", tags=(f"t{number}", "all"), question="why"))
    with valkey.client() as client:
        names = [name for name in client.keys("*") if b"{state}" not in name]
        assert all(name.startswith(BASE) for name in names)
        await shelf.store.invalidate(Selector(everything=True), dry_run=False)
        left = {name.removeprefix(BASE) for name in client.keys("*") if b"{state}" not in name}
        assert left <= {b"stats", b"versions"}
        assert int(client.hget(BASE + b"stats", "bytes")) == 0


@pytest.mark.parametrize(
    ("selector", "gone"),
    [
        (Selector(model="m2"), [2, 3]),
        (Selector(tag="geo"), [1, 3]),
        (Selector(tag="geo", model="m2"), [3]),
        (Selector(scope="s2"), [4]),
        (Selector(backend="b:2"), [5]),
        (Selector(namespace="beta"), [6]),
        (Selector(keyword="Lyon"), [2]),
        (Selector(keyword="lyon MARSEILLE"), []),
        (Selector(keyword="capital france", model="m2"), [2, 3]),
        (Selector(keyword="股价"), [7]),
        (Selector(keyword="价"), [7]),
        (Selector(keyword="果价"), []),
        (Selector(key=key(5)), [5]),
        (Selector(key=key(5), model="m2"), []),
        (Selector(older_than_s=3600), []),
        (Selector(older_than_s=0), [1, 2, 3, 4, 5, 6, 7]),
        (Selector(older_than_s=0, tag="geo"), [1, 3]),
        (Selector(everything=True), [1, 2, 3, 4, 5, 6, 7]),
    ],
    ids=lambda value: str(value) if isinstance(value, Selector) else "",
)
async def test_what_is_selected_goes_and_the_rest_stays(shelf, selector, gone):
    """A dry run counts the same and drops nothing."""
    told = []
    shelf.store.on_drop(told.extend)
    await shelf.put(1, make_answer("Paris", tags=("geo",)))
    await shelf.put(2, make_answer("Lyon", model="m2"))
    await shelf.put(3, make_answer("Nice", model="m2", tags=("geo", "sea")))
    await shelf.put(4, make_answer("Rome", scope="s2"))
    await shelf.put(5, make_answer("Bonn", backend="b:2"))
    await shelf.put(6, make_answer("Bern", namespace="beta"))
    await shelf.put(7, make_answer("很高", question="苹果股价如何"))
    numbers = range(1, 8)
    assert (await shelf.store.invalidate(selector, dry_run=True)).count == len(gone)
    assert await shelf.held(*numbers) == list(numbers)
    assert (await shelf.store.invalidate(selector, dry_run=False)).count == len(gone)
    assert await shelf.held(*numbers) == [number for number in numbers if number not in gone]
    assert sorted(told) == [key(number) for number in gone]


async def test_a_selector_that_selects_nothing_is_refused(shelf):
    """An empty one must not mean everything."""
    for selector in (
        Selector(),
        Selector(everything=True, tag="t"),
        Selector(keyword="?!"),
        Selector(key="x"),
    ):
        with pytest.raises(ValueError, match=r"\."):
            await shelf.store.invalidate(selector, dry_run=False)


async def test_an_answer_asked_for_before_an_invalidation_is_not_kept_after_it(shelf):
    """The backend may have answered from what has changed since."""
    before = await shelf.store.get(key(1))
    await shelf.store.invalidate(Selector(namespace="other"), dry_run=False)
    assert not await shelf.store.put(key(1), make_answer(), 60.0, [], before.turn)
    assert await shelf.put(1, make_answer())


async def test_what_is_dropped_is_not_served_while_it_is_still_there(shelf, valkey):
    """The effect does not wait for the steps in which entries go."""
    for number in range(5):
        await shelf.put(number, make_answer(tags=("geo",) if number % 2 else ()))
    shelf.store._reap = _nothing
    await shelf.store.invalidate(Selector(tag="geo"), dry_run=False)
    with valkey.client() as client:
        assert len(client.keys("*:v:*")) == 5
    assert await shelf.held(*range(5)) == [0, 2, 4]
    await shelf.put(1, make_answer())
    assert await shelf.held(*range(5)) == [0, 1, 2, 4]
    del shelf.store._reap
    await shelf.store._reap()
    assert await shelf.held(*range(5)) == [0, 1, 2, 4]


async def _nothing():
    pass


async def test_the_least_recently_used_goes_first_when_there_is_too_much(make_shelf):
    """A hit counts as use; what is over an eighth of the cap is not taken."""
    shelf = await make_shelf(max_bytes=24_000)
    for number in range(20):
        await shelf.put(number, make_answer(f"{number}"))
        await shelf.get(0)
        await asyncio.sleep(0.002)
    told = await shelf.store.stats()
    assert told.bytes <= 24_000
    assert told.evicted == 20 - told.entries > 0
    assert await shelf.held(0, 1, 19) == [0, 19]
    assert not await shelf.put(99, make_answer("".join(chr(33 + i * 7919 % 8000) for i in range(4000))))


async def test_a_value_that_is_not_this_keys_own_is_no_answer(shelf, valkey):
    """Swapped, cut, or written with another installation's key."""
    for number in (1, 2, 3):
        await shelf.put(number, make_answer(str(number)))
    with valkey.client() as client:
        first, second, third = sorted(client.keys("*:v:*"))
        client.set(first, client.get(second))
        client.set(second, client.get(second)[:-1])
        stranger = RedisStore(Client(valkey.url, _nothing), b"o" * 32, 1 << 20)
        assert await shelf.held(1, 2, 3) == [3]
        stranger._client = shelf.state.client
        assert (await stranger.get(key(3))).stored is None
        client.delete(third)
    assert await shelf.held(1, 2, 3) == []


async def test_putting_again_replaces(shelf):
    """One key has one answer, for as long as it was put last."""
    await shelf.put(1, make_answer("old", tags=("a",)), ttl_s=0.3)
    await shelf.put(1, make_answer("new", tags=("b",)))
    assert (await shelf.store.invalidate(Selector(tag="a"), dry_run=True)).count == 0
    await asyncio.sleep(0.35)
    assert (await shelf.get(1)).body == b"new"
    assert (await shelf.store.stats()).entries == 1


async def test_entries_are_listed_newest_first_in_pages(shelf):
    """Each once, with its hits."""
    for number in range(5):
        await shelf.put(number, make_answer(str(number), question=f"question {number}"))
    await shelf.get(4)
    await shelf.get(4)
    seen, cursor = [], None
    while True:
        page = await shelf.store.list(cursor, 2)
        seen += page.items
        cursor = page.next
        if cursor is None:
            break
    assert [entry.about.question for entry in seen] == [f"question {n}" for n in (4, 3, 2, 1, 0)]
    assert [entry.hits for entry in seen] == [2, 0, 0, 0, 0]
    assert all(entry.created < entry.expires for entry in seen)
    with pytest.raises(ValueError, match="invalid"):
        await shelf.store.list("x")


async def test_hits_and_what_they_save_are_counted(shelf):
    """By the tokens and milliseconds of the original."""
    await shelf.put(1, make_answer(prompt_tokens=100, completion_tokens=None, total_ms=1500.4))
    for number in (1, 1, 2):
        await shelf.get(number)
    told = await shelf.store.stats()
    assert (told.hits, told.misses, told.stored) == (2, 1, 1)
    assert (told.saved_tokens, told.saved_ms) == (200, 3000)


async def test_nothing_walks_through_all_keys(shelf, valkey):
    """Whatever is asked, the work is that of what is found."""
    for number in range(50):
        await shelf.put(number, make_answer(str(number), tags=("t",) if number < 5 else ()))
    with valkey.client() as client:
        client.config_resetstat()
        for selector in (Selector(tag="t"), Selector(keyword="capital", tag="t"), Selector(older_than_s=1e6)):
            await shelf.store.invalidate(selector, dry_run=True)
        await shelf.store.invalidate(Selector(tag="t"), dry_run=False)
        await shelf.store.list(None, 10)
        await shelf.store.stats()
        asked = client.info("commandstats")
    assert not {f"cmdstat_{name}" for name in ("keys", "scan", "sscan", "flushdb", "flushall")} & set(asked)
    assert asked["cmdstat_hmget"]["calls"] < 30
