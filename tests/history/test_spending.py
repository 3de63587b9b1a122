"""What clouds cost, summed: by agent, session and model, with unknown amounts kept unknown."""

import pytest

from services.costs.prices import load_prices
from services.history.queries import Filters
from services.history.spending import spending
from services.report.document import document
from services.report.page import page
from services.report.tables import tables
from services.report.text import comma_separated, markdown
from tests.support.records import make_record

pytestmark = pytest.mark.process

PRICES = load_prices()
EVERYTHING = Filters()


def cloud(cost, saved, **changes):
    plain = {
        "backend_kind": "anthropic", "model": "claude-sonnet-5", "agent": "claude-code", "session": "one",
        "prompt_tokens": 1_000, "cached_tokens": 800, "cause": None, "causes": None,
    }  # fmt: skip
    return make_record(**{**plain, "cost_usd": cost, "savings_usd": saved, **changes})


@pytest.fixture
def spent(history):
    """Two agents, three models, one of them without a price; and a local server."""
    history.info["store"].save(
        [
            cloud(0.5, 1.5, written_tokens=150),
            cloud(0.25, -0.25, session="two", written_tokens=50, written_1h_tokens=200),
            cloud(2.0, 3.0, backend_kind="openai", model="gpt-5", agent="codex"),
            cloud(None, None, model="claude-next", agent="codex"),
            cloud(None, None, model="claude-sonnet-5", prompt_tokens=None, cached_tokens=None),
            make_record(backend_kind="ollama", model="qwen3", agent="codex"),
        ]
    )
    return history


def test_nothing_in_the_cloud_is_no_sum(history):
    """Neither in an empty history nor in one of local servers."""
    assert spending(history, EVERYTHING, "agent", PRICES) is None
    history.info["store"].save([make_record(backend_kind="ollama"), make_record(backend_kind=None)])
    assert spending(history, EVERYTHING, "agent", PRICES) is None
    assert document(history, EVERYTHING)["costs"] is None


def test_sums_in_all(spent):
    """Savings may be negative for a request, and count as such."""
    found = spending(spent, EVERYTHING, None, PRICES)
    assert (found["cost_usd"], found["savings_usd"]) == pytest.approx((2.75, 4.25))
    assert (found["requests"], found["priced"]) == (5, 3)
    assert (found["prompt_tokens"], found["cached_tokens"]) == (4_000, 3_200)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("agent", {"claude-code": (0.75, 1.25), "codex": (2.0, 3.0)}),
        ("session", {"one": (2.5, 4.5), "two": (0.25, -0.25)}),
        ("model", {"claude-sonnet-5": (0.75, 1.25), "gpt-5": (2.0, 3.0), "claude-next": (None, None)}),
    ],
)
def test_sums_by_group(spent, by, expected):
    """Dearest first; an amount that nobody knows is None, not zero."""
    found = spending(spent, EVERYTHING, by, PRICES)["groups"]
    assert {row["group"]: (row["cost_usd"], row["savings_usd"]) for row in found} == expected
    known = [row["cost_usd"] or 0.0 for row in found]
    assert known == sorted(known, reverse=True)


def test_models_say_when_caching_breaks_even(spent):
    """Sonnet 5: 0.25 / 0.9 of a read for five minutes, 1 / 0.9 for an hour; GPT-5 charges no writes."""
    models = {row["model"]: row for row in spending(spent, EVERYTHING, None, PRICES)["models"]}
    assert (models["claude-sonnet-5"]["break_even"], models["claude-sonnet-5"]["break_even_1h"]) == (
        0.2778,
        1.1111,
    )
    assert models["claude-sonnet-5"]["reads_per_write"] == 4.0  # 1,600 read, 400 written
    assert models["gpt-5"]["break_even"] == 0.0
    assert models["gpt-5"]["reads_per_write"] is None
    assert models["claude-next"]["break_even"] is None


def test_models_without_a_price_are_said(spent):
    """A request that reported no tokens is no lack of a price."""
    found = spending(spent, EVERYTHING, None, PRICES)
    assert found["unpriced"] == [{"backend_kind": "anthropic", "model": "claude-next", "requests": 1}]


def test_filters_hold(spent):
    found = spending(spent, Filters(agent="codex"), "model", PRICES)
    assert found["cost_usd"] == 2.0
    assert [row["model"] for row in found["models"]] == ["gpt-5", "claude-next"]


def test_the_report_has_them_in_every_form(spent):
    """JSON rows by group, a table for people, CSV columns, and the page."""
    found = document(spent, EVERYTHING, "agent")
    assert {row["group"]: row["cost_usd"] for row in found["groups"]} == {"claude-code": 0.75, "codex": 2.0}
    made = {table.title: table for table in tables(found)}
    assert made["By agent"].head[-2:] == ("cost $", "saved $")
    assert made["What cloud models cost"].rows[0][:4] == ["gpt-5", 1, "2.0000", "3.0000"]
    assert made["What cloud models cost"].rows[-1][:4] == ["in all", 3, "2.7500", "4.2500"]
    assert made["Models without a price"].rows == [["claude-next", "anthropic", 1]]
    assert "cost_usd" in comma_separated(found).splitlines()[0]
    assert ",2.75,4.25," in comma_separated(document(spent, EVERYTHING))
    assert "claude-next" in markdown(found)
    assert "What cloud models cost" in page(found)


def test_a_report_by_hour_has_no_amounts(spent):
    """They are summed by who and what, not by when."""
    assert {row["cost_usd"] for row in document(spent, EVERYTHING, "hour")["groups"]} == {None}
