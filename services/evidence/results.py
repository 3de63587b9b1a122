"""What a run measured, in the shape that ``metalanchor bench --json`` prints. Pure; None is not measured.

A request is warm when at least half of its prompt came from the cache by the backend's own count, cold below
that. A speed-up is the time to first token of a cold request over that of a warm one of about the same length
in the same scenario; every such couple counts, and the range says how far they lie apart.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from services.evidence.runner import Sample
from services.evidence.scenarios import Book

SAME_LENGTH = 0.10
POINTS = 0.05  # a measured reuse further below the predicted one wants a cause


def summary(book: Book, samples: Sequence[Sample]) -> dict[str, Any]:
    """``{"scenarios": {name: figures}, "all": figures, "overhead_ms": ...}``."""
    found = {s.name: [x for x in samples if x.scenario == s.name] for s in book.scenario}
    return {
        "scenarios": {name: {**_figures(own), "reuse_by_turn": _by_turn(own)} for name, own in found.items()},
        "all": {**_figures(samples), "reuse_by_turn": None},
        "overhead_ms": _overhead(samples),
    }


def _figures(samples: Sequence[Sample]) -> dict[str, Any]:
    own = [x for x in samples if x.role == "scenario"]
    return {
        "requests": len(own),
        "predicted_reuse": _predicted(own),
        "measured_reuse": _measured(own),
        "hits": dict(sorted(Counter(x.row.get("hit") or "unknown" for x in own).items())),
        "reuse_by_turn": None,
        "ttft_ms": _ttft(samples),
        "speedup": _speedup(samples),
        "tokens_saved": _saved(own),
        "gap": _gap(own),
    }


def cached(sample: Sample) -> int | None:
    """Cached tokens that the backend reported; what was only inferred from times is no measurement here."""
    row = sample.row
    count: int | None = None if row.get("cached_source") == "inferred_ttft" else row.get("cached_tokens")
    return count


def reuse(sample: Sample) -> float | None:
    """The measured share of the prompt that was not prefilled again."""
    known, prompt = cached(sample), _length(sample)
    return known / prompt if known is not None and prompt else None


def is_warm(sample: Sample) -> bool | None:
    """None where the backend reported nothing and the request was not made to be cold."""
    if sample.role == "cold_twin":
        return False
    share = reuse(sample)
    return None if share is None else share >= 0.5


def _measured(samples: Iterable[Sample]) -> float | None:
    known = [x for x in samples if reuse(x) is not None]
    prompt = sum(x.row["prompt_tokens"] for x in known)
    return round(sum(cached(x) or 0 for x in known) / prompt, 4) if prompt else None


def _predicted(samples: Iterable[Sample]) -> float | None:
    known = [x for x in samples if x.row.get("predicted_reuse") is not None]
    if not known:
        return None
    weights = [x.row.get("prompt_tokens") or 1 for x in known]
    total = sum(float(x.row["predicted_reuse"]) * w for x, w in zip(known, weights, strict=True))
    return round(total / float(sum(weights)), 4)


def _saved(samples: Iterable[Sample]) -> int | None:
    known = [count for x in samples if (count := cached(x)) is not None]
    return sum(known) if known else None


def _by_turn(samples: Sequence[Sample]) -> list[float | None]:
    own = [x for x in samples if x.role == "scenario"]
    several = any(x.turn for x in own)
    places = sorted({x.turn if several else x.number for x in own})
    return [_measured(x for x in own if (x.turn if several else x.number) == place) for place in places]


def _ttft(samples: Sequence[Sample]) -> dict[str, float | None]:
    asked = [x for x in samples if x.role in {"scenario", "cold_twin"} and x.ttft_ms is not None]
    figures: dict[str, float | None] = {}
    for name, warm in (("cold", False), ("warm", True)):
        times = sorted(x.ttft_ms for x in asked if is_warm(x) is warm and x.ttft_ms is not None)
        for share in (50, 95):
            figures[f"{name}_p{share}"] = round(nearest_rank(times, share), 1) if times else None
    return figures


def nearest_rank(ordered: Sequence[float], share: int) -> float:
    """The smallest value that at least `share` per cent of the values do not exceed."""
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)]


def _speedup(samples: Sequence[Sample]) -> dict[str, float | None]:
    ratios = []
    for cold in samples:
        if is_warm(cold) is not False or not cold.ttft_ms:
            continue
        ratios += [
            cold.ttft_ms / warm.ttft_ms for warm in samples if _comparable(cold, warm) and warm.ttft_ms
        ]
    if not ratios:
        return {"median": None, "low": None, "high": None}
    found = {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
    return {name: round(value, 2) for name, value in found.items()}


def _comparable(cold: Sample, warm: Sample) -> bool:
    if warm.role != "scenario" or warm.scenario != cold.scenario or is_warm(warm) is not True:
        return False
    one, other = _length(cold), _length(warm)
    return one is not None and other is not None and abs(one - other) <= SAME_LENGTH * one


def _length(sample: Sample) -> int | None:
    count: int | None = sample.row.get("prompt_tokens")
    return count


def _gap(samples: Sequence[Sample]) -> dict[str, Any]:
    """Requests measured more than 5 points below the prediction, and the causes that were named for them."""
    short = [
        x
        for x in samples
        if (share := reuse(x)) is not None and (x.row.get("predicted_reuse") or 0.0) - share > POINTS
    ]
    causes = Counter(_engine_cause(x) or "unexplained" for x in short)
    return {"requests": len(short), "causes": dict(sorted(causes.items()))}


def _engine_cause(sample: Sample) -> str | None:
    causes = sample.row.get("causes") or []
    losses = [cause["code"] for cause in causes if cause.get("severity") == "loss"]
    return losses[0] if losses else sample.row.get("cause")


def _overhead(samples: Sequence[Sample]) -> dict[str, Any]:
    """The same bytes through the proxy less directly, and the time the proxy says it added itself."""
    couples: dict[int, dict[str, float]] = {}
    for sample in samples:
        if sample.pair is not None and sample.ttft_ms is not None:
            couples.setdefault(sample.pair, {})[sample.role] = sample.ttft_ms
    both = [c for c in couples.values() if len(c) == 2]
    differences = [c["pair_proxied"] - c["pair_direct"] for c in both]
    own = sorted(ms for x in samples if (ms := x.row.get("overhead_ms")) is not None)
    return {
        "pairs": len(both),
        "direct_p50": _median([c["pair_direct"] for c in both]),
        "proxied_p50": _median([c["pair_proxied"] for c in both]),
        "difference": {
            "median": _median(differences),
            "low": round(min(differences), 2) if differences else None,
            "high": round(max(differences), 2) if differences else None,
        },
        "own": {f"p{s}": round(nearest_rank(own, s), 3) if own else None for s in (50, 95)},
    }


def _median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 2) if values else None
