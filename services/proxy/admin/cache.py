"""The response cache as people ask it: what it holds, why a question missed, and how to let go of answers.

Owns nothing: the answers are in Redis, the way to them is the cache's own store. While the cache is off every
route says so with 409, while Redis is away with 503; neither is a fault of the one who asks.
"""

from collections.abc import Awaitable
from typing import Annotated, Any, TypeVar

import msgspec
from litestar import Request, Router, get, post
from litestar.exceptions import (
    ClientException,
    HTTPException,
    NotFoundException,
    ServiceUnavailableException,
)
from litestar.params import Parameter
from redis.exceptions import RedisError

from services.proxy.admin import missed
from services.proxy.admin.filters import Limit, refuse_unknown
from services.proxy.admin.history import History
from services.proxy.admin.parts import Parts
from services.proxy.admin.recent import iso
from services.proxy.answers.base import AwayError, Entry, Selector
from services.proxy.answers.cache import ResponseCache

T = TypeVar("T")

OFF = (
    "The response cache is off. Set METALANCHOR_RESPONSE_CACHE to `exact` or `semantic`, and start the proxy "
    "anew."
)
NO_REDIS = "The response cache needs a Redis. Set METALANCHOR_REDIS_URL and start the proxy anew."
NO_ALIASES = (
    "No aliases are learned. Set METALANCHOR_RESPONSE_CACHE=semantic, METALANCHOR_ALIASES_URL and "
    "METALANCHOR_ALIASES_MODEL, and start the proxy anew."
)
UNKNOWN = "There is no request and no entry of that id or key, or it is gone."
CURSOR_DIGITS = 17
FIELDS = Selector.__struct_fields__

Short = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Place = Annotated[str | None, Parameter(pattern=r"^[0-9]{1,17}$", description="`next` of the page before")]


class Invalidation(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which answers to drop: those to which everything given applies, or `everything`.

    `dry_run` only counts them. `keyword` is one or more words, or Chinese, Japanese or Korean text, of
    question or answer.
    """

    dry_run: bool
    key: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")] | None = None
    tag: Short | None = None
    model: Short | None = None
    backend: Short | None = None
    namespace: Annotated[str, msgspec.Meta(max_length=500)] | None = None
    scope: Short | None = None
    keyword: Short | None = None
    older_than_s: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    everything: bool = False

    def selector(self) -> Selector:
        """What is selected."""
        return Selector(**{name: getattr(self, name) for name in FIELDS})


class Asked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to explain: a question (of which model, in which namespace), a request's id, or an entry's key."""

    about: Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]
    model: Short | None = None
    namespace: Annotated[str, msgspec.Meta(max_length=500)] | None = None


