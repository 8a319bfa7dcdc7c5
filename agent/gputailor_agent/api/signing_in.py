"""Signing in with a token and out again, for browsers; programs send the token each time."""

import time

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from gputailor_agent.api import deciding
from gputailor_agent.api.desk import Desk
from gputailor_agent.api.doors import Doors
from gputailor_agent.api.doors.doorkeeper import visitor_of
from gputailor_agent.api.doors.doors import LOCKED
from gputailor_agent.api.doors.sessions import COOKIE, SESSION_SECONDS, begin
from gputailor_agent.api.pages import Pages, address, chosen_language, inside
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.languages import names


def add_signing_in(app: FastAPI, desk: Desk) -> None:
    """Add the page, its form and the way out."""
    pages, doors = desk.pages, desk.doors

    @app.get("/login", response_class=HTMLResponse, include_in_schema=False)
    def login_page(request: Request, next: str = "/") -> HTMLResponse:  # noqa: A002 - as addresses name it
        return login(request, pages, inside(next))

    @app.post("/login", include_in_schema=False)
    async def sign_in(request: Request) -> Response:
        fields = await deciding.form(request)
        onward = inside(fields.get("next", "/"))
        token = doors.signed_in(fields.get("token", ""))
        if token is None:
            fault = _("This token is not known here.")
            return login(request, pages, onward, fault=fault, status=401)
        if fields.get("lang") in names() and "?" not in onward:
            onward = address(onward, lang=fields["lang"])
        answer = RedirectResponse(onward, status_code=303)
        answer.set_cookie(
            COOKIE,
            begin(token, time.time()),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="lax",
            secure=secure(request, doors),
        )
        return answer

    @app.post("/logout", include_in_schema=False)
    async def sign_out(request: Request) -> Response:
        fields = await deciding.form(request)
        if not pages.marked(visitor_of(request), fields.get("mark", "")):
            raise HTTPException(status_code=403, detail=_("This form is not of this page."))
        onward = address("/login", lang=chosen_language(request.url.query))
        answer = RedirectResponse(onward, status_code=303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=secure(request, doors))
        return answer


def secure(request: Request, doors: Doors) -> bool:
    """Whether the browser speaks TLS, as far as is known: to us, or to a trusted proxy."""
    if request.url.scheme == "https":
        return True
    peer = request.client.host if request.client is not None else ""
    told = request.headers.getlist("x-forwarded-proto")
    return doors.proxies.trusts(peer) and told == ["https"]


def login(
    request: Request,
    pages: Pages,
    onward: str,
    *,
    fault: str = "",
    status: int = 200,
) -> HTMLResponse:
    """The page that asks for a token, or says that nobody can sign in."""
    return pages.html(
        request,
        "login.html",
        title=_("Sign in"),
        here="login",
        status=status,
        next=onward,
        fault=fault,
        locked=_(LOCKED.text),
    )
