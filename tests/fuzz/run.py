"""Coverage-guided fuzzing of every target: ``python -m tests.fuzz.run SECONDS``; needs `atheris` installed.

Each target runs in a process of its own for its share of the time, from the committed corpus. A crash or hang
leaves its input in the present folder; once mended, it becomes a seed in ``corpus.json``.
"""

import subprocess
import sys
import tempfile
from pathlib import Path


def one(name: str, seconds: int) -> None:
    """Fuzz one target in this process; does not return."""
    import atheris

    with atheris.instrument_imports(include=["services"]):  # what is imported later is not followed
        from tests.fuzz.targets import TARGETS, seeds

    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(seeds()[name]):
            (Path(folder) / str(number)).write_bytes(seed)
        limits = [f"-max_total_time={seconds}", "-max_len=4096", "-timeout=10"]
        atheris.Setup([sys.argv[0], *limits, "-verbosity=0", "-print_final_stats=1", folder], TARGETS[name])
        atheris.Fuzz()


def main() -> int:
    """All targets in turn; the number of those that failed."""
    if len(sys.argv) == 3:
        one(sys.argv[1], int(sys.argv[2]))
    from tests.fuzz.targets import TARGETS

    share = max(1, int(sys.argv[1]) // len(TARGETS))
    failed = 0
    for name in TARGETS:
        command = [sys.executable, "-m", "tests.fuzz.run", name, str(share)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        runs = [line for line in done.stderr.splitlines() if "number_of_executed_units" in line]
        count = runs[0].rpartition(":")[2].strip() if runs else "?"
        print(f"{name:10} {share} s {count} inputs {'failed' if done.returncode else 'ok'}", flush=True)
        if done.returncode:
            failed += 1
            print(done.stderr[-3000:])
    return failed


if __name__ == "__main__":
    sys.exit(main())
