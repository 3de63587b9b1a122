"""Times as people type them on a command line."""

import datetime as dt
import re

import click

AGO = re.compile(r"(\d{1,6})([smhdw])")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Moment(click.ParamType[dt.datetime]):
    """An age such as ``90m``, ``24h`` or ``7d``, or an ISO 8601 time (UTC unless it says otherwise)."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dt.datetime:
        """An aware time; fails with what is accepted."""
        text = str(value)
        try:
            if ago := AGO.fullmatch(text):
                return dt.datetime.now(dt.UTC) - dt.timedelta(seconds=int(ago[1]) * UNITS[ago[2]])
            parsed = dt.datetime.fromisoformat(text)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
        except (ValueError, OverflowError):  # the calendar begins with the year 1
            self.fail(f"{text!r} is neither an age such as 24h nor an ISO 8601 time.", param, ctx)


class Age(click.ParamType[float]):
    """An age such as ``90m``, ``24h`` or ``7d``, in seconds."""

    name = "age"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; fails with what is accepted."""
        ago = AGO.fullmatch(str(value))
        if ago is None:
            self.fail(f"{str(value)!r} is no age such as 90m, 24h or 7d.", param, ctx)
        return float(int(ago[1]) * UNITS[ago[2]])
