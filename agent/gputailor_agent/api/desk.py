"""What every page and address has at hand, and what several of them do with it."""

from dataclasses import dataclass

from fastapi import HTTPException, Request
from fastapi.responses import HTMLResponse

from gputailor_agent.api import words
from gputailor_agent.api.doors import Doors, Visitor
from gputailor_agent.api.doors.doorkeeper import visitor_of
from gputailor_agent.api.kept import Kept
from gputailor_agent.api.listing import Index
from gputailor_agent.api.pages import Pages
from gputailor_agent.api.plans import Plans
from gputailor_agent.api.state import AgentState
from gputailor_agent.reports.catalogues import _


@dataclass(frozen=True, slots=True)
class Desk:
    """The running agent, who is let in, and how pages are drawn; ``kept`` None: no store."""

    state: AgentState
    doors: Doors
    plans: Plans
    pages: Pages
    kept: Kept | None = None

    def find(self, request: Request) -> Index | None:
        """The newest plan as the one who asks may see it; None before the first."""
        return self.plans.index(visitor(request).scope)

    def index(self, request: Request) -> Index:
        """The same; raises 503 before the first plan."""
        found = self.find(request)
        if found is None:
            raise HTTPException(
                status_code=503, detail=words.no_plan(), headers={"Retry-After": "60"}
            )
        return found

    def missing(self, request: Request) -> HTMLResponse:
        """What is shown before the first plan."""
        return self.pages.note(request, "GPU Tailor", words.note(words.no_plan()), status=503)


def visitor(request: Request) -> Visitor:
    """Who asks, on an address that nobody reaches without being let in."""
    found = visitor_of(request)
    assert found is not None
    return found


def whole_cluster(request: Request) -> bool:
    """Whether the one who asks may see what is of the whole cluster."""
    return visitor(request).scope.everything


def hidden() -> str:
    """What somebody reads who may see some teams' workloads only."""
    return _("This is about the whole cluster; you may see the workloads of your teams.")


def only_whole(request: Request) -> None:
    """Raise 403 for somebody who may see some teams only."""
    if not whole_cluster(request):
        raise HTTPException(status_code=403, detail=hidden())
