"""Owns what became of this process's latest requests, from the moment their answers ended.

The shared state learns of it a little later, off the request path; a client that goes on at once would else
be compared with a request whose answer nobody seems to know. In memory, bounded, gone with the process.
"""

from collections import OrderedDict
from collections.abc import Sequence

from services.proxy.state.base import Settled, Sighting

KEPT = 1_024  # the state knows of an ending within milliseconds; this is seconds of heavy traffic


class Endings:
    """What became of the latest requests, by id."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, tuple[Settled, Sequence[int]]] = OrderedDict()

    def put(self, settled: Settled) -> None:
        """Remember how a request ended."""
        self._held[settled.id] = settled, ()
        if len(self._held) > KEPT:
            self._held.popitem(last=False)

    def spell(self, request_id: str, spellings: Sequence[int]) -> None:
        """Remember how the chunks of a request that ended were spelt (see `causes.notes`)."""
        held = self._held.get(request_id)
        if held is not None:
            self._held[request_id] = held[0], spellings

    def spellings(self, request_id: str) -> Sequence[int]:
        """How a request's chunks were spelt; empty where that is not known here."""
        held = self._held.get(request_id)
        return held[1] if held else ()

    def settled(self, request_id: str) -> Settled | None:
        """How a request ended, if it did in this process lately."""
        held = self._held.get(request_id)
        return held[0] if held else None

    def complete(self, sighting: Sighting) -> None:
        """Fill in, in place, the endings that the state did not know yet."""
        for past in sighting.candidates:
            if past.settled is None:
                past.settled = self.settled(past.node.id)
        calls = sighting.calls
        for at, (call, settled) in enumerate(calls):
            if settled is None:
                calls[at] = call, self.settled(call.id)
