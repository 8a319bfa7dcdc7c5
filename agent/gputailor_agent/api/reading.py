"""The overview, and the table of workloads."""

from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse

from gputailor_agent.api import cells, words
from gputailor_agent.api.desk import Desk, whole_cluster
from gputailor_agent.api.filters import Asked, Number, whole
from gputailor_agent.api.listing import Index, Question
from gputailor_agent.api.pages import address, chosen_language
from gputailor_agent.api.state import AgentState
from gputailor_agent.model.judgement import Message
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.changes_page import headline_of
from gputailor_agent.reports.cluster import cluster_blocks, demand_text
from gputailor_agent.reports.document import Block, Heading
from gputailor_agent.reports.explain import rule_title
from gputailor_agent.reports.overview import STATES, state_word
from gputailor_agent.reports.plan_page import capacity_table
from gputailor_agent.reports.wording import say

#: Entries of the overview; the table has all of them.
_TOP: Final = 7
#: What costs most, whatever is said of it.
_DEAR: Final = Question(sort="cost", descending=True)
_MOST: Final = 10
_SIZES: Final = (25, 50, 100, 250)


def add_reading(app: FastAPI, desk: Desk) -> None:
    """Add the overview and the table of workloads."""

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def overview_page(request: Request) -> HTMLResponse:
        index = desk.find(request)
        return desk.missing(request) if index is None else _overview(request, desk, index)

    @app.get("/workloads", response_class=HTMLResponse, include_in_schema=False)
    def workloads_page(
        request: Request, asked: Asked, page: Number = "1", size: Number = ""
    ) -> HTMLResponse:
        index = desk.find(request)
        if index is None:
            return desk.missing(request)
        return _table(request, desk, index, asked.lenient(), whole(page, 1), size=_size(size))


def _size(text: str) -> int:
    asked = whole(text, words.PER_PAGE)
    return asked if asked in _SIZES else words.PER_PAGE


def _overview(request: Request, desk: Desk, index: Index) -> HTMLResponse:
    plan = index.plan
    first = index.page(Question(), 1, _TOP).verdicts  # what asks for a change comes first
    found = [cells.row(overview.line_of(one)) for one in first if one.state == "finding"]
    key = "report.nothing_to_do" if overview.judged(plan) else "report.not_judged"
    demand = demand_text(plan)
    checks, hold = words.checks(index)
    capacity = capacity_table(index.plan)
    blocks: list[Block] = list(cluster_blocks(plan))
    if capacity is not None:
        blocks += [Heading(text=_("GPUs by model")), capacity]
    return desk.pages.html(
        request,
        "overview.html",
        title=_("GPU Tailor report: {name}", name=plan.cluster),
        here="overview",
        window=overview.window_text(plan.window),
        headline=headline_of(plan, index.totals, index.findings),
        totals=[
            *overview.totals_text(index.totals),
            *([(_("pods that wait"), demand)] if demand else []),
        ],
        found=found,
        nothing=say(Message(key=key)),
        states=words.states(index),
        dear=[
            cells.row(overview.line_of(one), per="") for one in index.page(_DEAR, 1, _MOST).verdicts
        ],
        columns=_columns(),
        titles={name: title for name, title, _shape in _columns()},
        missing=overview.problems(plan),
        blocks=blocks,
        checks=checks,
        checks_hold=hold,
        reports=kept_reports(desk.state) if whole_cluster(request) else [],
    )


def kept_reports(state: AgentState) -> list[dict[str, str]]:
    """Kept reports as the pages list them, newest first."""
    return [
        {
            "period": one.period,
            "text": one.period.replace("T", " "),
            "made_at": units.utc(one.made_at),
            "window": overview.window_text(one.window),
        }
        for one in state.reports()
    ]


