"""The simulator of Anthropic's prompt cache against each documented rule; costs by hand.

Four bytes are a token, so a text of `words(n)` is n tokens. Sonnet 5 caches from 1,024 tokens on.
"""

import copy
from typing import Any

import pytest

from services.costs.cost import Tokens, cost_of
from services.costs.prices import load_prices
from tests.support.anthropic_cache import MINIMUM, PromptCache, RefusedError, Usage

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
SONNET = load_prices().find("anthropic", "claude-sonnet-5")


def words(tokens: int, letter: str = "x") -> str:
    return letter * 4 * tokens


def text(tokens: int, letter: str = "x", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words(tokens, letter), **more}


def tool(letter: str = "t", tokens: int = 2_000, **more: Any) -> dict[str, Any]:
    return {"name": "run", "description": words(tokens, letter), "input_schema": {"type": "object"}, **more}


def body(**more: Any) -> dict[str, Any]:
    """Tools, system and messages of about 2,000 tokens each, marked at the end of each section."""
    return {
        "model": "claude-sonnet-5",
        "max_tokens": 10,
        "tools": [tool(cache_control=MARK)],
        "system": [text(2_000, "s", cache_control=MARK)],
        "messages": [{"role": "user", "content": [text(2_000, "u", cache_control=MARK)]}],
        **more,
    }


def dollars(usage: Usage, output: int = 0) -> float:
    found = cost_of(Tokens(usage.fresh, usage.read, usage.written, usage.written_1h, output), SONNET)
    assert found is not None
    return found.cost_usd


TOOLS = 2_018  # the tool's JSON: 8,000 bytes of description and the rest of the object


@pytest.fixture
def cache() -> PromptCache:
    return PromptCache()


def test_a_prefix_is_written_then_read(cache: PromptCache) -> None:
    """Written at 2.50 a million, read at 0.20."""
    first, second = cache.take(body()), cache.take(body())
    assert first == Usage(0, 0, first.total, 0)
    assert second == Usage(0, first.total, 0, 0)
    assert first.total == pytest.approx(TOOLS + 4_000, abs=3)
    assert dollars(first) == pytest.approx(first.total * 2.5e-6)
    assert dollars(second) == pytest.approx(first.total * 0.2e-6)


def test_tokens_behind_the_last_breakpoint_are_input(cache: PromptCache) -> None:
    """1,500 written and 700 fresh: 1,500 × 2.5 + 700 × 2, then 1,500 × 0.2 + 700 × 2 millionths."""
    request = {
        "model": "claude-sonnet-5",
        "system": [text(1_500, cache_control=MARK)],
        "messages": [{"role": "user", "content": words(700)}],
    }
    assert cache.take(request) == Usage(700, 0, 1_500, 0)
    assert cache.take(request) == Usage(700, 1_500, 0, 0)
    assert dollars(Usage(700, 0, 1_500, 0)) == pytest.approx(0.00515)
    assert dollars(Usage(700, 1_500, 0, 0)) == pytest.approx(0.0017)


def test_no_breakpoint_no_cache(cache: PromptCache) -> None:
    request = {"model": "claude-sonnet-5", "messages": [{"role": "user", "content": words(5_000)}]}
    assert cache.take(request) == cache.take(request) == Usage(5_000, 0, 0, 0)


def test_automatic_caching_marks_the_last_block(cache: PromptCache) -> None:
    """One control at the top of the request; the next turn reads what this one wrote."""
    request = {
        "model": "claude-sonnet-5",
        "cache_control": MARK,
        "messages": [{"role": "user", "content": words(1_500)}],
    }
    assert cache.take(request) == Usage(0, 0, 1_500, 0)
    request["messages"] += [{"role": "assistant", "content": words(5)}, {"role": "user", "content": words(9)}]
    assert cache.take(request) == Usage(0, 1_500, 14, 0)


def test_automatic_caching_takes_one_of_the_four(cache: PromptCache) -> None:
    marked = [text(10, letter, cache_control=MARK) for letter in "abcd"]
    request = {"model": "claude-sonnet-5", "cache_control": MARK, "system": marked}
    request["messages"] = [{"role": "user", "content": "hi"}]
    with pytest.raises(RefusedError, match="Found 5"):
        cache.take(request)


