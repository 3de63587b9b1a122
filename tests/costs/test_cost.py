"""Costs, worked out by hand: each class of tokens at its own price, savings against no caching at all."""

import pytest

from services.costs.cost import Tokens, break_even, cost_of
from services.costs.prices import load_prices
from services.proxy.backends.backend import Backend
from services.proxy.dialects.base import Outcome
from services.proxy.flow import Flow
from services.proxy.settling.billing import Billing, is_near
from services.proxy.settling.usage import measure
from tests.support.requests import CHAT, MESSAGES, RESPONSES, dialect_of

PRICES = load_prices()
BILLING = Billing(PRICES)


def price(model, vendor="anthropic"):
    return PRICES.find(vendor, model)


def billed(path, model, reported, *, kind="anthropic", url="https://api.example.com", given=True):
    """The cost of an answer that reported these counters, as settling works it out."""
    dialect = dialect_of(path)
    backend = Backend(name="b", url=url, kind=kind, kind_given=given)
    prompt = dialect.read(b'{"model":"%b","messages":[],"input":[]}' % model.encode(), "b")
    outcome = Outcome(reported={name: float(count) for name, count in reported.items()})
    flow = Flow(backend=backend, method="POST", path=path, dialect=dialect, prompt=prompt, outcome=outcome)
    flow.measured = measure(outcome, dialect, backend)
    return BILLING.bill(flow)


def test_each_class_of_tokens_has_its_own_price():
    """Sonnet 4.5: 100 × 3 + 10,000 × 0.30 + 2,000 × 3.75 + 500 × 6 + 400 × 15, in millionths of a dollar."""
    found = cost_of(
        Tokens(100, read=10_000, written=2_000, written_1h=500, output=400), price("claude-sonnet-4-5")
    )
    assert found.cost_usd == pytest.approx(0.0198)
    # Without caching 12,600 × 3 + 6,000 = 43,800 millionths.
    assert found.savings_usd == pytest.approx(0.024)


def test_writing_what_is_never_read_costs_money():
    """10,000 tokens of Opus 5.5 written for five minutes: 1.25 times 4 dollars a million."""
    found = cost_of(Tokens(0, written=10_000), price("claude-opus-5-5"))
    assert found == pytest.approx((0.05, -0.01))


def test_an_hour_costs_twice_the_input():
    found = cost_of(Tokens(0, written_1h=10_000), price("claude-opus-5-5"))
    assert found == pytest.approx((0.08, -0.04))


def test_the_factor_of_a_read_is_the_models_own():
    """0.1 of the input on Opus 5, 0.05 on Opus 5.5, 0.025 on Fable 5.1."""
    costs = [
        cost_of(Tokens(0, read=1_000_000), price(model)).cost_usd
        for model in ("claude-opus-5", "claude-opus-5-5", "claude-fable-5-1")
    ]
    assert costs == pytest.approx([0.5, 0.2, 0.25])


@pytest.mark.parametrize(("tokens", "cost"), [(100_000, 0.01), (100_001, 0.0500005)])
def test_a_long_prompt_is_charged_by_the_long_rates_as_a_whole(tokens, cost):
    """Haiku 5.5 costs 0.10 up to 100,000 tokens, and 0.50 for every token of a longer prompt."""
    assert cost_of(Tokens(tokens), price("claude-haiku-5-5")).cost_usd == pytest.approx(cost)


def test_cached_tokens_count_for_the_length():
    """99,000 read and 2,000 new are 101,000: 99,000 × 0.05 + 2,000 × 0.50 + 10 × 2.50."""
    found = cost_of(Tokens(2_000, read=99_000, output=10), price("claude-haiku-5-5"))
    assert found.cost_usd == pytest.approx(0.005975)


def test_break_even_is_what_the_factors_say():
    """1.25 and 0.1: 0.25 / 0.9 reads a write; 2 and 0.1: 1 / 0.9. With cheaper reads a little sooner."""
    assert break_even(price("claude-sonnet-4-5")) == (0.2778, 1.1111)
    assert break_even(price("claude-opus-5-5")) == (0.2632, 1.0526)
    assert break_even(price("gpt-5.6-sol", "openai")).write == 0.2778
    assert break_even(price("gpt-5", "openai")).write == 0.0


