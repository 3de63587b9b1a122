"""The Anthropic API's prompt cache by its documented rules, strict where they leave a choice.

`PromptCache` is the rules; `Service` serves them over HTTP. A token is four bytes of a block's text (of its
JSON where it is no text block), so that costs can be worked out by hand. The clock is the test's.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Self

from tests.support.backend import Backend, Received, Reply, as_json, sse

LIFETIMES = {"5m": 300.0, "1h": 3600.0}
LOOK_BACK = 20  # positions looked at from each breakpoint, its own counted
MOST = 4
MINIMUM = {
    "claude-opus-5": 512, "claude-fable-5": 512, "claude-opus-4-8": 1024, "claude-sonnet-5": 1024,
    "claude-sonnet-4-6": 1024, "claude-sonnet-4-5": 1024, "claude-opus-4-7": 2048, "claude-opus-4-6": 4096,
    "claude-opus-4-5": 4096, "claude-haiku-4-5": 4096,
}  # fmt: skip
NEVER_MARKED = frozenset({"thinking", "redacted_thinking"})


class RefusedError(Exception):
    """A 400: the request breaks a rule of the API."""


@dataclass
class Block:
    """One block of the rendered prompt. `level` 0 tools, 1 system, 2 messages; `life` of its breakpoint."""

    level: int
    text: str
    tokens: int
    kind: str
    life: str | None = None


@dataclass
class Entry:
    """A cached prefix: readable from `since` until `until`, prolonged by `life` with each read."""

    since: float
    until: float
    life: float


@dataclass
class Usage:
    """What the API reports of one prompt; `total` is the sum of all."""

    fresh: int
    read: int
    written: int
    written_1h: int

    @property
    def total(self) -> int:
        return self.fresh + self.read + self.written + self.written_1h

    def json(self, output: int) -> dict[str, Any]:
        return {
            "input_tokens": self.fresh,
            "cache_creation_input_tokens": self.written + self.written_1h,
            "cache_read_input_tokens": self.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.written,
                "ephemeral_1h_input_tokens": self.written_1h,
            },
            "output_tokens": output,
            "service_tier": "standard",
        }


@dataclass
class PromptCache:
    """The cache of one organisation; `now` is its clock in seconds.

    `minimum` are the models' shortest prefixes in tokens: sources differ on them, so they can be set.
    """

    now: float = 0.0
    minimum: dict[str, int] = field(default_factory=MINIMUM.copy)
    entries: dict[str, Entry] = field(default_factory=dict)

    def take(self, body: dict[str, Any], starts_in: float = 0.0) -> Usage:
        """Account for one request whose answer begins `starts_in` seconds from now; may raise."""
        if body.get("max_tokens") == 0 and body.get("stream"):
            raise RefusedError("max_tokens: 0 cannot be streamed")
        blocks = list(rendered(body))
        keys, sums = chained(body, blocks), summed(blocks)
        marked = breakpoints(body, blocks)
        least = self.minimum.get(str(body.get("model")), 1024)
        hit = self._longest(marked, keys, sums, least)
        read = sums[hit] if hit >= 0 else 0
        new = [k for k in marked if k > hit and sums[k] >= least]
        for k in new:
            self._write(keys[k], LIFETIMES[blocks[k].life or "5m"], self.now + starts_in)
        for k in marked:
            if k <= hit:
                self._prolong(keys[k])
        hour = max((sums[k] for k in new if blocks[k].life == "1h"), default=read)
        last = max((sums[k] for k in new), default=read)
        total = sums[-1] if sums else 0
        return Usage(total - last, read, last - max(hour, read), hour - read)

    def _longest(self, marked: list[int], keys: list[str], sums: list[int], least: int) -> int:
        """The last block of the longest prefix that can be read; -1 where there is none."""
        for mark in reversed(marked):
            for k in range(mark, max(mark - LOOK_BACK, -1), -1):
                if sums[k] >= least and self._alive(keys[k]):
                    self._prolong(keys[k])
                    return k
        return -1

    def _alive(self, key: str) -> bool:
        entry = self.entries.get(key)
        return entry is not None and entry.since <= self.now < entry.until

    def _prolong(self, key: str) -> None:
        if self._alive(key):
            entry = self.entries[key]
            entry.until = self.now + entry.life

    def _write(self, key: str, life: float, since: float) -> None:
        known = self.entries.get(key)
        if known is not None and self.now < known.until and known.since <= since:
            since = known.since  # written at the same time by another request, which answers first
        self.entries[key] = Entry(since, since + life, life)


def rendered(body: dict[str, Any]) -> Iterator[Block]:
    """The prompt's blocks in order: tools, system, messages. Web search is part of the system prompt."""
    for tool in body.get("tools") or []:
        if not _is_search(tool):
            yield _block(0, tool, "tool", "")
    system = body.get("system")
    for part in [{"type": "text", "text": system}] if isinstance(system, str) else system or []:
        yield _block(1, part, part.get("type", ""), "")
    for index, message in enumerate(body.get("messages") or []):
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield _block(2, part, part.get("type", ""), f"{index} {message['role']} ")


