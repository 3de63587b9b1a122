"""When a model server became another process, or was launched otherwise, by what it says of itself.

Pure. A process that is gone took its cache along, whatever the text of the next prompt holds; this is the
evidence for saying so. The watcher owns a `Life` a backend and leaves what it finds in `Backend.restarts`.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Evidence = Literal["options", "new_process", "was_away", "asleep"]

# What a server is launched with, as its facts name it, in the order in which a change is named.
OPTIONS = ("n_ctx", "total_slots", "model", "chat_template", "version")


class Restart(NamedTuple):
    """A server that was there at `after` was seen gone, asleep or another at `by`; epoch milliseconds.

    `option`, `old` and `new` name what it was launched with otherwise; None where nothing differs.
    """

    after: int
    by: int
    evidence: Evidence
    option: str | None = None
    old: Any = None
    new: Any = None


class Life:
    """What a server said of itself when last seen, and since when it has been away."""

    def __init__(self) -> None:
        self._facts: Mapping[str, Any] | None = None
        self._seen_at = 0
        self._away_at: int | None = None
        self._asleep = False

    def refused(self, at: int) -> None:
        """Nothing listened on its port at `at`: the process is gone."""
        if self._facts is not None and self._away_at is None:
            self._away_at = at

    def seen(self, facts: Mapping[str, Any], asked: int, answered: int) -> Restart | None:
        """It said `facts` between two instants; the restart that this proves, if any."""
        before, since, away, slept = self._facts, self._seen_at, self._away_at, self._asleep
        self._facts, self._seen_at, self._away_at = facts, asked, None
        self._asleep = bool(facts.get("sleeping"))
        if before is None:
            return None
        option = next((name for name in OPTIONS if before.get(name) != facts.get(name)), None)
        by = answered if away is None else away
        if option is not None:
            return Restart(since, by, "options", option, before.get(option), facts.get(option))
        if away is not None:
            return Restart(since, by, "was_away")
        if before.get("process") != facts.get("process"):
            return Restart(since, by, "new_process")
        return Restart(since, by, "asleep") if self._asleep and not slept else None
