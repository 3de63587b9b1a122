"""A real Chromium for tests of the pages: the one of the system, driven by Playwright.

One browser a module. Playwright's own loop runs as long as it does, which is why tests that drive it are
plain functions in modules of their own. What a page writes to its console is kept, and fails the test.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
AXE = Path(__file__).parent / "axe" / "axe.min.js"
MISSING = "no Chrome or Chromium is installed here (Debian: apt-get install chromium)"
# Where pictures of the pages go, to be looked at; a folder of the run unless this says where.
PICTURES = "PAGE_PICTURES"


def executable() -> str | None:
    """The browser of this machine."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    return found or next((place for place in PLACES if Path(place).exists()), None)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The running browser; skips, saying why, where there is none."""
    path = executable()
    if path is None:
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright

    home = os.environ.get("HOME")
    os.environ["HOME"] = str(tmp_path_factory.mktemp("browser"))  # its crash reports and caches
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()
    os.environ["HOME"] = home or ""


class Window:
    """One page in a context of its own. `errors` are what the console and the page complained of."""

    def __init__(self, browser: Any, base: str, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        self.context.set_default_timeout(10_000)
        self.page = self.context.new_page()
        self.base, self.errors = base, []
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, path: str) -> Any:
        """Go to one of the proxy's own pages."""
        self.page.goto(f"{self.base}/metalanchor{path}")
        return self.page

    def violations(self) -> list[str]:
        """What axe finds wrong with the page as it stands: rule, and where."""
        # Evaluated in the page's world past its policy, as its own scripts must not be.
        self.page.evaluate(AXE.read_text("utf-8") + "; undefined")
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{rule['id']}: {node['target']} {node['failureSummary']}"
            for rule in found["violations"]
            for node in rule["nodes"]
        ]

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.errors.append(text)


@pytest.fixture
def open_window(chromium: Any) -> Iterator[Any]:
    """Opens windows on a proxy, as in ``open_window(proxy.url, locale="zh-CN")``; none may complain."""
    windows: list[Window] = []

    def open_(base: str, **options: Any) -> Window:
        windows.append(Window(chromium, base, **options))
        return windows[-1]

    yield open_
    errors = [error for window in windows for error in window.errors]
    for window in windows:
        window.context.close()
    assert not errors


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures of the pages go."""
    named = os.environ.get(PICTURES)
    folder = Path(named) if named else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
