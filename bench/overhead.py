"""What the proxy costs on the wire, beside nginx and LiteLLM, measured side by side in one run.

    python -m bench.overhead [--rounds 7] [--litellm PATH] [--json bench/results/overhead.json]

One core holds the proxy under test (nginx and LiteLLM in their turn), the other the load and a backend with
constant answers. In each round every target gets the same requests, one target after the other; figures are
medians over the rounds, ratios are taken within a round. MetalAnchor runs as users run it, with Valkey and
all features; conversations grow turn by turn, so that every request is analysed and compared.
"""

import argparse
import json
import platform
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench._wire_load import Timed, conversation, drive
from bench._wire_targets import LOAD_CORE, Target, everything, pin

KB, MB = 1 << 10, 1 << 20
# LiteLLM takes over 10 ms a request: fewer of them keep a run within minutes.
LITELLM_SHARE = 5


@dataclass(frozen=True)
class Case:
    """One load: `at_once` conversations of `size` bytes, `each` requests in each per round."""

    name: str
    size: int
    messages: int
    at_once: int
    each: int
    model: str = "instant"
    stream: bool = False
    litellm: bool = False

    def bodies(self) -> list[list[bytes]]:
        """The request bodies of each conversation."""
        return [
            conversation(self.size, self.messages, self.model, session, stream=self.stream)
            for session in range(self.at_once)
        ]


CASES = [
    Case("8 KB", 8 * KB, 10, 1, 200, litellm=True),
    Case("8 KB streamed", 8 * KB, 10, 1, 200, stream=True, litellm=True),
    Case("100 KB", 100 * KB, 60, 1, 60),
    Case("100 KB streamed", 100 * KB, 60, 1, 60, stream=True),
    Case("1 MB", MB, 400, 1, 24),
    Case("1 MB streamed", MB, 400, 1, 24, stream=True),
    Case("1 MB, backend takes 10 ms", MB, 400, 1, 24, model="slow", stream=True),
    Case("8 KB, 32 at once", 8 * KB, 10, 32, 40, litellm=True),
    Case("8 KB streamed, 32 at once", 8 * KB, 10, 32, 40, stream=True, litellm=True),
    Case("100 KB, 32 at once", 100 * KB, 60, 32, 8),
    Case("32 streams, an event each 20 ms", 8 * KB, 10, 32, 1, model="paced:100:20", stream=True),
    Case("32 streams, an event each 5 ms", 8 * KB, 10, 32, 1, model="paced:300:5", stream=True, litellm=True),
]


def percentile(values: list[float], share: float) -> float:
    """The value below which that share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def figures(seen: Timed) -> dict[str, float]:
    """One target's figures of one round."""
    out = {
        "ttfb_p50_us": percentile(seen.first, 0.5) * 1e6,
        "ttfb_p99_us": percentile(seen.first, 0.99) * 1e6,
        "requests_per_s": seen.requests / seen.wall,
        "cpu_us_per_request": seen.cpu * 1e6 / seen.requests,
    }
    if seen.events and seen.events > 10 * seen.requests:
        out["lag_p99_ms"] = percentile(seen.lag, 0.99) * 1000
        out["chunks_per_cpu_s"] = seen.events / seen.cpu if seen.cpu else 0.0
    return out


async def round_of(
    case: Case, targets: list[Target], bodies: list[list[bytes]]
) -> dict[str, dict[str, float]]:
    """Each target's figures, one after the other under the same load."""
    out = {}
    for target in targets:
        if target.name == "litellm" and not case.litellm:
            continue
        each = max(1, case.each // LITELLM_SHARE) if target.name == "litellm" else case.each
        before = target.cpu()
        seen = await drive(target.port, bodies, each)
        seen.cpu = target.cpu() - before
        out[target.name] = figures(seen)
    return out


def derived(results: dict[str, dict[str, float]]) -> dict[str, float]:
    """What the direct way does not explain, and its ratios, within one round."""
    ours, direct = results["metalanchor"], results["direct"]
    out = {"added_us": ours["ttfb_p50_us"] - direct["ttfb_p50_us"]}
    for name in ("nginx", "litellm"):
        other = results.get(name)
        if other is None:
            continue
        added = other["ttfb_p50_us"] - direct["ttfb_p50_us"]
        out[f"{name}_added_us"] = added
        out[f"added_vs_{name}"] = out["added_us"] / added
        out[f"requests_per_s_vs_{name}"] = ours["requests_per_s"] / other["requests_per_s"]
        out[f"cpu_vs_{name}"] = ours["cpu_us_per_request"] / other["cpu_us_per_request"]
        if "lag_p99_ms" in ours:
            out[f"lag_p99_ms_over_{name}"] = ours["lag_p99_ms"] - other["lag_p99_ms"]
            out[f"chunks_per_cpu_s_vs_{name}"] = ours["chunks_per_cpu_s"] / other["chunks_per_cpu_s"]
    return out


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The median of each figure over the rounds."""
    return {name: round(statistics.median(r[name] for r in rounds), 3) for name in rounds[0]}


async def measure(targets: list[Target], rounds: int, chosen: str) -> dict[str, dict]:
    """All cases; one unmeasured round warms each."""
    out = {}
    for case in [case for case in CASES if chosen in case.name]:
        bodies = case.bodies()
        await round_of(case, targets, bodies)
        seen = [await round_of(case, targets, bodies) for _ in range(rounds)]
        by_target = {name: medians([r[name] for r in seen]) for name in seen[0]}
        out[case.name] = {"targets": by_target, "derived": medians([derived(r) for r in seen])}
        show(case.name, out[case.name])
    return out


def show(name: str, result: dict) -> None:
    """Print one case."""
    print(f"\n{name}")
    for target, values in result["targets"].items():
        print(f"  {target:<12}" + "  ".join(f"{key} {value:,.0f}" if value >= 100 else f"{key} {value:.2f}"
                                           for key, value in values.items()))  # fmt: skip
    print("  -> " + "  ".join(f"{key} {value:.2f}" for key, value in result["derived"].items()))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--litellm", help="LiteLLM's executable, in an environment of its own")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pin(LOAD_CORE)
    with tempfile.TemporaryDirectory() as name, everything(Path(name), options.litellm) as targets:
        cases = uvloop.run(measure(targets, options.rounds, options.only))
    if options.json:
        shown = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
        command = "python -m bench.overhead " + " ".join(shown)
        machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
        result = {"command": command, "machine": machine, "rounds": options.rounds, "cases": cases}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
