"""Whether a client replays an answer as it was relayed.

An engine that keeps generated tokens can go on from them only when the next request repeats the answer
exactly. A request may be a perfect append of the one before and still miss for this reason, which only a
proxy that saw the answer can tell. What all processes keep of an answer are keyed digests, of its parts as
they were and in the forms in which clients alter them; its text only the memory of the one that relayed it,
to tell the place. Pure.
"""

import hashlib
from collections.abc import Callable, Iterable

import msgspec

from services.proxy.dialects.base import Reply
from services.proxy.flow import Cause
from services.proxy.placing.spans import divergence
from services.proxy.prompt import Chunk, Section

THINK, THINK_END = b"<think>", b"</think>"  # reasoning that a server leaves inside the text
DIGEST = 8  # bytes; two parts of one answer are compared, not millions
_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder(order="sorted")

Parts = list[tuple[str, str]]
Answer = Callable[[], list[Section] | None]  # the relayed answer's sections; None where its text is gone


def reply_digests(reply: Reply | None, key: bytes, *, parsed: bool = False) -> Parts:
    """The digests of a relayed answer; nothing where it was not seen whole. `parsed` as in `digests`."""
    return [] if reply is None or reply.truncated else digests(reply.sections, key, parsed=parsed)


def digests(sections: Iterable[Section], key: bytes, *, parsed: bool = False) -> Parts:
    """The digests of an assistant turn: text, reasoning and calls, each also in its levelled form.

    `parsed`: the server gives and takes arguments as objects, so the blanks in them are nobody's words.
    """
    texts, thoughts, names, calls = [], [], [], []
    for section in sections:
        if section.kind == "reasoning":
            thoughts.append(section.text)
        elif section.path.endswith(".arguments"):
            calls.append(_packed(section.text) if parsed else section.text)
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


def replay_cause(
    relayed: Parts, replayed: list[Section], key: bytes, answer: Answer, *, parsed: bool = False
) -> Cause | None:
    """How a replay differs from the answer it repeats; a risk until measured reuse shows it.

    `replayed` are the client's sections under their full paths. With the text of `answer` the place is
    exact to the byte; where that is gone, the section's beginning is named.
    """
    here = dict(digests(replayed, key, parsed=parsed))
    then = dict(relayed)
    if not then or not here:
        return None
    at = _turn_of(replayed[0].path)
    if "reasoning" in then and "reasoning" not in here:
        return _risk("reasoning_dropped_by_client", at)
    if "answer~" in then and "answer~" not in here and here.get("text~") == then["answer~"]:
        return _risk("reasoning_dropped_by_client", at)
    calls = [name for name in then if name.startswith("call") and not name.endswith("~")]
    for name in calls:
        if name in here and then[name] != here[name] and then[name + "~"] == here[name + "~"]:
            place = _place(replayed, answer, ".arguments", int(name[4:]))
            return _risk("tool_args_reserialised", *place, semantic_equal=True)
    return _altered(then, here, replayed, answer)


def _altered(
    then: dict[str, str], here: dict[str, str], replayed: list[Section], answer: Answer
) -> Cause | None:
    """Any other difference: in the text, else in a call, else in what the turn is made of."""
    exact = {name for name in {*then, *here} if not name.endswith("~")}
    other = {name for name in exact if then.get(name) != here.get(name)}
    if not other:
        return None
    blank = all(then.get(name) == here.get(name) for name in {*then, *here} - exact)
    call = next((name for name in sorted(other) if name.startswith("call")), None)
    place = _turn_of(replayed[0].path), 0
    if "text" in other:
        place = _place(replayed, answer, "", 0)
    elif call:
        place = _place(replayed, answer, ".arguments", int(call[4:]))
    return _risk("reply_altered_by_client", *place, whitespace_only=blank)


def _place(replayed: list[Section], answer: Answer, ending: str, number: int) -> tuple[str, int]:
    """The path of one call's arguments, or with no ending of the only text, and where it first differs."""
    old, new = _pick(answer() or [], ending), _pick(replayed, ending)
    if number >= len(new) or not (ending or len(new) == 1):
        return _turn_of(replayed[0].path), 0
    known = number < len(old) and (ending or len(old) == 1)
    return new[number].path, divergence(old[number].text, new[number].text)[0] if known else 0


def _pick(sections: list[Section], ending: str) -> list[Section]:
    if ending:
        return [section for section in sections if section.path.endswith(ending)]
    return [section for section in sections if section.kind == "text"]


def _turn_of(path: str) -> str:
    """The message of a section."""
    return path[: path.index("]") + 1]


def replayed_turn(chunks: list[Chunk], start: int) -> list[Chunk]:
    """The assistant's chunks that follow position `start`: what the client says was answered."""
    turn = []
    for chunk in chunks[start:]:
        if chunk.kind != "message" or chunk.role != "assistant":
            break
        turn.append(chunk)
    return turn


def _risk(code: str, at: str, offset: int = 0, **detail: bool) -> Cause:
    return Cause(code=code, severity="risk", at=at, detail={**detail, "byte_offset": offset})


def _packed(text: bytes) -> bytes:
    """JSON without blanks between its tokens."""
    try:
        return msgspec.json.format(text, indent=-1)
    except msgspec.DecodeError:
        return text


def _levelled(text: bytes) -> bytes:
    """JSON with its spelling taken out; any other text without white space."""
    try:
        return _encoder.encode(_decoder.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return b"".join(text.split())


def _digest(text: bytes, key: bytes) -> str:
    return hashlib.blake2b(text, key=key[:64], digest_size=DIGEST, person=b"reply").hexdigest()
