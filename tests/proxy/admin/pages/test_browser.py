"""The pages in a real Chromium: no complaints, live rows, filters, accessibility, and pictures to look at."""

import re

import pytest

from tests.support.gallery import SLOW, Gallery

pytestmark = [pytest.mark.process, pytest.mark.browser]

PAGES = {
    "now": "/",
    "lineages": "/lineages",
    "trends": "/trends?span=7d",
    "sql": "/sql?ready=lost-by-agent",
    "health": "/health",
}
WIDTHS = {"phone": (360, 780), "laptop": (1440, 900), "wall": (3840, 2160)}


@pytest.fixture(scope="module")
def broken(gallery: Gallery) -> str:
    """A live request whose prompt differs from the one before it by a clock."""
    gallery.say("One.", "10:00:01")
    return gallery.say("Two.", "10:00:59")


def settled(page, name):
    """Wait until a page has drawn what its scripts draw."""
    if name == "now":
        page.wait_for_selector("#live.on")
    if name == "trends":
        page.wait_for_selector("#trends[data-drawn]")


@pytest.mark.parametrize(
    ("name", "scheme"),
    [*((name, "light") for name in [*PAGES, "request"]), ("now", "dark"), ("request", "dark")],
)
def test_a_page_is_accessible(gallery: Gallery, open_window, broken, name, scheme):
    """The checker axe finds nothing, in either colour scheme, and the console stays empty."""
    window = open_window(gallery.proxy.url, color_scheme=scheme)
    page = window.open(PAGES.get(name, f"/requests/{broken}"))
    settled(page, name)

    assert window.violations() == []