@pytest.mark.parametrize("model", sorted(MINIMUM))
def test_below_the_minimum_nothing_is_cached_and_nothing_said(cache: PromptCache, model: str) -> None:
    """Each model its own; from the very length on it is."""
    for tokens, cached in ((MINIMUM[model] - 1, False), (MINIMUM[model], True)):
        request = {
            "model": model,
            "messages": [{"role": "user", "content": [text(tokens, cache_control=MARK)]}],
        }
        cache.take(request)
        assert cache.take(request).read == (tokens if cached else 0)


def test_another_source_on_minimum_lengths_can_be_set() -> None:
    """4,096 for Opus 4.8, says one; 1,024, says a later one."""
    request = {
        "model": "claude-opus-4-8",
        "messages": [{"role": "user", "content": [text(2_000, cache_control=MARK)]}],
    }
    for minimum, cached in ((4_096, 0), (1_024, 2_000)):
        cache = PromptCache(minimum={"claude-opus-4-8": minimum})
        cache.take(request)
        assert cache.take(request).read == cached


def test_the_minimum_counts_the_whole_prefix(cache: PromptCache) -> None:
    """A short system prompt behind long tools is cached with them."""
    request = body(system=[text(10, cache_control=MARK)], messages=[{"role": "user", "content": "hi"}])
    cache.take(request)
    assert cache.take(request).read == pytest.approx(TOOLS + 10, abs=2)


@pytest.mark.parametrize(("control", "life"), [(MARK, 300), (HOUR, 3_600)])
def test_entries_live_so_long(cache: PromptCache, control: dict[str, str], life: float) -> None:
    request = body(
        tools=[], system=[], messages=[{"role": "user", "content": [text(2_000, cache_control=control)]}]
    )
    cache.take(request)
    cache.now += life - 1
    assert cache.take(request).read == 2_000
    cache.now += life
    assert cache.take(request).read == 0


def test_each_read_prolongs_an_entry(cache: PromptCache) -> None:
    """Read every four minutes, a five-minute entry lives on."""
    cache.take(body())
    for _ in range(10):
        cache.now += 240
        assert cache.take(body()).read == pytest.approx(TOOLS + 4_000, abs=3)


def test_lifetimes_are_charged_apart(cache: PromptCache) -> None:
    """An hour for the first 2,000, five minutes for the 1,000 behind them: 2,000 × 4 + 1,000 × 2.5."""
    request = {
        "model": "claude-sonnet-5",
        "system": [text(2_000, "s", cache_control=HOUR)],
        "messages": [{"role": "user", "content": [text(1_000, "u", cache_control=MARK)]}],
    }
    first = cache.take(request)
    assert first == Usage(0, 0, 1_000, 2_000)
    assert dollars(first) == pytest.approx(0.0105)
    cache.now += 400
    again = cache.take(request)
    assert again == Usage(0, 2_000, 1_000, 0)
    assert dollars(again) == pytest.approx(0.0029)


def test_an_hour_may_not_stand_behind_five_minutes(cache: PromptCache) -> None:
    request = body(tools=[], system=[text(10, cache_control=MARK)])
    request["messages"] = [{"role": "user", "content": [text(10, cache_control=HOUR)]}]
    with pytest.raises(RefusedError, match="must not come after"):
        cache.take(request)


def test_the_fifth_breakpoint_is_an_error(cache: PromptCache) -> None:
    request = body(system=[text(10, letter, cache_control=MARK) for letter in "abc"])
    with pytest.raises(RefusedError, match=r"maximum of 4 .* Found 5"):
        cache.take(request)
    assert cache.entries == {}


