"""How the turns of conversations follow one another, and whether what was written for them was read.

Owns a few figures a conversation, bounded. A client that pauses for longer than an entry lives after every
other turn would pay for a write each time and never read it; how soon the next turn comes is not known when a
request arrives, so it is learnt: each write that nobody read makes one more quick turn necessary before the
next.
"""

from collections import OrderedDict

import msgspec

from services.proxy.splicing.breakpoints import LIFETIME_MS

REMEMBERED = 1_024  # conversations; a machine has tens under way


class _Tempo(msgspec.Struct):
    """Times in epoch milliseconds: when the last turn came, when the last with breakpoints had its answer.

    `quick` turns came in time one after the other; `wasted` writes in a row were not read.
    """

    at: int
    quick: int = 0
    given: int | None = None
    wasted: int = 0


class Tempos:
    """The tempo of each conversation, by its lineage."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Tempo] = OrderedDict()

    def turn(self, lineage: str, now: int) -> bool:
        """A turn came; whether a write for it may be expected to be read."""
        tempo = self._known.get(lineage)
        if tempo is None:
            self._known[lineage] = _Tempo(now)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
            return True
        self._known.move_to_end(lineage)
        tempo.quick = tempo.quick + 1 if now - tempo.at <= LIFETIME_MS else 0
        tempo.at = now
        return not tempo.wasted or tempo.quick > tempo.wasted

    def answered(self, lineage: str, came: int, ended: int, read: int) -> bool:
        """A turn with breakpoints read so many tokens; whether it should have read more than none.

        That is so when an earlier one had some too, was answered before this one came (else its entries could
        not be read yet), and these still lived.
        """
        tempo = self._known.get(lineage)
        if tempo is None:
            return False
        before, tempo.given = tempo.given, max(ended, tempo.given or 0)
        if read:
            tempo.wasted = 0
        elif before is not None and before <= came:
            tempo.wasted += 1
            return came - before < LIFETIME_MS
        return False
