"""Runs the proxy in the foreground: ports, processes, signals. Owns the order in which everything stops.

One worker serves in the very process that was started, so that nothing of it outlives a kill. Several are
spawned, never forked (macOS aborts forked children that touch its frameworks), and share the port; they watch
a pipe to their parent and end with it. On SIGTERM or SIGINT the application is told first: live flows end and
have their rows, then the HTTP server goes, which by itself would wait for live streams without end, then the
rows are carried out.
"""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvloop
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server

from services.proxy.app import Gate, open_app
from services.proxy.context import backend_settings
from services.proxy.logs import LOGGING, configure_logging
from services.proxy.wire import errors
from services.proxy.workers import supervise
from services.settings import PREFIX, Settings, SettingsError

log = logging.getLogger("metalanchor")

# Connections a worker serves at once. A long stream holds one; granian counts idle kept-alive ones too.
BACKPRESSURE = 16_384
BACKLOG = 1024
# Descriptors of an idle proxy: 30 (libraries, spool, journal, Redis, SQLite), and as many for its own pages.
OWN_FILES = 64
# The whole way out, of the 3 s that a stop may take: what is not done by then is left to the journal.
DEADLINE_S = 2.6
FLOWS_STOP_S = 0.5
SERVER_STOP_S = 0.3
FILES = 65_536
# New objects between looks of the collector, and how many looks make one at older generations.
COLLECT = 50_000, 100, 100


def run(settings: Settings) -> int:
    """Serve until told to stop. Raises `SettingsError` for what the user can mend."""
    configure_logging()
    raise_file_limit()
    for row in backend_settings(settings):
        check_port(settings.host, row.port or settings.port)
    if settings.workers > 1:
        return supervise(settings)
    return serve(settings)


def serve(settings: Settings, leash: int | None = None, ready: Callable[[], None] = lambda: None) -> int:
    """Serve in this process; ends it.

    `leash` is a descriptor that closes when the supervising process is gone; `ready` is called once requests
    are taken. Raises `SettingsError`.
    """
    configure_logging()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, leash, ready))
        # granian's threads may still hold sockets of clients that never leave; nothing of ours waits.
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


async def _serve(settings: Settings, leash: int | None, ready: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    if leash is not None:
        loop.add_reader(leash, stop.set)
    async with open_app(settings) as (gate, ctx):
        rows = backend_settings(settings)
        servers = [_server(gate, settings, row.port or settings.port, len(rows)) for row in rows]
        serving = [asyncio.create_task(server.serve()) for server in servers]
        for row in rows:
            log.info("MetalAnchor on http://%s:%s for %s", settings.host, row.port, errors.shown_url(row.url))
        ready()
        settle_memory()
        stopped = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait({stopped, *serving}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        loop.call_later(DEADLINE_S, _give_up)
        await ctx.live.stop(FLOWS_STOP_S)
        for server in servers:
            server.stop()
        await asyncio.wait(serving, timeout=SERVER_STOP_S)
    for task in done - {stopped}:
        task.result()


def settle_memory() -> None:
    """Keep the collector away from what lives as long as the process, and have it look less often.

    By default it looks after every 700 new objects, which is several times a request; almost all that a
    request leaves is freed without it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)


def _give_up() -> None:
    """Whatever still waits would hold the process beyond its time; the journal has the rest."""
    os._exit(0)


def connections(files: int, ports: int) -> int:
    """How many clients each of the ports may serve at once, given so many descriptors.

    Every client may need one towards the backend too; a client over this number waits to be accepted, which
    is better than one that was accepted and cannot be served.
    """
    if files == resource.RLIM_INFINITY:
        return BACKPRESSURE
    return max(1, min(BACKPRESSURE, (files - OWN_FILES) // 2 // ports))


def _server(gate: Gate, settings: Settings, port: int, ports: int) -> Any:
    return Server(
        gate,
        address=settings.host,
        port=port,
        interface=Interfaces.ASGINL,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(),
        websockets=True,
        backlog=BACKLOG,
        backpressure=connections(resource.getrlimit(resource.RLIMIT_NOFILE)[0], ports),
        log_level=LogLevels.error,
        log_dictconfig=LOGGING,
    )


def check_port(host: str, port: int) -> None:
    """Refuse a port that somebody listens on; granian would share it with another proxy silently."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise SettingsError(
            f"{host}:{port} cannot be listened on ({error.strerror}). Set {PREFIX}PORT to a free port, "
            f"or stop what uses this one."
        ) from error


def raise_file_limit() -> None:
    """A stream holds two descriptors; macOS starts programs with 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
