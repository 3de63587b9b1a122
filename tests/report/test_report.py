"""The report in all its forms, from one filled history, on both databases."""

import csv
import io
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from services.history.console import run_sql
from services.history.engine import open_engine
from services.history.queries import Filters
from services.logger.store import Store
from services.report.charts import nice
from services.report.document import GROUPS, document
from services.report.page import CSP, page
from services.report.text import comma_separated, markdown
from tests.support.records import START_MS, make_record

pytestmark = pytest.mark.process

QUERIES = Path(__file__).parents[2] / "docs" / "queries.md"
HOSTILE = "<script>alert(1)</script>|`x`"


def some_turns() -> list:
    """Three agents over two hours: warm, cold, unmeasured; repeated calls; one hostile name."""
    hour = 3_600_000
    turns = [
        make_record(
            received_at=START_MS + (n % 2) * hour, agent="hermes", cached_tokens=1_900, cause=None,
            ttft_ms=50.0 + n, new_chunks=[f"c{'a' * 12}400", f"m{'b' * 12}300"],
        )
        for n in range(20)
    ]  # fmt: skip
    turns += [
        make_record(
            agent="codex", cached_tokens=0, ttft_ms=5_000.0, lost_ms=4_000.0, lost_tokens=1_800, session="2"
        )
        for _ in range(5)
    ]
    return [*turns, make_record(agent=HOSTILE, cached_tokens=None, cause="evicted_by", lost_ms=1.0)]


@pytest.fixture
def connection(history_url):
    """A connection to that history."""
    engine = open_engine(history_url)
    Store(engine).save(some_turns())
    with engine.connect() as opened:
        yield opened
    engine.dispose()


def test_every_figure_is_there(connection):
    """Hits, reuse, percentiles cold against warm, losses, distributions, sharing, repeats."""
    found = document(connection, Filters())
    total = found["total"]
    assert total["requests"] == 26
    assert total["ttft_ms"]["warm"] == {"count": 20, "p50": 59.0, "p95": 68.0, "p99": 69.0}
    assert total["ttft_ms"]["cold"]["p50"] == 5_000.0
    assert total["measured_reuse"] == pytest.approx(20 * 1_900 / (25 * 2_000))
    assert [row["cause"] for row in found["losses"]] == ["timestamp", "evicted_by"]
    assert found["longest_losses"][0]["lost_ms"] == 4_000.0
    assert [row["requests"] for row in found["hit_rate"]] == [16, 10]
    assert sum(row["count"] for row in found["session_lengths"]) == 2
    assert sum(row["count"] for row in found["message_sizes"]) == 20
    assert found["repeated_tool_calls"]["repeated"] == 19
    assert found["moved_chunks"]["bytes"] == 19 * 300
    assert found["shared_system_prompts"][0]["agent_names"] == sorted([HOSTILE, "codex", "hermes"])


@pytest.mark.parametrize("by", GROUPS)
def test_every_grouping_in_every_form(connection, by):
    """Groups add up to the whole; each form shows them."""
    found = document(connection, Filters(), by)
    assert sum(row["requests"] for row in found["groups"]) == 26
    rows = list(csv.DictReader(io.StringIO(comma_separated(found))))
    assert [int(row["requests"]) for row in rows] == [row["requests"] for row in found["groups"]]
    assert f"## By {by}" in markdown(found)
    assert f"By {by}</h2>" in page(found)


def test_csv_in_all_has_one_line_and_leaves_the_unknown_empty(connection):
    """Nested figures have dotted names."""
    (row,) = csv.DictReader(io.StringIO(comma_separated(document(connection, Filters()))))
    assert (row["requests"], row["ttft_ms.cold.p95"], row["ttft_ms.warm.count"]) == ("26", "5000.0", "20")
    (row,) = csv.DictReader(io.StringIO(comma_separated(document(connection, Filters(agent="codex")))))
    assert row["ttft_ms.warm.p50"] == ""


def test_the_page_needs_nothing_else_and_holds_no_markup_of_strangers(connection):
    """No script, no address, valid drawings; both colour schemes and print are styled."""
    text = page(document(connection, Filters(), "agent"))
    assert "<script" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert "src=" not in text
    assert "&lt;script&gt;" in text
    for rule in ("prefers-color-scheme: dark", "@media print"):
        assert rule in text
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) == 5
    for drawing in drawings:
        assert ET.fromstring(drawing).get("aria-label")
    assert CSP.count("'none'") == 4


def test_markdown_escapes_what_strangers_named(connection):
    """A pipe in a name is no column."""
    text = markdown(document(connection, Filters(), "agent"))
    line = next(line for line in text.splitlines() if "alert" in line)
    assert "<script" not in text
    assert len(re.findall(r"(?<!\\)\|", line)) == len(
        re.findall(r"\|", text.split("## By agent")[1].splitlines()[4])
    )


def test_an_empty_span_says_so(connection):
    """No figures, no tables, no charts, in every form."""
    found = document(connection, Filters(agent="nobody"), "model")
    assert (found["total"], found["groups"]) == (None, [])
    assert "no requests" in markdown(found)
    assert "no requests" in page(found)
    assert len(comma_separated(found).splitlines()) == 1


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (0.3, 0.5), (1, 1), (7, 10), (23, 25), (480, 500), (1_001, 2_000)]
)
def test_axes_end_at_round_numbers(value, top):
    """At or above the largest value."""
    assert nice(value) == pytest.approx(top)


def test_what_the_clock_in_a_prompt_cost_this_week_is_one_query_and_one_line(history_url):
    """The documented query, and a line of the report: 41 minutes, of that agent and cause."""
    engine = open_engine(history_url)
    now = round(time.time() * 1_000)
    clock = {"agent": "openclaw", "cause": "timestamp", "lost_tokens": 9_000}
    ours = [make_record(**clock, received_at=now - n * 3_600_000, lost_ms=246_000.0) for n in range(10)]
    old = make_record(**clock, received_at=now - 8 * 86_400_000, lost_ms=9e6)
    Store(engine).save([*ours, old, make_record(received_at=now, agent="aider", lost_ms=60_000.0)])
    (query,) = re.findall(r"```sql\n(SELECT round\(sum\(lost_ms[^`]*)```", QUERIES.read_text("utf-8"))
    if engine.dialect.name == "postgresql":
        query = query.replace("datetime('now', '-7 days')", "now() - interval '7 days'")
    assert run_sql(history_url, query).rows == [[41.0, 90_000]]
    with engine.connect() as opened:
        week = Filters(since=datetime.now(UTC) - timedelta(days=7), kind="generation")
        assert "| openclaw | timestamp | 41.0 | 10 | 90,000 |" in markdown(document(opened, week))
    engine.dispose()
