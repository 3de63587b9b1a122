"""Figures as people read them. What is unknown is a dash, never a zero. Pure."""

import datetime as dt

UNKNOWN = "–"


def percent(share: float | None) -> str:
    """A share as whole percents; nothing is rounded up to 100 %."""
    if share is None:
        return UNKNOWN
    return f"{int(share * 100 + (0.5 if share < 0.995 else 0))} %"


def milliseconds(value: float | None) -> str:
    """A duration with a unit that keeps it short."""
    if value is None:
        return UNKNOWN
    if value < 1_000:
        return f"{value:.0f} ms"
    return f"{value / 1e3:.1f} s" if value < 60_000 else f"{value / 6e4:.1f} min"


def count(value: int | None) -> str:
    """A number with thousands set apart."""
    return UNKNOWN if value is None else f"{value:,}".replace(",", "\u202f")


def ago(stamp: str | None) -> str:
    """An ISO 8601 time as an age."""
    if stamp is None:
        return UNKNOWN
    seconds = max(0, int((dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(stamp)).total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
