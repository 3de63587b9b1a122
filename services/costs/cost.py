"""What one request cost, what it would have cost without prompt caching, and when a write pays off. Pure.

List prices, standard tier, tokens as the vendor reported them. Writing to a cache is dearer than not using
it, so savings are negative until what was written has been read often enough.
"""

from typing import NamedTuple

from services.costs.prices import Price, Rates

MILLION = 1_000_000
DIGITS = 12  # of a dollar: one cached token of the cheapest model costs 1e-8


class Tokens(NamedTuple):
    """One request's tokens by what they are charged as; the first four are its prompt."""

    fresh: int
    read: int = 0
    written: int = 0
    written_1h: int = 0
    output: int = 0

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.fresh + self.read + self.written + self.written_1h


class Cost(NamedTuple):
    """US dollars: what the request cost, and what caching saved of what it would have cost without."""

    cost_usd: float
    savings_usd: float


def cost_of(tokens: Tokens, price: Price) -> Cost | None:
    """What these tokens cost; None where the row lacks the price of what was generated."""
    rates = price.rates(tokens.prompt)
    if rates.output is None and tokens.output:
        return None
    generated = tokens.output * (rates.output or 0.0)
    prompt = (
        tokens.fresh * rates.input
        + tokens.read * _or_input(rates, rates.read)
        + tokens.written * _or_input(rates, rates.write)
        + tokens.written_1h * _or_input(rates, rates.write_1h)
    )
    plain = tokens.prompt * rates.input
    return Cost(round((prompt + generated) / MILLION, DIGITS), round((plain - prompt) / MILLION, DIGITS))


class BreakEven(NamedTuple):
    """How often a written token must be read before its write has paid for itself; None where it never does.

    Anthropic's usual factors (1.25, 2 and 0.1 of the input price) give 0.28 and 1.11: one read pays for five
    minutes, two for an hour. A class without a price of its own costs nothing extra: 0.
    """

    write: float | None
    write_1h: float | None


def break_even(price: Price) -> BreakEven:
    """Reads per write at which caching costs what no caching would."""
    return BreakEven(_reads(price, price.write), _reads(price, price.write_1h))


def _reads(rates: Rates, write: float | None) -> float | None:
    extra = _or_input(rates, write) - rates.input
    saved = rates.input - _or_input(rates, rates.read)
    if extra <= 0:
        return 0.0
    return round(extra / saved, 4) if saved > 0 else None


def _or_input(rates: Rates, amount: float | None) -> float:
    return rates.input if amount is None else amount
