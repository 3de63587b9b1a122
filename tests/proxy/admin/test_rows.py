"""Lists, rows and explanations over a filled history: filters, pages, refusals."""

import json

import pytest

from tests.support.admin import Office, fill
from tests.support.backend import Engine, OpenAI
from tests.support.records import make_record

pytestmark = pytest.mark.process


def ids(records):
    return [record.id for record in records]


def test_the_list_is_newest_first_and_generations_only(office: Office):
    """Probes and embeddings are left out until they are asked for."""
    generations = [record for record in office.records if record.kind == "generation"]

    assert office.ids("/api/requests?limit=1000") == ids(reversed(generations))
    assert office.ids("/api/requests?limit=1000&all=true") == ids(reversed(office.records))
    assert len(office.ids("/api/requests?kind=management")) == 5


def test_a_row_shows_every_column(office: Office):
    """Names and units are those of the table; unknown is null, never left out."""
    record = next(record for record in office.records if record.kind == "generation")
    row = office.json(f"/api/requests/{record.id}")

    for name in record.__struct_fields__:
        if name not in ("v", "received_at"):
            assert row[name] == getattr(record, name)
    assert row["received_at"].endswith("Z")
    assert row["cost_usd"] is None


def test_pages_by_cursor_show_each_row_once(office: Office):
    """Following `next` to the end gives the whole list in order."""
    seen, cursor = [], ""
    while cursor is not None:
        page = office.json(f"/api/requests?limit=37&all=true{cursor and '&cursor=' + cursor}")
        seen += [row["id"] for row in page["items"]]
        cursor = page["next"]

    assert seen == ids(reversed(office.records))


@pytest.mark.parametrize(
    ("query", "name", "value"),
    [
        ("session=s-3", "session", "s-3"),
        ("model=gemma3:270m", "model", "gemma3:270m"),
        ("agent=hermes", "agent", "hermes"),
        ("hit=exact", "hit", "exact"),
        ("hit=system%2Btools", "hit", "system+tools"),
        ("hit=system+tools", "hit", "system+tools"),
        ("cause=evicted_by", "cause", "evicted_by"),
        ("status=client_cancelled", "status", "client_cancelled"),
        ("kind=embedding", "kind", "embedding"),
        ("lineage=l-1&hit=prefix", "hit", "prefix"),
    ],
)
def test_filters_narrow_the_list(office: Office, query, name, value):
    """Each filter keeps the rows that have the value, all of them and no other."""
    wanted = [r for r in office.records if getattr(r, name) == value]
    if name != "kind":
        wanted = [r for r in wanted if r.kind == "generation"]

    assert wanted
    assert office.ids(f"/api/requests?limit=1000&{query}") == ids(reversed(wanted))


def test_time_filters_take_times_and_ages(office: Office):
    """`since` is inclusive, `until` exclusive; an age counts back from now."""
    first, second = office.records[0], office.records[1]
    rows = office.json(f"/api/requests/{second.id}")
    until = rows["received_at"]

    assert first.id in office.ids(f"/api/requests?limit=1000&until={until}")
    assert second.id not in office.ids(f"/api/requests?limit=1000&until={until}")
    assert second.id in office.ids(f"/api/requests?limit=1000&since={until}")
    assert office.ids("/api/requests?since=1s") == []
    assert second.id in office.ids("/api/requests?limit=1000&since=900w")
    with_offset = until.replace("Z", "+00:00")
    assert second.id in office.ids(f"/api/requests?limit=1000&since={with_offset}")


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("hit=warm", "system+tools"),
        ("status=ok", "completed"),
        ("kind=chat", "generation"),
        ("since=yesterday", "ISO 8601"),
        ("until=2026-13-01", "ISO 8601"),
        ("cursor=%27%20OR%201=1", "cursor"),
        ("sesion=s-3", "sesion"),
        ("all=maybe", "all"),
    ],
)
def test_a_bad_filter_is_refused_by_name(office: Office, query, says):
    """A misspelt or malformed filter is a 400 that says what is wrong, never a list of everything."""
    found = office.json(f"/api/requests?{query}", status=400)

    assert found["error"]["code"] == "bad_request"
    assert says in found["error"]["message"]


@pytest.mark.parametrize("path", ["/api/sessions", "/api/lineages", "/api/shared"])
def test_other_lists_refuse_unknown_parameters(office: Office, path):
    """So do the lists without filters."""
    assert office.json(f"{path}?agent=x", status=400)["error"]["code"] == "bad_request"
    assert set(office.json(path)) == {"items", "next"}


def test_sessions_by_their_last_request(office: Office):
    """Each session once, the one used last first, pages included."""
    page = office.json("/api/sessions?limit=4")
    rest = office.json(f"/api/sessions?limit=100&cursor={page['next']}")
    names = [session["session"] for session in page["items"] + rest["items"]]

    assert len(names) == len(set(names))
    assert set(names) == {record.session for record in office.records}
    assert names[0] == "cut"


def test_an_explanation_from_the_row_alone(office: Office):
    """What another process answered is explained from its row, without excerpts."""
    record = office.records[3]
    found = office.json(f"/api/requests/{record.id}/explain")

    assert found["id"] == record.id
    assert found["predicted"]["reuse"] == record.predicted_reuse
    assert found["observed"]["cached_tokens"] == record.cached_tokens
    assert found["observed"]["source"] == record.cached_source
    assert found["causes"][0]["code"] == "timestamp"
    assert (found["before"], found["after"]) == (None, None)


@pytest.mark.parametrize(
    "path", ["/api/requests/nothing", "/api/requests/nothing/explain", "/api/requests/a/b/c"]
)
def test_what_is_not_there_is_a_404_of_our_own(office: Office, path):
    """In the shape of every error here."""
    answer = office.get(path)

    assert answer.status == 404
    assert json.loads(answer.body)["error"]["code"] == "not_found"


def test_a_request_is_found_the_moment_its_answer_ended(start_proxy, backend):
    """The id in the answer's header can be looked up at once, without worker and database."""
    backend.answer(OpenAI(Engine()))
    proxy = start_proxy()
    answer = proxy.chat({"model": "m", "messages": [{"role": "user", "content": "CANARY-123 hello"}]})
    request_id = answer.ours["request-id"]
    row = proxy.json(f"/api/requests/{request_id}")
    explained = proxy.json(f"/api/requests/{request_id}/explain")

    assert (row["id"], row["status"], row["model"]) == (request_id, "completed", "m")
    assert row["received_at"].endswith("Z")
    assert explained["id"] == request_id
    assert "CANARY-123" not in json.dumps([row, explained])


def test_without_a_database_the_lists_say_so(start_proxy):
    """A history that is not there is a 503 with advice; nothing is made up, nothing hangs."""
    proxy = start_proxy()
    for path in ("/api/requests", "/api/sessions", "/api/requests/x"):
        answer = proxy.request("GET", f"/metalanchor{path}")
        assert answer.status == 503
        assert "METALANCHOR_DATABASE_URL" in json.loads(answer.body)["error"]["message"]


def test_postgres_serves_the_same_lists(start_proxy, postgres_url):
    """The history may live in PostgreSQL."""
    records = [make_record(session=f"s-{number}") for number in range(5)]
    fill(postgres_url, records)
    proxy = start_proxy(database_url=postgres_url)

    assert [row["id"] for row in proxy.json("/api/requests")["items"]] == ids(reversed(records))
    assert len(proxy.json("/api/sessions")["items"]) == 5
    assert proxy.json("/status")["database"] == {"status": "up", "kind": "postgresql", "error": None}
