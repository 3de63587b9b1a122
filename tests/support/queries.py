"""Requests as the shared state sees them, made by hand."""

from collections.abc import Sequence

from services.ids import new_id
from services.proxy.state.base import Call, Node, Query

KEY = bytes(range(32))


def make_query(
    *,
    chunks: Sequence[str] = ("sys", "hi"),
    scope: str = "scope",
    model: str = "m",
    backend: str = "engine:1",
    tenant: str | None = None,
    at: int | None = None,
    session: str | None = None,
    tools: str | None = None,
    agent: str | None = "agent",
    node: bool = True,
    size: int = 100,
) -> Query:
    """A query made by hand; `chunks` are a system text and messages, each hashed by its own letters."""
    request_id = new_id()
    now = at if at is not None else int(request_id[:8] + request_id[9:13], 16)
    hashes = [chunk.encode().ljust(12, b".")[:12] for chunk in chunks]
    made = Node(
        id=request_id, at=now, scope=scope, lineage="", session=session, agent=agent, system=chunks[0],
        tools=tools, params=None, first=chunks[1] if len(chunks) > 1 else None, request="/".join(chunks),
        raw="", kinds="s" + "m" * (len(chunks) - 1), roles="s" + "u" * (len(chunks) - 1),
        chunks=b"".join(hashes), sizes=(size,) * len(chunks), estimate=10, stream=True, dialect="openai_chat",
    )  # fmt: skip
    call = Call(
        id=request_id, at=now, kind="generation", scope=scope, model=model, session=session, agent=agent
    )
    group = "\x1f".join(filter(None, (backend, model, tenant)))
    return Query(
        scope=scope, group=group, backend=backend, tenant=tenant, node=made if node else None, call=call
    )
