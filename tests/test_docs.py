"""The documentation says what the code does."""

import re
import tomllib
from pathlib import Path

import pytest

from services import docs

ROOT = Path(docs.__file__).parent.parent


@pytest.mark.parametrize("page", docs.PAGES)
def test_generated_tables_are_current(page: str):
    """`python -m services.docs` (or `make format`) would change nothing."""
    text = (ROOT / page).read_text("utf-8")
    assert docs.render(text) == text, "run: make format"


def test_every_generated_table_is_used():
    """No table is made that no page shows."""
    pages = "".join((ROOT / page).read_text("utf-8") for page in docs.PAGES)
    assert {name for name in docs.BLOCKS if f"<!-- begin {name} -->" in pages} == set(docs.BLOCKS)


def test_every_header_in_the_code_is_described():
    """The header tables list exactly the X-MetalAnchor names that the code writes or reads."""
    written = _names(*(ROOT / "services" / "proxy").rglob("*.py"))
    described = {name.lower() for name in (*docs.RESPONSE_HEADERS, *docs.REQUEST_HEADERS)}
    assert written <= described
    assert {name.lower() for name in docs.RESPONSE_HEADERS} <= written


def _names(*paths: Path) -> set[str]:
    found = (
        re.findall(r"""['"]x-metalanchor-([a-z-]*[a-z])['"]""", path.read_text("utf-8")) for path in paths
    )
    return {name for names in found for name in names}


def test_every_dependency_has_its_reason():
    """docs/dependencies.md names the packages of pyproject.toml, all of them and no others."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    groups = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ]
    wanted = {re.match(r"[\w-]+", line)[0] for group in groups for line in group}
    rows = re.findall(r"(?m)^\| (`[^|]*) \|", (ROOT / "docs/dependencies.md").read_text("utf-8"))
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    assert named == wanted


@pytest.mark.parametrize("lock", ["runtime", "proxy", "worker", "test", "engine"])
def test_lock_files_carry_hashes_and_no_addresses(lock: str):
    """Every pinned package has hashes, and no line names a registry."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text("utf-8")
    packages = re.findall(r"(?m)^([\w.-]+)==.*\\\n    --hash=sha256:", text)
    assert len(packages) == len(re.findall(r"(?m)^[\w.-]+==", text)) > 0
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text


def test_links_between_pages_lead_somewhere():
    """Relative links in the pages point to files that exist."""
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path} links to {target}"


def test_make_lists_only_verbs_that_exist():
    """`make` without a verb lists each target with its meaning."""
    text = (ROOT / "Makefile").read_text("utf-8")
    phony = set(re.search(r"\.PHONY: (.*)", text)[1].split())
    assert set(re.findall(r"(?m)^([a-z-]+):.*## ", text)) == phony
