"""Owns whose turn it is to have a request read: one a turn of the loop, when several come at once.

Reading and placing a request holds the loop for some tenths of a millisecond. Were all that arrive together
read in one go, the last of them would be forwarded, and the events of streams passed on, only after the whole
lot. So each is forwarded as it comes, and they are read one by one, with a look at the sockets in between.
"""

import asyncio
from collections import deque


class Turns:
    """A line in which nobody waits who is alone."""

    def __init__(self) -> None:
        self._line: deque[asyncio.Future[None]] = deque()
        self._taken = False

    async def take(self) -> None:
        """Wait for one's turn."""
        loop = asyncio.get_running_loop()
        if not self._taken:
            self._taken = True
            loop.call_soon(self._pass_on)
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._line.append(turn)
        await turn

    def _pass_on(self) -> None:
        """Let the next one have the coming turn of the loop; one who has left takes none."""
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._pass_on)
                return
        self._taken = False
