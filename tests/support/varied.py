"""A history of many kinds of rows over some days, for tests that compare two ways to the same figures."""

import random
from datetime import UTC, datetime, timedelta

from services.ids import new_id
from services.record import Record
from tests.support.records import make_record

AGENTS = ("hermes", "codex", None)
MODELS = ("qwen3:8b", "gemma3:270m")
HITS = ("exact", "prefix", "system+tools", "system_only", "tools_only", "none", None)
CAUSES = (None, None, "timestamp", "evicted_by", "compaction")


def varied(count: int, end: datetime, days: float = 3.0, seed: int = 1) -> list[Record]:
    """Rows spread at random over the days before `end`, in the order of time."""
    pick = random.Random(seed)
    times = sorted(end - timedelta(days=days * pick.random()) for _ in range(count))
    return [_record(pick, round(at.astimezone(UTC).timestamp() * 1_000)) for at in times]


def _record(pick: random.Random, received_at: int) -> Record:
    prompt = pick.choice([None, 0, pick.randrange(100, 60_000)])
    cause = pick.choice(CAUSES)
    ttft = pick.choice([None, pick.lognormvariate(6, 2)])
    entries = [f"m{pick.randrange(400):012x}{pick.choice([90, 3_000])}" for _ in range(2)]
    return make_record(
        id=new_id(), received_at=received_at, kind=pick.choice(["generation", "generation", "embedding"]),
        agent=pick.choice(AGENTS), model=pick.choice(MODELS), hit=pick.choice(HITS), cause=cause,
        session=pick.choice([None, f"s{pick.randrange(40)}"]), prompt_tokens=prompt,
        cached_tokens=None if prompt is None else pick.choice([None, round(prompt * pick.random())]),
        predicted_reuse=pick.choice([None, pick.random()]), completion_tokens=pick.choice([None, 100]),
        lost_tokens=pick.randrange(9_000) if cause else None, ttft_ms=ttft,
        lost_ms=pick.random() * 9_000 if cause else None, prefill_ms=pick.choice([None, 800.0]),
        total_ms=None if ttft is None else ttft + pick.random() * 60_000,
        request_bytes=pick.choice([None, pick.randrange(1 << 22)]), system_hash=pick.choice(["a", "b", None]),
        tools_hash=pick.choice(["t", None]), new_chunks=pick.choice([None, entries]),
    )  # fmt: skip
