"""The Grafana dashboard asks only for what the proxy exports."""

import json
import re
from pathlib import Path

import pytest

from services import docs
from services.proxy.admin import cache_metrics, counters
from services.proxy.admin.metrics import COUNTERS, HISTOGRAMS, Metrics, outbox_families, state_families

BOARD = json.loads((docs.ROOT / "docs" / "grafana" / "metalanchor.json").read_text("utf-8"))
EXPRESSIONS = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
LABELS = {name: set(labels) for name, (_, labels) in COUNTERS.items()}
LABELS |= {name: {*labels, "le"} for name, (_, labels, _) in HISTOGRAMS.items()}
LABELS |= {"semantic_failures": {"kind"}}
LABELS |= {f"response_cache_{name}": set() for name in (*cache_metrics.GAUGES, *cache_metrics.COUNTERS)}
LABELS |= {f"backend_{name}": {"backend"} for name in counters.GAUGES}
FROM_PROMETHEUS = {"instance", "job"}


def exported() -> set[str]:
    """Every sample name, with the endings that counters and histograms add."""
    metrics = Metrics()
    everything = docs._Everything()
    metrics.attach(lambda: [*outbox_families(everything), *state_families(everything)])
    metrics.attach(lambda: [*counters.families((), None), *cache_metrics.families(None, {})])
    names = set()
    for family in metrics.registry.collect():
        endings = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
        names |= {family.name + ending for ending in endings}
    return names


def test_every_metric_asked_for_is_exported():
    """No panel stays empty for a name that nobody writes."""
    asked = {name for text in EXPRESSIONS for name in re.findall(r"metalanchor_\w+", text)}
    assert asked <= exported()


def test_every_metric_exported_is_shown_or_left_out_on_purpose():
    """A new metric has its place on the board."""
    asked = {name for text in EXPRESSIONS for name in re.findall(r"metalanchor_\w+", text)}
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked}
    ours = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported()}
    ours = {name for name in ours if not name.startswith("metalanchor_process_")}
    assert ours - shown == {
        "metalanchor_state_breaker_open", "metalanchor_state_lineages", "metalanchor_state_requests",
        "metalanchor_state_shared",
    }  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_label_asked_for_exists(expression: str):
    """Both in selections and in groupings."""
    names = re.findall(r"metalanchor_(\w+?)(?:_total|_bucket|_sum|_count)?\{", expression)
    selected = {
        label for part in re.findall(r"\{([^}]*)\}", expression) for label in re.findall(r"(\w+)[=!]", part)
    }
    grouped = {
        label for part in re.findall(r"by \(([^)]*)\)", expression) for label in re.findall(r"\w+", part)
    }
    assert (
        selected | grouped <= set.intersection(*(LABELS.get(name, set()) for name in names)) | FROM_PROMETHEUS
    )


def test_the_board_can_be_imported():
    """Ids are unique, the data source is chosen by its reader, panels do not overlap."""
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids)) > 10
    assert {panel["datasource"]["uid"] for panel in BOARD["panels"]} == {"${datasource}"}
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in BOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_the_board_is_mentioned():
    """Where the metrics are described."""
    assert "grafana/metalanchor.json" in Path(docs.ROOT / "docs" / "metrics.md").read_text("utf-8")
