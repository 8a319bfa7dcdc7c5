"""The API under ``/api/v1``: the plan, workloads and findings, nodes, coverage, reports, ledger.

Lists are paged by a cursor, which stays right while workloads come and go; each answer has an ETag.
Fields are added within a version, never taken away.
"""

from typing import Annotated, Any, Final

import msgspec
from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi import Path as PathParameter

from gputailor_agent.api import coverage, found, nodes, packed, running
from gputailor_agent.api.desk import Desk, only_whole, whole_cluster
from gputailor_agent.api.filters import Asked, FilterError, Filters, Search
from gputailor_agent.api.listing import LARGEST_PAGE, Answer, CursorError, Index
from gputailor_agent.api.pages import address
from gputailor_agent.api.state import AgentState, KeptReport
from gputailor_agent.api.tagging import tagged
from gputailor_agent.api.workloads import WorkloadId
from gputailor_agent.model.judgement import Plan, Verdict
from gputailor_agent.reports import json_report, overview, units
from gputailor_agent.reports.explain import UnknownWorkloadError, explain, find_verdict

_NAMED: Final = 8

Period = Annotated[
    str, PathParameter(description="When it was due, e.g. 2026-01-05T07:00", max_length=32)
]
Limit = Annotated[int, Query(description="Entries of a page", ge=1, le=LARGEST_PAGE)]
Cursor = Annotated[str, Query(description="`next` of the page before", max_length=4096)]


def add_machine(app: FastAPI, desk: Desk) -> None:
    """Add every address that programs read."""
    _add_plan(app, desk)
    _add_lists(app, desk)
    _add_around(app, desk)
    _add_reports(app, desk.state)


def _add_plan(app: FastAPI, desk: Desk) -> None:
    @app.get("/api/v1/report", summary="The whole report", tags=["report"])
    def report(request: Request) -> Response:
        """Totals, sentences and the plan; the shape is that of ``--output json``."""
        return packed.answer(request, desk.index(request).reports.get())

    @app.get("/api/v1/plan", summary="The newest plan in short", tags=["report"])
    def plan_in_short(request: Request) -> Response:
        """Window, totals, capacity, cost, checks, free pools and what waits; no workloads."""
        index = desk.index(request)
        return tagged(request, _encode(_short(index)))

    @app.get("/api/v1/workloads/{workload_id:path}", summary="Why a verdict", tags=["report"])
    def workload(request: Request, workload_id: WorkloadId) -> Response:
        """Everything every rule said about a workload, with its numbers."""
        plan = desk.index(request).plan
        document = json_report.ExplanationDocument(
            explanation=explain(plan, _verdict(plan, workload_id), desk.state.rules)
        )
        return tagged(request, json_report.encode(document))


def _short(index: Index) -> dict[str, Any]:
    plan = index.plan
    return {
        "cluster": plan.cluster,
        "made_at": units.iso(plan.made_at),
        "window_start": units.iso(plan.window.start),
        "window_end": units.iso(plan.window.end),
        "totals": index.totals,
        "capacity": plan.capacity,
        "cost": plan.cost,
        "checks": plan.checks,
        "free_pools": plan.free_pools,
        "waiting": plan.waiting,
        "problems": plan.problems,
        "sources": plan.sources,
    }


def _add_lists(app: FastAPI, desk: Desk) -> None:
    @app.get("/api/v1/workloads", summary="Workloads, filtered and sorted", tags=["report"])
    def workloads(
        request: Request, asked: Asked, limit: Limit = 100, cursor: Cursor = ""
    ) -> Response:
        """One entry per workload: state, headline, saving. ``next`` is the address to go on."""
        index = desk.index(request)
        answer = _answer(index, asked, cursor, limit)
        texts = tuple(json_report.workload_text(overview.line_of(one)) for one in answer.verdicts)
        return _listed(request, answer, json_report.SCHEMA_VERSION, {"workloads": texts})

    @app.get("/api/v1/findings", summary="What to change, by workload", tags=["report"])
    def findings(
        request: Request, asked: Asked, limit: Limit = 100, cursor: Cursor = ""
    ) -> Response:
        """The first finding of each workload, what saves most first; money where it is known."""
        index = desk.index(request)
        answer = _answer(index, asked, cursor, limit, state="finding")
        told = {"findings": found.found(answer.verdicts)}
        return _listed(request, answer, found.SCHEMA_VERSION, told, made_at=index.plan.made_at)


def _answer(index: Index, asked: Filters, cursor: str, limit: int, *, state: str = "") -> Answer:
    try:
        return index.after(asked.question(state=state), cursor, limit)
    except (CursorError, FilterError) as error:
        raise HTTPException(status_code=422, detail=str(error)) from error


