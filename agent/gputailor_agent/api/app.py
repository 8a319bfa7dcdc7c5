"""The FastAPI application.

Pages (`/`, `/workloads/ID`) draw the same documents as the console; `/api/v1/...` gives the same
values as ``--output json``, and each weekly report as it was made. Nothing is computed on a request
beyond laying out the latest plan. Live pages say when the plan was made and how scraping goes. The
pages load nothing from other hosts, run no script, and escape every name: names come from the
cluster's users.
"""

from datetime import UTC, datetime
from importlib import metadata
from typing import Annotated, Final

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException as StarletteError

from gputailor_agent.api import found, running
from gputailor_agent.api.heads import HeadAsGet
from gputailor_agent.api.state import AgentState, KeptReport
from gputailor_agent.model.judgement import Plan, Verdict
from gputailor_agent.reports import explain_page, json_report, overview, plan_page, units
from gputailor_agent.reports.document import Bullets, Document, Heading, Paragraph, block_kind
from gputailor_agent.reports.explain import UnknownWorkloadError, explain, find_verdict
from gputailor_agent.reports.plurals import counted

_NO_PLAN: Final = "No report yet: the agent has not finished its first pass. Try again in a minute."
#: What the framework says of an address that there is not.
_UNKNOWN: Final = "Not Found"
_TITLES: Final = {404: "Not found", 405: "Not allowed", 503: "Not yet"}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

#: Weekly reports that the page links to; the API lists all of them.
_LINKED_REPORTS: Final = 8

WorkloadId = Annotated[
    str, PathParameter(description="Workload id, or a beginning only one has", max_length=1024)
]
Period = Annotated[
    str, PathParameter(description="When it was due, e.g. 2026-01-05T07:00", max_length=32)
]


def create_app(state: AgentState) -> FastAPI:
    """Build the application over a running agent's state."""
    app = FastAPI(
        title="GPU Tailor",
        description="What GPU workloads use, what to change and what it saves.",
        version=metadata.version("gputailor"),
        docs_url=None,  # the interactive page would load scripts from another host
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
    )
    pages = _Pages(state)
    _add_pages(app, state, pages)
    _add_api(app, state)
    _add_running(app, state)
    _add_operations(app, state)
    _add_errors(app, pages)
    app.add_middleware(HeadAsGet)
    return app


