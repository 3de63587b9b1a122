"""How often the first cause named is the right one: the labelled set as a confusion table.

Runs `tests/labelled` in process and writes `bench/results/causes.json` and `.md`.

    python -m bench.causes
"""

import asyncio
import json
from pathlib import Path

from tests.labelled.run import CLEAN, Outcome, confusion, run_all, scores

RESULTS = Path(__file__).parent / "results"


def report(outcomes: list[Outcome]) -> str:
    """The table as Markdown."""
    table, whole = confusion(outcomes), scores(outcomes)
    total = whole["all"]
    false = sum(outcome.label == CLEAN and outcome.found != CLEAN for outcome in outcomes)
    lines = [
        "# First cause: labelled conversations",
        "",
        f"{len(outcomes)} conversations, {total.cases} of them with a cause.",
        f"Precision {total.precision:.3f}, recall {total.recall:.3f}, clean appends blamed: {false}.",
        "",
        "| cause | conversations | precision | recall | taken for |",
        "|---|--:|--:|--:|---|",
    ]
    for label, row in sorted(table.items()):
        score = whole[label]
        wrong = ", ".join(f"{found} ({count})" for found, count in sorted(row.items()) if found != label)
        lines.append(f"| {label} | {score.cases} | {score.precision:.3f} | {score.recall:.3f} | {wrong} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run, write, print."""
    outcomes = asyncio.run(run_all())
    text = report(outcomes)
    RESULTS.mkdir(exist_ok=True)
    figures = {
        "conversations": len(outcomes),
        "scores": {label: score._asdict() for label, score in scores(outcomes).items()},
        "confusion": confusion(outcomes),
    }
    (RESULTS / "causes.json").write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    (RESULTS / "causes.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
