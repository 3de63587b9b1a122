"""Joins what Redis and this process remember: after an outage either may know what the other missed. Pure."""

from services.proxy.state import limits
from services.proxy.state.base import Call, Past, Settled, Sighting


def merge(shared: Sighting, own: Sighting) -> Sighting:
    """Both sightings as one; of two versions of an entry the one that knows more is kept."""
    shared.system_seen |= own.system_seen
    shared.tools_seen |= own.tools_seen
    shared.exact_seen |= own.exact_seen
    shared.candidates = _candidates(shared.candidates, own.candidates)
    shared.calls = _calls(shared.calls, own.calls)
    return shared


def _candidates(shared: list[Past], own: list[Past]) -> list[Past]:
    held = {past.node.id: past for past in own}
    for past in shared:
        other = held.get(past.node.id)
        if other is None or other.settled is None or not other.node.lineage:
            held[past.node.id] = past
    return [held[request_id] for request_id in sorted(held, reverse=True)]


def _calls(
    shared: list[tuple[Call, Settled | None]], own: list[tuple[Call, Settled | None]]
) -> list[tuple[Call, Settled | None]]:
    held = {entry[0].id: entry for entry in own}
    for entry in shared:
        other = held.get(entry[0].id)
        if other is None or other[1] is None or other[0].lineage is None:
            held[entry[0].id] = entry
    return [held[request_id] for request_id in sorted(held)[-limits.CALLS :]]
