"""The proxy leaves the stand-in by itself, and nobody's request notices."""

import asyncio
from types import SimpleNamespace

import pytest

from services.probe import Found
from services.proxy import app
from services.proxy.backends import moving
from services.proxy.context import open_destination
from services.settings import BackendSetting, Settings


class Context(SimpleNamespace):
    """What moving needs of the proxy's context."""

    def spawn(self, work):
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


@pytest.fixture
def ctx() -> Context:
    """A proxy that serves a stand-in on port 1."""
    old = open_destination(BackendSetting(name="stand-in", url="http://127.0.0.1:9"))
    old.backend.facts = {"stand_in": True}
    return Context(destinations={1: old}, live=[], tasks=set())


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch):
    """Look often."""
    monkeypatch.setattr(moving, "LOOK_S", 0.01)
    monkeypatch.setattr(moving, "DRAIN_LOOK_S", 0.01)


async def test_later_requests_go_to_the_server_that_appeared(ctx, model_server, monkeypatch):
    """The destination is exchanged; the old connections close once the last flow that uses them is done."""
    old, real = ctx.destinations[1], model_server("ollama")
    ctx.live.append(SimpleNamespace(flow=SimpleNamespace(backend=old.backend)))
    closed = asyncio.Event()
    monkeypatch.setattr(old.upstream, "close", _setter(closed), raising=False)
    monkeypatch.setattr(moving, "find_local_backend", lambda: (real.url, Found("ollama", "0.33.3", {})))

    ctx.spawn(moving.leave_stand_in(ctx))
    while ctx.destinations[1] is old:  # noqa: ASYNC110 - watched from outside
        await asyncio.sleep(0.01)
    new = ctx.destinations[1].backend
    await asyncio.sleep(0.1)
    assert (new.url, new.kind, new.version) == (real.url, "ollama", "0.33.3")
    assert not closed.is_set()

    ctx.live.clear()
    await asyncio.wait_for(closed.wait(), 10)
    await _end(ctx)


async def test_a_real_server_is_never_left(ctx, monkeypatch):
    """Only a stand-in is provisional: what the user configured stays, whatever else runs."""
    old = ctx.destinations[1]
    old.backend.facts = {}
    monkeypatch.setattr(moving, "find_local_backend", lambda: ("http://127.0.0.1:8", Found("vllm", None, {})))
    ctx.spawn(moving.leave_stand_in(ctx))
    await asyncio.sleep(0.1)
    assert ctx.destinations[1] is old
    await _end(ctx)


def _setter(event: asyncio.Event):
    async def close() -> None:
        event.set()

    return close


async def _end(ctx: Context) -> None:
    tasks = list(ctx.tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Litestar's, about its own style
@pytest.mark.parametrize(("setting", "leaves"), [("auto", True), ("never", True), ("always", False)])
async def test_a_stand_in_that_was_asked_for_is_kept(setting, leaves, tmp_path, monkeypatch):
    """`METALANCHOR_EMBEDDED_ENGINE=always` means it, whatever else appears on this machine."""
    started = asyncio.Event()

    async def leave(_: object) -> None:
        started.set()

    monkeypatch.setattr(app, "leave_stand_in", leave)
    settings = Settings(embedded_engine=setting, data_dir=str(tmp_path), backend_url="http://127.0.0.1:9")
    async with app.open_app(settings):
        await asyncio.sleep(0.05)
        assert started.is_set() is leaves
