"""Figures as people read them. What is unknown is a dash, never a zero. Pure."""

import datetime as dt
from collections.abc import Callable

from services.proxy.admin.pages.language import ENGLISH

UNKNOWN = "–"
THIN = "\u202f"

Say = Callable[..., str]


def percent(share: float | None) -> str:
    """A share as whole percents; nothing is rounded up to 100 %."""
    if share is None:
        return UNKNOWN
    return f"{int(share * 100 + (0.5 if share < 0.995 else 0))} %"


def milliseconds(value: float | None) -> str:
    """A duration with a unit that keeps it short."""
    if value is None:
        return UNKNOWN
    if value < 999.5:
        return f"{value:.0f} ms"
    return f"{value / 1e3:.1f} s" if value < 60_000 else f"{value / 6e4:.1f} min"


def dollars(value: float | None) -> str:
    """An amount with enough digits that it is not lost: four of a small one, cents of a large one."""
    if value is None:
        return UNKNOWN
    digits = 2 if abs(value) >= 1 else 4
    return f"{'-' if value < 0 else ''}${abs(value):,.{digits}f}".replace(",", THIN)


def count(value: float | None) -> str:
    """A number with thousands set apart."""
    return UNKNOWN if value is None else f"{value:,.0f}".replace(",", THIN)


def size(value: int | None) -> str:
    """Bytes with a unit that keeps them short."""
    if value is None:
        return UNKNOWN
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if value >= step:
            return f"{value / step:.1f} {unit}"
    return f"{value} B"


def ago(stamp: str | None, say: Say = ENGLISH) -> str:
    """An ISO 8601 time as an age."""
    if stamp is None:
        return UNKNOWN
    seconds = max(0, int((dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(stamp)).total_seconds()))
    if seconds >= 86_400:
        return say("{n} d ago", n=seconds // 86_400)
    if seconds >= 3_600:
        return say("{n} h ago", n=seconds // 3_600)
    if seconds >= 60:
        return say("{n} min ago", n=seconds // 60)
    return say("{n} s ago", n=seconds)


def short(value: str | None, most: int = 12) -> str:
    """The beginning of a long id."""
    if value is None:
        return UNKNOWN
    return value if len(value) <= most else value[: most - 1] + "…"


def measured_reuse(row: dict[str, object]) -> float | None:
    """The share of a row's prompt that the backend says it reused."""
    cached, total = row.get("cached_tokens"), row.get("prompt_tokens")
    if isinstance(cached, int) and isinstance(total, int) and total > 0:
        return cached / total
    return None