def _listed(
    request: Request,
    answer: Answer,
    version: str,
    entries: dict[str, tuple[Any, ...]],
    **more: Any,
) -> Response:
    """A page of a list, with the address of the next one, in the body and as a Link header."""
    onward = ""
    if answer.after:
        kept = [one for one in request.query_params.multi_items() if one[0] != "cursor"]
        query: dict[str, Any] = {}
        for key, value in kept:
            query.setdefault(key, []).append(value)
        onward = address(request.url.path, **query, cursor=answer.after)
    body = {
        "schema_version": version,
        **entries,
        "total": answer.total,
        "next": onward or None,
        **more,
    }
    headers = {"Link": f'<{onward}>; rel="next"'} if onward else {}
    return tagged(request, _encode(body), headers=headers)


def _encode(body: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode() + "\n"


def _add_around(app: FastAPI, desk: Desk) -> None:
    @app.get("/api/v1/nodes", summary="Nodes and what is free on them", tags=["cluster"])
    def nodes_list(request: Request) -> Response:
        """Every node with accelerators, and capacity by model; null is unknown."""
        only_whole(request)
        plan = desk.index(request).plan
        known = [] if desk.kept is None else desk.kept.nodes(plan.made_at)
        body = {
            "schema_version": "1.0",
            "nodes": [nodes.line(one) for one in known],
            "capacity": plan.capacity,
            "free_pools": plan.free_pools,
        }
        return tagged(request, _encode(body))

    @app.get("/api/v1/coverage", summary="What is known and what is not", tags=["cluster"])
    def coverage_of_plan(request: Request) -> Response:
        """How much was observed, which signals are missing, which rules are silent for it."""
        told = coverage.coverage_map(desk.index(request))
        body = {"schema_version": "1.0", **msgspec.to_builtins(told)}
        return tagged(request, _encode(body))

    @app.get("/api/v1/tasks", summary="The agent's jobs", tags=["operations"])
    def tasks(request: Request) -> Response:
        """How each went last, and when it comes next."""
        only_whole(request)
        return tagged(request, running.tasks_document(desk.state.tasks()))

    @app.get("/api/v1/ledger", summary="What became of findings", tags=["report"])
    def ledger(request: Request, workload: Search = "") -> Response:
        """Each finding's life, what was foretold and what came of it; precision by rule."""
        entries, records = desk.state.ledger()
        if not whole_cluster(request):
            index = desk.find(request)
            seen = {one.workload.id for one in index.plan.verdicts} if index else set()
            entries, records = [one for one in entries if one.workload_id in seen], []
        if workload:
            entries = [one for one in entries if one.workload_id == workload]
        return tagged(request, running.ledger_document(entries, records))


def _add_reports(app: FastAPI, state: AgentState) -> None:
    @app.get("/api/v1/reports", summary="Weekly reports that are kept", tags=["report"])
    def reports(request: Request) -> Response:
        """Newest first; each is kept 400 days."""
        only_whole(request)
        return tagged(request, _encode({"reports": [_kept(one) for one in state.reports()]}))

    @app.get("/api/v1/reports/{period}", summary="A weekly report as made", tags=["report"])
    def kept_report(request: Request, period: Period) -> Response:
        """The shape is that of `/api/v1/report` when the report was made."""
        return tagged(request, _report(request, state, period)[0])

    @app.get("/api/v1/reports/{period}/markdown", summary="The same to read", tags=["report"])
    def kept_markdown(request: Request, period: Period) -> Response:
        """Markdown."""
        return tagged(request, _report(request, state, period)[1], "text/markdown")


def _kept(report: KeptReport) -> dict[str, str | None]:
    return {
        "period": report.period,
        "made_at": units.iso(report.made_at),
        "window_start": units.iso(report.window.start),
        "window_end": units.iso(report.window.end),
        "json": f"/api/v1/reports/{report.period}",
        "markdown": f"/api/v1/reports/{report.period}/markdown",
    }


def _report(request: Request, state: AgentState, period: str) -> tuple[str, str]:
    only_whole(request)
    made = state.report(period)
    if made is None:
        names = ", ".join(one.period for one in state.reports()[:_NAMED]) or "none yet"
        raise HTTPException(
            status_code=404, detail=f"no report of {period!r} is kept; there is: {names}"
        )
    return made


def _verdict(plan: Plan, workload_id: str) -> Verdict:
    try:
        return find_verdict(plan, workload_id)
    except UnknownWorkloadError as error:
        raise HTTPException(status_code=404, detail=str(error)) from error
