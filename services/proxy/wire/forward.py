"""One request through the proxy, from its head to its row.

A `Passage` owns everything of one request that must be let go of: its exchange with the backend, the watch
over its client, its place among the live flows. Whatever happens, it ends in exactly one row.
"""

import asyncio
import functools
import time
from collections.abc import AsyncIterator

from services.proxy.answers.cache import ResponseCache
from services.proxy.answers.ticket import Ticket
from services.proxy.context import Context, Destination
from services.proxy.dialects import for_route
from services.proxy.flow import Flow
from services.proxy.outbox.copies import copy_of
from services.proxy.steps import (
    afterwards,
    at_once,
    conclude,
    fix,
    noted,
    remember,
    report,
    understand,
)
from services.proxy.upstream.base import Exchange, RequestHead, Response, UpstreamError
from services.proxy.wire import body as bodies
from services.proxy.wire import errors
from services.proxy.wire.cached import consult, let_go, store
from services.proxy.wire.disconnect import DisconnectWatch, Receive
from services.proxy.wire.entry import Scope, enter, leave
from services.proxy.wire.errors import BrokenAnswerError, RefusedError
from services.proxy.wire.guard import Guard
from services.proxy.wire.headers import Headers, sent_headers, value_of
from services.proxy.wire.relay import Relay, Send

# Refusals after which nothing is drained: the body was (413), has stalled (408), or there is no time (503).
NO_DRAIN = frozenset({408, 413, 503})
# How Anthropic, and gateways to it, refuse a body that they do not understand.
REFUSED = frozenset({400, 422})


