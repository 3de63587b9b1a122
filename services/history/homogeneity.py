"""Whether nearly all questions are the same few: then a fixed template answers them without a model.

It owns no state. Rows hold no text: a question is named by the request that the backend answered, under whose
id the live cache still knows its words, and by the hash of its prompt.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from services.history.queries import Filters, narrow
from services.history.tables import requests

# As for what was sent again (`repeats`): all have to be looked at, and these many take less than 100 ms.
NEWEST = 5_000
HIGH = 0.9  # a hit rate above which the questions are hardly questions any more
# It stays above where it is so in each fifth of the looks, of at least ten each.
PARTS, LEAST = 5, 50
# The few: those that make four fifths of the hits, if there are not more than these.
SHARE, MOST = 0.8, 10
SERVED = frozenset({"hit", "semantic"})

_columns = requests.c
NAMES = (
    "id", "request_hash", "response_cache", "answered_by", "saved_tokens", "saved_ms", "prompt_tokens",
    "completion_tokens", "total_ms",
)  # fmt: skip
Row = dict[str, Any]


def homogeneity(connection: Connection, filters: Filters) -> Row | None:
    """How often the response cache hit, and which few questions make that; None where it was not asked.

    ``stays`` is whether the ``hit_rate`` stays above 90 %; then ``few`` names questions, most hits first,
    each by a ``request`` that the backend answered and its ``hash``, with its ``hits``, what they saved, and
    the ``calls`` of the backend that it still took, with their ``call_tokens`` and ``call_ms``: what a fixed
    template would save on top, summed in ``template``. ``question`` is for whoever knows the words. Of the
    ``newest`` so many requests of the span.
    """
    base = narrow(select(*(_columns[name] for name in NAMES), _columns.received_at), filters)
    newest = base.order_by(_columns.received_at.desc()).limit(NEWEST).cte("newest")
    query = select(newest).where(newest.c.response_cache.in_((*SERVED, "miss")))
    query = query.order_by(newest.c.received_at.desc())
    looks = [dict(row) for row in connection.execute(query).mappings()]
    if not looks:
        return None
    hits = [row for row in looks if row["response_cache"] in SERVED]
    stays = _stays([row["response_cache"] in SERVED for row in looks])
    few = _few(hits, looks, _hashes(connection, hits)) if stays else []
    return {
        "looked": len(looks), "hits": len(hits), "hit_rate": len(hits) / len(looks), "stays": stays,
        "newest": NEWEST, "few": few,
        "template": {name: sum(item[name] for item in few) for name in ("calls", "call_tokens", "call_ms")},
    }  # fmt: skip


def _stays(served: Sequence[bool]) -> bool:
    """Whether the rate is high in every part of the looks."""
    if len(served) < LEAST:
        return False
    borders = [len(served) * part // PARTS for part in range(PARTS + 1)]
    parts = [served[first:past] for first, past in itertools.pairwise(borders)]
    return all(sum(part) > HIGH * len(part) for part in parts)


def _hashes(connection: Connection, hits: Sequence[Row]) -> dict[str, str]:
    """The prompt hashes of the requests that the backend answered, by their ids."""
    originals = sorted({row["answered_by"] for row in hits if row["answered_by"]})
    found: dict[str, str] = {}
    for first in range(0, len(originals), 500):  # SQLite takes no more than a thousand values
        query = select(_columns.id, _columns.request_hash).where(
            _columns.id.in_(originals[first : first + 500]), _columns.request_hash.is_not(None)
        )
        found |= {row.id: row.request_hash for row in connection.execute(query)}
    return found


def _few(hits: Sequence[Row], looks: Sequence[Row], hashes: Mapping[str, str]) -> list[Row]:
    """The questions that make most hits; an answer that was stored anew belongs to the same question."""
    questions: dict[str, Row] = {}
    for row in hits:
        original = row["answered_by"]
        name = hashes.get(original, original)
        item = questions.setdefault(name, {"request": original, "hash": hashes.get(original)} | _nothing())
        item["hits"] += 1
        item["saved_tokens"] += row["saved_tokens"] or 0
        item["saved_ms"] += row["saved_ms"] or 0.0
    for row in looks:
        if row["response_cache"] == "miss" and row["request_hash"] in questions:
            item = questions[row["request_hash"]]
            item["calls"] += 1
            item["call_tokens"] += (row["prompt_tokens"] or 0) + (row["completion_tokens"] or 0)
            item["call_ms"] += row["total_ms"] or 0.0
    return _most(sorted(questions.values(), key=lambda item: -item["hits"]), len(hits))


def _nothing() -> Row:
    return {"question": None, "hits": 0, "saved_tokens": 0, "saved_ms": 0.0, "calls": 0, "call_tokens": 0,
            "call_ms": 0.0}  # fmt: skip


def _most(ordered: Sequence[Row], hits: int) -> list[Row]:
    chosen: list[Row] = []
    for item in ordered[:MOST]:
        chosen.append(item | {"share": item["hits"] / hits})
        if sum(one["hits"] for one in chosen) >= SHARE * hits:
            break
    return chosen
