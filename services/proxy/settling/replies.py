"""Whether a client replays an answer as it was relayed.

An engine that keeps generated tokens can go on from them only when the next request repeats the answer
exactly. A request may be a perfect append of the one before and still miss for this reason, which only a
proxy that saw the answer can tell. What is kept of an answer are keyed digests, of its parts as they were
and in the forms in which clients alter them. Pure.
"""

import hashlib
from collections.abc import Iterable

import msgspec

from services.proxy.dialects.base import Reply
from services.proxy.flow import Cause
from services.proxy.prompt import Chunk, Section

THINK, THINK_END = b"<think>", b"</think>"  # reasoning that a server leaves inside the text
DIGEST = 8  # bytes; two parts of one answer are compared, not millions
_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder(order="sorted")

Parts = list[tuple[str, str]]


def reply_digests(reply: Reply | None, key: bytes) -> Parts:
    """The digests of a relayed answer; nothing where it was not seen whole."""
    return [] if reply is None or reply.truncated else digests(reply.sections, key)


def digests(sections: Iterable[Section], key: bytes) -> Parts:
    """The digests of an assistant turn: text, reasoning and calls, each also in its levelled form."""
    texts, thoughts, names, calls = [], [], [], []
    for section in sections:
        if section.kind == "reasoning":
            thoughts.append(section.text)
        elif section.path.endswith(".arguments"):
            calls.append(section.text)
        elif section.path.endswith(".name"):
            names.append(section.text)
        elif section.kind == "text":
            texts.append(section.text)
    found: Parts = []
    whole = b"".join(texts)
    if whole.lstrip().startswith(THINK) and THINK_END in whole:
        found.append(("answer~", _digest(b"".join(whole.partition(THINK_END)[2].split()), key)))
    for label, text in (("text", whole), ("reasoning", b"".join(thoughts))):
        if text.strip():
            found += [(label, _digest(text, key)), (label + "~", _digest(b"".join(text.split()), key))]
    for k, text in enumerate(calls):
        found += [(f"call{k}", _digest(text, key)), (f"call{k}~", _digest(_levelled(text), key))]
    return found + [(f"name{k}", _digest(text, key)) for k, text in enumerate(names)]


def replay_cause(relayed: Parts, replayed: Parts, at: str) -> Cause | None:
    """How the replay in the message at `at` differs from the answer; a risk until measured reuse shows it."""
    if not relayed or not replayed:
        return None
    then, here = dict(relayed), dict(replayed)
    if "reasoning" in then and "reasoning" not in here:
        return _risk("reasoning_dropped_by_client", at)
    if "answer~" in then and "answer~" not in here and here.get("text~") == then["answer~"]:
        return _risk("reasoning_dropped_by_client", at)
    calls = [name for name in then if name.startswith("call") and not name.endswith("~")]
    for name in calls:
        if name in here and then[name] != here[name] and then[name + "~"] == here[name + "~"]:
            return _risk(
                "tool_args_reserialised", f"{at}.tool_calls[{name[4:]}].arguments", semantic_equal=True
            )
    exact = {name: digest for name, digest in then.items() if not name.endswith("~")}
    if exact == {name: digest for name, digest in here.items() if not name.endswith("~")}:
        return None
    blank = all(then.get(name) == here.get(name) for name in {*then, *here} if name.endswith("~"))
    return _risk("reply_altered_by_client", at, whitespace_only=blank)


def replayed_turn(chunks: list[Chunk], start: int) -> list[Chunk]:
    """The assistant's chunks that follow position `start`: what the client says was answered."""
    turn = []
    for chunk in chunks[start:]:
        if chunk.kind != "message" or chunk.role != "assistant":
            break
        turn.append(chunk)
    return turn


def _risk(code: str, at: str, **detail: bool) -> Cause:
    return Cause(code=code, severity="risk", at=at, detail={**detail, "byte_offset": 0})


def _levelled(text: bytes) -> bytes:
    """JSON with its spelling taken out; any other text without white space."""
    try:
        return _encoder.encode(_decoder.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return b"".join(text.split())


def _digest(text: bytes, key: bytes) -> str:
    return hashlib.blake2b(text, key=key[:64], digest_size=DIGEST, person=b"reply").hexdigest()
