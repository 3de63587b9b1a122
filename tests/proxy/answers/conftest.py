"""A store over a real Valkey."""

import asyncio

import pytest

from services.proxy.answers.base import About, Stored
from services.proxy.answers.store import RedisStore
from services.proxy.answers.terms import terms_of
from services.proxy.state.local import LocalState
from services.proxy.state.redis import RedisState

SECRET = b"s" * 32


def make_answer(text="Paris.", **about):
    """An answer, and what is known of it."""
    told = {
        "original": "01900000-0000-7000-8000-000000000001", "at": 1_790_000_000_000, "scope": "s1",
        "namespace": "", "backend": "b:1", "endpoint": "/v1/chat/completions", "dialect": "openai_chat",
        "model": "m1", "question": "Capital of France?", "prompt_tokens": 20, "completion_tokens": 5,
        "total_ms": 900.0,
    }  # fmt: skip
    return Stored(about=About(**told | about), shape="json", pieces=[text.encode()])


class Shelf:
    """A `RedisStore` that is written to and read without ceremony. Keys are numbers."""

    def __init__(self, store, state):
        self.store, self.state = store, state

    async def put(self, number, stored, ttl_s=60.0):
        looked = await self.store.get(key(number), counted=False)
        said = [stored.about.question, stored.body.decode()]
        return await self.store.put(key(number), stored, ttl_s, terms_of(SECRET, said), looked.turn)

    async def get(self, number):
        return (await self.store.get(key(number))).stored

    async def held(self, *numbers):
        """Which of these are still there."""
        return [number for number in numbers if await self.get(number) is not None]


def key(number):
    """A key of 16 bytes."""
    return f"{number:032x}"


@pytest.fixture
async def make_shelf(valkey):
    opened = []

    async def make(max_bytes=64 << 20, url=valkey.url):
        state = RedisState(url, SECRET, LocalState(1 << 20))
        store = RedisStore(state.client, SECRET, max_bytes)
        opened.append(state)
        await state.start()
        return Shelf(store, state)

    yield make
    for state in opened:
        await state.close()


@pytest.fixture
async def shelf(make_shelf):
    shelf = await make_shelf()
    async with asyncio.timeout(10):
        while shelf.store.away:  # noqa: ASYNC110 - seen from outside, as a request would
            await asyncio.sleep(0.01)
    return shelf
