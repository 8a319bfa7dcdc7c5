"""The newest plan as each visitor sees it, with what is made of it once and shown many times."""

import threading
from collections import OrderedDict
from typing import Final

from gputailor_agent.api.doors import EVERYTHING, Scope
from gputailor_agent.api.listing import Index
from gputailor_agent.api.state import AgentState
from gputailor_agent.model.judgement import Plan
from gputailor_agent.reports.scoping import only

#: Scopes kept ready: more people than teams ask, and a team's is made in a moment.
_MOST_SCOPES: Final = 32


#: Smaller plans are made ready faster than a page is drawn.
_LARGE: Final = 5000


class Plans:
    """Indexes of the newest plan, one for each scope; made when somebody asks.

    Of a large plan the whole cluster's is made ready beside the requests, which get the former one
    meanwhile, complete in itself: nobody waits for a second because a plan was just made.
    """

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._plan: Plan | None = None
        self._made: OrderedDict[Scope, Index] = OrderedDict()
        self._coming: Plan | None = None
        plan = state.latest_plan()
        if plan is not None and len(plan.verdicts) >= _LARGE:  # of the process before this one
            threading.Thread(target=self._begin, daemon=True).start()

    def _begin(self) -> None:
        first = self.index(EVERYTHING)
        if first is not None:
            first.ready()

    def index(self, scope: Scope) -> Index | None:
        """The newest plan for a scope; None before the first one."""
        plan = self._state.latest_plan()
        if plan is None:
            return None
        with self._lock:
            if self._plan is None or len(plan.verdicts) < _LARGE:
                self._turn_to(plan, {})
            elif plan is not self._plan and plan is not self._coming:
                self._coming = plan
                threading.Thread(target=self._prepare, args=(plan,), daemon=True).start()
            return self._of(self._plan or plan, scope)

    def _prepare(self, plan: Plan) -> None:
        index = Index(plan)
        index.ready()
        with self._lock:
            if self._coming is plan:
                self._turn_to(plan, {EVERYTHING: index})

    def _turn_to(self, plan: Plan, made: dict[Scope, Index]) -> None:
        if plan is not self._plan:
            self._plan, self._coming = plan, None
            self._made = OrderedDict(made)

    def _of(self, plan: Plan, scope: Scope) -> Index:
        if scope not in self._made:
            self._made[scope] = Index(plan if scope.everything else only(plan, scope.holds))
            if len(self._made) > _MOST_SCOPES:
                self._made.popitem(last=False)
        self._made.move_to_end(scope)
        return self._made[scope]
