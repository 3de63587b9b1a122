"""From measured tokens to money, for backends that charge by the token.

A local server costs nothing a token, so its requests have no price, and neither have those of which a part
is unknown: a model without a row, or a count that was not reported and could be charged either way. Owns the
names of models that were asked for and have no row, so that the lack of a price can be said.
"""

import ipaddress
from typing import Any
from urllib.parse import urlsplit

from services.costs.cost import Cost, Tokens, cost_of
from services.costs.prices import VENDORS, Price, Prices
from services.proxy.backends.backend import Backend
from services.proxy.flow import Flow, Measured

UNPRICED = 32  # models without a price that are remembered by name; a user asks for a handful


class Billing:
    """Puts a price on requests."""

    def __init__(self, prices: Prices) -> None:
        self.prices = prices
        self._unpriced: dict[tuple[str, str], None] = {}

    def bill(self, flow: Flow) -> Cost | None:
        """What a request cost by list price, None where that is open; before cached tokens are inferred."""
        measured, prompt = flow.measured, flow.prompt
        if measured is None or prompt is None or flow.backend.kind not in VENDORS:
            return None
        vendor = vendor_of(flow.backend)
        price = self.prices.find(vendor, prompt.model)
        if price is None:
            if vendor and measured.prompt_tokens is not None and len(self._unpriced) < UNPRICED:
                self._unpriced[flow.backend.name, prompt.model[:200]] = None
            return None
        tokens = tokens_of(measured, price, embedding=prompt.kind == "embedding")
        return None if tokens is None else cost_of(tokens, price)

    def status(self) -> dict[str, Any]:
        """Rows of the table, when the newest was read, and models that were used and have none."""
        return {
            "rows": len(self.prices.rows),
            "read": max(row.date for row in self.prices.rows),
            "unpriced": [{"backend": backend, "model": model} for backend, model in self._unpriced],
        }


def vendor_of(backend: Backend) -> str | None:
    """Whose prices hold for a backend; None for one that is not known to charge.

    Anything that lists models as OpenAI does is found to be ``openai``; on this machine or network it is a
    local server, unless the user says what it is.
    """
    if backend.kind not in VENDORS or not (backend.kind_given or not is_near(backend.url)):
        return None
    return backend.kind


def is_near(url: str) -> bool:
    """Whether an address is this machine's or its own network's."""
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".lan", ".internal", ".localhost"))
    return address.is_private or address.is_loopback or address.is_link_local


def tokens_of(measured: Measured, price: Price, *, embedding: bool) -> Tokens | None:
    """The tokens by what they are charged as; None where that is open, or where the counts contradict.

    In Anthropic's shape what is not reported as read or written is charged as input. In OpenAI's a prompt
    without a cached count may be anything between, unless its model has no price for cached tokens.
    """
    total, output = measured.prompt_tokens, measured.completion_tokens
    if total is None or (output is None and not embedding):
        return None
    if measured.cached_tokens is None and price.read is not None and price.vendor != "anthropic":
        return None
    read, written, hour = measured.cached_tokens or 0, measured.written or 0, measured.written_1h or 0
    fresh = total - read - written - hour
    return Tokens(fresh, read, written, hour, output or 0) if fresh >= 0 else None
