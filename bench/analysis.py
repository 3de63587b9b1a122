"""Analysis of request bodies against one SHA-1 pass over the same bytes; prints ratios.

Bodies are those of agents (messages before tools, texts of some KB, code or Chinese), 8 KB to 8 MB. Cold is a
body never seen; next is the body of the turn after a known one; place is what follows that: its text is put
aside, and it is compared with the turn before and judged (without the time of the shared state). Each figure
is the median of interleaved rounds, in CPU time of the thread: analysis does nothing but compute, and other
processes must not count.

    python -m bench.analysis [--rounds N] [--out bench/results/analysis.json]
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from hashlib import sha1
from pathlib import Path
from typing import Any

from bench._placing import Placing
from services.proxy.chunking.analysis import Analyser
from services.proxy.dialects import for_route
from services.proxy.dialects.base import Dialect
from services.proxy.prompt import Prompt

ROUTES = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
SIZES = {"8 KB": 8 << 10, "100 KB": 100 << 10, "1 MB": 1 << 20, "8 MB": 8 << 20}
LIMITS = {
    "next": {"100 KB": 2.0, "1 MB": 2.0, "8 MB": 2.0},
    "cold": {"100 KB": 6.0, "1 MB": 6.0, "8 MB": 8.0},
}
MICROSECONDS_8KB = 100.0

CODE = Path(argparse.__file__).read_text(encoding="utf-8").encode("ascii", "ignore").decode()
CHINESE = (
    "这个函数读取文件并返回其内容，然后我们检查结果是否正确。`read(path)` 失败时抛出异常；请先看日志。\n"
)


def text_of(language: str, number: int, size: int) -> str:
    """A text of about `size` bytes that differs from message to message."""
    source = CODE if language == "english" else CHINESE * 60
    start = (number * 97) % 400
    return f"{number}: " + (source[start:] * 4)[: size if language == "english" else size // 3]


def tools_of(route: str, size: int) -> list[dict[str, Any]]:
    """Tool definitions: about 2.6 KB each, at most 15, as agents send them."""
    count = min(15, max(1, size // 7000))
    tools = []
    for number in range(count):
        names = ("path", "offset", "limit", "pattern", "timeout")
        properties = {name: {"type": "string", "description": "The value to use. " * 6} for name in names}
        schema = {"type": "object", "properties": properties, "required": ["path"]}
        tool = {"name": f"tool_{number}", "description": "Reads a file from the work tree.\n" * 50}
        if route == "chat":
            tools.append({"type": "function", "function": tool | {"parameters": schema}})
        elif route == "messages":
            tools.append(tool | {"input_schema": schema})
        else:
            tools.append({"type": "function", "strict": False} | tool | {"parameters": schema})
    return tools


def turn_of(route: str, language: str, number: int, size: int) -> list[dict[str, Any]]:
    """What one step of a tool loop adds: a call, and its result of about `size` bytes."""
    arguments = {"path": f"src/file_{number}.py", "limit": "200"}
    thought, result = text_of(language, number, 300), text_of(language, number + 7, size)
    if route == "chat":
        call = {"id": f"c{number}", "type": "function"}
        call["function"] = {"name": "tool_0", "arguments": json.dumps(arguments)}
        answer = {"role": "assistant", "content": thought, "tool_calls": [call]}
        return [answer, {"role": "tool", "tool_call_id": f"c{number}", "content": result}]
    if route == "messages":
        use = {"type": "tool_use", "id": f"t{number}", "name": "tool_0", "input": arguments}
        answer = {"role": "assistant", "content": [{"type": "text", "text": thought}, use]}
        content = {"type": "tool_result", "tool_use_id": f"t{number}", "content": result}
        return [answer, {"role": "user", "content": [content]}]
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": thought}]}
    call = {
        "type": "function_call",
        "call_id": f"c{number}",
        "name": "tool_0",
        "arguments": json.dumps(arguments),
    }
    return [item, call, {"type": "function_call_output", "call_id": f"c{number}", "output": result}]


def bodies(route: str, language: str, size: int) -> tuple[bytes, bytes]:
    """A body of about `size` bytes, and that of the next turn."""
    tools = tools_of(route, size)
    system = text_of(language, 0, min(9000, size // 8))
    messages: list[dict[str, Any]] = [] if route == "messages" else [{"role": "system", "content": system}]
    messages.append({"role": "user", "content": text_of(language, 1, 400)})
    room = size - len(dump(tools)) - len(dump(messages)) - 200
    result = 4700 if size > 16 << 10 else 1000
    number = 2
    while room > 0:
        turn = turn_of(route, language, number, result)
        messages += turn
        room -= len(dump(turn))
        number += 1
    following = messages + turn_of(route, language, number, result)
    name = "input" if route == "responses" else "messages"
    return tuple(  # type: ignore[return-value]
        dump(
            {"model": "qwen3", name: items}
            | ({"system": system} if route == "messages" else {})
            | {"tools": tools, "stream": True, "temperature": 0.2}
        )
        for items in (messages, following)
    )


def dump(value: object) -> bytes:
    """Compact JSON with raw UTF-8, as agents write it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def round_of(dialect: Dialect, parent: bytes, body: bytes) -> tuple[float, float, float, float]:
    """One round: SHA-1, cold, next turn, over the same bytes, and placing the turn, in seconds."""
    warm = Analyser(256 << 20)
    placing = Placing(dialect)
    placing.first(warm.read(dialect, parent, "bench"))
    hashing = timed(lambda: sha1(body).digest())
    cold = timed(lambda: Analyser(256 << 20).read(dialect, body, "bench"))
    prompts: list[Prompt] = []
    following = timed(lambda: prompts.append(warm.read(dialect, body, "bench")))
    return hashing, cold, following, timed(lambda: placing.next(prompts[0]))


