"""Asks who comes before anything is answered, and puts the same security headers on every answer.

Pages load styles and one script from here and nothing from elsewhere; no other site may frame them,
post to them or read them.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import Request, Response
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gputailor_agent.api.doors.doors import Doors, Refusal
from gputailor_agent.api.doors.scopes import Visitor
from gputailor_agent.reports.catalogues import _

log = logging.getLogger(__name__)

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # same-origin and not none: a form's Origin would be "null" then, which could be anybody's
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
#: Answered to everybody: probes and Prometheus bring no token. No page of them names a workload but
#: ``/metrics``; static files are the same for all.
OPEN: Final = frozenset({"/healthz", "/readyz", "/metrics", "/login"})
OPEN_FOLDER: Final = "/static/"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_MIXED: Final = Refusal(status=403, text=_("This came from a page of another site."))

Refuse = Callable[[Request, Refusal], Awaitable[Response]]


class Doorkeeper:
    """Middleware: finds the visitor, refuses, or hands on; ``refuse`` writes the refusal."""

    def __init__(self, app: ASGIApp, doors: Doors, refuse: Refuse) -> None:
        self._app = app
        self._doors = doors
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._enter(scope)
        if refusal is None:
            await self._app(scope, receive, guarded)
            return
        answer = await self._refuse(Request(scope, receive), refusal)
        await answer(scope, receive, guarded)

    def _enter(self, scope: Scope) -> Refusal | None:
        """Write the visitor down; a refusal where there is none and the address is not open."""
        peer = scope["client"][0] if scope.get("client") else ""
        found = self._doors.visitor(peer, scope["headers"], time.time())
        state = scope.setdefault("state", {})
        known = isinstance(found, Visitor)
        state["visitor"] = found if known else None
        if scope["method"] not in _SAFE and _from_elsewhere(scope):
            return _MIXED
        path = scope["path"]
        if known or path in OPEN or path.startswith(OPEN_FOLDER):
            return None
        assert isinstance(found, Refusal)
        log.info("refused %s from %s: %s", path[:200].encode(), peer, found.text)
        return found


def visitor_of(request: Request) -> Visitor | None:
    """Who asks; None on an open address where nobody was let in."""
    visitor: Visitor | None = request.state.visitor
    return visitor


def _from_elsewhere(scope: Scope) -> bool:
    """Whether the browser says that another site's page made this request."""
    told = {name: value.decode("latin-1").strip().lower() for name, value in scope["headers"]}
    site = told.get(b"sec-fetch-site", "")
    if site:  # only a browser sets it, and a page cannot change it
        return site not in {"same-origin", "none"}
    origin = told.get(b"origin")
    return origin is not None and origin.partition("://")[2] != told.get(b"host", "")