def _is_search(tool: dict[str, Any]) -> bool:
    return str(tool.get("type", "")).startswith("web_search")


def _block(level: int, part: dict[str, Any], kind: str, place: str) -> Block:
    bare = _without_control(part)
    text = json.dumps(bare, ensure_ascii=False)
    counted = bare["text"] if kind == "text" else text
    return Block(level, place + text, math.ceil(len(counted.encode()) / 4), kind, _life(part))


def _without_control(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_control(v) for k, v in value.items() if k != "cache_control"}
    return [_without_control(item) for item in value] if isinstance(value, list) else value


def _life(part: dict[str, Any]) -> str | None:
    control = part.get("cache_control")
    if control is None:
        return None
    if control.get("type") != "ephemeral" or control.get("ttl", "5m") not in LIFETIMES:
        raise RefusedError("cache_control: only ephemeral, with a ttl of 5m or 1h")
    if set(control) - {"type", "ttl"}:
        raise RefusedError("cache_control: extra inputs are not permitted")
    return control.get("ttl", "5m")


def chained(body: dict[str, Any], blocks: list[Block]) -> list[str]:
    """The key of each prefix. What changes a level's rendering is mixed in where that level begins."""
    everything = json.dumps(body.get("messages") or []) + json.dumps(body.get("system") or [])
    searches = [tool for tool in body.get("tools") or [] if _is_search(tool)]
    tools = [block.text for block in blocks if block.level == 0]
    salts = {
        1: [body.get("speed"), _without_control(searches), '"citations": {"enabled": true' in everything],
        2: [body.get("tool_choice"), body.get("thinking"), everything.count('"type": "image"')],
    }
    # Any change of any tool loses all: the definitions are one section, whose prefixes are not kept apart.
    key, level, keys = _mixed(str(body.get("model")), json.dumps(tools)), 0, []
    for block in blocks:
        while level < block.level:
            level += 1
            key = _mixed(key, json.dumps(salts[level]))
        key = _mixed(key, block.text)
        keys.append(key)
    return keys


