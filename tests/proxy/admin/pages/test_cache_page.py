"""The page of the response cache in a real Chromium: what it shows, explains and drops, by keyboard too."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.backend import as_json
from tests.support.caching import Caching, chat, running, said
from tests.support.rows import wait_for

pytestmark = [pytest.mark.process, pytest.mark.browser]

WIDTHS = {"phone": (360, 780), "laptop": (1440, 900), "wall": (3840, 2160)}
ASKED = (
    "How do I install Python 3.11?", "How do I uninstall Python 3.12?", "What is the capital of France?",
    "Explain the difference between a process and a thread.", "法国的首都是哪里？", "怎么卸载 Python 3.11？",
    "Write a limerick about a cache that never forgets and a proxy that never sleeps, with a pun on memory.",
)  # fmt: skip


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caching]:
    """A proxy with some answers, of which some were given again."""
    with running(tmp_path_factory.mktemp("cached"), response_cache="semantic") as made:
        made.answer(as_json(said()))
        wait_for(lambda: made.proxy.json("/api/cache/stats")["semantic"]["up"])
        for text in ASKED:
            made.ask(chat(text), control="tag=faq")
        for text in ASKED[:4]:
            wait_for(lambda text=text: made.ask(chat(text)).ours["cache"] == "hit")
        assert wait_for(lambda: _known(made))
        yield made


def _known(parts: Caching) -> bool:
    """Whether all questions can be found by meaning; a busy machine may have dropped one, so ask again."""
    known = parts.proxy.json("/api/cache/stats")["semantic"]["entries"]
    for text in ASKED if known < len(ASKED) else ():
        parts.ask(chat(text), control="tag=faq, no-cache")
        time.sleep(0.1)  # an embedding takes that long on a busy core
    return bool(known == len(ASKED))


def explained(page: Any, text: str) -> str:
    """What the page says of a question."""
    page.fill("input[name=about]", text)
    page.press("input[name=about]", "Enter")
    page.wait_for_selector("#explained .panel")
    return str(page.inner_text("#explained"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible(cached: Caching, open_window: Any, scheme: str) -> None:
    """With an explanation and a dry run open, in either colour scheme."""
    window = open_window(cached.proxy.url, color_scheme=scheme)
    page = window.open("/cache")
    explained(page, "How do I install Python 3.12?")
    page.select_option("select[name=by]", "tag")
    page.fill("input[name=value]", "faq")
    page.click("text=Count them")
    page.wait_for_selector("#dropping form")
    assert window.violations() == []


@pytest.mark.parametrize("size", WIDTHS)
def test_the_page_fits_every_width(cached: Caching, open_window: Any, pictures: Any, size: str) -> None:
    """From a phone to a wall, in both languages: nothing sticks out sideways; a picture of each is kept."""
    width, height = WIDTHS[size]
    locale = "zh-CN" if size == "laptop" else "en-GB"
    window = open_window(cached.proxy.url, viewport={"width": width, "height": height}, locale=locale)
    page = window.open("/cache")
    explained(page, "How do I install Python 3.12?" if size != "laptop" else "怎么卸载 Python 3.12？")
    page.screenshot(path=pictures / f"cache-{size}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_question_that_missed_is_explained_without_leaving_the_page(
    cached: Caching, open_window: Any
) -> None:
    """Its neighbours and the rules; the question is in no address."""
    window = open_window(cached.proxy.url)
    page = window.open("/cache")
    text = explained(page, "How do I install Python 3.12?")
    assert "A number differs." in text
    assert page.url.endswith("/metalanchor/cache")
    assert "about now, a price" in explained_again(page, "What is the weather today?")


def explained_again(page: Any, text: str) -> str:
    """The same once more, when an explanation stands there already."""
    page.evaluate("document.querySelector('#explained').dataset.old = 'true'")
    page.fill("input[name=about]", text)
    page.press("input[name=about]", "Enter")
    page.wait_for_selector("#explained:not([data-old]) .panel")
    return str(page.inner_text("#explained"))


def test_answers_are_dropped_in_two_steps_by_keyboard(cached: Caching, open_window: Any) -> None:
    """Counted first, dropped after the second button; the list no longer shows them."""
    cached.ask(chat("Where do old answers go?"), control="tag=old")
    assert wait_for(lambda: "old" in json.dumps(cached.proxy.json("/api/cache/entries?limit=1")))
    window = open_window(cached.proxy.url)
    page = window.open("/cache")
    assert "Where do old answers go?" in page.inner_text("main")
    page.select_option("select[name=by]", "tag")
    page.focus("input[name=value]")
    page.keyboard.type("old")
    page.keyboard.press("Enter")
    page.wait_for_selector("#dropping form")
    assert "1 answer would be dropped." in page.inner_text("#dropping")
    assert "Where do old answers go?" in page.inner_text("main")
    page.focus("#dropping button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#dropping [role=status]")
    assert "1 answer was dropped." in page.inner_text("#dropping")
    assert "Where do old answers go?" not in page.inner_text("main")


def test_forms_work_without_scripts(cached: Caching, open_window: Any) -> None:
    """As whole pages."""
    window = open_window(cached.proxy.url, java_script_enabled=False)
    page = window.open("/cache")
    assert "Why?" in explained(page, "Why?")
    page.select_option("select[name=by]", "older")
    page.fill("input[name=value]", "soon")
    page.click("text=Count them")
    assert "An age is a number of hours." in page.inner_text("#dropping")
