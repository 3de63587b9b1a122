"""The money on a request's page: what it cost, what caching saved, and nothing where nothing is known."""

import msgspec
import pytest

from services.proxy.admin.pages.language import ENGLISH
from services.proxy.admin.pages.one import figures
from services.proxy.admin.pages.words import dollars
from tests.support.records import make_record


def groups(**changes):
    row = msgspec.structs.asdict(make_record(**changes))
    return dict(figures(row, ENGLISH))


def test_a_request_to_a_cloud_shows_what_it_cost():
    found = groups(cost_usd=0.0123, savings_usd=-0.004, written_tokens=1_200, written_1h_tokens=None)
    shown = {name: value for name, value, _ in found["Money"]}
    assert shown == {
        "Cost": "$0.0123",
        "Saved by prompt caching": "-$0.0040",
        "Written for five minutes": "1\u202f200",
        "Written for an hour": "–",
    }


def test_a_request_without_a_price_says_nothing_of_money():
    assert "Money" not in groups(cost_usd=None, savings_usd=None)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(None, "–"), (0.0, "$0.0000"), (0.00004, "$0.0000"), (0.5, "$0.5000"), (1234.5, "$1\u202f234.50")],
)
def test_amounts(amount, text):
    assert dollars(amount) == text