@pytest.mark.parametrize(
    "part",
    [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": ""}],
)
def test_some_blocks_take_no_breakpoint(cache: PromptCache, part: dict[str, Any]) -> None:
    request = body(messages=[{"role": "assistant", "content": [{**part, "cache_control": MARK}]}])
    with pytest.raises(RefusedError, match="cannot be set"):
        cache.take(request)


@pytest.mark.parametrize(("blocks", "found"), [(19, True), (20, False)])
def test_looking_back_ends_after_twenty_blocks(cache: PromptCache, blocks: int, found: bool) -> None:
    """The breakpoint's own block is the first of the twenty."""
    request = body(
        tools=[], system=[], messages=[{"role": "user", "content": [text(2_000, cache_control=MARK)]}]
    )
    cache.take(request)
    del request["messages"][0]["content"][0]["cache_control"]
    request["messages"] += [{"role": "assistant", "content": [text(1) for _ in range(blocks)]}]
    request["messages"][-1]["content"][-1]["cache_control"] = MARK
    assert cache.take(request).read == (2_000 if found else 0)


def test_a_breakpoint_where_the_last_one_stood_looks_back_from_there(cache: PromptCache) -> None:
    """So a turn of many blocks is found again."""
    request = body(
        tools=[], system=[], messages=[{"role": "user", "content": [text(2_000, cache_control=MARK)]}]
    )
    cache.take(request)
    request["messages"] += [{"role": "assistant", "content": [text(1) for _ in range(60)]}]
    request["messages"][-1]["content"][-1]["cache_control"] = MARK
    assert cache.take(request) == Usage(0, 2_000, 60, 0)


def test_an_entry_is_readable_once_its_answer_starts(cache: PromptCache) -> None:
    """Requests at the same time all write."""
    assert [cache.take(body(), starts_in=2.0).read for _ in range(3)] == [0, 0, 0]
    cache.now += 2.0
    assert cache.take(body()).read > 0


def _edit(path: str, value: Any) -> Any:
    def change(request: dict[str, Any]) -> None:
        *way, last = path.split(".")
        at: Any = request
        for step in way:
            at = at[int(step)] if step.isdigit() else at[step]
        at[int(last) if last.isdigit() else last] = value

    return change


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}}
DOCUMENT = {
    "type": "document",
    "source": {"type": "text", "media_type": "text/plain", "data": "d"},
    "citations": {"enabled": True},
}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
CHANGES = {
    "tool edited": (_edit("tools.0.description", words(2_000, "z")), ""),
    "tool added": (lambda r: r["tools"].append(tool("n", 10)), ""),
    "tool added in front": (lambda r: r["tools"].insert(0, tool("n", 10)), ""),
    "tool removed": (lambda r: r["tools"].clear(), ""),
    "model switch": (_edit("model", "claude-sonnet-4-6"), ""),
    "system text": (_edit("system.0.text", words(2_000, "z")), "tools"),
    "web search": (lambda r: r["tools"].append(SEARCH), "tools"),
    "citations": (lambda r: r["messages"][0]["content"].append(DOCUMENT), "tools"),
    "speed": (_edit("speed", "fast"), "tools"),
    "tool_choice": (_edit("tool_choice", {"type": "any"}), "tools system"),
    "image": (lambda r: r["messages"][0]["content"].append(IMAGE), "tools system"),
    "thinking": (_edit("thinking", {"type": "enabled", "budget_tokens": 1024}), "tools system"),
    "message content": (_edit("messages.0.content.0.text", words(2_000, "z")), "tools system"),
    "later message": (
        lambda r: r["messages"].append({"role": "user", "content": "more"}),
        "tools system messages",
    ),
    "max_tokens": (_edit("max_tokens", 99), "tools system messages"),
    "temperature": (_edit("temperature", 0.5), "tools system messages"),
    "nothing": (lambda r: None, "tools system messages"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_change_keeps(cache: PromptCache, name: str) -> None:
    """Each row of the table of what a change loses; what is kept is read, the rest written or fresh."""
    change, kept = CHANGES[name]
    cache.take(body())
    request = copy.deepcopy(body())
    change(request)
    sizes = {"tools": TOOLS, "system": 2_000, "messages": 2_000}
    assert cache.take(request).read == pytest.approx(sum(sizes[part] for part in kept.split()), abs=3)


def test_tools_in_another_order_are_other_tools(cache: PromptCache) -> None:
    request = body(tools=[tool("a"), tool("b", cache_control=MARK)])
    cache.take(request)
    assert cache.take(body(tools=[tool("b"), tool("a", cache_control=MARK)])).read == 0


def test_warming_up_writes_and_says_nothing(cache: PromptCache) -> None:
    """max_tokens of 0 fills the cache; it cannot be streamed."""
    cache.take(body(max_tokens=0))
    assert cache.take(body()).read > 0
    with pytest.raises(RefusedError, match="streamed"):
        cache.take(body(max_tokens=0, stream=True))


def test_a_string_is_one_block(cache: PromptCache) -> None:
    """The same text in either shape is the same prefix."""
    marked = body()
    cache.take(marked)
    plain = copy.deepcopy(marked)
    plain["system"] = words(2_000, "s")
    assert cache.take(plain).read == pytest.approx(TOOLS + 4_000, abs=3)


def test_an_unknown_control_is_refused(cache: PromptCache) -> None:
    with pytest.raises(RefusedError):
        cache.take(body(system=[text(10, cache_control={"type": "ephemeral", "ttl": "2h"})]))
