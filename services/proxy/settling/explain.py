"""Answers to "why did this request cost what it cost", in the shape of the contract.

Owns the explanations of the latest requests, in memory and bounded: they carry short excerpts of prompt text,
which never leave this process's memory except to the user who asks. Older requests, and those of another
process, are explained from their row, without excerpts.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from services.proxy.flow import Breaker, Cause, Flow, Measured
from services.proxy.placing.outline import outline
from services.proxy.settling.advice import advice_for
from services.proxy.settling.row import cause_json, headline, place_of

EXCERPT = 60  # bytes of text on each side of the divergence: one terminal line of context
MAX_ENTRIES = 4_096  # about 2 KB each, so under 10 MB
MAX_MADE = 512  # at most 5 KB each, for a prompt of 400 messages


class Made(NamedTuple):
    """What a request was made of: its chunks by letter and hash, no text; and how its model was loaded.

    `prompt_tokens` is the engine's own count of all of it, None where it gave none.
    """

    parent: str | None
    backend: str
    dialect: str
    model: str
    kinds: str
    hashes: bytes
    engine: dict[str, Any]
    prompt_tokens: int | None = None


class Explanations:
    """Explanations by request id, newest kept; excerpts go after `ttl_s`, and never come unless `enabled`."""

    def __init__(self, ttl_s: float, *, enabled: bool) -> None:
        self._ttl_s, self._enabled = ttl_s, enabled
        self._entries: OrderedDict[str, tuple[float, dict[str, Any]]] = OrderedDict()
        self._made: OrderedDict[str, Made] = OrderedDict()

    def put(self, flow: Flow) -> None:
        """Remember a flow's explanation as it stands now; a later call replaces it."""
        self._entries[flow.id] = (time.monotonic(), explain_of(flow, excerpts=self._enabled))
        self._entries.move_to_end(flow.id)
        if len(self._entries) > MAX_ENTRIES:
            self._entries.popitem(last=False)
        if (made := _made(flow)) is not None:
            self._made[flow.id] = made
            if len(self._made) > MAX_MADE:
                self._made.popitem(last=False)

    def made(self, request_id: str) -> Made | None:
        """What a request was made of, where it is among the latest."""
        return self._made.get(request_id)

    def get(self, request_id: str) -> dict[str, Any] | None:
        """The explanation, without excerpts once the time limit for text has passed; None if not here."""
        entry = self._entries.get(request_id)
        if entry is None:
            return None
        stored, explanation = entry
        if time.monotonic() - stored > self._ttl_s:
            explanation = {**explanation, "before": None, "after": None}
            self._entries[request_id] = (stored, explanation)
        return explanation


def explain_of(flow: Flow, *, excerpts: bool = True) -> dict[str, Any]:
    """The explanation of a flow; `before` and `after` are None where this process has no text.

    `lost_tokens` and `lost_ms` are booked whole to the first break or loss: sums by cause count them once.
    """
    verdict, first = flow.verdict, _first_breaker(flow)
    diverged_at, offset = place_of(flow.causes)
    return {
        "id": flow.id,
        "parent_id": verdict.parent.node.id if verdict and verdict.parent else None,
        "relation": verdict.relation if verdict else None,
        "hit": verdict.hit if verdict else None,
        "predicted": {
            "reuse": round(verdict.predicted_reuse, 4) if verdict else None,
            "tokens": verdict.predicted_tokens if verdict else None,
            "chunks": verdict.reused_chunks if verdict else None,
        },
        "observed": observed_of(flow.measured),
        "diverged_at": diverged_at,
        "byte_offset": offset,
        "offset_precision": first.precision if first else None,
        "before": excerpt(first.old, first.offset) if first and excerpts else None,
        "after": excerpt(first.new, first.offset) if first and excerpts else None,
        "equal_after_divergence": first.equal_after if first else None,
        "causes": [cause_json(cause) for cause in flow.causes],
        "evicted_by": _evicted(flow.causes),
        "lost_tokens": flow.lost_tokens,
        "lost_ms": flow.lost_ms,
        "advice": advice_for(
            _foremost(flow.causes), flow.identity.agent if flow.identity else None, flow.backend.kind
        ),
        "fixes": list(flow.fixes),
    }


