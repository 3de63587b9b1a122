"""From an answer that was relayed to its end to what is stored of it, if it is complete. Owns nothing."""

import asyncio
from collections.abc import Mapping
from typing import Any

from services.proxy.answers.base import About, Shape, Stored
from services.proxy.answers.forms import FORMS
from services.proxy.answers.recorder import Recorder, is_complete, shape_of
from services.proxy.answers.ticket import Ticket
from services.proxy.flow import Flow
from services.proxy.prompt import Prompt

# Reading a stream event by event takes some 30 µs a KB; a longer one is read in a thread.
INLINE_BYTES = 32 << 10
QUESTION = 2_000  # characters of the question that lists and reports show
KEPT_HEADERS = frozenset({b"content-type", b"request-id", b"x-request-id"})


async def stored_of(ticket: Ticket, flow: Flow, recorder: Recorder) -> Stored | None:
    """What is stored of the answer to `flow`; None where it is not complete."""
    prompt, pieces = flow.prompt, recorder.pieces
    if prompt is None or flow.identity is None or not pieces or flow.http_status != 200:
        return None
    shape = shape_of(FORMS[prompt.dialect], pieces, stream=prompt.stream)
    if shape is None or not await _complete(prompt.dialect, shape, b"".join(pieces), ticket.due):
        return None
    return Stored(
        about=_about(ticket, flow, prompt), shape=shape, pieces=pieces, usage=ticket.usage,
        headers=[(name, value) for name, value in recorder.headers if name in KEPT_HEADERS],
    )  # fmt: skip


def said(flow: Flow) -> list[str]:
    """The texts by whose words an answer can be found: what the user said last, and the answer itself."""
    reply = flow.outcome.reply if flow.outcome is not None else None
    answer = [section.text.decode("utf-8", "replace") for section in (reply.sections if reply else [])]
    return [_question(flow), *answer]


async def _complete(dialect: str, shape: Shape, body: bytes, due: Mapping[str, Any]) -> bool:
    if len(body) <= INLINE_BYTES:
        return is_complete(dialect, shape, body, due)
    return await asyncio.to_thread(is_complete, dialect, shape, body, due)


def _about(ticket: Ticket, flow: Flow, prompt: Prompt) -> About:
    assert flow.identity is not None
    measured = flow.measured
    lasted = (flow.ended_at or flow.started) - flow.started
    return About(
        original=flow.id, at=flow.received_at, scope=flow.identity.scope, namespace=ticket.control.namespace,
        backend=flow.backend.name, endpoint=flow.path, dialect=prompt.dialect, model=prompt.model,
        digest=ticket.digest, agent=flow.identity.agent, tags=ticket.control.tags,
        question=_question(flow)[:QUESTION],
        prompt_tokens=measured.prompt_tokens if measured else None,
        completion_tokens=measured.completion_tokens if measured else None,
        total_ms=round(lasted * 1e3, 3),
    )  # fmt: skip


def _question(flow: Flow) -> str:
    """The last thing the user said."""
    chunks = flow.prompt.chunks if flow.prompt is not None else []
    asking = [chunk for chunk in chunks if chunk.kind == "prompt" or chunk.role == "user"]
    if not asking or flow.dialect is None:
        return ""
    sections = flow.dialect.sections(asking[-1].kind, asking[-1].raw)
    return "\n".join(s.text.decode("utf-8", "replace") for s in sections if s.kind == "text")
