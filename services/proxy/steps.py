"""The steps around the wire: what a body says, where it stands, and what its answer leaves behind.

Owns nothing. Whatever goes wrong in here costs a request its verdict, never its answer: an error is reported
once by its kind and place, without its text, which may quote a prompt.
"""

import asyncio
import contextlib
import logging
import traceback

from services.proxy.context import Context
from services.proxy.dialects.base import Dialect, UnparsedError
from services.proxy.flow import Flow
from services.proxy.identity import identify
from services.proxy.placing.place import marks_of, place, query_of
from services.proxy.prompt import Prompt
from services.proxy.settling.settle import finish, foresee, judge, settled_of, teach
from services.proxy.state.base import Marks

log = logging.getLogger("metalanchor")

# Analysing runs at some 200 MB/s: up to here it holds the event loop for about a millisecond, less than a
# thread's round trip costs under load.
INLINE_BYTES = 256 << 10
# A next turn is a SHA-1 pass and what is new: 1.5 ms for so much.
RESUMED_BYTES = 2 << 20


async def understand(flow: Flow, body: bytes, ctx: Context) -> None:
    """Read, identify, place: fills the flow as far as the body allows."""
    try:
        await _turn(flow, body, ctx)
        if flow.identity is None:
            await recognise(flow, body, ctx)
        if flow.prompt is None:
            return
        await place(flow, ctx)
        foresee(flow, ctx)
    except Exception as error:  # noqa: BLE001 see above
        report("reading a request", error)


async def _turn(flow: Flow, body: bytes, ctx: Context) -> None:
    """Wait for one's turn; the row of a client that left meanwhile still says what was asked."""
    try:
        await ctx.turns.take()
    except asyncio.CancelledError:
        if flow.identity is None and len(body) <= INLINE_BYTES:
            await noted(flow, body, ctx)
        raise


async def noted(flow: Flow, body: bytes, ctx: Context) -> None:
    """Read a request that no engine will see, for its row alone."""
    with contextlib.suppress(Exception):
        await recognise(flow, body, ctx)


async def recognise(flow: Flow, body: bytes, ctx: Context) -> None:
    """Read and identify; all of `understand` that does not wait for anybody."""
    try:
        if flow.dialect is not None:
            flow.prompt = await _read(flow.dialect, body, flow.backend.name, ctx)
    except UnparsedError:
        flow.error = "unparsed"
    flow.identity = identify(flow.headers, flow.prompt, ctx.key, ctx.settings.tenant_header)


async def fix(flow: Flow, body: bytes, ctx: Context) -> bytes:
    """The body as it goes out: with what a fix puts in, else as received."""
    assert ctx.breakpoints is not None
    try:
        if len(body) <= INLINE_BYTES:
            return ctx.breakpoints.fixed(flow, body)
        return await asyncio.to_thread(ctx.breakpoints.fixed, flow, body)
    except Exception as error:  # noqa: BLE001 see above
        flow.fixes.clear()
        report("fixing a request", error)
        return body


async def _read(dialect: Dialect, body: bytes, backend: str, ctx: Context) -> Prompt:
    analyser = ctx.analyser
    if len(body) <= INLINE_BYTES:
        return analyser.read(dialect, body, backend)
    if len(body) <= RESUMED_BYTES:
        prompt = analyser.resume(dialect, body, backend, INLINE_BYTES)
        if prompt is not None:
            return prompt
    return await asyncio.to_thread(analyser.read, dialect, body, backend)


def conclude(flow: Flow, ctx: Context) -> None:
    """What an answer that ended told; before the headers of a whole one leave."""
    try:
        judge(flow, ctx)
    except Exception as error:  # noqa: BLE001 see above
        report("settling a request", error)


def at_once(flow: Flow, ctx: Context) -> None:
    """What the next request may need of an answer that ended."""
    try:
        teach(flow, ctx)
        if ctx.breakpoints is not None:
            ctx.breakpoints.learn(flow)
    except Exception as error:  # noqa: BLE001 see above
        report("settling a request", error)


def afterwards(flow: Flow, ctx: Context) -> None:
    """The rest of settling, when there is time for it."""
    try:
        finish(flow, ctx)
    except Exception as error:  # noqa: BLE001 see above
        report("settling a request", error)


def remember(flow: Flow, ctx: Context) -> None:
    """Leave in the shared state what became of a request; a large one is marked in a thread first."""
    prompt = flow.prompt
    if prompt is None or flow.identity is None or (flow.cached and flow.cached.answered_by):
        return  # of what the response cache answered, the engine knows nothing
    if prompt.request_bytes > INLINE_BYTES:
        ctx.spawn(_remember_large(flow, ctx))
        return
    try:
        _leave(flow, ctx, marks_of(flow, ctx))
    except Exception as error:  # noqa: BLE001 see above
        report("remembering a request", error)


async def _remember_large(flow: Flow, ctx: Context) -> None:
    try:
        _leave(flow, ctx, await asyncio.to_thread(marks_of, flow, ctx))
    except Exception as error:  # noqa: BLE001 see above
        report("remembering a request", error)


def _leave(flow: Flow, ctx: Context, marks: Marks | None) -> None:
    ending = ctx.endings.settled(flow.id) or settled_of(flow, ctx.key)
    ctx.state.settle(flow.query or query_of(flow, ctx.settings, ctx.estimator), ending, marks)


def report(doing: str, error: BaseException) -> None:
    """Say that something of ours failed: what, which kind of error, and where; never its text."""
    where = "unknown place"
    for frame, line in traceback.walk_tb(error.__traceback__):
        where = f"{frame.f_code.co_filename}:{line}"
    log.error("%s failed: %s at %s", doing, type(error).__name__, where)
