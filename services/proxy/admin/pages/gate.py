"""Logging in and out, where a token is set, and the assets, which need neither."""

import asyncio
import re
import time
from typing import Annotated, Any

from litestar import Request, Response, get, post
from litestar.datastructures import Cookie
from litestar.exceptions import NotFoundException
from litestar.params import Parameter
from litestar.response import Redirect

from services.proxy.admin.login import COOKIE, LASTS_S
from services.proxy.admin.pages.site import ASSETS, Site

HOME = "/metalanchor/"
OWN = re.compile(r"/metalanchor(?:/[A-Za-z0-9._~-]+)*/?\Z")
# Guessing a token is slowed to what a person notices and a program cannot use.
WRONG_S = 0.5
FOREVER = "public, max-age=31536000, immutable"


def routes(site: Site) -> list[Any]:
    """``/login``, ``/logout`` and ``/assets/…``."""

    @get("/login", summary="The login form")
    async def form(request: Request[Any, Any, Any]) -> Response[Any]:
        if not site.door.locked:
            return Redirect(HOME, status_code=303)
        return site.page(request, "login", wrong=False, next=_own(request.query_params.get("next")))

    @post("/login", summary="Exchange the token for a cookie", status_code=200)
    async def login(request: Request[Any, Any, Any]) -> Response[Any]:
        fields = await request.form()
        target = _own(fields.get("next"))
        if not site.door.locked:
            return Redirect(HOME, status_code=303)
        if not site.door.accepts(str(fields.get("token") or "")):
            await asyncio.sleep(WRONG_S)
            return site.page(request, "login", status=401, wrong=True, next=target)
        response = Redirect(target, status_code=303)
        response.cookies.append(
            Cookie(
                key=COOKIE, value=site.door.cookie(time.time()), path="/metalanchor", max_age=LASTS_S,
                httponly=True, samesite="strict",
            )
        )  # fmt: skip
        return response

    @post("/logout", summary="Forget the cookie", status_code=200)
    async def logout() -> Response[Any]:
        response = Redirect("/metalanchor/login", status_code=303)
        response.delete_cookie(COOKIE, path="/metalanchor")
        return response

    @get("/assets/{name:str}", summary="Style sheets and scripts of the pages", include_in_schema=False)
    async def asset(
        request: Request[Any, Any, Any], name: Annotated[str, Parameter(max_length=40)]
    ) -> Response[bytes]:
        if name not in ASSETS:
            raise NotFoundException("No such asset.")
        # The pages' addresses of them change with their content, so that nobody sees an old one.
        kept = request.query_params.get("v") == site.stamp
        headers = {"Cache-Control": FOREVER} if kept else {}
        return Response(site.assets[name], media_type=ASSETS[name], headers=headers)

    return [form, login, logout, asset]


def _own(target: Any) -> str:
    """A page of ours to go to, whatever was asked for."""
    return target if isinstance(target, str) and OWN.match(target) else HOME