@pytest.mark.parametrize("size", WIDTHS)
def test_pages_fit_every_width(gallery: Gallery, open_window, broken, pictures, size):
    """From a phone to a wall, in both languages: nothing sticks out sideways; a picture of each is kept."""
    width, height = WIDTHS[size]
    locale = "zh-CN" if size == "laptop" else "en-GB"
    window = open_window(gallery.proxy.url, viewport={"width": width, "height": height}, locale=locale)
    for name, path in {**PAGES, "request": f"/requests/{broken}"}.items():
        page = window.open(path)
        settled(page, name)
        page.screenshot(path=pictures / f"{name}-{size}.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, size)


def test_a_stranger_finds_who_lost_most_and_why(gallery: Gallery, open_window):
    """One sentence on the first page: the agent, how much, the cause in words, and what to do."""
    window = open_window(gallery.proxy.url)
    page = window.open("/")
    sentence = page.inner_text("#sentence")

    assert re.match(rf"In the last hour, {SLOW} lost the most time: [\d.]+ min over \d+ requests", sentence)
    assert "because a clock time in the prompt changed." in sentence
    assert "Turn off the clock in OpenClaw's system prompt" in page.inner_text(".headline .advice")
    page.click("text=See the request that lost most")
    assert "Clock in the prompt" in page.inner_text(".causes")


def test_the_summary_renews_itself(gallery: Gallery, open_window):
    """Each minute, without a reload; and not under the hands of somebody who is in it."""
    window = open_window(gallery.proxy.url)
    window.page.clock.install()
    page = window.open("/")
    page.evaluate("document.getElementById('summary').dataset.old = 'true'")
    page.focus("text=See the request that lost most")
    page.clock.run_for(61_000)
    assert page.locator("#summary[data-old]").count() == 1
    page.evaluate("document.activeElement.blur()")
    page.clock.run_for(61_000)
    page.wait_for_selector("#summary:not([data-old]) #sentence")


def test_requests_appear_while_they_run_and_when_they_end(gallery: Gallery, open_window):
    """Without a reload: phase and elapsed time first, then the row with its figures, newest on top."""
    window = open_window(gallery.proxy.url)
    page = window.open("/")
    settled(page, "now")
    page.evaluate(
        "body => { fetch('/v1/chat/completions', {method: 'POST', body}).then(answer => answer.text()); }",
        '{"model": "slow", "stream": true, "messages": [{"role": "user", "content": "Are you slow?"}]}',
    )
    row = page.wait_for_selector("#flight tbody tr:has-text('slow')")
    assert "reading the prompt" in row.inner_text()
    page.wait_for_selector("#flight .phase[data-phase=streaming]")
    page.wait_for_selector("#latest tbody tr:first-child:has-text('slow')")
    assert "9 %" in page.inner_text("#latest tbody tr:first-child")
    page.wait_for_selector("#flight-empty", state="visible")


def test_filters_work_without_leaving_the_page(gallery: Gallery, open_window):
    """Choosing an agent narrows the rows, is in the address, and holds for live rows too."""
    window = open_window(gallery.proxy.url)
    page = window.open("/")
    settled(page, "now")
    page.select_option("select[name=agent]", "opencode")
    page.wait_for_function("() => !document.querySelector('#latest tbody').innerText.includes('openclaw')")
    page.wait_for_url(re.compile("agent=opencode"))
    gallery.say("Not shown.", "11:00:00", agent="Hermes/1.2")
    shown = gallery.say("Shown.", "11:00:00", agent="opencode/1.0")
    page.wait_for_selector(f"#latest tr[data-id='{shown}']")
    agents = page.eval_on_selector_all("#latest [data-fill=agent]", "cells => cells.map(c => c.innerText)")
    assert set(agents) == {"opencode"}


def test_a_burst_of_requests_does_not_freeze_the_page(gallery: Gallery, open_window):
    """A hundred and fifty rows at once: the page answers afterwards, with no more rows than it holds."""
    window = open_window(gallery.proxy.url)
    page = window.open("/")
    settled(page, "now")
    longest = page.evaluate(
        """async () => {
          const messages = [{role: 'user', content: 'x'}];
          const body = JSON.stringify({model: 'quick', messages, stream: true});
          let longest = 0, last = performance.now(), running = true;
          const watch = () => {
            const now = performance.now();
            longest = Math.max(longest, now - last);
            last = now;
            if (running) setTimeout(watch, 5);
          };
          watch();
          const one = async () => { for (let n = 0; n < 25; n++)
            await (await fetch('/v1/chat/completions', {method: 'POST', body})).text(); };
          await Promise.all(Array.from({length: 6}, one));
          await new Promise(done => setTimeout(done, 600));
          running = false;
          return longest;
        }"""
    )

    assert longest < 5_000  # two busy cores stall it for a second; a page that drew every event, for good
    assert page.locator("#latest tbody tr").count() == 50
    assert page.locator("#latest tbody tr.fresh").count() == 50


def test_the_console_runs_a_statement_in_place(gallery: Gallery, open_window):
    """Ctrl+Enter in the statement; the answer, or what is wrong with it, appears below."""
    window = open_window(gallery.proxy.url)
    page = window.open("/sql")
    page.fill("#statement", "SELECT count(*) AS rows FROM requests")
    page.press("#statement", "Control+Enter")
    page.wait_for_selector("#answer td.number")
    assert page.inner_text("#answer td") == str(len(gallery.records))
    page.fill("#statement", "DELETE FROM requests")
    page.click("button:has-text('Run')")
    assert "Only reading" in page.inner_text("#answer .problem")


def test_trends_follow_the_choice(gallery: Gallery, open_window):
    """Another span and agent draw other charts, and the address says which."""
    window = open_window(gallery.proxy.url)
    page = window.open("/trends")
    settled(page, "trends")
    assert page.locator("canvas").count() == 7
    assert page.locator("#counted .u-legend").first.inner_text().count("127.0.0.1:8000") == 1
    page.select_option("select[name=agent]", "open-webui")
    page.wait_for_selector("#trends[data-agent=open-webui][data-drawn]")
    assert page.locator("#chart-lost canvas").count() == 0  # it lost nothing
    assert page.locator("#chart-ttft canvas").count() == 1


def test_the_keyboard_reaches_everything(gallery: Gallery, open_window):
    """The first Tab offers to skip the navigation, and what has the focus shows it."""
    window = open_window(gallery.proxy.url)
    page = window.open("/")
    page.keyboard.press("Tab")
    assert page.inner_text(":focus") == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.inner_text(":focus") == "See the request that lost most"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_language_can_be_switched(gallery: Gallery, open_window):
    """A click changes it, and it stays changed on other pages."""
    window = open_window(gallery.proxy.url, locale="en-GB")
    page = window.open("/health")
    page.click("text=中文")
    assert page.get_attribute("html", "lang") == "zh"
    assert "健康" in page.title()
    window.open("/")
    assert "最近一小时" in page.inner_text("#sentence")


def test_logging_in_with_the_token(start_proxy, open_window):
    """A browser without the cookie finds the form, and comes back to the page it asked for."""
    proxy = start_proxy(token="open-sesame")
    window = open_window(proxy.url)
    page = window.open("/health")
    assert page.url.endswith("/metalanchor/login?next=/metalanchor/health")
    assert window.violations() == []
    page.fill("#token", "open-sesame")
    page.press("#token", "Enter")
    page.wait_for_url("**/metalanchor/health")
    page.click("text=Log out")
    assert page.url.endswith("/metalanchor/login")
