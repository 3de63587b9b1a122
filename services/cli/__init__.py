"""The ``metalanchor`` command, one module a command group, loaded only when it is called.

Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 3 the proxy or the database cannot be reached,
4 running but degraded, 130 interrupted. Errors are one sentence that names the setting or the next step.
"""

import importlib
import io
import os
import sys
from typing import Any

import click

from services.settings import SettingsError

# name → (module, one line for --help), so that --help imports no command
COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("up", "Start everything on this machine: Redis, migrations, worker, proxy."),
    "proxy": ("run", "Run the proxy alone, in the foreground."),
    "worker": ("run", "Run the logger worker alone, in the foreground."),
    "migrate": ("migrate", "Bring the request history to the present schema."),
    "service": ("service", "Run in the background from login on, under launchd or systemd."),
    "status": ("status", "Say whether each part is up, or show the settings."),
    "doctor": ("doctor", "Check this installation and say what to do about each fault."),
    "env": ("env", "Print the line that points an agent at the proxy."),
    "top": ("top", "Show requests under way and those that ended last, live."),
    "watch": ("watch", "Watch the counters of a model server, live."),
    "requests": ("requests", "List recorded requests, newest first."),
    "lineages": ("lineages", "List the conversations that continue one another."),
    "explain": ("explain", "Say why a request did not reuse what it could have."),
    "report": ("report", "Sum up the requests of a span of time: hits, reuse, times, losses."),
    "query": ("query", "Run one read-only SQL statement on the history."),
    "export": ("export", "Write the rows to FILE, oldest first, as Parquet, CSV or JSON lines."),
    "cache": ("cache", "Look into the response cache, fill it, and drop answers."),
    "kv-size": ("kv_size", "Say how much memory a KV cache takes, and how much fits."),
    "demo": ("demo", "See in two minutes what reuse is worth, on a small built-in model."),
    "bench": ("bench", "Run the five scenarios and print what was measured."),
    "prune": ("prune", "Delete history older than the retention time."),
}
# Second names: that of the first server it knew, and the way to `cache warm` for those who look for it here.
ALSO: dict[str, tuple[str, str]] = {"watch-vllm": ("watch", "watch"), "warm": ("warm", "warm")}


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All command names, in the order of a working day."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command."""
        if cmd_name in COMMANDS:
            name, function = COMMANDS[cmd_name][0], cmd_name.replace("-", "_")
        elif cmd_name in ALSO:
            name, function = ALSO[cmd_name]
        else:
            return None
        command = getattr(importlib.import_module(f"services.cli.{name}"), function)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader (head, less) that has seen enough is no failure of it."""
        if os.environ.get("NO_COLOR"):  # https://no-color.org
            ctx.color = False
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # What is still buffered goes nowhere, or Python would complain when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list in ``--help``, from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="metalanchor", prog_name="metalanchor")
def cli() -> None:
    """Show, measure and explain prefix cache reuse between agents and local model servers."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the ``metalanchor`` script; ends the process with one of the codes above."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a locale may lack a character; so errors are told already
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code, with errors told on standard error."""
    try:
        result = cli.main(args=arguments, prog_name="metalanchor", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except SettingsError as error:
        click.echo(f"Error: {error}", err=True)
        return 2
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        text = f"Error: {type(error).__name__}: {error}\nFor the whole trace: python -X dev -m services.cli …"
        click.echo(text, err=True)
        return 1
    return result if isinstance(result, int) else 0
