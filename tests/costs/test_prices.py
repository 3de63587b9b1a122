"""The price table: rows complete and dated, names found exactly, a user's rows before the built-in ones."""

import re

import pytest

from services.costs.prices import load_prices
from services.settings import SettingsError

OWN = """
[sources]
deal = "our contract of March"

[[price]]
vendor = "anthropic"
model = "claude-sonnet-5"
input = 1.5
output = 7
read = 0.15
write = 1.875
write_1h = 3
source = "deal"
date = "2026-11"

[[price]]
vendor = "openai"
model = "house-model"
input = 1
source = "a slip of paper"
date = "2026-11"
"""
TABLE = load_prices()


@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: row.model)
def test_every_row_says_where_and_when_its_prices_were_read(row):
    """The source is an address, not the name of one; the date a month."""
    assert "https://" in row.source
    assert re.fullmatch(r"2026-\d\d", row.date)


@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: row.model)
def test_a_row_is_in_order(row):
    """Reading is cheaper than input, writing dearer, an hour dearer still; long prompts cost more."""
    for rates in [row, row.long] if row.long else [row]:
        assert rates.input > 0
        assert rates.read is None or rates.read < rates.input
        assert rates.write is None or rates.write > rates.input
        assert rates.write_1h is None or rates.write_1h > rates.write
    assert row.long is None or row.long.input > row.input


def test_no_name_stands_in_two_rows():
    """Else the order of rows would decide a price."""
    names = [(row.vendor, name) for row in TABLE.rows for name in (row.model, *row.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("vendor", "asked", "found"),
    [
        ("anthropic", "claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("anthropic", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("anthropic", "claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("anthropic", "claude-3-5-haiku-latest", "claude-3-5-haiku"),
        ("anthropic", "claude-opus-4-20250514", "claude-opus-4"),
        ("openai", "gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("openai", "gpt-5.6", "gpt-5.6-sol"),
        ("openai", "gpt-5-chat-latest", "gpt-5"),
    ],
)
def test_a_pinned_name_has_the_price_of_its_model(vendor, asked, found):
    assert TABLE.find(vendor, asked).model == found


def test_a_dated_row_comes_before_the_undated_one():
    """One snapshot of gpt-4o costs twice the rest."""
    assert TABLE.find("openai", "gpt-4o-2024-05-13").input == 5.0
    assert TABLE.find("openai", "gpt-4o-2024-08-06").input == 2.5


@pytest.mark.parametrize(
    ("vendor", "model"),
    [
        ("anthropic", "claude-sonnet-9"),
        ("anthropic", "claude-opus-5-5-preview"),
        ("anthropic", "Claude-Opus-5-5"),
        ("anthropic", "gpt-5"),
        ("openai", "claude-opus-5-5"),
        ("openai", "gpt-5-2025-08"),
        ("openai", ""),
        ("openai", None),
        ("ollama", "gpt-5"),
        (None, "gpt-5"),
    ],
)
def test_what_has_no_row_has_no_price(vendor, model):
    """No price is guessed from a name that looks like one in the table."""
    assert TABLE.find(vendor, model) is None


@pytest.mark.parametrize(
    ("model", "prices"),
    [
        ("claude-fable-5-1", (10, 50, 0.25)),
        ("claude-opus-5-5", (4, 20, 0.2)),
        *[(f"claude-opus-{number}", (5, 25, 0.5)) for number in ("5", "4-8", "4-7", "4-6", "4-5")],
        ("claude-sonnet-5-5", (2, 10, 0.1)),
        ("claude-sonnet-5", (2, 10, 0.2)),
        ("claude-sonnet-4-6", (3, 15, 0.3)),
        ("claude-haiku-5-5", (0.1, 0.5, 0.01)),
        ("claude-haiku-4-5", (1, 5, 0.1)),
    ],
)
def test_anthropics_rows_are_what_its_own_pages_said(model, prices):
    """Input, output and cached, as stored copies of its pages and two independent readings have them."""
    row = TABLE.find("anthropic", model)
    assert (row.input, row.output, row.read) == prices
    assert (row.write, row.write_1h) == pytest.approx((row.input * 1.25, row.input * 2))


@pytest.mark.parametrize(
    ("model", "prices"),
    [("gpt-5.5", (5, 30, 0.5)), ("gpt-5.4", (2.5, 15, 0.25)), ("gpt-5.4-mini", (0.75, 4.5, 0.075))],
)
def test_openais_rows_are_what_its_own_pages_said(model, prices):
    row = TABLE.find("openai", model)
    assert (row.input, row.output, row.read) == prices


def test_a_users_rows_come_first(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(OWN)
    own = load_prices(str(path))
    assert own.find("anthropic", "claude-sonnet-5").input == 1.5
    assert own.find("anthropic", "claude-sonnet-5").source == "our contract of March"
    assert own.find("openai", "house-model").source == "a slip of paper"
    assert own.find("anthropic", "claude-opus-5-5") == TABLE.find("anthropic", "claude-opus-5-5")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (("input = 1.5", "input = -1"), "claude-sonnet-5"),
        (("input = 1.5", "input = nan"), "claude-sonnet-5"),
        (("input = 1.5", "input = inf"), "claude-sonnet-5"),
        (("input = 1.5", 'input = "1.5"'), "price"),
        (("input = 1.5", ""), "input"),
        (("read = 0.15", "raed = 0.15"), "raed"),
        (('vendor = "openai"', 'vendor = "ollama"'), "ollama"),
        (("[[price]]", "[[price"), "table"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_by_name(tmp_path, change, named):
    path = tmp_path / "prices.toml"
    path.write_text(OWN.replace(*change))
    with pytest.raises(SettingsError, match="METALANCHOR_PRICES") as refused:
        load_prices(str(path))
    assert named in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"absent\.toml"):
        load_prices(str(tmp_path / "absent.toml"))