def measure(route: str, language: str, size: int, rounds: int) -> dict[str, float]:
    """Medians over interleaved rounds, as ratios to SHA-1 and in microseconds."""
    dialect = for_route("POST", ROUTES[route])
    assert dialect is not None
    parent, body = bodies(route, language, size)
    results = [round_of(dialect, parent, body) for _ in range(rounds)]
    hashing, cold, following, place = (statistics.median(column) for column in zip(*results, strict=True))
    return {
        "bytes": len(body),
        "sha1_us": round(hashing * 1e6, 1),
        "cold_us": round(cold * 1e6, 1),
        "next_us": round(following * 1e6, 1),
        "place_us": round(place * 1e6, 1),
        "cold": round(cold / hashing, 2),
        "next": round(following / hashing, 2),
    }


def main() -> None:
    """Measure all shapes, print a table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=0, help="rounds a figure; 0 chooses by size")
    parser.add_argument("--out", default=str(Path(__file__).parent / "results" / "analysis.json"))
    options = parser.parse_args()
    results: dict[str, Any] = {}
    names = "".join(f"{name:>10}" for name in ("bytes", "sha1", "cold", "next", "place"))
    print(f"{'shape':28}{names}{'cold ÷':>8}{'next ÷':>8}")
    for route in ROUTES:
        for language in ("english", "chinese"):
            for label, size in SIZES.items():
                rounds = options.rounds or max(7, min(200, (32 << 20) // size))
                figures = results[f"{route} {language} {label}"] = measure(route, language, size, rounds)
                row = [figures[name] for name in ("sha1_us", "cold_us", "next_us", "place_us")]
                print(
                    f"{route} {language} {label:<10}".ljust(28)
                    + f"{figures['bytes']:>10}"
                    + "".join(f"{value:>8.0f}µs" for value in row)
                    + f"{figures['cold']:>8.2f}{figures['next']:>8.2f}"
                )
    meta = {
        "command": f"python -m bench.analysis --rounds {options.rounds}",
        "python": platform.python_version(),
        "machine": platform.machine(),
        "load": [round(load, 1) for load in os.getloadavg()],
    }
    text = json.dumps({"limits": LIMITS, "meta": meta, "results": results}, indent=2, ensure_ascii=False)
    Path(options.out).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
