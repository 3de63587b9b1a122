"""``metalanchor proxy`` and ``metalanchor worker`` run the two long-running processes, in the foreground.

Both start from the settings alone and stop on SIGTERM within 3 s; a supervisor of any kind may run them.
"""

import click

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
@with_parent
def worker(with_parent: bool) -> int:
    """Run the logger worker alone, in the foreground."""
    settings = load()
    if settings.redis_url is None:
        raise click.UsageError("METALANCHOR_REDIS_URL is not set. Name the Redis that the proxies use.")
    _leave_with_parent(with_parent)
    from services.logger.worker import run  # noqa: PLC0415 - keeps SQLAlchemy out of the proxy

    return run(settings) or 0


def _leave_with_parent(wanted: bool) -> None:
    if wanted:
        from services.supervisor import leave_with_parent  # noqa: PLC0415

        leave_with_parent()
