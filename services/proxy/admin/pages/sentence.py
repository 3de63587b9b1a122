"""The first page's one sentence: who lost the most time, and why. Pure.

It looks at the last hour, and where nothing was lost there, further back, and says which it was.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from services.proxy.admin.pages import meanings
from services.proxy.admin.pages.language import Speech
from services.proxy.admin.pages.words import milliseconds, percent
from services.proxy.flow import Cause
from services.proxy.settling.advice import advice_for

# Seconds, and how the span is called at the head of a sentence.
SPANS = (
    (3_600, "In the last hour"),
    (86_400, "In the last 24 hours"),
    (7 * 86_400, "In the last 7 days"),
)


class Headline(msgspec.Struct, kw_only=True):
    """The sentence, what to do about it, and the request that lost most. `bad` when time was lost."""

    text: str
    advice: str | None = None
    worst_id: str | None = None
    agent: str | None = None
    cause: str | None = None
    bad: bool = False


def headline(losers: list[Mapping[str, Any]], span_s: int, say: Speech, *, requests: int) -> Headline:
    """The sentence about a span: its losers (as `services.history.lost` has them) and number of requests."""
    span = say(next(name for seconds, name in SPANS if seconds == span_s))
    if not losers:
        if not requests:
            return Headline(text=say("{span} no request came.", span=span))
        return Headline(text=say("{span} no time was lost.", span=span))
    first = losers[0]
    cause = first["causes"][0]
    agent = first["agent"] or say("an unnamed agent")
    share = cause["lost_ms"] / first["lost_ms"]
    reason = say(meanings.clause(cause["cause"] or "engine_unknown"))
    text = say(
        "{span}, {agent} lost the most time: {time} over {requests}, because {reason}."
        if share > 0.995
        else "{span}, {agent} lost the most time: {time} over {requests}, {share} of it because {reason}.",
        span=span,
        agent=agent,
        time=milliseconds(first["lost_ms"]),
        requests=number(first["requests"], say),
        share=percent(share),
        reason=reason,
    )
    return Headline(
        text=text,
        advice=advice(cause["cause"], first["agent"], cause.get("backend_kind"), say),
        worst_id=cause.get("worst_id"),
        agent=first["agent"],
        cause=cause["cause"],
        bad=True,
    )


def number(requests: int, say: Speech) -> str:
    """A count of requests in words."""
    return say("1 request") if requests == 1 else say("{n} requests", n=requests)


def advice(code: str | None, agent: str | None, kind: str | None, say: Speech) -> str | None:
    """What to do about a cause, as particular as agent and backend kind allow."""
    if code is None:
        return None
    text = advice_for(Cause(code=code, severity="loss"), agent, kind)
    return say(text) if text else None
