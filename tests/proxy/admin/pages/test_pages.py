"""Pages, reference and errors: nothing inline, nothing from elsewhere, names from the wire harmless."""

import json
import re

import pytest

from tests.support.admin import Office

pytestmark = pytest.mark.process

PAGES = ["/", "/lineages", "/trends", "/cache", "/sql", "/health", "/schema"]


def text(office: Office, path: str) -> str:
    """A page's HTML."""
    answer = office.get(path)
    assert answer.status == 200, answer.body
    return answer.body.decode()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_needs_nothing_from_elsewhere(office: Office, path):
    """No inline script or style, no address but our own, and a policy that would stop both."""
    answer = office.get(path)
    page = answer.body.decode()

    assert answer.status == 200
    assert answer.header("content-type") == "text/html; charset=utf-8"
    policy = answer.header("content-security-policy")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.header("x-content-type-options") == "nosniff"
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=|javascript:", page)
    assert not re.search(r"(?:src|href|action)=\"(?!/metalanchor|#content)", page)


@pytest.mark.parametrize("path", PAGES)
def test_every_asset_a_page_names_is_there(office: Office, path):
    """Style sheets, scripts and the icon come with their types, and may be kept: a new one has a new name."""
    assets = re.findall(r"(?:src|href)=\"/metalanchor(/assets/[^\"]+)\"", text(office, path))

    assert assets
    for asset in set(assets):
        answer = office.get(asset)
        assert answer.status == 200
        assert answer.header("content-type").startswith(("text/css", "text/javascript", "image/svg+xml"))
        assert "immutable" in answer.header("cache-control")


def test_the_first_page_shows_the_latest_requests(office: Office):
    """Hit, predicted against measured, first token and cause, with links to each whole request."""
    page = text(office, "/")
    last = next(record for record in reversed(office.records) if record.kind == "generation")

    assert f'href="/metalanchor/requests/{last.id}"' in page
    assert "system+tools" in page
    assert "94 %" in page  # predicted reuse 0.9375 and measured 0.935
    assert "55 ms" in page
    assert "Clock in the prompt" in page


def test_filters_narrow_the_list_and_survive_paging(office: Office):
    """What was chosen stays chosen, in the form and in the link to older requests."""
    page = text(office, "/?hit=exact&agent=&model=&cause=&status=")
    shown = set(re.findall(r'data-id="([^"]+)"', page))
    exact = [record.id for record in office.records if record.hit == "exact"]

    assert shown == set(exact[-50:])
    assert '<option value="exact" selected>' in page
    older = re.search(r'rel="next" href="/metalanchor(/[^"]+)"', page)[1].replace("&amp;", "&")
    assert set(re.findall(r'data-id="([^"]+)"', text(office, older))) <= set(exact[:-50])


@pytest.mark.parametrize("query", ["hit=sideways", "status=fine"])
def test_a_filter_that_is_none_is_refused(office: Office, query):
    """As a page, with the names that are known."""
    answer = office.get(f"/?{query}")

    assert answer.status == 400
    assert b"is not one of" in answer.body


def test_probes_are_shown_on_request_only(office: Office):
    """Management calls and embeddings are no generations."""
    probe = next(record for record in office.records if record.kind == "embedding")

    assert probe.id not in text(office, "/")
    assert probe.id in text(office, "/?all=true")


def test_names_from_the_wire_are_escaped(office: Office):
    """A name is text, whatever it contains."""
    for path in ("/", "/trends?span=30d"):
        page = text(office, path)
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "<img src=x" not in page


def test_one_request_shows_every_figure_with_its_source(office: Office):
    """From a row alone: figures, strip, causes; and it says that the text is no longer at hand."""
    record = next(record for record in office.records if record.kind == "generation")
    page = text(office, f"/requests/{record.id}")

    assert "2\u202f000" in page
    assert "ollama: prompt_eval_count" in page
    assert '<rect class="reused"' in page
    assert "The sizes are no longer at hand" in page
    assert "Clock in the prompt" in page
    assert f"/metalanchor/api/requests/{record.id}/explain" in page


@pytest.mark.parametrize("path", ["/requests/nothing", "/requests/" + "x" * 300])
def test_a_request_that_is_not_there_has_a_page_that_says_so(office: Office, path):
    """404, in words."""
    answer = office.get(path)

    assert answer.status == 404
    assert b"No request of that id" in answer.body


def test_the_reference_lists_every_route(office: Office):
    """The OpenAPI document and the page show the same routes."""
    document = office.json("/schema/openapi.json")
    page = office.get("/schema").body.decode()

    for path in document["paths"]:
        assert path in page
    for path in (
        "/healthz",
        "/status",
        "/metrics",
        "/events",
        "/api/requests",
        "/api/sessions",
        "/api/lineages",
        "/api/sql",
    ):
        assert f"/metalanchor{path}" in document["paths"]
    assert "/metalanchor/api/requests/{request_id}/explain" in document["paths"]


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/api", "/api/requests/", "/schema/swagger", "/assets/nothing.css", "/api/requests/x/y"],
)
def test_an_unknown_path_is_our_own_404(office: Office, path):
    """It never reaches the backend."""
    answer = office.get(path)

    if path == "/api/requests/":
        assert answer.status == 200
    else:
        assert answer.status == 404
        if not path.startswith("/assets"):
            assert json.loads(answer.body)["error"]["code"] == "not_found"
            assert answer.header("x-metalanchor-error")


def test_other_methods_are_refused(office: Office):
    """Nothing here is changed by a request."""
    for method in ("POST", "PUT", "DELETE"):
        assert office.proxy.request(method, "/metalanchor/api/requests").status == 405


def test_every_page_comes_without_a_history(start_proxy):
    """The pages come, and say what is missing."""
    proxy = start_proxy()

    for path in PAGES:
        assert proxy.request("GET", f"/metalanchor{path}").status == 200, path
    page = proxy.request("GET", "/metalanchor/")
    assert b"The history database cannot be read" in page.body
    assert b"No request yet" not in page.body
