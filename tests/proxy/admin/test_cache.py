"""The response cache's own routes: what it holds, why a question missed, letting go of answers."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.safety.test_document import RUN as SCHEMATHESIS
from tests.support.caching import Caching, chat, next_test, running
from tests.support.proxy import Proxy, StartProxy
from tests.support.rows import wait_for
from tests.support.valkey import Valkey

pytestmark = pytest.mark.process

API = "/metalanchor/api/cache"


def get(proxy: Proxy, target: str, status: int = 200) -> Any:
    """The JSON of one of the routes."""
    answer = proxy.request("GET", f"{API}{target}")
    assert answer.status == status, answer.body
    return json.loads(answer.body)


def post(proxy: Proxy, target: str, value: Any, status: int = 200) -> Any:
    """The same of a POST."""
    answer = proxy.request(
        "POST", f"{API}{target}", json.dumps(value).encode(), [("Content-Type", "application/json")]
    )
    assert answer.status == status, answer.body
    return json.loads(answer.body)


@pytest.fixture(scope="module")
def semantic_parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caching]:
    """A proxy that looks for equal questions too, and could learn aliases."""
    own = {"response_cache": "semantic", "aliases_url": "http://127.0.0.1:9", "aliases_model": "judge"}
    with running(tmp_path_factory.mktemp("cached"), **own) as parts:
        wait_for(lambda: get(parts.proxy, "/stats")["semantic"]["up"])
        yield parts


@pytest.fixture
def semantic(semantic_parts: Caching) -> Caching:
    """The same with a model that only this test asks."""
    return next_test(semantic_parts)


def stored(parts: Caching, text: str, **how: Any) -> str:
    """Have a question answered and wait until its answer is kept; the request's id."""
    answer = parts.ask(chat(text), **how)
    assert answer.ours["cache"] == "miss"
    request_id = answer.ours["request-id"]
    assert wait_for(lambda: entry_of(parts, request_id))
    return request_id


def entry_of(parts: Caching, request_id: str) -> dict[str, Any] | None:
    """The entry that a request left."""
    items = get(parts.proxy, "/entries?limit=1000")["items"]
    return next((item for item in items if item["original"] == request_id), None)


def test_statistics_count_what_hits_saved(caching: Caching) -> None:
    """One miss and two hits add up, with the tokens and milliseconds the first one took."""
    before = get(caching.proxy, "/stats")
    stored(caching, "Capital of France?")
    assert caching.verdicts(chat(), chat()) == ["hit", "hit"]
    after = get(caching.proxy, "/stats")
    grown = {name: after[name] - before[name] for name in ("hits", "misses", "stored", "saved_tokens")}
    assert grown == {"hits": 2, "misses": 1, "stored": 1, "saved_tokens": 50}
    assert (after["mode"], after["semantic"]) == ("exact", None)
    assert 0 < after["hit_rate"] < 1
    assert 0 < after["bytes"] <= after["max_bytes"]


def test_entries_are_listed_newest_first_in_pages(caching: Caching) -> None:
    """Each with its question, what it saved, and when it ends; a cursor goes on where the page ended."""
    ids = [stored(caching, f"Question {n}?", control="tag=t") for n in range(3)]
    first = get(caching.proxy, "/entries?limit=2")
    assert [item["original"] for item in first["items"]] == ids[:0:-1]
    second = get(caching.proxy, f"/entries?limit=1&cursor={first['next']}")
    (entry,) = second["items"]
    assert (entry["original"], entry["question"], entry["model"]) == (ids[0], "Question 0?", caching.model)
    assert (entry["tags"], entry["hits"], entry["prompt_tokens"]) == (["t"], 0, 20)
    assert entry["created"] < entry["expires"]
    assert entry["created"].endswith("Z")
    get(caching.proxy, "/entries?cursor=abc", 400)
    get(caching.proxy, "/entries?curser=1", 400)


def test_an_invalidation_counts_first_and_drops_then(caching: Caching) -> None:
    """Only what is selected; the count is told either way, and a selector that selects nothing is refused."""
    stored(caching, "Where is Lyon?", control="tag=cities")
    stored(caching, "Where is Bonn?", control="tag=cities")
    stored(caching, "Who was Ohm?")
    selected = {"model": caching.model, "tag": "cities"}
    assert post(caching.proxy, "/invalidate", {"dry_run": True, **selected}) == {"count": 2, "dry_run": True}
    assert caching.verdicts(chat("Where is Lyon?")) == ["hit"]
    assert post(caching.proxy, "/invalidate", {"dry_run": False, **selected}) == {
        "count": 2,
        "dry_run": False,
    }
    assert caching.verdicts(chat("Where is Lyon?"), chat("Who was Ohm?")) == ["miss", "hit"]
    for wrong in (
        {},
        {"dry_run": True},
        {"dry_run": True, "colour": "red"},
        {"dry_run": True, "keyword": "!"},
    ):
        assert "error" in post(caching.proxy, "/invalidate", wrong, 400)
    post(caching.proxy, "/invalidate", {"dry_run": 0, "model": caching.model}, 400)