def test_at_the_break_even_caching_saves_nothing():
    """9 writes are paid for by 10 reads, at an hour's price."""
    written = cost_of(Tokens(0, written_1h=9_000), price("claude-sonnet-4-5"))
    read = cost_of(Tokens(0, read=10_000), price("claude-sonnet-4-5"))
    assert written.savings_usd + read.savings_usd == pytest.approx(0.0)


ANTHROPIC = {
    "usage.input_tokens": 50, "usage.cache_read_input_tokens": 8_000,
    "usage.cache_creation_input_tokens": 3_000, "usage.output_tokens": 20,
}  # fmt: skip
SPLIT = {
    "usage.cache_creation.ephemeral_5m_input_tokens": 1_000,
    "usage.cache_creation.ephemeral_1h_input_tokens": 2_000,
}


def test_anthropics_classes_are_read_apart():
    """Sonnet 5: 50 × 2 + 8,000 × 0.2 + 1,000 × 2.5 + 2,000 × 4 + 20 × 10 millionths."""
    found = billed(MESSAGES, "claude-sonnet-5", ANTHROPIC | SPLIT)
    assert found.cost_usd == pytest.approx(0.0124)
    assert found.savings_usd == pytest.approx(0.0223 - 0.0124)


def test_writes_without_a_lifetime_are_of_five_minutes():
    found = billed(MESSAGES, "claude-sonnet-5", ANTHROPIC)
    assert found.cost_usd == pytest.approx((100 + 1_600 + 7_500 + 200) / 1e6)


def test_a_stream_counts_its_first_and_its_last_usage_once():
    """The last event's counts are totals, not additions; what it leaves out holds from the first."""
    first = {name.replace("usage", "message_start.usage", 1): n for name, n in (ANTHROPIC | SPLIT).items()}
    first["message_start.usage.output_tokens"] = 1
    last = {"usage.output_tokens": 20}
    whole = billed(MESSAGES, "claude-sonnet-5", ANTHROPIC | SPLIT)
    assert billed(MESSAGES, "claude-sonnet-5", first | last) == whole
    assert billed(MESSAGES, "claude-sonnet-5", first | ANTHROPIC) == whole


def test_a_total_cannot_shrink_in_the_last_event():
    """Gateways were seen to write zeros there."""
    first = {name.replace("usage", "message_start.usage", 1): n for name, n in ANTHROPIC.items()}
    last = dict.fromkeys(ANTHROPIC, 0) | {"usage.output_tokens": 20}
    assert billed(MESSAGES, "claude-sonnet-5", first | last) == billed(MESSAGES, "claude-sonnet-5", ANTHROPIC)


def test_a_broken_off_stream_costs_at_least_its_prompt():
    """Only the first event came: its prompt, and the one token it speaks of."""
    first = {name.replace("usage", "message_start.usage", 1): n for name, n in ANTHROPIC.items()}
    found = billed(MESSAGES, "claude-sonnet-5", first | {"message_start.usage.output_tokens": 1})
    assert found.cost_usd == pytest.approx((100 + 1_600 + 7_500 + 10) / 1e6)


def test_anthropic_without_cache_counts_is_input_alone():
    found = billed(MESSAGES, "claude-sonnet-5", {"usage.input_tokens": 1_000, "usage.output_tokens": 100})
    assert found == pytest.approx((0.003, 0.0))


@pytest.mark.parametrize(
    ("model", "cached_dollars"), [("gpt-4o", 1.25), ("gpt-4.1", 0.5), ("gpt-5", 0.125), ("gpt-6.1-sol", 0.1)]
)
def test_openais_discount_depends_on_the_family(model, cached_dollars):
    """A half, a quarter, a tenth, a twentieth; and the prompt includes what was cached."""
    row = price(model, "openai")
    found = billed(
        CHAT, model, kind="openai",
        reported={
            "usage.prompt_tokens": 2_000, "usage.prompt_tokens_details.cached_tokens": 1_536,
            "usage.completion_tokens": 100,
        },
    )  # fmt: skip
    assert found.cost_usd == pytest.approx(
        (464 * row.input + 1_536 * cached_dollars + 100 * row.output) / 1e6
    )
    assert found.savings_usd == pytest.approx(1_536 * (row.input - cached_dollars) / 1e6)


