"""Health: what `/status` says, in sentences; they are made here, from its shape. Pure but for the page."""

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Request, Response, get

from services.proxy.admin.health import status_of
from services.proxy.admin.history import History
from services.proxy.admin.pages.language import Speech
from services.proxy.admin.pages.site import Site
from services.proxy.admin.pages.words import count, milliseconds, percent, size
from services.proxy.admin.parts import Parts


class Finding(msgspec.Struct, kw_only=True):
    """One part: its name, ``ok`` | ``degraded`` | ``down``, how it is, and what to do where it is amiss."""

    name: str
    state: str
    text: str
    help: str | None = None


def routes(ctx: Parts, history: History, site: Site) -> list[Any]:
    """``/health``."""

    @get("/health", summary="Health as a page")
    async def health(request: Request[Any, Any, Any]) -> Response[str]:
        say = site.speech(request)
        status = await status_of(ctx, history)
        return site.page(
            request, "health", here="health", verdict=status["status"], findings=findings(status, say),
            version=status["version"],
        )  # fmt: skip

    return [health]


def findings(status: Mapping[str, Any], say: Speech) -> list[Finding]:
    """Every part of `status` in words, in the order of a request's way."""
    return [
        *(_backend(backend, say) for backend in status["backends"]),
        *(_reuse(backend, say) for backend in status["backends"] if _rate(backend) is not None),
        _state(status, say),
        _redis(status, say),
        _queue(status, say),
        _worker(status, say),
        _database(status, say),
        _spool(status, say),
        _dropped(status, say),
    ]


def _backend(backend: Mapping[str, Any], say: Speech) -> Finding:
    kind = " ".join(filter(None, (backend["kind"] or say("a server of unknown kind"), backend["version"])))
    name, url = say("Model server"), backend["url"]
    if backend["status"] == "up":
        return Finding(name=name, state="ok", text=say("{kind} answers at {url}.", kind=kind, url=url))
    if backend["status"] == "degraded":
        return Finding(
            name=name,
            state="degraded",
            text=say("{kind} at {url} is busy, or loading a model.", kind=kind, url=url),
        )
    if backend["status"] == "down":
        return Finding(
            name=name,
            state="down",
            text=say("Nothing answers at {url}.", url=url),
            help=say("Start the model server, or point METALANCHOR_BACKEND_URL at another one."),
        )
    return Finding(name=name, state="degraded", text=say("{url} was not asked yet.", url=url))


def _rate(backend: Mapping[str, Any]) -> float | None:
    sampled = backend.get("sampled")
    return sampled["hit_rate"] if sampled else None


def _reuse(backend: Mapping[str, Any], say: Speech) -> Finding:
    """What the model server's own counters say, where the worker samples them."""
    name, rate = say("Its cache"), _rate(backend)
    text = say(
        "{url} finds {share} of what it is asked for in its cache.", url=backend["url"], share=percent(rate)
    )
    if not backend["sampled"]["alarm"]:
        return Finding(name=name, state="ok", text=text)
    return Finding(
        name=name,
        state="degraded",
        text=text,
        help=say("That is below METALANCHOR_ALARM_HIT_RATE. Trends shows since when, and what was lost why."),
    )


def _state(status: Mapping[str, Any], say: Speech) -> Finding:
    state, name = status["state"], say("Hit memory")
    if state.get("mode") == "redis":
        return Finding(name=name, state="ok", text=say("All proxies of this installation share it in Redis."))
    return Finding(
        name=name,
        state="degraded",
        text=say("It lives in this process alone; hits are still found, until the process ends."),
        help=say(
            "With Redis it outlives a restart and is shared: METALANCHOR_REDIS_URL, or `metalanchor up`."
        ),
    )


def _redis(status: Mapping[str, Any], say: Speech) -> Finding:
    name, up = "Redis", status["redis"]["status"] == "up"
    if up:
        return Finding(name=name, state="ok", text=say("Redis answers."))
    return Finding(
        name=name,
        state="degraded",
        text=say("Redis is away; requests pass all the same, their rows wait on disk."),
    )


def _queue(status: Mapping[str, Any], say: Speech) -> Finding:
    queue, name = status["queue"], say("Queue")
    text = say("{n} batches wait for the worker.", n=count(queue["depth"]))
    if queue["oldest_s"]:
        text += " " + say("The oldest waits for {time}.", time=milliseconds(queue["oldest_s"] * 1e3))
    if queue["full"]:
        return Finding(
            name=name, state="degraded", text=text, help=say("It is full; rows go to disk instead.")
        )
    return Finding(name=name, state="ok", text=text)


def _worker(status: Mapping[str, Any], say: Speech) -> Finding:
    worker, name = status["worker"], say("Worker")
    if worker["alive"]:
        stored = sum(one["stored"] or 0 for one in worker["workers"])
        text = say("It is alive and stored {n} rows.", n=count(stored))
        if lost := worker["totals"].get("dropped"):
            text += " " + say("{n} batches were lost in the queue of this Redis.", n=count(lost))
        return Finding(name=name, state="ok", text=text)
    return Finding(
        name=name,
        state="degraded",
        text=say("No worker is alive, so new requests do not reach the history."),
        help=say("Start one with `metalanchor worker`; `metalanchor up` does so by itself."),
    )


def _database(status: Mapping[str, Any], say: Speech) -> Finding:
    database, name = status["database"], say("History")
    if database["status"] == "up":
        return Finding(name=name, state="ok", text=say("The {kind} database answers.", kind=database["kind"]))
    return Finding(name=name, state="degraded", text=str(database["error"]))


def _spool(status: Mapping[str, Any], say: Speech) -> Finding:
    spool, name = status["spool"], say("Spool")
    if not spool["records"]:
        return Finding(name=name, state="ok", text=say("Nothing waits on disk."))
    return Finding(
        name=name,
        state="degraded",
        text=say(
            "{n} rows ({size}) wait on disk until Redis is back.",
            n=count(spool["records"]),
            size=size(spool["bytes"]),
        ),
    )


def _dropped(status: Mapping[str, Any], say: Speech) -> Finding:
    lost, name = sum(status["dropped"].values()), say("Lost rows")
    if not lost:
        return Finding(name=name, state="ok", text=say("Not one row was lost since this process began."))
    return Finding(
        name=name,
        state="degraded",
        text=say("{n} rows or bodies were lost since this process began.", n=count(lost)),
    )
