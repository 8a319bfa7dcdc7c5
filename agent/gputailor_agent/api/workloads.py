"""A workload's page, and what is posted from it."""

import time
from typing import Annotated

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from gputailor_agent.api import deciding, words, workload_page
from gputailor_agent.api.desk import Desk, visitor
from gputailor_agent.api.doors import Doors, Visitor
from gputailor_agent.api.kept import Kept
from gputailor_agent.api.pages import address, chosen_language, quoted
from gputailor_agent.model.judgement import Plan, Verdict
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.explain import UnknownWorkloadError, find_verdict

WorkloadId = Annotated[
    str, PathParameter(description="Workload id, or a beginning only one has", max_length=1024)
]


def add_workloads(app: FastAPI, desk: Desk) -> None:
    """Add the page and its form."""

    @app.get("/workloads/{workload_id:path}", response_class=HTMLResponse, include_in_schema=False)
    def workload_page_of(request: Request, workload_id: WorkloadId, done: str = "") -> HTMLResponse:
        index = desk.find(request)
        if index is None:
            return desk.missing(request)
        try:
            verdict = find_verdict(index.plan, workload_id)
        except UnknownWorkloadError as error:
            return desk.pages.note(request, _("Not found"), words.note(str(error)), status=404)
        return _page(request, desk, index.plan, verdict, done=done)

    @app.post("/workloads/{workload_id:path}", include_in_schema=False)
    async def decide(request: Request, workload_id: WorkloadId) -> Response:
        fields = await deciding.form(request)
        return await run_in_threadpool(_decide, request, desk, workload_id, fields)


def _decide(request: Request, desk: Desk, workload_id: str, fields: dict[str, str]) -> Response:
    who = visitor(request)
    plan = desk.index(request).plan
    kept = may_write(who, desk)
    if not desk.pages.marked(who, fields.get("mark", "")):
        raise HTTPException(
            status_code=403,
            detail=_("This form is too old or not of this page: load the page and try again."),
        )
    verdict = exactly(plan, workload_id)
    try:
        done = _done(kept, fields, verdict, who)
    except deciding.DecisionError as error:
        return _page(request, desk, plan, verdict, fault=str(error))
    path = f"/workloads/{quoted(verdict.workload.id)}"
    chosen = chosen_language(request.url.query)
    return RedirectResponse(address(path, done=done, lang=chosen), status_code=303)


def may_write(who: Visitor, desk: Desk) -> Kept:
    """Where decisions are kept; raises 403 where the one who asks may change nothing here."""
    if not who.write:
        raise HTTPException(
            status_code=403,
            detail=_("Nothing can be changed without a token or a user's name that may do so."),
        )
    if desk.kept is None:
        raise HTTPException(status_code=409, detail=_("This agent keeps no decisions."))
    return desk.kept


def exactly(plan: Plan, workload_id: str) -> Verdict:
    """The verdict of a whole id; raises 404. Nothing is changed by a part of a name."""
    for verdict in plan.verdicts:
        if verdict.workload.id == workload_id:
            return verdict
    raise HTTPException(status_code=404, detail=_("There is no such workload."))


def _done(kept: Kept, fields: dict[str, str], verdict: Verdict, visitor: Visitor) -> str:
    """Do what a form asks; returns what was done."""
    rule = deciding.known_rule(fields.get("rule", ""))
    if fields.get("do") == "withdraw":
        kept.withdraw(verdict.workload.id, rule)
        return "withdrawn"
    if fields.get("do") != "dismiss":
        raise deciding.DecisionError(_("Expected to dismiss or to take back."))
    asked = deciding.Asked(
        workload=verdict.workload.id,
        rule=rule,
        reason=fields.get("reason", ""),
        until=fields.get("until") or None,
    )
    made = deciding.dismissal(asked, visitor, time.time())
    deciding.check_there(rule, kept.decidable(verdict))
    kept.decide(made)
    return "dismissed"


def _page(
    request: Request,
    desk: Desk,
    plan: Plan,
    verdict: Verdict,
    *,
    done: str = "",
    fault: str = "",
) -> HTMLResponse:
    who, kept, rules = visitor(request), desk.kept, desk.state.rules
    identity = verdict.workload.id
    can_write = who.write and kept is not None
    entries = [one for one in desk.state.ledger()[0] if one.workload_id == identity]
    decisions = kept.decisions() if kept is not None else []
    chosen = chosen_language(request.url.query)
    return desk.pages.html(
        request,
        "workload.html",
        title=identity,
        here="workload",
        status=422 if fault else 200,
        sections=workload_page.sections(plan, verdict, rules, decisions),
        ledger=workload_page.ledger(entries),
        can_write=can_write,
        cannot_write=_cannot_write(desk.doors, who),
        action=address(f"/workloads/{quoted(identity)}", lang=chosen),
        done=_told(done),
        fault=fault,
        **workload_page.values(plan, verdict, rules),
        **workload_page.of_store(kept, plan, verdict.workload),
    )


def _told(done: str) -> str:
    return {
        "dismissed": _("Dismissed. The next plan minds it."),
        "withdrawn": _("Taken back. The next plan minds it."),
    }.get(done, "")


def _cannot_write(doors: Doors, visitor: Visitor) -> str:
    """How somebody who cannot dismiss here could."""
    if visitor.name:
        return _("{name} may read and change nothing.", name=visitor.name)
    if doors.can_sign_in:
        return _("Sign in to dismiss advice.")
    return _(
        "Advice is dismissed by: gputailor dismiss WORKLOAD RULE --reason TEXT; or here, once the "
        "agent has the setting web_token_file."
    )