class Revoked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Aliases that are to go, by their ids."""

    ids: list[str]


def routes(ctx: Parts, history: History) -> Router:
    """``/cache/…``, below ``/api``."""

    @get("/stats", summary="The response cache as it stands")
    async def stats() -> dict[str, Any]:
        return await stats_of(ctx)

    @get("/entries", summary="Cached answers, newest first")
    async def entries(
        request: Request[Any, Any, Any], cursor: Place = None, limit: Limit = 100
    ) -> dict[str, Any]:
        refuse_unknown(request, "cursor", "limit")
        return await entries_of(ctx, cursor, limit)

    @post("/explain", status_code=200, summary="Why a question, a request or an entry missed or hit")
    async def explain(data: Asked) -> dict[str, Any]:
        return await explained(ctx, history, data)

    @post("/invalidate", status_code=200, summary="Drop cached answers, or count what would be dropped")
    async def invalidate(data: Invalidation, request: Request[Any, Any, Any]) -> dict[str, Any]:
        del data  # says what the body holds, but takes 0 for false, which a dry run must not depend on
        return await invalidated(ctx, exactly(await request.body()))

    @get("/aliases", summary="Questions that a model found to ask the same, latest first")
    async def aliases() -> dict[str, Any]:
        return {"items": await aliases_of(ctx), "next": None}

    @post("/aliases/revoke", status_code=200, summary="Drop learned aliases")
    async def revoke(data: Revoked) -> dict[str, Any]:
        return {"revoked": await revoked(ctx, data.ids)}

    handlers = [stats, entries, explain, invalidate, aliases, revoke]
    return Router("/cache", route_handlers=handlers, tags=["cache"])


def exactly(body: bytes) -> Invalidation:
    """What a body says, every type as the document has it; 400 otherwise."""
    try:
        return msgspec.json.decode(body, type=Invalidation)
    except msgspec.MsgspecError as error:
        raise ClientException(f"data: {error}") from None


def opened(ctx: Parts) -> ResponseCache:
    """The cache; 409 saying which setting is needed where there is none."""
    if ctx.answers is None:
        detail = OFF if ctx.settings.response_cache == "off" else NO_REDIS
        raise HTTPException(status_code=409, detail=detail)
    return ctx.answers


async def present(asked: Awaitable[T]) -> T:
    """The reply of Redis; 503 where it is away."""
    try:
        return await asked
    except (AwayError, RedisError, OSError) as error:
        reason = str(error) if isinstance(error, AwayError) else type(error).__name__
        raise ServiceUnavailableException(
            f"Redis cannot be asked now ({reason}). Requests pass all the same; see METALANCHOR_REDIS_URL."
        ) from None


async def stats_of(ctx: Parts) -> dict[str, Any]:
    """The counters with `mode`, the hit rate, and how semantic matching stands (None: not at all)."""
    cache = opened(ctx)
    found = msgspec.structs.asdict(await present(cache.store.stats()))
    looked = found["hits"] + found["misses"]
    return {
        "mode": ctx.settings.response_cache,
        **found,
        "hit_rate": found["hits"] / looked if looked else None,
        "semantic": cache.matcher.status() if cache.matcher is not None else None,
    }


async def entries_of(ctx: Parts, cursor: str | None, limit: int) -> dict[str, Any]:
    """A page of entries."""
    page = await present(opened(ctx).store.list(cursor, limit))
    return {"items": [shown(entry) for entry in page.items], "next": page.next}


def shown(entry: Entry) -> dict[str, Any]:
    """An entry as JSON has it: times as ISO 8601, what is known of the answer beside them. Pure."""
    about = msgspec.structs.asdict(entry.about)
    original, at = about.pop("original"), about.pop("at")
    times = {name: iso(getattr(entry, name)) for name in ("created", "expires", "used")}
    return {
        "key": entry.key, **times, "hits": entry.hits, "bytes": entry.bytes, "original": original,
        "original_at": iso(at), **about,
    }  # fmt: skip


async def explained(ctx: Parts, history: History, asked: Asked) -> dict[str, Any]:
    """See `missed.explain`; 404 where nothing is known under that id or key."""
    opened(ctx)
    found = await present(
        missed.explain(ctx, history, asked.about, model=asked.model, namespace=asked.namespace)
    )
    if found is None:
        raise NotFoundException(UNKNOWN)
    return found


async def invalidated(ctx: Parts, asked: Invalidation) -> dict[str, Any]:
    """How many were dropped, or would be; 400 for a selector that selects nothing in particular."""
    store = opened(ctx).store
    try:
        dropped = await present(store.invalidate(asked.selector(), dry_run=asked.dry_run))
    except ValueError as error:
        raise ClientException(str(error)) from None
    return msgspec.structs.asdict(dropped)


async def revoked(ctx: Parts, ids: list[str]) -> int:
    """Drop aliases; how many there were."""
    return await present(_aliases(ctx).revoke(ids))


async def aliases_of(ctx: Parts) -> list[dict[str, Any]]:
    """The live aliases with their evidence."""
    found = await present(_aliases(ctx).list())
    return [
        {
            **msgspec.structs.asdict(alias),
            "until": iso(alias.until),
            "evidence": {**msgspec.structs.asdict(alias.evidence), "at": iso(alias.evidence.at)},
        }
        for alias in found
    ]


def learns(ctx: Parts) -> bool:
    """Whether aliases are learned."""
    return ctx.answers is not None and getattr(ctx.answers.matcher, "aliases", None) is not None


def is_cursor(text: str | None) -> bool:
    """Whether a text may be where a page begins."""
    return text is not None and text.isascii() and text.isdecimal() and len(text) <= CURSOR_DIGITS


def _aliases(ctx: Parts) -> Any:
    cache = opened(ctx)
    if not learns(ctx):
        raise HTTPException(status_code=409, detail=NO_ALIASES)
    return cache.matcher.aliases  # type: ignore[union-attr]
