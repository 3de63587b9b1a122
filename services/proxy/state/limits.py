"""How much the shared state keeps, and under what names. One place, because Redis and its twin must agree."""

from services.proxy.state.base import Node, Query

BY_SESSION = 8  # earlier requests offered as candidates: of the same explicit session,
BY_FIRST = 8  # with the same first non-system message,
BY_TOOLS = 4  # with equal tools,
BY_RECENCY = 8  # and of the same scope, backend and model, whatever they hold

CALLS = 64  # timeline of a backend; capacity is judged over two rounds of a handful of lineages
PER_LINEAGE = 8  # requests kept of one lineage: an outlier and what stood before it, with room
MARKED_PER_LINEAGE = 2  # of these, how many keep block digests; older ones are compared by text or not at all

AGENTS = 32  # agent names counted for one shared part; names come from clients, so they need a bound

EVENTS = 3 * CALLS  # of a backend's timeline in Redis: a call, its lineage, its end

TTL_S = 7 * 86400  # agents are resumed the next day, and after a weekend

# Bytes that an entry costs beside its own payload (keys, index entries, allocator), measured in
# tests/proxy/state/test_bounds.py against Valkey's own count.
NODE_COST = 1200
PART_COST = 600
EXACT_COST = 160

NODE_SHARE = 0.80  # of the cap, what nodes with their marks may take; the rest is for what follows
PART_SHARE = 0.06
EXACT_SHARE = 0.10


def nodes(max_bytes: int) -> int:
    """Bytes that requests with their marks may take."""
    return int(max_bytes * NODE_SHARE)


def parts(max_bytes: int) -> int:
    """Number of shared parts remembered."""
    return max(4, int(max_bytes * PART_SHARE) // PART_COST)


def chains(max_bytes: int) -> int:
    """Number of request chains remembered."""
    return max(4, int(max_bytes * EXACT_SHARE) // EXACT_COST)


def shared(node: Node) -> list[tuple[str, str]]:
    """The shared parts that a request shows; a system prompt without tools is one of its own kind."""
    found = [("system", node.system)] if node.system else []
    if node.tools:
        found.append(("tools", node.tools))
    elif node.system:
        found.append(("bare", node.system))
    return found


def indices(query: Query, node: Node) -> list[tuple[tuple[str, ...], int]]:
    """The lists that name a node, each with its length."""
    slot = (query.scope, query.group)
    found: list[tuple[tuple[str, ...], int]] = [((*slot, "recent"), BY_RECENCY)]
    if node.session:
        found.append(((*slot, "session", node.session), BY_SESSION))
    if node.first:
        found.append(((*slot, "first", node.first), BY_FIRST))
    if node.tools:
        found.append(((*slot, "tools", node.tools), BY_TOOLS))
    return found