def observed_of(measured: Measured | None) -> dict[str, Any]:
    """The measured side: figures with their source; None is unreported.

    `counts_uncached_only` is there, and true, where the prompt count is known to leave cached tokens out.
    """
    known = measured or Measured()
    total, cached = known.prompt_tokens, known.cached_tokens
    reuse = round(cached / total, 4) if cached is not None and total else None
    flag = {"counts_uncached_only": True} if known.uncached_only else {}
    return {
        "prompt_tokens": total,
        "cached_tokens": cached,
        "source": known.source,
        "confidence": known.confidence,
        "reuse": reuse,
        **flag,
    }


def explain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """The explanation of a stored row (columns of ``requests``, ``causes`` decoded): all but the excerpts."""
    causes = [
        Cause(code=c["code"], at=c.get("at"), detail=c.get("detail") or {}, severity=c["severity"])
        for c in row.get("causes") or []
    ]
    measured = Measured(
        prompt_tokens=row.get("prompt_tokens"),
        cached_tokens=row.get("cached_tokens"),
        source=row.get("cached_source"),
        confidence=row.get("cached_confidence"),
    )
    at_break = next((c for c in causes if c.at == row.get("diverged_at") and c.at is not None), None)
    detail = at_break.detail if at_break else {}
    return {
        "id": row["id"],
        "parent_id": row.get("parent_id"),
        "relation": row.get("relation"),
        "hit": row.get("hit"),
        "predicted": {
            "reuse": row.get("predicted_reuse"),
            "tokens": row.get("predicted_tokens"),
            "chunks": row.get("reused_chunks"),
        },
        "observed": observed_of(measured),
        "diverged_at": row.get("diverged_at"),
        "byte_offset": row.get("byte_offset"),
        "offset_precision": detail.get("offset_precision", 1) if at_break else None,
        "before": None,
        "after": None,
        "equal_after_divergence": detail.get("equal_after_divergence"),
        "causes": [cause_json(cause) for cause in causes],
        "evicted_by": _evicted(causes),
        "lost_tokens": row.get("lost_tokens"),
        "lost_ms": row.get("lost_ms"),
        "advice": advice_for(_foremost(causes), row.get("agent"), row.get("backend_kind")),
        "fixes": row.get("fixes") or [],
    }


def excerpt(text: bytes | None, offset: int) -> str | None:
    """Text around a byte offset, cut at whole characters; None where there is none."""
    if text is None:
        return None
    return text[max(0, offset - EXCERPT) : offset + EXCERPT].decode("utf-8", "ignore")


def _foremost(causes: list[Cause]) -> Cause | None:
    """The cause to advise on: the first break or loss, else the first risk or note."""
    return headline(causes) or (causes[0] if causes else None)


def _first_breaker(flow: Flow) -> Breaker | None:
    at = place_of(flow.causes)[0]
    breakers = flow.verdict.breakers if flow.verdict else []
    return next((breaker for breaker in breakers if breaker.path == at), None)


def _evicted(causes: list[Cause]) -> dict[str, Any] | None:
    return next((cause.detail for cause in causes if cause.code == "evicted_by"), None)


def _made(flow: Flow) -> Made | None:
    prompt = flow.prompt
    if prompt is None or not prompt.chunks:
        return None
    asked, lines = prompt.engine, outline(prompt)
    engine: dict[str, Any] = {}
    if flow.backend.kind == "ollama":  # asked for again: rendering shall reload nothing, nor change idle time
        options = {name: value for name, value in asked.options.items() if name != "shift"}
        engine = {"options": options} if options else {}
        engine |= {"shift": asked.options["shift"]} if "shift" in asked.options else {}
        engine |= {"keep_alive": asked.keep_alive_s} if asked.keep_alive_s is not None else {}
    parent = flow.verdict.parent.node.id if flow.verdict and flow.verdict.parent else None
    measured = flow.measured
    counted = measured.prompt_tokens if measured and not measured.uncached_only else None
    return Made(
        parent, flow.backend.name, prompt.dialect, prompt.model, lines.kinds, lines.hashes, engine, counted
    )