class _Pages:
    """Documents as HTML, with what the agent is doing below the title."""

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._environment = Environment(
            loader=PackageLoader("gputailor_agent.api"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.tests["kind"] = lambda block, kind: block_kind(block) == kind
        self._page = self._environment.get_template("page.html")

    def html(self, document: Document, *, back: bool = False, status: int = 200) -> HTMLResponse:
        kept = [] if back else self._state.reports()[:_LINKED_REPORTS]
        body = self._page.render(
            document=document, back=back, status=_status(self._state), reports=kept
        )
        return HTMLResponse(body, status_code=status, headers=_HEADERS)


def _add_pages(app: FastAPI, state: AgentState, pages: _Pages) -> None:
    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def report_page() -> HTMLResponse:
        plan = state.latest_plan()
        if plan is None:
            return pages.html(_note("GPU Tailor", _NO_PLAN), status=503)
        return pages.html(plan_page.compose(plan))

    @app.get("/workloads/{workload_id:path}", response_class=HTMLResponse, include_in_schema=False)
    def workload_page(workload_id: WorkloadId) -> HTMLResponse:
        plan = state.latest_plan()
        if plan is None:
            return pages.html(_note("GPU Tailor", _NO_PLAN), status=503)
        try:
            verdict = find_verdict(plan, workload_id)
        except UnknownWorkloadError as error:
            return pages.html(_note("Not found", str(error)), back=True, status=404)
        return pages.html(explain_page.compose(explain(plan, verdict, state.rules)), back=True)


def _status(state: AgentState) -> str:
    """What the agent is doing, in a line or two; times to the second, in UTC."""
    plan, scraped = state.latest_plan(), state.last_round()
    parts = []
    if plan is not None:
        parts.append(f"Made at {_clock(plan.made_at)}.")
    if scraped is not None:
        asked = scraped.answered + scraped.failed
        parts.append(
            f"Last scrape at {_clock(scraped.at)}: {scraped.answered} of "
            f"{counted(asked, 'exporter')} answered."
        )
    return " ".join(parts)


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _note(title: str, text: str) -> Document:
    """A page that says why there is no other; further lines of the text become a list."""
    first, *more = text.splitlines()
    listed = (Bullets(lines=tuple(line.strip() for line in more)),) if more else ()
    return Document(
        title=title, blocks=(Heading(text=title, level=1), Paragraph(text=first), *listed)
    )


def _add_api(app: FastAPI, state: AgentState) -> None:
    @app.get("/api/v1/report", summary="The whole report", tags=["report"])
    def report() -> Response:
        """Totals, sentences and the plan; the shape is that of ``--output json``."""
        return _json(json_report.encode(json_report.plan_document(_plan(state))))

    @app.get("/api/v1/workloads", summary="All workloads, what saves most first", tags=["report"])
    def workloads() -> Response:
        """One entry per workload: state, headline, saving."""
        lines = overview.lines(_plan(state))
        texts = tuple(json_report.workload_text(line) for line in lines)
        return _json(json_report.encode_list(texts))

    @app.get("/api/v1/findings", summary="What to change, by workload", tags=["report"])
    def findings() -> Response:
        """The first finding of each workload, what saves most first; money where it is known."""
        return _json(found.encode(found.findings(_plan(state))))

    @app.get("/api/v1/workloads/{workload_id:path}", summary="Why a verdict", tags=["report"])
    def workload(workload_id: WorkloadId) -> Response:
        """Everything every rule said about a workload, with its numbers."""
        plan = _plan(state)
        document = json_report.ExplanationDocument(
            explanation=explain(plan, _verdict(plan, workload_id), state.rules)
        )
        return _json(json_report.encode(document))

    @app.get("/api/v1/reports", summary="Weekly reports that are kept", tags=["report"])
    def reports() -> dict[str, list[dict[str, str | None]]]:
        """Newest first; each is kept 400 days."""
        return {"reports": [_kept(one) for one in state.reports()]}

    @app.get("/api/v1/reports/{period}", summary="A weekly report as made", tags=["report"])
    def kept_report(period: Period) -> Response:
        """The shape is that of `/api/v1/report` when the report was made."""
        return _json(_report(state, period)[0])

    @app.get("/api/v1/reports/{period}/markdown", summary="The same to read", tags=["report"])
    def kept_markdown(period: Period) -> Response:
        """Markdown."""
        return Response(_report(state, period)[1], media_type="text/markdown")


def _kept(report: KeptReport) -> dict[str, str | None]:
    return {
        "period": report.period,
        "made_at": units.iso(report.made_at),
        "window_start": units.iso(report.window.start),
        "window_end": units.iso(report.window.end),
        "json": f"/api/v1/reports/{report.period}",
        "markdown": f"/api/v1/reports/{report.period}/markdown",
    }


def _report(state: AgentState, period: str) -> tuple[str, str]:
    found = state.report(period)
    if found is None:
        names = ", ".join(one.period for one in state.reports()[:_LINKED_REPORTS]) or "none yet"
        raise HTTPException(
            status_code=404, detail=f"no report of {period!r} is kept; there is: {names}"
        )
    return found


def _plan(state: AgentState) -> Plan:
    plan = state.latest_plan()
    if plan is None:
        raise HTTPException(status_code=503, detail=_NO_PLAN, headers={"Retry-After": "60"})
    return plan


def _verdict(plan: Plan, workload_id: str) -> Verdict:
    try:
        return find_verdict(plan, workload_id)
    except UnknownWorkloadError as error:
        raise HTTPException(status_code=404, detail=str(error)) from error


def _json(body: str) -> Response:
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})


def _add_running(app: FastAPI, state: AgentState) -> None:
    @app.get("/api/v1/tasks", summary="The agent's jobs", tags=["operations"])
    def tasks() -> Response:
        """How each went last, and when it comes next."""
        return _json(running.tasks_document(state.tasks()))

    @app.get("/api/v1/ledger", summary="What became of findings", tags=["report"])
    def ledger() -> Response:
        """Each finding's life, what was foretold and what came of it; precision by rule."""
        return _json(running.ledger_document(*state.ledger()))


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
    def readyz() -> PlainTextResponse:
        """200 when a report can be served, else 503 with the reason; troubles are listed too."""
        why = state.not_ready()
        lines = [why or "ok", *state.troubles()]
        return PlainTextResponse("\n".join(lines) + "\n", status_code=503 if why else 200)


def _add_errors(app: FastAPI, pages: _Pages) -> None:
    @app.exception_handler(StarletteError)
    async def http_error(request: Request, error: StarletteError) -> Response:
        """A page for people who have a browser, JSON for everybody else."""
        what = f"{error.detail}: {request.url.path}" if error.detail == _UNKNOWN else error.detail
        if "text/html" in request.headers.get("accept", "") and not _for_machines(request):
            page = pages.html(_note(_TITLES.get(error.status_code, "Error"), what), back=True)
            page.status_code = error.status_code
            page.headers.update(error.headers or {})
            return page
        return JSONResponse({"error": what}, status_code=error.status_code, headers=error.headers)


def _for_machines(request: Request) -> bool:
    return request.url.path.startswith("/api/")
