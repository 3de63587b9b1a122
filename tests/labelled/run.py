"""Runs the labelled set through the analysis in process, and counts who was taken for whom."""

from collections import Counter
from typing import NamedTuple

from tests.labelled.conversations import Case, all_cases
from tests.labelled.shapes import KINDS, PATHS, answer, body
from tests.support.pipeline import Engine, Pipeline

CLEAN = "(none)"


class Outcome(NamedTuple):
    """One case: the label, and the first cause found."""

    name: str
    label: str
    found: str


async def run_case(case: Case) -> Outcome:
    """Play a case; what is found is the first cause of its last request."""
    kind = case.kind or KINDS[case.dialect]
    version = "0.33.3" if kind == "ollama" else None
    pipeline = Pipeline(kind, version=version, facts=case.facts, engine=Engine(case.slots))
    flow = None
    for step in case.steps:
        opts = dict(step.opts)
        load_ms = opts.pop("load_ms", None)

        def reply(
            total: int | None, cached: int | None, step: object = step, load_ms: float | None = load_ms
        ) -> dict:
            made = answer(case.dialect, step.reply, total, cached)  # type: ignore[attr-defined]
            if load_ms is not None:
                made["load_duration"] = int(load_ms * 1e6)
            return made

        flow = await pipeline.send(
            body(case.dialect, step.talk), path=PATHS[case.dialect], answer=reply, **opts
        )
    assert flow is not None
    return Outcome(case.name, case.label or CLEAN, flow.causes[0].code if flow.causes else CLEAN)


async def run_all() -> list[Outcome]:
    """Every case of the set."""
    return [await run_case(case) for case in all_cases()]


class Score(NamedTuple):
    """Of one cause, or of all together."""

    cases: int
    precision: float
    recall: float


def scores(outcomes: list[Outcome]) -> dict[str, Score]:
    """Precision and recall by label, and of the whole set under ``all`` (clean appends left out)."""
    labels = sorted({outcome.label for outcome in outcomes} | {outcome.found for outcome in outcomes})
    right = Counter(outcome.label for outcome in outcomes if outcome.label == outcome.found)
    named, said = Counter(o.label for o in outcomes), Counter(o.found for o in outcomes)
    table = {
        label: Score(named[label], right[label] / max(1, said[label]), right[label] / max(1, named[label]))
        for label in labels
    }
    hits = sum(count for label, count in right.items() if label != CLEAN)
    causes, claims = (sum(c for label, c in counts.items() if label != CLEAN) for counts in (named, said))
    table["all"] = Score(causes, hits / max(1, claims), hits / max(1, causes))
    return table


def confusion(outcomes: list[Outcome]) -> dict[str, dict[str, int]]:
    """Label → found → count."""
    table: dict[str, dict[str, int]] = {}
    for outcome in outcomes:
        row = table.setdefault(outcome.label, {})
        row[outcome.found] = row.get(outcome.found, 0) + 1
    return table
