"""Why a question missed: what is stored under the same words, what is stored in near ones, what refused each.

Owns nothing. Entries are found by walking the newest so many, since people ask of what just happened; text
comes from the live cache alone, never from the history.
"""

import re
from collections.abc import Sequence
from typing import Any

from litestar.exceptions import NotFoundException

from services.proxy.admin.errors import HistoryUnavailable
from services.proxy.admin.history import History
from services.proxy.admin.parts import Parts
from services.proxy.admin.recent import iso
from services.proxy.admin.rows import row_of
from services.proxy.answers.base import Entry
from services.proxy.answers.cache import ResponseCache
from services.proxy.answers.reasons import BYPASSES, RULES, meaning
from services.semantic.base import Matcher, Neighbour, Question
from services.semantic.eligible import Bypass, asked
from services.settings import CacheRule

REQUEST = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
KEY = re.compile(r"[0-9a-f]{32}\Z")
PAGE, PAGES = 500, 4  # a page takes Redis some 5 ms
GROUPS = 16  # different system prompts, models and callers in which a question is looked for
MOST = 8
# What tells two entries with the same question apart, beside the rest of their bodies.
PLACES = ("model", "namespace", "scope", "backend", "endpoint", "digest")


async def explain(
    ctx: Parts,
    history: History,
    about: str,
    *,
    model: str | None,
    namespace: str | None,
) -> dict[str, Any] | None:
    """What is known of a question, a request (by its id) or an entry (by its key); None where nothing is.

    ``question`` (None where its text is gone), ``request`` (id, verdict and what it means; None for a mere
    question), ``entry`` (its own, if stored), ``bypass`` (why it is never matched by meaning, if so),
    ``same`` (entries with these very words, and what ``differs``), ``neighbours`` (near ones, nearest first,
    and the ``rule`` that admits or refuses each; None where nobody looks for meaning), ``looked_at`` so many
    entries. The cache is not off. Raises `AwayError`, and `HistoryUnavailable` where only that could tell.
    """
    cache, about = ctx.answers, about.strip()
    assert cache is not None
    entries = await newest(cache)
    named = bool(REQUEST.match(about) or KEY.match(about))
    row, away = await _row(ctx, history, about) if REQUEST.match(about) else (None, None)
    own = _own(entries, about, row)
    if named and row is None and own is None:
        if away is not None:
            raise away
        return None
    question = own.about.question if own else None if named else about
    found: dict[str, Any] = {
        "question": question, "request": _request(row), "entry": _brief(own) if own else None,
        "bypass": None, "same": [], "neighbours": None, "looked_at": len(entries),
    }  # fmt: skip
    if question is None:
        return found
    found["bypass"] = _bypass(question, ctx.settings.cache_rule)
    near = [e for e in entries if _within(e, model or None, namespace)] if own is None else [own]
    others = [entry for entry in entries if entry is not own and entry.about.question == question]
    found["same"] = [{**_brief(entry), "differs": _differs(own, entry)} for entry in others[:MOST]]
    if cache.matcher is not None:
        found["neighbours"] = await _neighbours(cache.matcher, question, near, entries, own)
    return found


async def newest(cache: ResponseCache) -> list[Entry]:
    """The newest entries, so many as are looked at. Raises `AwayError`."""
    found: list[Entry] = []
    cursor = None
    for _ in range(PAGES):
        page = await cache.store.list(cursor, PAGE)
        found += page.items
        cursor = page.next
        if cursor is None:
            break
    return found


async def _row(
    ctx: Parts, history: History, request_id: str
) -> tuple[dict[str, Any] | None, HistoryUnavailable | None]:
    """A request's row; without a history the cache may know enough."""
    try:
        return await row_of(ctx, history, request_id), None
    except NotFoundException:
        return None, None
    except HistoryUnavailable as error:
        return None, error


def _own(entries: Sequence[Entry], about: str, row: dict[str, Any] | None) -> Entry | None:
    """The entry of a key, or the one that a request's answer came from or went to."""
    originals = {about, row["answered_by"] if row else None}
    return next((e for e in entries if e.key == about or e.about.original in originals), None)


def _request(row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    verdict = row["response_cache"]
    return {
        "id": row["id"], "verdict": verdict, "because": meaning(verdict), "status": row["status"],
        "finish_reason": row["finish_reason"], "answered_by": row["answered_by"],
    }  # fmt: skip


def _brief(entry: Entry) -> dict[str, Any]:
    about = entry.about
    return {
        "key": entry.key, "question": about.question, "model": about.model, "namespace": about.namespace,
        "endpoint": about.endpoint, "created": iso(entry.created), "expires": iso(entry.expires),
        "hits": entry.hits, "original": about.original,
    }  # fmt: skip


def _bypass(question: str, rules: Sequence[CacheRule]) -> dict[str, str] | None:
    body = {"messages": [{"role": "user", "content": question}]}
    found = asked("openai_chat", body, rules)
    if not isinstance(found, Bypass):
        return None
    return {"reason": found.reason, "because": BYPASSES.get(found.reason, found.reason)}


def _within(entry: Entry, model: str | None, namespace: str | None) -> bool:
    return model in {None, entry.about.model} and namespace in {None, entry.about.namespace}


def _differs(own: Entry | None, other: Entry) -> list[str]:
    """In what an entry with the same question differs; `body` where all that is known is equal."""
    if own is None:
        return []
    places = [name for name in PLACES if getattr(own.about, name) != getattr(other.about, name)]
    return places or ["body"]


async def _neighbours(
    matcher: Matcher, question: str, near: Sequence[Entry], entries: Sequence[Entry], own: Entry | None
) -> list[dict[str, Any]]:
    groups = await matcher.groups([entry.key for entry in near])
    found: dict[str, Neighbour] = {}
    for group in groups[:GROUPS]:
        for one in await matcher.explain(Question(text=question, group=group), MOST + 1):
            found[one.key] = one
    if own is not None:
        found.pop(own.key, None)
    known = {entry.key: entry for entry in entries}
    ordered = sorted(found.values(), key=lambda one: -one.similarity)
    return [_neighbour(one, known.get(one.key)) for one in ordered[:MOST]]


def _neighbour(one: Neighbour, entry: Entry | None) -> dict[str, Any]:
    rule = one.ruling.rule
    return {
        "key": one.key, "question": one.text, "similarity": round(one.similarity, 4), "same": one.ruling.same,
        "rule": rule, "because": RULES.get(rule, rule), "model": entry.about.model if entry else None,
    }  # fmt: skip
