"""Equal requests that are on their way at the same time; owns who waits for whose answer.

A flight begins when a request goes to the backend and lands when its answer is stored, or is not to be. Who
asks the same while the last bytes are on their way waits for the landing, a moment at most, so that a repeat
never misses the answer it has just seen. With sharing switched on, who asks the same at any time waits, but
for the answer alone: a Redis that hangs while it is stored is nothing to them.
"""

import asyncio
from collections.abc import Callable

from services.proxy.answers.base import Stored
from services.proxy.answers.recorder import Recorder


class Flight:
    """One request on its way to an answer under `key`.

    `passengers` count those who wait for it; when its own client has left (`deserted`), it goes on for them,
    and `end` is called when the last of them has left too. `storing`: it will land by itself.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.recorder: Recorder | None = None
        self.passengers = 0
        self.end: Callable[[], None] | None = None
        self.deserted = False
        self.storing = False
        loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[Stored | None] = loop.create_future()
        self.landed: asyncio.Future[None] = loop.create_future()

    @property
    def landing(self) -> bool:
        """Whether its answer has come to an end, or shows its end already."""
        return self.recorder is not None and self.recorder.ending

    def leave(self) -> None:
        """A passenger leaves."""
        self.passengers -= 1
        if not self.passengers and self.deserted and self.end is not None:
            self.end()


class Flights:
    """All of this process, by key, oldest first."""

    def __init__(self) -> None:
        self._flights: dict[str, list[Flight]] = {}

    def begin(self, key: str) -> Flight:
        """A request goes to the backend."""
        flight = Flight(key)
        self._flights.setdefault(key, []).append(flight)
        return flight

    def tell(self, flight: Flight, stored: Stored | None) -> None:
        """Its answer is known, or will not be. Idempotent."""
        if not flight.answered.done():
            flight.answered.set_result(stored)
        flight.end = None  # it knows its request by it, and the request its flight: a reference cycle

    def land(self, flight: Flight) -> None:
        """Its answer is stored, or will not be. Idempotent."""
        if flight.landed.done():
            return
        self.tell(flight, None)
        flight.landed.set_result(None)
        left = [other for other in self._flights.get(flight.key, ()) if other is not flight]
        if left:
            self._flights[flight.key] = left
        else:
            self._flights.pop(flight.key, None)

    def under_way(self, key: str, *, landing: bool) -> Flight | None:
        """The first flight to a key, or the first that is about to land."""
        flights = self._flights.get(key, ())
        return next((flight for flight in flights if flight.landing or not landing), None)
