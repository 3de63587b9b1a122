"""The cookie of the dashboard: who gets it, what it opens, and what it does not."""

import pytest

from services.proxy.admin.login import LASTS_S, Door

KEY, NOW = bytes(32), 1_800_000_000.0
PAGE = b"/metalanchor/"


def with_cookie(value, *more):
    """Request headers with a login cookie."""
    return [(b"cookie", f"a=1; metalanchor_login={value}; b=2".encode()), *more]


def test_a_cookie_opens_until_it_ends():
    """Thirty days, not a second more."""
    door = Door(KEY, "t")
    headers = with_cookie(door.cookie(NOW))

    assert door.opens("GET", PAGE, headers, NOW + LASTS_S - 1)
    assert not door.opens("GET", PAGE, headers, NOW + LASTS_S + 1)


@pytest.mark.parametrize("other", [Door(KEY, "another token"), Door(bytes([1] * 32), "t"), Door(KEY, None)])
def test_a_cookie_is_of_one_token_and_one_installation(other):
    """A new token ends all cookies."""
    assert not other.opens("GET", PAGE, with_cookie(Door(KEY, "t").cookie(NOW)), NOW)


@pytest.mark.parametrize("value", ["", ".", "x.y", "99999999999.", "99999999999.abc", "9" * 40 + ".a", "é.ü"])
def test_a_made_up_cookie_opens_nothing(value):
    """Whatever it looks like."""
    assert not Door(KEY, "t").opens("GET", PAGE, with_cookie(value), NOW)


def test_a_cookie_does_not_hold_the_token():
    """Other servers on this host see it too."""
    assert "sesame" not in Door(KEY, "sesame").cookie(NOW)


def test_a_cookie_changes_things_only_from_our_own_pages():
    """A browser names the page's origin on a POST; a request without it does not come from one."""
    door = Door(KEY, "t")
    cookie = door.cookie(NOW)

    assert not door.opens("POST", b"/metalanchor/api/sql", with_cookie(cookie), NOW)
    assert door.opens("POST", b"/metalanchor/api/sql", with_cookie(cookie, (b"origin", b"http://x")), NOW)


@pytest.mark.parametrize(
    ("path", "opens"),
    [
        (b"/metalanchor/login", True),
        (b"/metalanchor/assets/style.css", True),
        (b"/metalanchor/assets/../status", False),
        (b"/metalanchor/login/x", False),
        (b"/metalanchor/status", False),
        (b"/metalanchor/", False),
    ],
)
def test_what_needs_neither_token_nor_cookie(path, opens):
    """The form and what it is drawn with."""
    assert Door(KEY, "t").opens("GET", path, [], NOW) is opens


@pytest.mark.process
def test_the_way_in_and_out(start_proxy):
    """No token: to the form. Wrong one: 401. The right one: a cookie that opens pages and data."""
    proxy = start_proxy(token="open-sesame")
    page = [("Accept", "text/html")]
    form = [("Content-Type", "application/x-www-form-urlencoded"), ("Origin", "http://127.0.0.1")]

    turned = proxy.request("GET", "/metalanchor/health", headers=page)
    assert (turned.status, turned.header("location")) == (303, "/metalanchor/login?next=/metalanchor/health")
    assert proxy.request("GET", "/metalanchor/health").status == 401
    assert proxy.request("POST", "/metalanchor/login", b"token=wrong", form).status == 401

    answer = proxy.request("POST", "/metalanchor/login", b"token=open-sesame&next=//evil.example", form)
    assert (answer.status, answer.header("location")) == (303, "/metalanchor/")
    cookie = answer.header("set-cookie")
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "Path=/metalanchor" in cookie
    own = [("Cookie", cookie.partition(";")[0])]
    assert proxy.request("GET", "/metalanchor/health", headers=own).status == 200
    assert proxy.request("GET", "/metalanchor/status", headers=own).status == 200
    assert proxy.request("POST", "/metalanchor/sql", b"sql=SELECT+1", [*own, form[0]]).status == 401
    assert proxy.request("POST", "/metalanchor/sql", b"sql=SELECT+1", [*own, *form]).status == 200

    out = proxy.request("POST", "/metalanchor/logout", b"", [*own, *form])
    assert out.header("location") == "/metalanchor/login"
    assert 'metalanchor_login=""' in out.header("set-cookie") or "Max-Age=0" in out.header("set-cookie")


@pytest.mark.process
def test_the_cookie_opens_nothing_of_the_backend(start_proxy, backend):
    """Forwarded routes need the token itself."""
    proxy = start_proxy(token="open-sesame")
    form = [("Content-Type", "application/x-www-form-urlencoded")]
    cookie = proxy.request("POST", "/metalanchor/login", b"token=open-sesame", form).header("set-cookie")

    assert proxy.request("GET", "/v1/models", headers=[("Cookie", cookie.partition(";")[0])]).status == 401


@pytest.mark.process
def test_a_form_of_another_site_is_refused(start_proxy):
    """Its origin is not ours, and neither is none."""
    proxy = start_proxy(token="open-sesame")
    for origin in ("http://evil.example", "null"):
        form = [("Content-Type", "application/x-www-form-urlencoded"), ("Origin", origin)]
        assert proxy.request("POST", "/metalanchor/login", b"token=open-sesame", form).status == 403
