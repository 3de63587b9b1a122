"""What all pages have in common: templates, language, assets, errors.

Owns the template environment and the bytes of the assets, read once. Nothing is inline and nothing comes from
elsewhere, as the policy in the headers demands.
"""

from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2
from litestar import Request, Response
from litestar.datastructures import Cookie

from services.proxy.admin.hardening import HEADERS
from services.proxy.admin.login import Door
from services.proxy.admin.pages import meanings, words
from services.proxy.admin.pages.language import COOKIE, LANGUAGES, Speech, choose, load

ADMIN = Path(__file__).parent.parent
ASSETS = {
    "style.css": "text/css; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "now.js": "text/javascript; charset=utf-8",
    "trends.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "uplot.min.js": "text/javascript; charset=utf-8",
    "uplot.min.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
# Path below the prefix, and name, of each page in the order of the navigation.
PAGES = (
    ("", "Now"),
    ("lineages", "Conversations"),
    ("trends", "Trends"),
    ("cache", "Cache"),
    ("sql", "SQL"),
    ("health", "Health"),
)
YEAR_S = 365 * 86_400

AnyRequest = Request[Any, Any, Any]


class Site:
    """Renders pages; one a process."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.assets = {name: (ADMIN / "static" / name).read_bytes() for name in ASSETS}
        self._speech = load()
        self.stamp = sha256(b"".join(self.assets.values())).hexdigest()[:12]
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(ADMIN / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            percent=words.percent, ms=words.milliseconds, count=words.count, size=words.size,
            short=words.short, reuse=words.measured_reuse,
            pairs=lambda values: [(one, one) for one in values],
        )  # fmt: skip
        self._environment.globals.update(meanings=meanings, pages=PAGES, stamp=self.stamp)

    def speech(self, request: AnyRequest) -> Speech:
        """The language of a request."""
        wanted = request.query_params.get("lang")
        return self._speech[
            choose(wanted, request.cookies.get(COOKIE), request.headers.get("accept-language"))
        ]

    def page(
        self, request: AnyRequest, name: str, *, status: int = 200, here: str | None = None, **values: Any
    ) -> Response[str]:
        """A template as a page in the request's language; `here` is the page's place in the navigation."""
        say = self.speech(request)
        text = self._environment.get_template(f"{name}.html").render(
            say=say,
            ago=lambda stamp: words.ago(stamp, say),
            here=here,
            languages=[(code, own, self._switch(request, code)) for code, own in LANGUAGES.items()],
            locked=self.door.locked,
            **values,
        )
        response = Response(text, status_code=status, media_type="text/html", headers=HEADERS)
        if request.query_params.get("lang") == say.code:
            response.cookies.append(
                Cookie(
                    key=COOKIE,
                    value=say.code,
                    path="/metalanchor",
                    max_age=YEAR_S,
                    samesite="lax",
                    httponly=True,
                )
            )
        return response

    @staticmethod
    def _switch(request: AnyRequest, code: str) -> str:
        """The same page in another language."""
        kept = [(name, value) for name, value in request.query_params.multi_items() if name != "lang"]
        path = request.url.path if request.url.path != "/metalanchor" else "/metalanchor/"
        return f"{path}?{urlencode([*kept, ('lang', code)])}"
