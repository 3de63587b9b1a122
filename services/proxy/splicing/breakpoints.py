"""Which sections of a request are worth a cache breakpoint, by what was seen of them; pure.

A write costs more than no caching, so a section gets one only when an earlier request, recent enough for its
cache to live, had the same section and the same before it. A section that changes each turn gets none, and
neither does anything behind it. The first request of its kind gets none at all: nothing was measured yet.
"""

from itertools import takewhile
from typing import NamedTuple

from services.proxy.flow import Verdict
from services.proxy.placing.compare import start_of
from services.proxy.placing.outline import outline
from services.proxy.placing.tokens import Estimator, bulk_of
from services.proxy.prompt import Prompt, hex_of
from services.proxy.state.base import HASH_BYTES, Node, Sighting

LIFETIME_MS = 300_000  # of an entry without a ttl of its own; each read prolongs it
SHORTEST = 512  # tokens; of the documented minimum lengths the least. What is too short is only not cached
LONGEST_TAIL = 2  # messages at the end that were changed since: more than a passing context is a rewrite


class Point(NamedTuple):
    """Where to put a breakpoint: ``tools``, ``system``, or ``messages.N`` by index in the received list.

    `chunks` is how many of the prompt's chunks it caches.
    """

    name: str
    chunks: int
    message: int = -1


class Seen(NamedTuple):
    """What is known of a request when its breakpoints are chosen. `now` in epoch milliseconds."""

    prompt: Prompt
    sighting: Sighting
    verdict: Verdict
    now: int


def choose(seen: Seen, estimator: Estimator, model_key: str, minimum: int | None) -> list[Point]:
    """The points in prompt order, at most four; none where less than `minimum` tokens would be cached."""
    prompt = seen.prompt
    recent = [past.node for past in seen.sighting.candidates if seen.now - past.node.at <= LIFETIME_MS]
    ends = {chunk.kind: end for end, chunk in enumerate(prompt.chunks, 1)}
    points: list[Point] = []
    alike = [node for node in recent if node.tools == hex_of(prompt.tools_hash)]
    if alike and prompt.tools_hash:
        points.append(Point("tools", ends["tools"]))
    alike = [node for node in alike if node.system == hex_of(prompt.system_hash)]
    if alike and prompt.system_hash:
        points.append(Point("system", ends["system"]))
    points += _messages(seen, alike)
    least = minimum or SHORTEST
    return [
        point
        for point in points
        if estimator.estimate(model_key, bulk_of(prompt.chunks[: point.chunks])) >= least
    ]


def _messages(seen: Seen, alike: list[Node]) -> list[Point]:
    """Where the last request's stable part ended, and where this one's does.

    The first finds what that request wrote even where more than 20 blocks came since, which is as far as the
    service looks back. Other params (thinking, tool choice) would be another cache for the messages.
    """
    prompt = seen.prompt
    parent = seen.verdict.parent.node if seen.verdict.parent else None
    if parent is None or parent.id not in {node.id for node in alike}:
        return []
    if parent.params != hex_of(prompt.params_hash):
        return []
    lines = outline(prompt)
    first = start_of(lines.kinds)
    old, new = _hashes(parent.chunks, start_of(parent.kinds)), _hashes(lines.hashes, first)
    shared = _shared(old, new)
    tail = len(old) - shared
    if not shared or tail > LONGEST_TAIL:
        return []
    ends = sorted({first + shared, first + len(new) - tail})
    return [
        Point(f"messages.{prompt.chunks[end - 1].index}", end, prompt.chunks[end - 1].index) for end in ends
    ]


def _hashes(joined: bytes, start: int) -> list[bytes]:
    return [joined[at : at + HASH_BYTES] for at in range(start * HASH_BYTES, len(joined), HASH_BYTES)]


def _shared(old: list[bytes], new: list[bytes]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
