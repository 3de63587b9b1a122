"""``metalanchor proxy`` and ``metalanchor worker`` run the two long-running processes, in the foreground.

Both start from the settings alone and stop on SIGTERM within 3 s; a supervisor of any kind may run them.
"""

import socket

import click

from services.cli.errors import Failure
from services.settings import load

with_parent = click.option(
    "--with-parent", is_flag=True, hidden=True, help="Stop when the process that started this one ends."
)


@click.command()
@with_parent
def proxy(with_parent: bool) -> int:
    """Run the proxy alone, in the foreground."""
    settings = load()
    _leave_with_parent(with_parent)
    from services.proxy.server import run  # noqa: PLC0415 - keeps litestar out of the other commands

    return run(settings)


@click.command()
@click.option("--check", is_flag=True, help="Only say, by exit code 0 or 1, whether this host's is at work.")
@with_parent
def worker(check: bool, with_parent: bool) -> int:
    """Run the logger worker alone, in the foreground."""
    settings = load()
    if settings.redis_url is None:
        raise click.UsageError("METALANCHOR_REDIS_URL is not set. Name the Redis that the proxies use.")
    if check:
        return _check_worker(settings.redis_url)
    _leave_with_parent(with_parent)
    from services.logger.worker import run  # noqa: PLC0415 - keeps SQLAlchemy out of the proxy

    return run(settings) or 0


def _check_worker(redis_url: str) -> int:
    """What a container's health check asks: a heartbeat from this host, and a database that takes rows."""
    from redis.exceptions import RedisError  # noqa: PLC0415 - needed for this alone

    from services.queue import read_heartbeats  # noqa: PLC0415
    from services.redis_client import open_redis  # noqa: PLC0415

    try:
        with open_redis(redis_url, socket_timeout=2, socket_connect_timeout=2) as connection:
            beats = [beat for beat in read_heartbeats(connection) if beat.host == socket.gethostname()]
    except RedisError as error:
        raise Failure(f"Redis does not answer the worker's check: {type(error).__name__}.") from None
    if not beats:
        raise Failure("No worker of this host has shown itself within the last 10 s.")
    if waiting := next((beat.database for beat in beats if beat.state == "waiting"), None):
        raise Failure(f"The worker waits for the database: {waiting}")
    click.echo(f"{len(beats)} at work")
    return 0


def _leave_with_parent(wanted: bool) -> None:
    if wanted:
        from services.supervisor import leave_with_parent  # noqa: PLC0415

        leave_with_parent()
