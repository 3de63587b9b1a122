"""Recognisers for the history: what a client did to messages it had sent before. Pure.

Some things are only visible on the whole list (a compaction); the rest is told breaker by breaker.
"""

import re
from typing import Any

from services.proxy.causes.hunks import edit_of
from services.proxy.causes.prose import change_of, is_blank, recognise
from services.proxy.causes.scene import Scene
from services.proxy.causes.schema import equal_parsed
from services.proxy.chunking.escapes import readable
from services.proxy.flow import Breaker, Cause, Severity
from services.proxy.prompt import Chunk
from services.proxy.state.base import HASH_BYTES

REPLACED = 3  # messages that one new one must stand for to count as a summary
SUMMARY = 200  # bytes from which a lone new message may be a summary of many without saying so
SUMMARY_WORDS = re.compile(
    rb"summar|compact|condens|conversation (?:so far|history)|continued from|"
    rb"previous(?:ly)? (?:conversation|messages|context)|"
    + "摘要|总结|概要|压缩|上文|之前的对话|要約|요약".encode(),
    re.IGNORECASE,
)
_INDEX = re.compile(r"\w+\[(\d+)\]")


def message_causes(scene: Scene, breakers: list[Breaker]) -> list[tuple[Breaker, Cause]]:
    """The causes of breakers in the messages, in prompt order."""
    if not breakers:
        return []
    summary = compaction(scene, breakers[0])
    if summary is not None:
        return [(breakers[0], summary)]
    return [(breaker, _cause(scene, breaker)) for breaker in breakers]


def compaction(scene: Scene, first: Breaker) -> Cause | None:
    """Fewer messages under the same system and tools, one new early message in place of many."""
    if any(breaker.section in ("system", "tools") for breaker in scene.verdict.breakers):
        return None
    old, chunks = _old_hashes(scene), [c for c in scene.prompt.chunks if c.kind == "message"]
    new = [chunk.hash[:HASH_BYTES] for chunk in chunks]
    if len(new) >= len(old):
        return None
    head = _shared(old, new)
    tail = _shared(old[head:][::-1], new[head:][::-1])
    kept = set(old[head:])
    came = [chunk for chunk in chunks[head : len(new) - tail] if chunk.hash[:HASH_BYTES] not in kept]
    gone = len(old) - head - sum(name in kept for name in new[head:])
    if not came or gone < REPLACED or gone <= len(came) or not _summarises(came, tail):
        return None
    detail = {"removed_messages": gone, "added_messages": len(came)}
    return Cause(code="compaction", severity="break", at=first.path, detail=detail)


def _shared(old: list[bytes], new: list[bytes]) -> int:
    """How many hashes two lists begin with alike."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(old), len(new)))


def _summarises(came: list[Chunk], tail: int) -> bool:
    if tail > 0:
        return True
    return any(chunk.size >= SUMMARY or SUMMARY_WORDS.search(readable(chunk.raw)) for chunk in came[:2])


def _old_hashes(scene: Scene) -> list[bytes]:
    node = scene.parent.node if scene.parent else None
    if node is None:
        return []
    return [
        node.chunks[i * HASH_BYTES : (i + 1) * HASH_BYTES] for i, kind in enumerate(node.kinds) if kind == "m"
    ]


def _cause(scene: Scene, breaker: Breaker) -> Cause:
    code, detail = _code(scene, breaker)
    severity: Severity = "note" if scene.only_shortens(breaker) else "break"
    return Cause(code=code, severity=severity, at=breaker.path, detail=detail)


def _code(scene: Scene, breaker: Breaker) -> tuple[str, dict[str, Any]]:
    """The code of one breaker, and what its detail says besides measures."""
    if breaker.kind == "reasoning" and not breaker.inserted:
        return "reasoning_dropped_by_client", {}
    if ".arguments" in breaker.path and breaker.change == "edit" and equal_parsed(breaker.old, breaker.new):
        return "tool_args_reserialised", {"semantic_equal": True}
    if _is_blank(breaker):
        return "history_rewrite", {"whitespace_only": True}
    known = "transient_block_removed" if _is_transient(scene, breaker) else _volatile(scene, breaker)
    if known:
        return known, {}
    if breaker.kind != "name" and breaker.old_role == "tool" and breaker.deleted > breaker.inserted:
        return "tool_result_pruned", {"delta_bytes": breaker.inserted - breaker.deleted}
    return "history_rewrite", {}


def _texts(breaker: Breaker) -> tuple[bytes, bytes] | None:
    """Both sides of an edited text; None where it is no edit or one side is gone."""
    if breaker.change != "edit" or breaker.old is None or breaker.new is None:
        return None
    return breaker.old, breaker.new


def _is_blank(breaker: Breaker) -> bool:
    texts = _texts(breaker)
    return texts is not None and is_blank(*texts, breaker.offset)


def _volatile(scene: Scene, breaker: Breaker) -> str | None:
    """A clock, date, counter or snapshot that a client keeps up to date inside an old message of its own."""
    texts = _texts(breaker)
    if texts is None or breaker.kind != "text" or breaker.old_role == "assistant":
        return None
    return recognise(change_of(*texts, breaker.offset, scene.older(breaker.path)))


def _is_transient(scene: Scene, breaker: Breaker) -> bool:
    """A block that stood in the last user message of the request before is gone from there, or moved on."""
    if breaker.change == "reorder":
        return True
    if breaker.old_role != "user" or not breaker.deleted or not _goes_on(scene):
        return False
    if not _in_last_user(scene, breaker):
        return False
    if breaker.change == "removed" or breaker.new_role not in ("", "user"):
        return True
    texts = _texts(breaker)
    if texts is None:
        return not breaker.inserted
    edit = edit_of(*texts, breaker.offset)
    return bool(edit.hunks) and all(hunk.new_start == hunk.new_end for hunk in edit.hunks)


def _goes_on(scene: Scene) -> bool:
    """Whether the request holds more messages than its parent: a last message edited is no transient one."""
    node = scene.parent.node if scene.parent else None
    count = sum(chunk.kind == "message" for chunk in scene.prompt.chunks)
    return node is not None and count > node.kinds.count("m")


def _in_last_user(scene: Scene, breaker: Breaker) -> bool:
    node = scene.parent.node if scene.parent else None
    last = node.roles.rfind("u") if node else -1
    if node is None or last < 0:
        return False
    sections = scene.sections(last)
    if sections and breaker.old is not None:
        return any(section.text == breaker.old for section in sections)
    found = _INDEX.match(breaker.path)
    lead = node.kinds.find("m")
    new_lead = next((c.index for c in scene.prompt.chunks if c.kind == "message"), 0)
    return found is not None and int(found[1]) - new_lead == last - lead