def _table(
    request: Request, desk: Desk, index: Index, question: Question, number: int, *, size: int
) -> HTMLResponse:
    answer = index.page(question, number, size)
    number = answer.start // size + 1
    asked = _asked(request, question, size)
    links = words.page_links(
        number,
        answer.total,
        size,
        lambda page: address("/workloads", **asked, page="" if page == 1 else page),
    )
    last = max(1, -(-answer.total // size))
    return desk.pages.html(
        request,
        "workloads.html",
        title=_("Workloads"),
        here="workloads",
        question=question,
        sort=question.order,
        size=size,
        found=_found(index, answer.total),
        rows=[cells.row(overview.line_of(one), per="") for one in answer.verdicts],
        caption=_("Mean kernel activity is of the observed time; cost is of the window."),
        nothing=_("None of the {all} workloads fits.", all=units.count(len(index)))
        if len(index)
        else say(Message(key="report.no_workloads")),
        sorts=_sorts(asked, question),
        columns=_columns(),
        titles={name: title for name, title, _shape in _columns()},
        pager=words.pager(links) if last > 1 else [],
        place=_("Page {page} of {pages}", page=units.count(number), pages=units.count(last)),
        **_choices(index, question),
    )


def _found(index: Index, total: int) -> str:
    if total == len(index):
        return words.states(index)
    return _(
        "{found} of {all} workloads fit.", found=units.count(total), all=units.count(len(index))
    )


def _asked(request: Request, question: Question, size: int) -> dict[str, Any]:
    """What an address of the same table has, without the page."""
    return {
        "q": question.text,
        **{
            name: getattr(question, name)
            for name in ("state", "namespace", "team", "kind", "task", "rule")
        },
        "sort": "" if question.order == "report" else question.order,
        "size": "" if size == words.PER_PAGE else size,
        "lang": chosen_language(request.url.query),
    }


def _columns() -> list[tuple[str, str, str]]:
    """Columns: how they are asked for, title, and shape."""
    return [
        ("name", _("workload"), "wide wider"),
        ("state", _("state"), ""),
        ("team", _("team"), ""),
        ("gpus", _("GPUs"), "number"),
        ("models", _("model"), "wide"),
        ("use", _("kernel"), "number"),
        ("memory", _("memory peak"), "number"),
        ("observed", _("observed"), "number"),
        ("cost", _("cost"), "number"),
        ("saving", _("saving per month"), "number"),
        ("why", _("why"), "why"),
    ]


#: Columns whose large values come first at the first click.
_LARGE_FIRST: Final = frozenset({"gpus", "memory", "cost", "saving", "hours"})


def _sorts(asked: dict[str, Any], question: Question) -> dict[str, dict[str, str]]:
    made = {}
    for name in ("name", "state", "gpus", "use", "memory", "observed", "cost", "saving"):
        now = question.sort == name
        down = not question.descending if now else name in _LARGE_FIRST
        made[name] = {
            "link": address("/workloads", **asked | {"sort": f"-{name}" if down else name}),
            "now": ("descending" if question.descending else "ascending") if now else "",
        }
    return made


def _choices(index: Index, question: Question) -> dict[str, Any]:
    orders = [
        ("report", _("as in the report")),
        ("-saving", _("largest saving first")),
        ("-cost", _("highest cost first")),
        ("-gpus", _("most GPUs first")),
        ("use", _("least use first")),
        ("observed", _("least observed first")),
        ("name", _("by name")),
    ]
    if question.order not in dict(orders):
        title = {name: title for name, title, _shape in _columns()}.get(question.sort, "")
        orders.append((question.order, _("by {column}", column=title or question.sort)))
    return {
        "state_choices": [(state, state_word(state)) for state in STATES],
        "namespace_choices": _named(index.namespaces, question.namespace),
        "team_choices": _named(index.teams, question.team),
        "rule_choices": [
            (rule, rule_title(rule)) for rule, _same in _named(index.rules, question.rule)
        ],
        "size_choices": [(str(size), str(size)) for size in _SIZES],
        "sort_choices": orders,
    }


def _named(known: list[str], chosen: tuple[str, ...]) -> list[tuple[str, str]]:
    """Names to choose from, with those that are chosen though they are not among them."""
    return [(name, name) for name in [*known, *(one for one in chosen if one not in known)]]
