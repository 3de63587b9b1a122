"""Pages, reference and errors: nothing inline, nothing from elsewhere, names from the wire harmless."""

import json
import re

import pytest

from services.proxy.admin.pages.words import UNKNOWN, ago, count, milliseconds, percent
from tests.support.admin import Office

PAGES = ["/", "/schema"]


@pytest.mark.process
@pytest.mark.parametrize("path", PAGES)
def test_a_page_needs_nothing_from_elsewhere(office: Office, path):
    """No inline script or style, no address but our own, and a policy that would stop both."""
    answer = office.get(path)
    page = answer.body.decode()

    assert answer.status == 200
    assert answer.header("content-type") == "text/html; charset=utf-8"
    policy = answer.header("content-security-policy")
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert answer.header("x-content-type-options") == "nosniff"
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=|javascript:", page)
    assert not re.search(r"(?:src|href)=\"(?!/metalanchor)", page)


@pytest.mark.process
def test_every_asset_a_page_names_is_there(office: Office):
    """Style sheets come with their own type."""
    for path in PAGES:
        for asset in re.findall(
            r"(?:src|href)=\"/metalanchor(/assets/[^\"]+)\"", office.get(path).body.decode()
        ):
            answer = office.get(asset)
            assert answer.status == 200
            assert answer.header("content-type").startswith(("text/css", "text/javascript", "image/"))


@pytest.mark.process
def test_the_overview_shows_the_latest_requests(office: Office):
    """Hit, predicted against measured, first token and cause, with links to the whole."""
    page = office.get("/").body.decode()
    last = next(record for record in reversed(office.records) if record.kind == "generation")

    assert f"/metalanchor/api/requests/{last.id}" in page
    assert "system+tools" in page
    assert "94 %" in page  # predicted reuse 0.9375 and measured 0.935
    assert "55 ms" in page
    assert "timestamp" in page


@pytest.mark.process
def test_names_from_the_wire_are_escaped(office: Office):
    """A name is text, whatever it contains."""
    page = office.get("/").body.decode()

    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<img" not in page


@pytest.mark.process
def test_the_reference_lists_every_route(office: Office):
    """The OpenAPI document and the page show the same routes, the contract's among them."""
    document = office.json("/schema/openapi.json")
    page = office.get("/schema").body.decode()

    for path in document["paths"]:
        assert path in page
    for path in (
        "/healthz",
        "/status",
        "/metrics",
        "/api/requests",
        "/api/sessions",
        "/api/lineages",
        "/api/sql",
    ):
        assert f"/metalanchor{path}" in document["paths"]
    assert "/metalanchor/api/requests/{request_id}/explain" in document["paths"]


@pytest.mark.process
@pytest.mark.parametrize(
    "path",
    ["/nothing", "/api", "/api/requests/", "/schema/swagger", "/assets/nothing.css", "/api/requests/x/y"],
)
def test_an_unknown_path_is_our_own_404(office: Office, path):
    """It never reaches the backend."""
    answer = office.get(path)

    assert answer.status in (404, 200)
    if answer.status == 404:
        assert json.loads(answer.body)["error"]["code"] == "not_found"
        assert answer.header("x-metalanchor-error")
    else:
        assert path == "/api/requests/"


@pytest.mark.process
def test_other_methods_are_refused(office: Office):
    """Nothing here is changed by a request."""
    for method in ("POST", "PUT", "DELETE"):
        assert office.proxy.request(method, "/metalanchor/api/requests").status == 405


@pytest.mark.process
def test_the_overview_without_a_history(start_proxy):
    """The page comes, and says what is missing."""
    page = start_proxy().request("GET", "/metalanchor/")

    assert page.status == 200
    assert b"The history database cannot be read" in page.body
    assert b"No request yet" not in page.body


def test_figures_as_people_read_them():
    """What is unknown is a dash; only everything is 100 %."""
    assert [percent(None), percent(0.0), percent(0.504), percent(0.9999), percent(1.0)] == [
        UNKNOWN, "0 %", "50 %", "99 %", "100 %",
    ]  # fmt: skip
    assert [milliseconds(v) for v in (None, 0.4, 999.4, 1_500, 90_000)] == [
        UNKNOWN, "0 ms", "999 ms", "1.5 s", "1.5 min",
    ]  # fmt: skip
    assert [count(None), count(0), count(1_234_567)] == [UNKNOWN, "0", "1\u202f234\u202f567"]
    assert ago(None) == UNKNOWN
    assert ago("2020-01-01T00:00:00Z").endswith("d ago")