def _mixed(key: str, text: str) -> str:
    return sha256(f"{key}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()


def summed(blocks: list[Block]) -> list[int]:
    """Tokens of the prompt up to and with each block."""
    total, sums = 0, []
    for block in blocks:
        total += block.tokens
        sums.append(total)
    return sums


def breakpoints(body: dict[str, Any], blocks: list[Block]) -> list[int]:
    """Where the request asks for caching, in order; raises where it may not ask so."""
    automatic = _life(body)
    if automatic is not None:
        last = next((b for b in reversed(blocks) if _may_be_marked(b)), None)
        if last is not None and last.life not in (None, automatic):
            raise RefusedError("cache_control: the last block has another ttl than the request")
        if last is not None:
            last.life = automatic
    marked = [k for k, block in enumerate(blocks) if block.life]
    nested = _nested(body.get("messages") or [])
    if len(marked) + nested > MOST:
        raise RefusedError(
            f"A maximum of {MOST} blocks with cache_control may be provided. Found {len(marked) + nested}."
        )
    for k in marked:
        if not _may_be_marked(blocks[k]):
            raise RefusedError(
                f"cache_control cannot be set for {blocks[k].kind} blocks or empty text blocks"
            )
    lives = [blocks[k].life for k in marked]
    if "1h" in lives and "5m" in lives[: len(lives) - lives[::-1].index("1h")]:
        raise RefusedError(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
        )
    return marked


def _nested(messages: list[Any]) -> int:
    """Breakpoints inside tool results; they count, and are not looked at further."""
    blocks = [b for m in messages if isinstance(m["content"], list) for b in m["content"]]
    inner = [i for b in blocks if isinstance(b.get("content"), list) for i in b["content"]]
    return sum("cache_control" in item for item in inner)


def _may_be_marked(block: Block) -> bool:
    return block.kind not in NEVER_MARKED and not (block.kind == "text" and not block.tokens)


class Service:
    """``POST /v1/messages`` on a real socket. `bodies` are those that came, `usages` what was charged."""

    def __init__(self) -> None:
        self.cache = PromptCache()
        self.backend = Backend()
        self.backend.answer(self._answer)
        self.bodies: list[bytes] = []
        self.usages: list[Usage] = []
        self.refused: list[str] = []
        self.starts_in = 0.0
        self.output = 8
        self.repeat_counts = True
        self.refuses = ""  # a text that no body may hold
        self.forgets = False

    def __enter__(self) -> Self:
        self.backend.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.backend.stop()

    def _answer(self, received: Received) -> Reply:
        if received.path != "/v1/messages":
            return as_json({"type": "error", "error": {"type": "not_found_error", "message": ""}}, status=404)
        self.bodies.append(received.body)
        try:
            body = json.loads(received.body, object_pairs_hook=_no_twice)
            usage = self._account(received.body, body)
        except (RefusedError, ValueError, TypeError, AttributeError, KeyError) as error:
            self.refused.append(str(error))
            value = {"type": "error", "error": {"type": "invalid_request_error", "message": str(error)}}
            return as_json(value, status=400)
        self.usages.append(usage)
        output = min(self.output, body.get("max_tokens", self.output))
        return self._stream(usage, output) if body.get("stream") else self._whole(usage, output)

    def _account(self, raw: bytes, body: dict[str, Any]) -> Usage:
        if self.refuses and self.refuses.encode() in raw:
            raise RefusedError(self.refuses)
        if self.forgets:
            self.cache.entries.clear()
        return self.cache.take(body, self.starts_in)

    def _whole(self, usage: Usage, output: int) -> Reply:
        content = [{"type": "text", "text": "ok"}] if output else []
        message = {**MESSAGE, "content": content, "stop_reason": "end_turn", "usage": usage.json(output)}
        return as_json(message, head_delay=self.starts_in)

    def _stream(self, usage: Usage, output: int) -> Reply:
        last = usage.json(output) if self.repeat_counts else {"output_tokens": output}
        last.pop("service_tier", None)
        last.pop("cache_creation", None)  # the last event names totals only
        events = [
            {"type": "message_start", "message": {**MESSAGE, "content": [], "usage": usage.json(1)}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "ping"},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last},
            {"type": "message_stop"},
        ]
        return sse([(event["type"], event) for event in events], head_delay=self.starts_in)


MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": None}


def _no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; one with a key twice is refused, so that no splice can hide behind the last one."""
    names = [name for name, _ in pairs]
    if len(names) != len(set(names)):
        raise RefusedError("a key stands twice in one object")
    return dict(pairs)
