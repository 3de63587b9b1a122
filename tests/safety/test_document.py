"""The OpenAPI document is true: schemathesis asks every route what it allows, and what it forbids."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.admin import Office

pytestmark = pytest.mark.process

# Run apart: it brings its own event loop, plugins and warnings.
RUN = "import sys; from schemathesis.cli import schemathesis; sys.exit(schemathesis())"
# What no schema can say: whether a text is SQL that the history understands, and whether a cursor was ever
# given out; and the cache is off here. All else that fits the document must be accepted.
CONFIG = """
[[operations]]
include-path = "/metalanchor/api/sql"
checks.positive_data_acceptance.enabled = false
[[operations]]
include-path-regex = "/api/cache/"
checks.positive_data_acceptance.enabled = false
[[operations]]
include-path-regex = "/api/(requests|sessions)$"
checks.positive_data_acceptance.enabled = false
"""
# The `Allow` that Litestar answers OPTIONS with leaves out methods that another handler of a page serves.
EXCLUDED = "allow_header_conformance"


def test_every_route_answers_as_the_document_says(office: Office, tmp_path: Path) -> None:
    """Statuses, media types and bodies, of errors too; no value that fits is refused, none makes a 5xx."""
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    done = subprocess.run(
        [
            sys.executable, "-c", RUN, "--config-file", "schemathesis.toml", "run",
            f"{office.proxy.url}/metalanchor/schema/openapi.json", "--exclude-path", "/metalanchor/events",
            "--phases", "coverage,fuzzing", "--max-examples", "10", "--seed", "5",
            "--exclude-checks", EXCLUDED, "--no-color", "--header", f"Origin: {office.proxy.url}",
        ],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "Fuzzing" in done.stdout
