"""What a body asks of the engine besides text: options that reload a model, lifetime, limits; pure."""

import re
from typing import Any

from msgspec import Raw

from services.proxy.chunking import cut

# Options whose change makes Ollama load the model anew, or shrinks what it keeps.
LOAD_OPTIONS = (
    "num_ctx", "num_batch", "num_gpu", "main_gpu", "use_mmap", "use_mlock", "num_thread", "num_keep",
    "draft_num_predict",
)  # fmt: skip

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([+-]?)((?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+")
_STEP = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


def load_options(options: Raw, shift: Raw) -> dict[str, Any]:
    """The load-affecting members of Ollama's `options`, and the top-level `shift`, as sent."""
    found: dict[str, Any] = {}
    if cut.first_byte(options) == b"{":
        fields = cut.members(options)
        found = {name: scalar_of(fields[name]) for name in LOAD_OPTIONS if name in fields}
    if cut.is_set(shift):
        found["shift"] = scalar_of(shift)
    return {name: item for name, item in found.items() if item is not None}


def scalar_of(raw: Raw) -> bool | float | int | str | None:
    """A flag, a number or a short text; None for anything else."""
    flag = cut.flag_of(raw)
    if flag is not None:
        return flag
    number = cut.number_of(raw)
    if number is not None:
        return number
    text = cut.text_of(raw)
    return text[:40] if text else None


def keep_alive(raw: Raw) -> float | None:
    """Ollama's `keep_alive` in seconds: a number, or a Go duration (``1h30m``); negative never unloads."""
    number = cut.number_of(raw)
    if number is not None:
        return float(number)
    text = (cut.text_of(raw) or "").strip()
    if text in {"0", "+0", "-0"}:
        return 0.0
    if len(text) > 64 or not _DURATION.fullmatch(text):
        return None
    seconds = sum(float(count) * _UNITS[unit] for count, unit in _STEP.findall(text))
    return -seconds if text.startswith("-") else seconds


def whole(*raws: Raw) -> int | None:
    """The first of several fields that holds a whole number."""
    for raw in raws:
        number = cut.number_of(raw)
        if number is not None and number == int(number):
            return int(number)
    return None


def decimal(raw: Raw) -> float | None:
    """A field that holds a number."""
    number = cut.number_of(raw)
    return None if number is None else float(number)
