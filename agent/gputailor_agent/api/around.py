"""Pages beside workloads: nodes and free capacity, coverage, and the archive of reports."""

from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse

from gputailor_agent.api import coverage, nodes, words
from gputailor_agent.api.desk import Desk, hidden, whole_cluster
from gputailor_agent.api.filters import Number, whole
from gputailor_agent.api.listing import Index
from gputailor_agent.api.pages import address, chosen_language
from gputailor_agent.api.reading import kept_reports
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.cluster import cluster_blocks
from gputailor_agent.reports.document import Block, Code, Heading
from gputailor_agent.reports.plan_page import capacity_table
from gputailor_agent.reports.plurals import counted

_LONGEST_PERIOD: Final = 32


def add_around(app: FastAPI, desk: Desk) -> None:
    """Add the pages."""

    @app.get("/nodes", response_class=HTMLResponse, include_in_schema=False)
    def nodes_page(request: Request, page: Number = "1") -> HTMLResponse:
        index = desk.find(request)
        return desk.missing(request) if index is None else _nodes(request, desk, index, page)

    @app.get("/coverage", response_class=HTMLResponse, include_in_schema=False)
    def coverage_page(request: Request) -> HTMLResponse:
        return _coverage(request, desk)

    @app.get("/reports", response_class=HTMLResponse, include_in_schema=False)
    def reports_page(request: Request) -> HTMLResponse:
        seen = whole_cluster(request)
        return desk.pages.html(
            request,
            "reports.html",
            title=_("Weekly reports"),
            here="reports",
            hidden="" if seen else hidden(),
            reports=kept_reports(desk.state) if seen else [],
        )

    @app.get("/reports/{period}", response_class=HTMLResponse, include_in_schema=False)
    def report_page(request: Request, period: str) -> HTMLResponse:
        return _report(request, desk, period)


def _nodes(request: Request, desk: Desk, index: Index, page: str) -> HTMLResponse:
    blocks: list[Block] = []
    capacity = capacity_table(index.plan)
    if capacity is not None:
        blocks += [Heading(text=_("GPUs by model")), capacity]
    blocks += cluster_blocks(index.plan)
    seen = whole_cluster(request)
    known = desk.kept.nodes(index.plan.made_at) if seen and desk.kept is not None else []
    last = max(1, -(-len(known) // nodes.PER_PAGE))
    number = min(max(1, whole(page, 1)), last)
    lang = chosen_language(request.url.query)
    links = words.page_links(
        number, len(known), nodes.PER_PAGE, lambda one: address("/nodes", page=one, lang=lang)
    )
    start = (number - 1) * nodes.PER_PAGE
    shown = [nodes.line(one) for one in known[start : start + nodes.PER_PAGE]]
    return desk.pages.html(
        request,
        "nodes.html",
        title=_("Nodes and free capacity"),
        here="nodes",
        hidden="" if seen else hidden(),
        blocks=blocks,
        found=_("{nodes} with accelerators.", nodes=counted(len(known), "node")),
        nodes=nodes.table(shown),
        pager=words.pager(links) if last > 1 else [],
        place=_("Page {page} of {pages}", page=number, pages=last),
    )


def _coverage(request: Request, desk: Desk) -> HTMLResponse:
    index = desk.find(request)
    blocks: list[Block] = []
    if index is not None:
        blocks += coverage.blocks(coverage.coverage_map(index))
    else:
        blocks += words.note(words.no_plan())
    if whole_cluster(request):
        blocks += coverage.jobs(desk.state.tasks(), desk.state.troubles())
    title = _("What is known, and what is not")
    return desk.pages.html(
        request, "document.html", title=title, here="coverage", blocks=blocks, back=False
    )


def _report(request: Request, desk: Desk, period: str) -> HTMLResponse:
    if not whole_cluster(request):
        return desk.pages.note(request, _("Not for you"), words.note(hidden()), status=403)
    found = desk.state.report(period) if len(period) <= _LONGEST_PERIOD else None
    if found is None:
        text = words.note(_("No such report is kept."))
        return desk.pages.note(request, _("Not found"), text, status=404)
    title = _("Report of {period} UTC", period=period.replace("T", " "))
    blocks = (Code(text=found[1], language="markdown"),)
    return desk.pages.html(
        request, "document.html", title=title, here="reports", blocks=blocks, back=False
    )