def test_a_question_of_another_namespace_is_found_and_told_apart(caching: Caching) -> None:
    """The same words are stored, but not for this caller: explain says in what they differ."""
    stored(caching, "Who wrote Faust?", control="namespace=a")
    missed = stored(caching, "Who wrote Faust?", control="namespace=b")
    found = post(caching.proxy, "/explain", {"about": missed})
    assert (found["question"], found["request"]["verdict"]) == ("Who wrote Faust?", "miss")
    assert "No equal request" in found["request"]["because"]
    assert [(same["namespace"], same["differs"]) for same in found["same"]] == [("a", ["namespace"])]
    assert found["neighbours"] is None
    by_key = post(caching.proxy, "/explain", {"about": found["entry"]["key"]})
    assert (by_key["entry"], by_key["request"]) == (found["entry"], None)
    hit = caching.ask(chat("Who wrote Faust?"), control="namespace=b").ours["request-id"]
    again = wait_for(lambda: post(caching.proxy, "/explain", {"about": hit}))
    assert (again["request"]["answered_by"], again["request"]["verdict"]) == (missed, "hit")


def test_what_is_not_there_is_not_explained(caching: Caching) -> None:
    """An unknown key is 404; of an unknown id only the history could tell, and there is none here."""
    assert "no entry" in post(caching.proxy, "/explain", {"about": "0" * 32}, 404)["error"]["message"]
    unknown = post(caching.proxy, "/explain", {"about": "01900000-0000-7000-8000-000000000001"}, 503)
    assert "history" in unknown["error"]["message"]


def test_a_hit_by_meaning_is_one_hit_and_no_miss(semantic: Caching) -> None:
    """Although nothing stood under its own key."""
    other = chat("what is  the capital of Peru ?")

    def known() -> bool:
        """A busy machine may not get to the question, so it is asked again."""
        semantic.ask(chat("What is the capital of Peru?"), control="no-cache")
        return semantic.ask(other, control="no-store, warm").ours["cache"] == "semantic"

    assert wait_for(known)
    before = get(semantic.proxy, "/stats")
    assert semantic.verdicts(other) == ["semantic"]
    after = get(semantic.proxy, "/stats")
    assert [after[name] - before[name] for name in ("hits", "misses", "saved_tokens")] == [1, 0, 25]


def test_explain_says_which_rule_refused_each_neighbour(semantic: Caching) -> None:
    """Nearest first; another version is a number, an opposite an opposite, another spelling the same."""
    texts = ("How do I install Python 3.11?", "How do I uninstall Python 3.12?")
    question = {"about": "How do I install Python 3.12?", "model": semantic.model}

    def both() -> Any:
        """A busy machine may not get to one of them, so they are asked again."""
        for text in texts:
            semantic.ask(chat(text), control="no-cache")
        found = post(semantic.proxy, "/explain", question)
        return found if len(found["neighbours"]) == 2 else None

    found = wait_for(both)
    assert found is not None
    rules = {one["question"]: one["rule"] for one in found["neighbours"]}
    assert rules["How do I install Python 3.11?"] == "number"
    assert rules["How do I uninstall Python 3.12?"] != "equal"
    assert all(one["because"].endswith(".") for one in found["neighbours"])
    nearness = [one["similarity"] for one in found["neighbours"]]
    assert nearness == sorted(nearness, reverse=True)
    same = post(semantic.proxy, "/explain", {**question, "about": "how do i install python 3.11"})
    assert same["neighbours"][0]["same"]
    other = post(semantic.proxy, "/explain", {**question, "model": "nobody's"})
    assert other["neighbours"] == []


def test_explain_says_what_is_never_matched_by_meaning(semantic: Caching) -> None:
    """Live data, and what leans on something said before."""
    live = post(semantic.proxy, "/explain", {"about": "今天天气怎么样？"})
    assert live["bypass"]["reason"] == "volatile"
    assert post(semantic.proxy, "/explain", {"about": "Why?"})["bypass"]["reason"] == "context"


def test_aliases_are_listed_and_revoked(semantic: Caching) -> None:
    """There are none here; what is revoked is counted."""
    assert get(semantic.proxy, "/aliases") == {"items": [], "next": None}
    assert post(semantic.proxy, "/aliases/revoke", {"ids": ["0" * 20]}) == {"revoked": 0}
    post(semantic.proxy, "/aliases/revoke", {"ids": "x"}, 400)


