"""What the shared state takes in Redis: live conversations of 100 KB each, against its cap.

    python -m bench.state [--lineages 1000] [--turns 3] [--json bench/results/state.json]

Real requests are read, placed, settled and marked as a proxy does it, against a real Valkey; what it holds
is asked of the server itself (INFO memory). Then every conversation goes on for a turn, to see how many are
still known; and four times as many come, to see that the cap holds when it must.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from services.proxy.backends.backend import Backend
from services.proxy.chunking.analysis import Analyser
from services.proxy.dialects import for_route
from services.proxy.flow import Flow
from services.proxy.identity import identify
from services.proxy.later import Later
from services.proxy.placing.place import marks_of, place
from services.proxy.placing.texts import Texts
from services.proxy.placing.tokens import Estimator
from services.proxy.settling.settle import settled_of
from services.proxy.state import open_state
from services.settings import Settings
from tests.support.valkey import Valkey

ROUTE = "/v1/chat/completions"
KEY = b"k" * 32
AGENTS = 8  # share a system prompt of 8 KB and tools of 20 KB each; the other 72 KB are a conversation's own
OVERFULL = 4  # times as many conversations, for the second figure
WORDS = (
    "build",
    "part",
    "table",
    "owner",
    "ledger",
    "chapter",
    "review",
    "draft",
    "delay",
    "follows",
    "names",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lineages", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ma-bench-") as folder:
        server = Valkey(Path(folder))
        server.start()
        try:
            results = asyncio.run(measure(server, arguments.lineages, arguments.turns))
        finally:
            server.stop()
    report(results, arguments)


async def measure(server: Valkey, lineages: int, turns: int) -> dict[str, Any]:
    proxy = Proxy(server.url)
    await proxy.state.start()
    empty = memory(server)
    began = time.perf_counter()
    for turn in range(turns):
        for number in range(lineages):
            await proxy.say(number, turn)
    await proxy.written()
    held = {
        **taken(server, empty),
        "seconds": round(time.perf_counter() - began, 1),
        "request_bytes": len(proxy.body(0, turns - 1)),
        "lineages_listed": len((await proxy.state.overview(2 * lineages)).lineages),
    }
    known = sum([await proxy.say(number, turns) for number in range(lineages)])
    for number in range(lineages, OVERFULL * lineages):
        await proxy.say(number, 0)
    await proxy.written()
    full = {**taken(server, empty), "lineages": OVERFULL * lineages}
    await proxy.state.close()
    return {"cap_bytes": proxy.settings.state_max_bytes, "live": held, "continued": known, "overfull": full}


class Proxy:
    """One proxy's reading, placing and settling, on the shared state."""

    def __init__(self, url: str) -> None:
        self.settings = Settings(redis_url=url)
        self.key = KEY
        self.state = open_state(self.settings, KEY)
        self.texts = Texts(self.settings.state_max_bytes, self.settings.text_ttl, enabled=False)
        self.estimator = Estimator()
        self.later = Later()
        self._analyser = Analyser(0)
        self._backend = Backend(name="bench", url="http://127.0.0.1:1", kind="ollama")
        self._dialect = for_route("POST", ROUTE)
        self._shared = [(prose(f"system {n}", 8_000), tools(n)) for n in range(AGENTS)]

    async def say(self, number: int, turn: int) -> bool:
        """One request of one conversation; whether it was known to go on from the turn before."""
        assert self._dialect is not None
        flow = Flow(backend=self._backend, method="POST", path=ROUTE, dialect=self._dialect)
        flow.prompt = self._analyser.read(self._dialect, self.body(number, turn), self._backend.name)
        flow.identity = identify([(b"x-session-id", b"s-%d" % number)], flow.prompt, KEY, None)
        await place(flow, self)
        flow.status, flow.ended_at = "completed", time.perf_counter()
        assert flow.query is not None
        self.state.settle(flow.query, settled_of(flow, KEY), marks_of(flow, self))
        return flow.verdict is not None and flow.verdict.relation == "append"

    async def written(self) -> None:
        """Wait for what was told and not asked."""
        await self.state.overview(1)
        await asyncio.sleep(0.5)

    def body(self, number: int, turn: int) -> bytes:
        """A conversation as long as it is after so many turns; nothing but the head is shared."""
        system, schemas = self._shared[number % AGENTS]
        messages = [{"role": "system", "content": system}]
        for place_ in range(72 + 2 * turn + 1):
            role = "assistant" if place_ % 2 else "user"
            messages.append({"role": role, "content": prose(f"{number} {place_}", 960)})
        return json.dumps({"model": "m", "messages": messages, "tools": schemas}).encode()


def prose(seed: str, size: int) -> str:
    """So many bytes of words that no other seed has in that order."""
    pick = random.Random(seed)
    start = f"{seed}: "
    return (start + " ".join(pick.choices(WORDS, k=size // 4)))[:size]


def tools(agent: int) -> list[dict[str, Any]]:
    """Forty schemas of half a kilobyte."""
    return [
        {
            "type": "function",
            "function": {
                "name": f"tool_{agent}_{n}",
                "description": prose(f"tool {agent} {n}", 350),
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            },
        }
        for n in range(40)
    ]


def memory(server: Valkey) -> dict[str, int]:
    with server.client() as client:
        info = client.info("memory")
    names = ("used_memory", "used_memory_dataset", "used_memory_rss")
    return {name: int(info[name]) for name in names}


def taken(server: Valkey, empty: dict[str, int]) -> dict[str, int]:
    """Bytes beyond those of the empty server, by its own count, and its append-only file."""
    now = memory(server)
    with server.client() as client:
        keys = client.dbsize()
    files = sum(path.stat().st_size for path in server.folder.rglob("*.aof"))
    return {name: now[name] - empty[name] for name in now} | {"keys": keys, "append_only_bytes": files}


def report(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    cap, live, full = results["cap_bytes"], results["live"], results["overfull"]
    mib, used = 1 << 20, live["used_memory"]
    size = live["request_bytes"] / 1000
    print(f"{arguments.lineages:,} live conversations of {size:.0f} KB, {arguments.turns} turns each")
    print(f"  Redis holds {used / mib:.1f} MiB more than empty, of a cap of {cap / mib:.0f} MiB")
    print(f"  {used / arguments.lineages / 1000:.1f} KB each; RSS {live['used_memory_rss'] / mib:.1f} MiB")
    print(f"  listed {live['lineages_listed']:,}; known at their next turn {results['continued']:,}")
    print(f"{full['lineages']:,} conversations: {full['used_memory'] / mib:.1f} MiB")
    held = live["used_memory"] < cap and full["used_memory"] < cap
    print(f"under the cap: {'yes' if held else 'NO'}")
    if arguments.json:
        command = f"python -m bench.state --lineages {arguments.lineages} --turns {arguments.turns}"
        where = {"cpus": os.cpu_count(), "python": platform.python_version()}
        where["platform"] = f"{platform.system()} {platform.machine()}"
        arguments.json.write_text(
            json.dumps({"command": command, **where, "results": results}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
