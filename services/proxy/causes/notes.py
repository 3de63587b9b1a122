"""Things worth knowing that cost nothing: retries, cancelled forerunners, ids that changed. Pure."""

from collections.abc import Iterable, Sequence

from services.proxy.causes.scene import Scene
from services.proxy.chunking.cut import holds
from services.proxy.flow import Cause, Flow
from services.proxy.prompt import Chunk
from services.proxy.state.base import HASH_BYTES, Past

FAILED = frozenset(
    {"upstream_error", "upstream_reset", "upstream_unreachable", "error_midstream", "incomplete", "rejected",
     "proxy_stopped", "proxy_lost"}
)  # fmt: skip
PATIENCE_HEADERS = (b"x-stainless-read-timeout", b"x-stainless-timeout")
SLACK_S = 1.5  # between a client's own clock and the proxy's, connection set-up included
USUAL_S = (30.0, 60.0, 120.0, 180.0, 300.0, 600.0, 900.0)  # limits that clients ship with


def notes(scene: Scene, flow: Flow) -> list[Cause]:
    """The notes on a request whose answer ended."""
    found = [retry(scene), after_cancel(scene), client_timeout(flow), nondeterministic(scene, flow)]
    return [note for note in found if note]


def retry(scene: Scene) -> Cause | None:
    """The same bytes as an earlier request that failed or was given up."""
    raw = scene.prompt.raw_hash.hex()
    for past in scene.sighting.candidates:
        if past.node.raw == raw and past.settled and past.settled.status in FAILED | {"client_cancelled"}:
            return _note("retry_of", request=past.node.id, status=past.settled.status)
    return None


def after_cancel(scene: Scene) -> Cause | None:
    """The request before this one was cancelled, so what it prefilled may or may not be kept."""
    past = scene.parent
    if past is None or past.settled is None or past.settled.status != "client_cancelled":
        return None
    return _note("after_cancel", request=past.node.id)


def client_timeout(flow: Flow) -> Cause | None:
    """The client left without an answer at the very moment its own patience ends."""
    if flow.status != "client_cancelled" or flow.ended_at is None:
        return None
    if flow.outcome is not None and flow.outcome.first_token_at is not None:
        return None
    waited = flow.ended_at - flow.started
    said = patience(flow.headers)
    limits: Iterable[float] = (said,) if said else USUAL_S
    limit = next((limit for limit in limits if -0.25 <= waited - limit <= SLACK_S), None)
    if limit is None:
        return None
    return _note("client_timeout_suspected", timeout_s=limit, waited_s=round(waited, 1), stated=bool(said))


def patience(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """The time limit in seconds that the client states in its headers, if it does."""
    for name, value in headers:
        if name.lower() in PATIENCE_HEADERS:
            try:
                seconds = float(value)
            except ValueError:
                continue
            if 0 < seconds < 86_400:
                return seconds
    return None


def nondeterministic(scene: Scene, flow: Flow) -> Cause | None:
    """The same request at temperature 0 was answered otherwise than before."""
    output = flow.outcome.output_hash if flow.outcome else None
    if output is None or flow.status != "completed" or scene.prompt.engine.temperature != 0:
        return None
    here = scene.prompt.request_hash
    for past in scene.sighting.candidates:
        if here is None or not _same_request(past, here.hex()) or past.settled is None:
            continue
        if past.settled.status == "completed" and past.settled.output and past.settled.output != output:
            other = past.settled.output
            return _note(
                "nondeterministic_repeat", request=past.node.id, output=output, previous_output=other
            )
    return None


def spellings_of(chunks: Iterable[Chunk]) -> list[int]:
    """What of each message's bytes is no content and yet worth noticing when it changes: ids, media encoding.

    Comparable within this process only; 0 where there is nothing of the kind.
    """
    return [(chunk.memo or _looked_at(chunk))[0] for chunk in chunks]


def _looked_at(chunk: Chunk) -> list[int]:
    chunk.memo.append(_spelling(chunk) if chunk.kind == "message" else 0)
    return chunk.memo


def _spelling(chunk: Chunk) -> int:
    raw = chunk.raw
    if chunk.media:
        return hash(tuple(text for text in raw.split(b'"') if len(text) >= LEAST_MEDIA and b" " not in text))
    ids = _ids(raw) if holds(raw, ID_ENDING) else []
    return hash(tuple(ids)) if ids else 0


def respelt(scene: Scene, before: Sequence[int], now: Sequence[int]) -> list[Cause]:
    """Messages whose content is the parent's while their tool ids or the encoding of their media are not."""
    node = scene.parent.node if scene.parent else None
    found: dict[str, Cause] = {}
    if node is None or len(before) != len(node.kinds) or len(now) != len(scene.prompt.chunks):
        return []
    lead_old, lead_new = (
        node.kinds.find("m"),
        len(now) - sum(c.kind == "message" for c in scene.prompt.chunks),
    )
    for old, new in zip(range(lead_old, len(before)), range(lead_new, len(now)), strict=False):
        chunk = scene.prompt.chunks[new]
        if chunk.hash[:HASH_BYTES] != node.chunks[old * HASH_BYTES : (old + 1) * HASH_BYTES]:
            break
        if before[old] != now[new] and before[old] and now[new]:
            code = "image_encoding_changed" if chunk.media else "tool_id_changed"
            found.setdefault(code, _note_at(code, scene.prompt.path(chunk)))
    return list(found.values())


LEAST_MEDIA = 24  # characters of the shortest data URL or base64 worth telling from a word
ID_KEYS = (b'"id"', b'"tool_call_id"', b'"tool_use_id"', b'"call_id"')
CALL_MARKS = (b'"tool_calls"', b'"tool_use"')  # where a plain id is a call's; that of an item is nobody's
ID_ENDING = b'id"'
MOST_IDS = 64  # of one message; more calls in one turn are not seen


def _ids(raw: bytes) -> list[bytes]:
    """The values that stand behind id keys."""
    found: list[bytes] = []
    for key in ID_KEYS if any(holds(raw, mark) for mark in CALL_MARKS) else ID_KEYS[1:]:
        at = raw.find(key) if holds(raw, key) else -1
        while at >= 0 and len(found) < MOST_IDS:
            start = raw.find(b'"', at + len(key))
            end = raw.find(b'"', start + 1)
            found.append(raw[start + 1 : end])
            at = raw.find(key, end) if end > 0 else -1
    return found


def _same_request(past: Past, request_hash: str) -> bool:
    return bool(past.node.request) and request_hash.startswith(past.node.request)


def _note(code: str, **detail: object) -> Cause:
    return Cause(code=code, severity="note", detail=detail)


def _note_at(code: str, at: str) -> Cause:
    return Cause(code=code, severity="note", at=at, detail={})