def test_a_cache_that_is_off_says_which_setting_is_missing(start_proxy: StartProxy, valkey: Valkey) -> None:
    """409, whatever is asked; likewise without Redis, and where no aliases are learned."""
    off = start_proxy()
    assert "METALANCHOR_RESPONSE_CACHE" in get(off, "/stats", 409)["error"]["message"]
    assert get(off, "/entries", 409)["error"]["code"] == "conflict"
    post(off, "/invalidate", {"dry_run": True, "everything": True}, 409)
    post(off, "/explain", {"about": "x"}, 409)
    alone = start_proxy(response_cache="exact")
    assert "METALANCHOR_REDIS_URL" in get(alone, "/stats", 409)["error"]["message"]
    exact = start_proxy(response_cache="exact", redis_url=valkey.url)
    assert "METALANCHOR_ALIASES_URL" in get(exact, "/aliases", 409)["error"]["message"]


def test_a_redis_that_is_away_is_said_so(start_proxy: StartProxy, valkey: Valkey) -> None:
    """503, and requests pass all the same."""
    proxy = start_proxy(response_cache="exact", redis_url=valkey.url)
    assert wait_for(lambda: proxy.request("GET", f"{API}/stats").status == 200)
    valkey.stop()
    assert wait_for(lambda: proxy.request("GET", f"{API}/stats").status == 503)
    assert "METALANCHOR_REDIS_URL" in get(proxy, "/entries", 503)["error"]["message"]
    post(proxy, "/invalidate", {"dry_run": True, "everything": True}, 503)


def test_strangers_may_not_touch_it(caching: Caching) -> None:
    """Another page's origin is refused before anything is dropped."""
    body = json.dumps({"dry_run": False, "everything": True}).encode()
    stored(caching, "Still here?")
    headers = [("Content-Type", "application/json"), ("Origin", "http://evil.example")]
    assert caching.proxy.request("POST", f"{API}/invalidate", body, headers).status == 403
    assert caching.verdicts(chat("Still here?")) == ["hit"]


def sample(parts: Caching, name: str) -> float:
    """One sample of the metrics, 0 where there is none."""
    text = parts.proxy.request("GET", "/metalanchor/metrics").body.decode()
    found = [line for line in text.splitlines() if line.startswith(f"metalanchor_{name} ")]
    return float(found[0].split()[-1]) if found else 0.0


HIT = 'response_cache_total{reason="",verdict="hit"}'
NO_CACHE = 'response_cache_total{reason="no-cache",verdict="bypass"}'


def test_metrics_count_what_the_cache_said(caching: Caching) -> None:
    """Per process by verdict and reason; what Redis holds, for all of them."""
    names = (HIT, NO_CACHE, "saved_tokens_total", "response_cache_stored_total")
    before = [sample(caching, name) for name in names]
    stored(caching, "Who was Volta?")
    caching.verdicts(chat("Who was Volta?"))
    caching.verdicts(chat("Who was Volta?"), control="no-cache")
    grown = [1, 1, 25, 2]
    assert wait_for(
        lambda: (
            [sample(caching, name) for name in names] == [a + b for a, b in zip(before, grown, strict=True)]
        )
    )
    assert sample(caching, "response_cache_entries") >= 1
    assert 0 < sample(caching, "response_cache_bytes") <= sample(caching, "response_cache_max_bytes")


def test_metrics_count_looks_for_equal_questions(semantic: Caching) -> None:
    """By outcome, with their time."""
    name, count = 'semantic_lookups_total{outcome="none"}', "semantic_lookup_seconds_count"
    before = sample(semantic, name), sample(semantic, count)
    semantic.verdicts(chat("Who wrote the Odyssey?"))
    after = sample(semantic, name), sample(semantic, count)
    assert after == (before[0] + 1, before[1] + 1)


def test_its_routes_answer_as_the_document_says(semantic: Caching, tmp_path: Path) -> None:
    """Schemathesis on a cache that is on: what fits is accepted, but for a selector that selects nothing."""
    (tmp_path / "schemathesis.toml").write_text(
        '[[operations]]\ninclude-path-regex = "/cache/invalidate$"\n'
        "checks.positive_data_acceptance.enabled = false\n"
    )
    done = subprocess.run(
        [
            sys.executable, "-c", SCHEMATHESIS, "--config-file", "schemathesis.toml", "run",
            f"{semantic.proxy.url}/metalanchor/schema/openapi.json", "--include-path-regex", "/api/cache/",
            "--phases", "coverage,fuzzing", "--max-examples", "10", "--seed", "5",
            "--exclude-checks", "allow_header_conformance", "--no-color",
        ],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "Fuzzing" in done.stdout
