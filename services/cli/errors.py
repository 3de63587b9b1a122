"""The two ways in which a command fails, each with its exit code."""

import click


class Failure(click.ClickException):
    """The command could not do its work; the text says why and what to do next."""

    exit_code = 1


class Unreachable(click.ClickException):
    """The proxy or the database does not answer; the text names the address and the next step."""

    exit_code = 3
