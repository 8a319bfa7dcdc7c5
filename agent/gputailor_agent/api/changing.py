"""What the API lets programs change: dismissals."""

import time

from fastapi import FastAPI, HTTPException, Request, Response
from starlette.concurrency import run_in_threadpool

from gputailor_agent.api import deciding
from gputailor_agent.api.desk import Desk, visitor
from gputailor_agent.api.doors import Visitor
from gputailor_agent.api.filters import Search
from gputailor_agent.api.kept import Kept
from gputailor_agent.api.workloads import exactly, may_write
from gputailor_agent.model.ledger import Decision


def add_changing(app: FastAPI, desk: Desk) -> None:
    """Add dismissing and taking back."""

    @app.post("/api/v1/dismissals", summary="Dismiss a finding", tags=["report"], status_code=204)
    async def dismiss(request: Request) -> Response:
        """JSON with workload, rule, reason and, if it ends, until. Needs a token.

        404 where the workload has no such finding; with ``anyway``, one that may come is meant.
        """
        who, kept = _writer(request, desk)
        try:
            asked = deciding.document(
                await deciding.body(request), request.headers.get("content-type", "")
            )
            decision = deciding.dismissal(asked, who, time.time())
        except deciding.DecisionError as error:
            raise HTTPException(status_code=422, detail=str(error)) from error
        return await run_in_threadpool(_decide, request, desk, kept, decision, asked.anyway)

    @app.delete("/api/v1/dismissals", summary="Take a dismissal back", tags=["report"])
    def withdraw(request: Request, workload: Search, rule: Search) -> Response:
        """204, or 404 where there was none. Needs a token."""
        _who, kept = _writer(request, desk)
        exactly(desk.index(request).plan, workload)
        if not kept.withdraw(workload, rule):
            raise HTTPException(status_code=404, detail="there is no such dismissal")
        return Response(status_code=204)


def _decide(request: Request, desk: Desk, kept: Kept, decision: Decision, anyway: bool) -> Response:
    verdict = exactly(desk.index(request).plan, decision.workload_id)
    if not anyway:
        try:
            deciding.check_there(decision.rule, kept.decidable(verdict))
        except deciding.NoFindingError as error:
            raise HTTPException(status_code=404, detail=str(error)) from error
    kept.decide(decision)
    return Response(status_code=204)


def _writer(request: Request, desk: Desk) -> tuple[Visitor, Kept]:
    who = visitor(request)
    kept = may_write(who, desk)
    if who.by == "session":
        raise HTTPException(
            status_code=403, detail="a session is for pages; send Authorization: Bearer TOKEN"
        )
    return who, kept
