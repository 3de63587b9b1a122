"""The price table: list prices of cloud models as dated data, and a user's own rows before them.

Read once at start and passed on. A model that has no row has no price: nothing is guessed from a name that
looks like it, because a variant is often priced apart from its family.
"""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from services.settings import SettingsError

Vendor = Literal["anthropic", "openai"]
VENDORS: frozenset[str] = frozenset({"anthropic", "openai"})
BUILT_IN = Path(__file__).with_name("prices.toml")
# What vendors put behind a model's name to pin it: -20250929, @20250929, -2025-08-07, -latest.
_PINNED = re.compile(r"(?:[-@]\d{8}|-\d{4}-\d{2}-\d{2}|-latest)\Z")


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """US dollars per million tokens. `read` cached, `write` written (5 minutes), `write_1h` for an hour.

    None: the vendor does not price that class apart, so it costs what input costs.
    """

    input: float
    output: float | None = None
    read: float | None = None
    write: float | None = None
    write_1h: float | None = None


class LongRates(Rates, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The rates of a whole request whose prompt is longer than `above` tokens."""

    above: int


class Price(Rates, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A row of the table. `minimum` is the shortest prefix in tokens that is cached, None unknown."""

    vendor: Vendor
    model: str
    aliases: tuple[str, ...] = ()
    long: LongRates | None = None
    minimum: int | None = None
    source: str
    date: str

    def rates(self, prompt_tokens: int) -> Rates:
        """The rates that hold for a prompt of that length."""
        return self.long if self.long is not None and prompt_tokens > self.long.above else self


class _File(msgspec.Struct, forbid_unknown_fields=True):
    price: tuple[Price, ...] = ()
    sources: dict[str, str] = {}


class Prices:
    """Rows by vendor and model; of several for one model the first one given holds."""

    def __init__(self, rows: Iterable[Price]) -> None:
        self.rows = tuple(rows)
        self._known: dict[tuple[str, str], Price] = {}
        for row in self.rows:
            for name in (row.model, *row.aliases):
                self._known.setdefault((row.vendor, name), row)

    def find(self, vendor: str | None, model: str | None) -> Price | None:
        """The row of a model as clients name it, with or without its date; None where there is none."""
        if vendor not in VENDORS or not model:
            return None
        exact = self._known.get((vendor, model))
        return exact or self._known.get((vendor, _PINNED.sub("", model)))


def load_prices(own: str | None = None) -> Prices:
    """The table, a user's rows first; raises `SettingsError` where that file cannot be used."""
    rows = _read(BUILT_IN)
    if own:
        rows = _read(Path(own).expanduser()) + rows
    return Prices(rows)


def _read(path: Path) -> tuple[Price, ...]:
    try:
        found = msgspec.convert(tomllib.loads(path.read_text("utf-8")), _File)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise SettingsError(f"METALANCHOR_PRICES: {path} is no price table ({error}).") from error
    for row in found.price:
        for rates in (row, row.long):
            _check(path, row.model, rates)
    return tuple(msgspec.structs.replace(row, source=found.sources.get(row.source, row.source))
                 for row in found.price)  # fmt: skip


def _check(path: Path, model: str, rates: Rates | None) -> None:
    for name in Rates.__struct_fields__ if rates else ():
        amount = getattr(rates, name)
        if amount is not None and not 0 <= amount < float("inf"):
            raise SettingsError(f"METALANCHOR_PRICES: {name} of {model} in {path} is {amount}, no price.")
