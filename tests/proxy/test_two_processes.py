"""Two proxy processes on one Redis, and one that keeps no text: causes without words, offsets to a block."""

import json
import time
from typing import Any

import pytest

from tests.support.backend.script import as_json
from tests.support.proxy import Proxy, StartProxy
from tests.support.story import CHAT, Story, Told, answered
from tests.support.talk import ASK, MORE, RULES, call, function, result, said, turn, user
from tests.support.valkey import Valkey

pytestmark = pytest.mark.process

CANARY = "canary-quince-7431"
BLOCK = 64  # bytes, the length of a block whose digest is kept


def talk(clock: str, *more: dict[str, Any], arguments: str = '{"path":"a","limit":3}') -> dict[str, Any]:
    system = f"{RULES} {CANARY} It is {clock}. {RULES}"
    head = [turn("system", system), user(f"{ASK} {CANARY}"), call(arguments), result(f"{CANARY} " * 40)]
    return {"messages": [*head, *more]}


def pair(start_proxy: StartProxy, valkey: Valkey, tmp_path: Any, **first: Any) -> tuple[Proxy, Proxy]:
    shared = {"redis_url": valkey.url, "key_file": tmp_path / "install.key"}
    both = start_proxy(**shared, **first), start_proxy(**shared)
    end = time.monotonic() + 10
    while any(proxy.json("/status")["state"]["mode"] != "redis" for proxy in both):
        assert time.monotonic() < end
        time.sleep(0.05)
    return both


def say(proxy: Proxy, body: dict[str, Any]) -> Told:
    backend: Any = None
    story = Story(backend, proxy, "m")
    told = story.explained(proxy.chat({"model": "m", **body}))
    time.sleep(0.4)  # block digests are left after the answer
    return told


def kept(valkey: Valkey, *proxies: Proxy) -> bytes:
    """All that Redis, its files and the proxies' folders hold."""
    with valkey.client() as client:
        found = [key + (client.dump(key) or b"") for key in client.scan_iter()]
        hashes = [client.hgetall(key) for key in client.scan_iter(_type="hash")]  # a dump may be compressed
        found += [part for fields in hashes for pair in fields.items() for part in pair]
    folders = [valkey.folder, *(proxy.folder for proxy in proxies)]
    return b"".join([*found, *(p.read_bytes() for f in folders for p in f.rglob("*") if p.is_file())])


def test_another_process_finds_the_break_to_within_a_block(
    start_proxy: StartProxy, valkey: Valkey, backend: Any, tmp_path: Any
) -> None:
    """It never saw the older text: relation, hit and order stand, words are neither needed nor shown."""
    backend.answer(answered(CHAT, (800, 0)))
    one, two = pair(start_proxy, valkey, tmp_path)
    tools = [function("a", f"{CANARY} does a."), function("b")]
    first = say(one, {**talk("10:41"), "tools": tools})
    told = say(two, {**talk("10:42", said(), user(MORE)), "tools": tools[::-1]})
    assert (told.explain["parent_id"], told.explain["relation"]) == (first.id, "rewrite")
    assert told.codes[:2] == ["tool_reorder", "system_edit"]
    found = told.detail("system_edit")
    clock = len(f"{RULES} {CANARY} It is 10:4")
    assert found["byte_offset"] <= clock < found["byte_offset"] + found["offset_precision"] <= clock + BLOCK
    assert (told.explain["before"], told.explain["after"]) == (None, None)
    exact = two.request("POST", f"/metalanchor/api/requests/{told.id}/exact")
    assert exact.status == 410
    assert CANARY.encode() not in exact.body
    back = say(one, {**talk("10:42", said(), user(MORE), said(), user("Go on.")), "tools": tools[::-1]})
    assert (back.explain["parent_id"], back.hit, back.explain["diverged_at"]) == (told.id, "prefix", None)
    assert CANARY.encode() not in kept(valkey, one, two)


def test_without_text_a_turn_that_follows_at_once_is_placed_to_within_a_block_too(
    start_proxy: StartProxy, valkey: Valkey, backend: Any, tmp_path: Any
) -> None:
    """The digests of the turn before are made when its answer has ended, which is a moment before."""
    backend.answer(as_json({"choices": [{"index": 0, "message": said(), "finish_reason": "stop"}]}))
    proxy, _ = pair(start_proxy, valkey, tmp_path, keep_text="false")
    turns = [{"model": "m", **talk(*turn)} for turn in (("10:41",), ("10:42", said(), user(MORE)))]
    told = Story(backend, proxy, "m").explained([proxy.chat(body) for body in turns][-1])
    clock = len(f"{RULES} {CANARY} It is 10:4")
    offset, precision = told.explain["byte_offset"], told.explain["offset_precision"]
    assert offset <= clock < offset + precision <= clock + BLOCK


def test_without_text_everything_that_needs_no_words_is_said(
    start_proxy: StartProxy, valkey: Valkey, backend: Any, tmp_path: Any
) -> None:
    """An append is one, removed tools have names, a pruned result is placed; nothing shows the words."""
    backend.answer(as_json({"choices": [{"index": 0, "message": said(), "finish_reason": "stop"}]}))
    proxy, other = pair(start_proxy, valkey, tmp_path, keep_text="false")
    tools = [function("read", CANARY), function("mcp_x", CANARY)]
    say(proxy, {**talk("10:41"), "tools": tools})
    grown = say(proxy, {**talk("10:41", said(), user(MORE)), "tools": tools})
    assert (grown.hit, grown.explain["relation"], grown.codes) == ("prefix", "append", [])
    fewer = {**talk("10:41", said(), user(MORE), said(), user("Go.")), "tools": tools[:1]}
    fewer["messages"][3] = result("[cut]")
    told = say(proxy, fewer)
    assert told.codes == ["tools_removed", "tool_result_pruned"]
    assert told.detail("tools_removed")["names"] == ["mcp_x"]
    assert told.explain["causes"][1]["at"] == "messages[3]"
    assert CANARY not in json.dumps(told.explain)
    assert CANARY.encode() not in kept(valkey, proxy, other)
