"""How much the shared state keeps. One place, because Redis and its in-process twin must agree."""

BY_SESSION = 8  # earlier requests offered as candidates: of the same explicit session,
BY_FIRST = 8  # with the same first non-system message,
BY_TOOLS = 4  # with equal tools,
BY_RECENCY = 8  # and of the same scope, backend and model, whatever they hold

CALLS = 64  # timeline of a backend; capacity is judged over two rounds of a handful of lineages
PER_LINEAGE = 8  # requests kept of one lineage: an outlier and what stood before it, with room
MARKED_PER_LINEAGE = 2  # of these, how many keep block digests; older ones are compared by text or not at all

TTL_S = 7 * 86400  # agents are resumed the next day, and after a weekend

# Bytes that an entry costs beside its own payload (keys, index entries, allocator), measured in
# tests/proxy/state/test_bounds.py against Valkey's own count.
NODE_COST = 1200
PART_COST = 600
EXACT_COST = 160

NODE_SHARE = 0.80  # of the cap, what nodes with their marks may take; the rest is for what follows
PART_SHARE = 0.06
EXACT_SHARE = 0.10