class Passage:
    """A request on its way. `run` raises only to make the server cut the connection."""

    def __init__(  # noqa: PLR0917 one call site, and keywords cost on the path of every request
        self, ctx: Context, guard: Guard, to: Destination, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._ctx, self._guard, self._to = ctx, guard, to
        self._scope, self._receive, self._send = scope, receive, send
        self._underway = enter(ctx, to, scope, self._end)
        self.flow = flow = self._underway.flow
        flow.dialect = for_route(flow.method, flow.path)
        ctx.outbox.open(flow)
        self._disconnect = DisconnectWatch(receive, self._client_left)
        self._relay = Relay(flow, send, self._conclude)
        self._exchange: Exchange | None = None
        self._body_read = False
        self._body_bytes = 0
        self._unfixed: bytes | None = None
        self._settled = False
        self._ticket: Ticket | None = None

    async def run(self) -> None:
        """Carry the request through; returns when its row is on its way."""
        flow = self.flow
        try:
            await self._carry()
            flow.status = self._status()
        except RefusedError as error:
            flow.status, flow.error = error.row, error.code
            await self._refuse(error)
        except BrokenAnswerError as error:
            flow.status, flow.error = "upstream_reset", str(error)
            self._to.watcher.notice()
            raise
        except bodies.ClientGoneError:
            flow.status = "client_cancelled"
            await self._free()
        except asyncio.CancelledError:
            await self._cancelled()
        except Exception as error:  # noqa: BLE001 a fault of ours is answered and has its row like any other
            report("forwarding a request", error)
            flow.status, flow.error = "rejected", "internal_error"
            await self._refuse(RefusedError(500, "internal_error", "MetalAnchor failed on this request."))
        finally:
            self._end()
            # These hold bound methods of this object: a reference cycle, which would keep the body in memory
            # until the collector runs.
            self._disconnect.release()
            del self._disconnect, self._relay, self._underway

    async def _carry(self) -> None:
        flow, ctx = self.flow, self._ctx
        self._admit()
        length = bodies.declared(flow.headers)
        analysed = flow.dialect is not None
        if analysed or length == 0:
            body = await bodies.read(
                self._receive, flow.headers, ctx.settings.max_body, ctx.settings.upload_idle_s
            )
            flow.body_at = time.perf_counter()
            self._body_bytes, self._body_read = len(body), True
            if ctx.outbox.copies is not None and analysed:
                self._relay.copy = copy_of(flow, body, self._scope["query_string"])
            if ctx.answers is not None and analysed and await self._from_cache(ctx.answers, body):
                return
            if ctx.breakpoints is not None and ctx.breakpoints.applies(flow):
                await self._fix_and_open(body)
            else:
                try:
                    await self._open(body, len(body))
                except RefusedError:  # nobody took it; its row still says what was asked, and by whom
                    if analysed:
                        await noted(flow, body, ctx)
                    raise
                self._disconnect.watch()
                if analysed:
                    await understand(flow, body, ctx)
                self._to.watcher.glance()
        else:
            await self._open(self._upload(length), None)
        await self._answer()
        if ctx.answers is not None and self._ticket is not None:
            store(ctx.answers, ctx, flow, self._ticket)

    async def _fix_and_open(self, body: bytes) -> None:
        """Write the request with what a fix puts in, which has to be known first."""
        self._disconnect.watch()
        await understand(self.flow, body, self._ctx)
        fixed = await fix(self.flow, body, self._ctx)
        self._unfixed = body if self.flow.fixes else None
        await self._open(fixed, len(fixed))

    async def _from_cache(self, cache: ResponseCache, body: bytes) -> bool:
        """Whether the response cache answered; else the backend's answer is listened to, to be stored."""
        self._disconnect.watch()
        query = self._scope["query_string"]
        self._ticket = ticket = await consult(cache, self._ctx, self.flow, body, query, self._relay)
        if ticket is not None and ticket.flight is not None:
            self._relay.flight = ticket.flight
            ticket.flight.end = self._give_up
        return ticket is None

    def _admit(self) -> None:
        """Let the request in, without the proxy's own token."""
        flow, guard = self.flow, self._guard
        guard.check_host(flow.headers)
        if self._ctx.live.stopping:
            raise errors.stopping()
        check = guard.strip if flow.method == "OPTIONS" else guard.admit
        flow.headers = check(flow.headers)
        if flow.method == "CONNECT":
            raise errors.unsupported("CONNECT")
        if _switches(flow.headers):
            raise errors.unsupported("This protocol switch")

    async def _open(self, body: bytes | AsyncIterator[bytes], length: int | None) -> None:
        """Write the request to the backend."""
        flow, to, scope = self.flow, self._to, self._scope
        target = scope["raw_path"] if scope["raw_path"] == b"*" else to.base_path + scope["raw_path"]
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        head = RequestHead(flow.method.encode(), target, sent_headers(flow.headers, to.authority, length))
        try:
            self._exchange = await to.upstream.send(head, body)
        except UpstreamError as error:
            raise self._failed(error) from error
        flow.sent_at = time.perf_counter()

    async def _upload(self, length: int | None) -> AsyncIterator[bytes]:
        """The body's pieces as they arrive, then the watch over the client."""
        async for piece in bodies.stream(self._receive, length, self._ctx.settings.upload_idle_s):
            self._body_bytes += len(piece)
            yield piece
        self._body_read = True
        self.flow.body_at = time.perf_counter()
        self._disconnect.watch()

    async def _answer(self) -> None:
        exchange = self._exchange
        assert exchange is not None
        try:
            response = await exchange.response()
            unfixed, self._unfixed = self._unfixed, None
            if unfixed is not None and response.status in REFUSED:
                response = await self._again(unfixed)
        except UpstreamError as error:
            raise self._failed(error) from error
        await self._relay.pass_on(response, bodiless=self.flow.method == "HEAD")

    async def _again(self, body: bytes) -> Response:
        """The answer to the body as received: a refusal of what a fix put in must not reach the client."""
        flow, ctx = self.flow, self._ctx
        await self._free()
        fixes, flow.fixes = flow.fixes, []
        await self._open(body, len(body))
        assert self._exchange is not None
        response = await self._exchange.response()
        if fixes and response.status not in REFUSED and ctx.breakpoints is not None:
            ctx.breakpoints.refuse(flow)
        return response

    def _failed(self, error: UpstreamError) -> RefusedError:
        self._to.watcher.notice()
        url = errors.shown_url(self._to.backend.url)
        if error.code == "unreachable":
            return errors.unreachable(url, str(error))
        return errors.broken(url, error.code, str(error))

    def _status(self) -> str:
        """What became of an answer that was relayed to its end."""
        flow = self.flow
        if flow.cached is not None and flow.cached.answered_by is not None:
            return "response_cache"
        if self._ticket is not None and self._ticket.deserted:
            return "client_cancelled"
        if flow.http_status is not None and flow.http_status >= 400:
            return "upstream_error"
        outcome = flow.outcome
        if outcome is None or outcome.unparsed not in {None, "not_json"}:
            return "completed"  # nobody looked; a page where a stream was due, though, is none
        if outcome.error is not None:
            return "error_midstream"
        streamed = flow.prompt is not None and flow.prompt.stream
        return "completed" if outcome.terminal or not streamed else "incomplete"

    async def _cancelled(self) -> None:
        """The client left, or the proxy stops: the backend is freed in either case."""
        flow, why = self.flow, self._underway.ending
        await self._free()
        if why is None:
            flow.status = "proxy_stopped"
            raise asyncio.CancelledError
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        self._relay.close()
        said_all = flow.outcome is not None and flow.outcome.terminal
        flow.status = "completed" if said_all and why == "client_cancelled" else why
        if why == "proxy_stopped":
            if self._relay.started:
                raise BrokenAnswerError(why)
            flow.error = why
            await self._refuse(errors.stopping())

    async def _refuse(self, error: RefusedError) -> None:
        """Answer with an own error, after what the client still sends: else it may not read the answer."""
        await self._free()
        self.flow.http_status = error.status
        if self._relay.started:
            raise BrokenAnswerError(error.code)
        if not self._body_read and bodies.declared(self.flow.headers) != 0 and error.status not in NO_DRAIN:
            await bodies.drain(self._receive, self.flow.headers)
        headers, body = errors.answer(error, self.flow.path, self.flow.id)
        await self._send({"type": "http.response.start", "status": error.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def _free(self) -> None:
        """Let the backend stop working for this request."""
        if self._exchange is not None:
            await self._exchange.abort()

    def _client_left(self) -> None:
        flight = self._ticket.flight if self._ticket is not None else None
        if flight is not None and flight.passengers:
            flight.deserted = True
            return
        self._give_up()

    def _give_up(self) -> None:
        self._underway.end("client_cancelled")

    def _conclude(self) -> None:
        self._settled = True
        if self.flow.dialect is not None:
            conclude(self.flow, self._ctx)

    def _end(self) -> None:
        """Let go of everything and see that the row is written, once. Nothing here waits."""
        flow, ctx = self.flow, self._ctx
        if flow.ended_at is not None:
            return
        self._disconnect.ended = True
        if ctx.answers is not None:
            let_go(ctx.answers, flow, self._ticket)
        flow.ended_at = time.perf_counter()
        self._relay.close()
        if ctx.outbox.copies is not None and self._relay.copy is not None:
            ctx.outbox.copies.put(self._relay.copy)
        if not self._settled:
            self._conclude()
        if flow.dialect is not None:
            at_once(flow, ctx)
        ctx.live.leave(flow)
        ctx.later.put(functools.partial(_book, ctx, flow, self._body_bytes))


def _book(ctx: Context, flow: Flow, body_bytes: int) -> None:
    """What an ended flow leaves behind: its row, and what the shared state keeps of it."""
    if flow.dialect is not None:
        afterwards(flow, ctx)
    leave(ctx, flow, body_bytes)
    remember(flow, ctx)


def _switches(headers: Headers) -> bool:
    """Whether a request insists on another protocol.

    An offer of HTTP/2 in its full form (RFC 7540 §3.2) may be passed over; Java's client makes it each time.
    """
    upgrade = value_of(headers, b"upgrade")
    if upgrade is None:
        return False
    return upgrade.strip().lower() != b"h2c" or value_of(headers, b"http2-settings") is None
