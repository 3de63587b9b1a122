"""Owns what became of this process's latest requests, from the moment their answers ended.

The shared state learns of it a little later, off the request path; a client that goes on at once would else be
compared with a request whose answer nobody seems to know. In memory, bounded, gone with the process.
"""

from collections import OrderedDict

from services.proxy.state.base import Settled, Sighting

KEPT = 1_024  # the state knows of an ending within milliseconds; this is seconds of heavy traffic


class Endings:
    """What became of the latest requests, by id."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, Settled] = OrderedDict()

    def put(self, settled: Settled) -> None:
        """Remember how a request ended."""
        self._held[settled.id] = settled
        if len(self._held) > KEPT:
            self._held.popitem(last=False)

    def complete(self, sighting: Sighting) -> None:
        """Fill in, in place, the endings that the state did not know yet."""
        for past in sighting.candidates:
            if past.settled is None:
                past.settled = self._held.get(past.node.id)
        sighting.calls = [
            (call, settled if settled is not None else self._held.get(call.id))
            for call, settled in sighting.calls
        ]
