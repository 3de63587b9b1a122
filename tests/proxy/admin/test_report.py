"""`/api/report` of a running proxy: the command's report in the same forms."""

import pytest

from tests.support.admin import Office

pytestmark = pytest.mark.process

EVER = "since=2025-01-01"


def test_the_report_as_json(office: Office):
    """Generations unless `all`; grouped when asked."""
    found = office.json(f"/api/report?{EVER}&by=hit")
    generations = sum(record.kind == "generation" for record in office.records)
    assert found["total"]["requests"] == sum(row["requests"] for row in found["groups"]) == generations
    assert office.json(f"/api/report?{EVER}&all=true")["total"]["requests"] == len(office.records)


def test_the_page_is_served_with_leave_for_its_own_style_alone(office: Office):
    """A strict policy, and markup of strangers stays text."""
    answer = office.get(f"/api/report?{EVER}&format=html")
    assert answer.header("content-type") == "text/html; charset=utf-8"
    policies = [value for name, value in answer.headers if name.lower() == "content-security-policy"]
    assert len(policies) == 1
    assert "style-src 'sha256-" in policies[0]
    assert "script-src" not in policies[0]
    assert "default-src 'none'" in policies[0]
    assert b"<script" not in answer.body


@pytest.mark.parametrize(("form", "start"), [("md", b"# MetalAnchor"), ("csv", b"group,requests")])
def test_the_other_forms(office: Office, form: str, start: bytes):
    """Text, with its type."""
    answer = office.get(f"/api/report?{EVER}&format={form}")
    assert answer.status == 200
    assert answer.body.startswith(start)


@pytest.mark.parametrize("query", ["by=weather", "format=pdf", "since=yesterday", "colour=red"])
def test_what_is_no_parameter_is_refused(office: Office, query: str):
    """By name."""
    assert office.get(f"/api/report?{query}").status == 400
