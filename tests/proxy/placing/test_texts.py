"""The text memory: by content, bounded in bytes and time, and off when it is switched off."""

import asyncio

from services.proxy.placing.texts import ENTRY_COST, FRESH_S, Texts
from services.proxy.prompt import Chunk, Prompt, Section


class Shape:
    name = "shape"

    def sections(self, kind, raw):
        return [Section("", "text", raw)]


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def chunk(text):
    name = text.encode()
    return Chunk("message", 0, "user", name.ljust(20, b"."), len(name), 0, 0, name)


def prompt(*texts):
    chunks = [chunk(text) for text in texts]
    prefixes = ["/".join(texts[: i + 1]).encode() for i in range(len(texts))]
    return Prompt(
        dialect="shape", kind="generation", model="m", stream=False, chunks=chunks, prefixes=prefixes
    )


def held(texts, *names):
    return [texts.get(chunk(name).hash) is not None for name in names]


def test_a_chunk_comes_back_by_its_hash_or_the_head_of_it():
    texts = Texts(1 << 20, 60, True)
    texts.put(prompt("one", "two"), Shape())
    assert texts.get(chunk("two").hash) == ("shape", b"two")
    assert texts.get(chunk("two").hash[:12]) == ("shape", b"two")
    assert texts.sections("message", chunk("one").hash) == [Section("", "text", b"one")]
    assert texts.get(chunk("three").hash) is None


def test_a_chunk_that_many_requests_share_is_held_once():
    texts = Texts(1 << 20, 60, True)
    for n in range(10):
        texts.put(prompt("shared", f"own {n}"), Shape())
    assert len(texts) == 11


def test_nothing_is_held_when_text_is_not_kept_but_the_request_at_hand_can_be_cut():
    texts = Texts(1 << 20, 60, False)
    texts.put(prompt("one"), Shape())
    assert len(texts) == 0
    assert texts.bytes == 0
    assert texts.get(chunk("one").hash) is None
    assert texts.sections_of(prompt("one"), chunk("one")) == [Section("", "text", b"one")]


def test_what_was_used_longest_ago_goes_first_and_bytes_stay_below_the_cap():
    clock = Clock()
    texts = Texts(3 * (ENTRY_COST + 5), 3600, True, clock)
    texts.put(prompt("aaaaa"), Shape())
    texts.put(prompt("bbbbb"), Shape())
    clock.now += FRESH_S + 1
    texts.put(prompt("aaaaa"), Shape())
    texts.put(prompt("ccccc", "ddddd"), Shape())
    assert held(texts, "aaaaa", "bbbbb", "ccccc", "ddddd") == [True, False, True, True]
    assert texts.bytes <= texts.max_bytes


def test_text_larger_than_the_whole_memory_is_not_held():
    texts = Texts(1000, 3600, True)
    texts.put(prompt("x" * 2000), Shape())
    assert texts.bytes == len(texts) == 0


def test_text_expires_unless_it_is_used_again():
    clock = Clock()
    texts = Texts(1 << 20, 100, True, clock)
    texts.put(prompt("old"), Shape())
    texts.put(prompt("used"), Shape())
    clock.now += 99
    texts.put(prompt("used"), Shape())
    clock.now += 2
    assert held(texts, "old", "used") == [False, True]
    texts.expire()
    assert len(texts) == 1


def test_a_long_conversation_stays_whole_while_it_goes_on():
    clock = Clock()
    texts = Texts(1 << 20, 100, True, clock)
    turns = ["start"]
    for n in range(40):
        turns.append(f"turn {n}")
        texts.put(prompt(*turns), Shape())
        clock.now += 10
    assert all(held(texts, *turns))


def test_a_chunk_evicted_meanwhile_is_taken_in_again_with_its_conversation():
    texts = Texts(4 * (ENTRY_COST + 5), 3600, True, Clock())
    texts.put(prompt("aaaaa", "bbbbb"), Shape())
    texts.put(prompt("ccccc", "ddddd", "eeeee"), Shape())
    assert held(texts, "aaaaa") == [False]
    texts.put(prompt("aaaaa", "bbbbb", "fffff"), Shape())
    assert held(texts, "aaaaa", "bbbbb", "fffff") == [True, True, True]


async def test_text_goes_in_time_also_when_nothing_arrives():
    texts = Texts(1 << 20, 0.05, True)
    texts.put(prompt("old"), Shape())
    texts.watch(asyncio.get_running_loop())
    async with asyncio.timeout(5):
        while len(texts):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
    assert texts.bytes == 0
