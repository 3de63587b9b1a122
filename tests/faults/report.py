"""The table of a run: printed, and written to docs/reliability.md where every fault passed."""

import datetime as dt
import os
import platform
from pathlib import Path

from tests.faults.drill import Result

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- faults: written by `make test-faults` -->", "<!-- end of faults -->"
FAULTS = 24  # fewer are a part of the suite, whose table would hide the rest
HEAD = (
    "| fault | history | requests | failed because of us | cut by the fault itself | added wait, median ms "
    "| worst wait ms | rows lost | of them counted | rows doubled | recovery s | proxy memory MB |"
)


def is_whole(results: list[Result]) -> bool:
    """Whether the results are those of the whole suite."""
    return len(results) >= FAULTS


def table(results: list[Result]) -> str:
    """The results as Markdown, in a fixed order."""
    lines = [HEAD, "|" + " --- |" * (HEAD.count("|") - 1)]
    for r in sorted(results, key=lambda r: (r.fault, r.database)):
        memory = f"{r.memory_before / 1e6:.0f} → {r.memory_after / 1e6:.0f}"
        cells = (
            r.fault, r.database, r.requests, r.failed, r.cut, f"{r.added_p50_ms:+.1f}", f"{r.worst_ms:.0f}",
            r.lost, min(r.lost, r.dropped), r.doubled, f"{r.recovery_s:.1f}", memory,
        )  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def finish(results: list[Result], *, whole: bool) -> None:
    """Print the table; put it into the page when it is whole."""
    if not results:
        return
    text = table(results)
    print("\n" + text)
    if not whole or not PAGE.exists():
        return
    page = PAGE.read_text()
    head, _, rest = page.partition(BEGIN)
    tail = rest.partition(END)[2]
    day = dt.datetime.now(dt.UTC).date().isoformat()
    where = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    PAGE.write_text(f"{head}{BEGIN}\nRun on {day}, {where}.\n\n{text}\n{END}{tail}")
