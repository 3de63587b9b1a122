"""Joins what Redis and this process remember: after an outage either may know what the other missed. Pure."""

from services.proxy.state.base import Call, Past, Settled, Sighting


def adds_nothing(shared: Sighting, own: Sighting) -> bool:
    """Whether Redis knows no more than this process; as a rule where no other process is."""
    return not (
        shared.candidates
        or (shared.system_seen and not own.system_seen)
        or (shared.tools_seen and not own.tools_seen)
        or (shared.exact_seen and not own.exact_seen)
    )


def merge(shared: Sighting, own: Sighting, calls: list[tuple[Call, Settled | None]]) -> Sighting:
    """Both sightings as one. `shared` holds only candidates that `own` does not."""
    candidates = own.candidates
    if shared.candidates:
        held: dict[str, Past] = {past.node.id: past for past in (*shared.candidates, *own.candidates)}
        candidates = [held[request_id] for request_id in sorted(held, reverse=True)]
    return Sighting(
        system_seen=shared.system_seen or own.system_seen,
        tools_seen=shared.tools_seen or own.tools_seen,
        exact_seen=shared.exact_seen or own.exact_seen,
        candidates=candidates,
        calls=calls,
    )
