"""The FastAPI application: pages for people, the API for programs, health and metrics.

Pages draw the same values as the console and the reports; ``/api/v1/…`` gives the same as
``--output json``, and each weekly report as it was made. Nothing is computed on a request beyond
laying out the latest plan. Live pages say when the plan was made and how scraping goes. Pages load
nothing from other hosts and escape every name: names come from the cluster's users.
"""

import logging
from http import HTTPStatus
from importlib import metadata, resources
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException as StarletteError

from gputailor_agent.api import words
from gputailor_agent.api.around import add_around
from gputailor_agent.api.changing import add_changing
from gputailor_agent.api.desk import Desk
from gputailor_agent.api.doors import Doors, Refusal
from gputailor_agent.api.doors.doorkeeper import Doorkeeper, visitor_of
from gputailor_agent.api.heads import HeadAsGet
from gputailor_agent.api.kept import Kept
from gputailor_agent.api.machine import add_machine
from gputailor_agent.api.pages import Pages, Speaking, address
from gputailor_agent.api.plans import Plans
from gputailor_agent.api.reading import add_reading
from gputailor_agent.api.signing_in import add_signing_in
from gputailor_agent.api.state import AgentState
from gputailor_agent.api.tagging import tagged
from gputailor_agent.api.workloads import add_workloads
from gputailor_agent.reports.catalogues import _
from gputailor_agent.store.database import StoreError

#: What the framework says of an address that there is not.
_UNKNOWN: Final = "Not Found"
_STATIC: Final = {
    "style.css": "text/css",
    "page.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
#: Whoever comes may read everything, and nobody may change anything: an agent on its own machine.
OPEN: Final = Doors()

log = logging.getLogger(__name__)


def create_app(state: AgentState, *, doors: Doors = OPEN, kept: Kept | None = None) -> FastAPI:
    """Build the application over a running agent's state.

    ``doors`` say who is let in; ``kept`` tells what the store has beside plans, without it pages
    show neither use by the hour nor nodes, and nothing can be dismissed.
    """
    app = FastAPI(
        title="GPU Tailor",
        description="What GPU workloads use, what to change and what it saves.",
        version=metadata.version("gputailor"),
        docs_url=None,  # the interactive page would load scripts from another host
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
    )
    desk = Desk(state=state, doors=doors, plans=Plans(state), pages=Pages(state, doors), kept=kept)
    add_reading(app, desk)
    add_around(app, desk)
    add_workloads(app, desk)
    add_machine(app, desk)
    add_changing(app, desk)
    add_signing_in(app, desk)
    _add_operations(app, state)
    _add_static(app)
    _add_errors(app, desk.pages)

    async def refuse(request: Request, refusal: Refusal) -> Response:
        return _refused(request, refusal, desk)

    app.add_middleware(Doorkeeper, doors=doors, refuse=refuse)
    app.add_middleware(Speaking)
    app.add_middleware(HeadAsGet)
    return app


def _add_operations(app: FastAPI, state: AgentState) -> None:
    @app.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        return Response(
            generate_latest(state.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    @app.get("/healthz", summary="The process answers", tags=["operations"])
    def healthz() -> PlainTextResponse:
        """200 as long as the process answers."""
        return PlainTextResponse("ok\n")

    @app.get("/readyz", summary="A report can be served", tags=["operations"])
    def readyz(request: Request) -> PlainTextResponse:
        """200 when a report can be served, else 503 with the reason.

        Troubles are listed too for those who may read the rest: they may name hosts and files.
        """
        why = state.not_ready()
        visitor = visitor_of(request)
        known = visitor is not None and visitor.scope.everything
        lines = [why or "ok", *(state.troubles() if known else ())]
        return PlainTextResponse("\n".join(lines) + "\n", status_code=503 if why else 200)


def _add_static(app: FastAPI) -> None:
    folder = resources.files("gputailor_agent.api") / "static"
    files = {name: (folder / name).read_bytes() for name in _STATIC}

    @app.get("/static/{name}", include_in_schema=False)
    def static(request: Request, name: str) -> Response:
        if name not in files:
            raise StarletteError(status_code=404)
        return tagged(request, files[name], _STATIC[name])


def _add_errors(app: FastAPI, pages: Pages) -> None:
    @app.exception_handler(StarletteError)
    async def http_error(request: Request, error: StarletteError) -> Response:
        what = error.detail
        if what == _UNKNOWN:
            path = request.url.path
            told = _("There is no page {path}.", path=path)
            what = told if _for_people(request) else f"{_UNKNOWN}: {path}"
        return _told(request, pages, error.status_code, what, dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def wrong(request: Request, error: RequestValidationError) -> Response:
        """What of an address cannot be used, without repeating it."""
        told = "; ".join(
            f"{'.'.join(str(part) for part in one['loc'][1:]) or 'request'}: {one['msg']}"
            for one in error.errors()[:5]
        )
        return _told(request, pages, 422, told, {})

    @app.exception_handler(StoreError)
    async def away(request: Request, error: StoreError) -> Response:
        log.debug("a page could not be shown: %s", error)  # the agent's jobs tell it, once
        text = _("The store does not answer just now; the agent goes on. Try again in a minute.")
        return _told(request, pages, 503, text, {"Retry-After": "60"})


def _told(
    request: Request, pages: Pages, status: int, what: str, headers: dict[str, str]
) -> Response:
    """A page for people who have a browser, JSON for everybody else."""
    if _for_people(request):
        page = pages.note(request, _title(status), words.note(what), status=status)
        page.headers.update(headers)
        return page
    return JSONResponse({"error": what}, status_code=status, headers=headers)


def _refused(request: Request, refusal: Refusal, desk: Desk) -> Response:
    """A browser that could sign in is led there; everybody else is told in words."""
    if (
        refusal.status == HTTPStatus.UNAUTHORIZED
        and _for_people(request)
        and desk.doors.can_sign_in
    ):
        onward = str(request.url.path)
        if request.method == "GET" and request.url.query:
            onward += f"?{request.url.query}"
        return RedirectResponse(address("/login", next=onward), status_code=303)
    headers = {"Cache-Control": "no-store"}
    if refusal.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="gputailor"'
    return _told(request, desk.pages, refusal.status, _(refusal.text), headers)


def _title(status: int) -> str:
    titles = {
        401: _("Who are you?"),
        403: _("Not for you"),
        404: _("Not found"),
        405: _("Not allowed"),
        503: _("Not yet"),
    }
    return titles.get(status, _("Error"))


def _for_people(request: Request) -> bool:
    wanted = "text/html" in request.headers.get("accept", "")
    return wanted and not request.url.path.startswith("/api/")