def test_newer_openai_models_charge_for_writes():
    """GPT-5.6 Sol through Responses: 200 × 4 + 1,000 × 0.4 + 800 × 5 + 50 × 20 millionths."""
    found = billed(
        RESPONSES, "gpt-5.6-sol", kind="openai",
        reported={
            "usage.input_tokens": 2_000, "usage.input_tokens_details.cached_tokens": 1_000,
            "usage.input_tokens_details.cache_write_tokens": 800, "usage.output_tokens": 50,
        },
    )  # fmt: skip
    assert found.cost_usd == pytest.approx(0.0062)
    assert found.savings_usd == pytest.approx(0.009 - 0.0062)


@pytest.mark.parametrize(
    ("reported", "why"),
    [
        ({"usage.prompt_tokens": 2_000, "usage.completion_tokens": 1}, "cached tokens unknown"),
        ({"usage.prompt_tokens": 2_000, "usage.prompt_tokens_details.cached_tokens": 0}, "no output count"),
        (
            {
                "usage.prompt_tokens": 10, "usage.completion_tokens": 1,
                "usage.prompt_tokens_details.cached_tokens": 8,
                "usage.prompt_tokens_details.cache_write_tokens": 8,
            },
            "more parts than whole",
        ),
        ({}, "nothing reported"),
    ],
)  # fmt: skip
def test_what_is_not_known_has_no_price(reported, why):
    assert billed(CHAT, "gpt-5", reported, kind="openai") is None, why


def test_a_model_without_a_discount_needs_no_cached_count():
    """gpt-5-pro charges every token of a prompt alike."""
    found = billed(
        CHAT, "gpt-5-pro", {"usage.prompt_tokens": 1_000, "usage.completion_tokens": 10}, kind="openai"
    )
    assert found == pytest.approx((0.0162, 0.0))


def test_embeddings_have_no_output():
    found = billed(
        "/v1/embeddings", "text-embedding-3-small", {"usage.prompt_tokens": 5_000}, kind="openai"
    )  # fmt: skip
    assert found == pytest.approx((0.0001, 0.0))


@pytest.mark.parametrize("kind", ["ollama", "llama-server", "vllm", "lmstudio", None])
def test_local_servers_charge_nothing(kind):
    """Not zero dollars: no price."""
    assert billed(MESSAGES, "claude-sonnet-5", ANTHROPIC, kind=kind) is None


def test_a_server_nearby_that_looks_like_openai_is_local():
    """Anything that lists models does; unless the user says that it is more than that."""
    counts = {
        "usage.prompt_tokens": 10,
        "usage.completion_tokens": 1,
        "usage.prompt_tokens_details.cached_tokens": 0,
    }
    near = "http://127.0.0.1:8000"
    assert billed(CHAT, "gpt-5", counts, kind="openai", url=near, given=False) is None
    assert billed(CHAT, "gpt-5", counts, kind="openai", url=near, given=True) is not None
    assert billed(CHAT, "gpt-5", counts, kind="openai", given=False) is not None


@pytest.mark.parametrize(
    ("url", "near"),
    [
        ("http://localhost:8080", True),
        ("http://192.168.1.4:1234", True),
        ("http://[::1]:8000/v1", True),
        ("http://box.local", True),
        ("http://host.docker.internal:8000", True),
        ("https://api.openai.com", False),
        ("https://8.8.8.8", False),
        ("https://gateway.example.com/openai", False),
    ],
)
def test_what_is_nearby(url, near):
    assert is_near(url) is near


def test_models_without_a_price_are_named():
    """Those of services that charge; a local server's models are not missing anything."""
    billing = Billing(PRICES)
    dialect = dialect_of(MESSAGES)
    for kind, model in (("anthropic", "claude-next"), ("anthropic", "claude-sonnet-5"), ("ollama", "qwen3")):
        outcome = Outcome(reported={name: float(count) for name, count in ANTHROPIC.items()})
        backend = Backend(name="b", url="https://api.example.com", kind=kind)
        prompt = dialect.read(b'{"model":"%b","messages":[]}' % model.encode(), "b")
        flow = Flow(backend=backend, method="POST", path=MESSAGES, dialect=dialect, prompt=prompt)
        flow.measured = measure(outcome, dialect, backend)
        billing.bill(flow)
    assert billing.status()["unpriced"] == [{"backend": "b", "model": "claude-next"}]
    assert billing.status()["read"] == "2026-11"
