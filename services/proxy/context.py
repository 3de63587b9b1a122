"""The long-lived parts of one proxy process, in one plain struct; opened by the lifespan, closed by it.

Nothing here is global: two contexts may live in one process, as they do in tests.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

import msgspec

from services.costs.prices import load_prices
from services.proxy.admin.metrics import Metrics
from services.proxy.admin.recent import Recent
from services.proxy.admin.strips import Strips
from services.proxy.answers import open_answers
from services.proxy.answers.cache import ResponseCache
from services.proxy.backends.backend import Backend
from services.proxy.backends.watcher import BackendWatcher
from services.proxy.chunking.analysis import Analyser
from services.proxy.chunking.turns import Turns
from services.proxy.key import load_key
from services.proxy.later import Later
from services.proxy.live import Live
from services.proxy.outbox import Outbox
from services.proxy.placing.texts import Texts
from services.proxy.placing.tokens import Estimator
from services.proxy.settling.billing import Billing
from services.proxy.settling.endings import Endings
from services.proxy.settling.explain import Explanations
from services.proxy.settling.speed import Speeds
from services.proxy.splicing.fix import Breakpoints
from services.proxy.state import open_state
from services.proxy.state.base import State
from services.proxy.upstream import make_upstream
from services.proxy.upstream.base import Upstream
from services.settings import BackendSetting, Settings, backend_name

# Where Ollama listens; it is the server most people have, and the one that a proxy without a setting serves.
DEFAULT_BACKEND = "http://127.0.0.1:11434"


class Destination(msgspec.Struct, kw_only=True):
    """A backend, the connections to it, and how it is written to."""

    backend: Backend
    upstream: Upstream
    watcher: BackendWatcher
    authority: bytes
    base_path: bytes


class Context(msgspec.Struct, kw_only=True):
    """Everything a request needs that outlives it."""

    settings: Settings
    key: bytes
    state: State
    texts: Texts
    estimator: Estimator
    speeds: Speeds
    analyser: Analyser
    outbox: Outbox
    metrics: Metrics
    recent: Recent
    strips: Strips
    explanations: Explanations
    endings: Endings
    billing: Billing
    breakpoints: Breakpoints | None
    live: Live
    later: Later
    turns: Turns
    answers: ResponseCache | None
    destinations: dict[int, Destination]
    tasks: set[asyncio.Task[Any]]

    @property
    def backends(self) -> list[Backend]:
        """The backends in the order of the configuration."""
        return [destination.backend for destination in self.destinations.values()]

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something beside the request that started it; it ends with the process at the latest."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


def backend_settings(settings: Settings) -> list[BackendSetting]:
    """The configured backends with the port that serves each; without a table the one of the environment.

    The first takes METALANCHOR_PORT unless it names its own.
    """
    rows = settings.named_backends or [
        BackendSetting(name=backend_name(DEFAULT_BACKEND), url=DEFAULT_BACKEND, kind=settings.backend_kind)
    ]
    rows[0] = msgspec.structs.replace(rows[0], port=rows[0].port or settings.port)
    return rows


async def open_context(settings: Settings) -> Context:
    """Build and start every part. Raises `SettingsError` where the configuration cannot be used."""
    key = load_key(settings)
    prices, estimator = load_prices(settings.prices), Estimator()
    ctx = Context(
        settings=settings,
        key=key,
        state=open_state(settings, key),
        texts=Texts(settings.state_max_bytes, settings.text_ttl, settings.keep_text),
        estimator=estimator,
        speeds=Speeds(),
        analyser=Analyser(settings.state_max_bytes if settings.keep_text else 0, settings.text_ttl),
        outbox=Outbox(settings),
        metrics=Metrics(),
        recent=Recent(),
        strips=Strips(),
        explanations=Explanations(settings.text_ttl, enabled=settings.keep_text),
        endings=Endings(),
        billing=Billing(prices),
        breakpoints=Breakpoints(prices, estimator) if settings.breakpoints == "auto" else None,
        live=Live(),
        later=Later(),
        turns=Turns(),
        answers=None,
        destinations={row.port or settings.port: open_destination(row) for row in backend_settings(settings)},
        tasks=set(),
    )
    ctx.answers = open_answers(settings, key, ctx.state, [backend.url for backend in ctx.backends])
    await ctx.outbox.start()
    await ctx.state.start()
    if ctx.answers is not None:
        await ctx.answers.start()
    for destination in ctx.destinations.values():
        ctx.spawn(destination.watcher.run())
    return ctx


async def close_context(ctx: Context, timeout_s: float) -> None:
    """End what is under way, carry out every row, let go of everything; within about `timeout_s`."""
    await ctx.live.stop(timeout_s / 4)
    ctx.later.flush()
    for task in list(ctx.tasks):
        task.cancel()
    await ctx.outbox.drain(timeout_s / 2)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s / 4):
            if ctx.answers is not None:
                await ctx.answers.close()
            await ctx.state.close()
    for destination in ctx.destinations.values():
        await destination.upstream.close()


def open_destination(row: BackendSetting) -> Destination:
    """A backend with its own connections; its watcher is not running yet."""
    given = row.kind != "auto"
    backend = Backend(name=row.name, url=row.url, kind=row.kind if given else None, kind_given=given)
    return Destination(
        backend=backend,
        upstream=make_upstream(row.url),
        watcher=BackendWatcher(backend, row.kind),
        authority=backend.authority.encode(),
        base_path=backend.base_path.encode(),
    )
