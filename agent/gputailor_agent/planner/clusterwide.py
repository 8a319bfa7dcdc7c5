"""The cluster as a whole: what nobody asks for, what pods wait for, and what could serve them."""

from collections.abc import Iterable
from typing import NamedTuple

from gputailor_agent.model.judgement import Finding, FreePool, Serving, Silence, Verdict, Waiting
from gputailor_agent.model.profile import Profile, Window
from gputailor_agent.planner.capacity import NodeBook
from gputailor_agent.planner.freeing import freed
from gputailor_agent.planner.matching import served
from gputailor_agent.planner.occupancy import Occupancy, free_pools
from gputailor_agent.planner.waiting import rooms, waiting, waiting_pods
from gputailor_agent.rules import Context, evaluate_cluster
from gputailor_agent.rules.cluster_rules import ClusterView


class Clusterwide(NamedTuple):
    """What a plan says of the cluster itself."""

    findings: tuple[Finding, ...]
    silences: tuple[Silence, ...]
    free_pools: tuple[FreePool, ...]
    waiting: tuple[Waiting, ...]


class Survey:
    """Takes in workloads with their verdicts one after another, in any order."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._occupancy: Occupancy | None = None
        self._freed: list[Serving] = []

    def add(self, profile: Profile, judged: Verdict) -> None:
        """Take in one workload; all of them were built over the same window."""
        if self._occupancy is None:
            self._occupancy = Occupancy(self._context, profile.window)
        self._occupancy.add(profile)
        self._freed += freed(profile, judged, self._context)

    def clusterwide(self, books: Iterable[NodeBook], window: Window) -> Clusterwide:
        """Return what there is to say; ``window``: that of the profiles."""
        context = self._context
        nodes = (self._occupancy or Occupancy(context, window)).nodes(books)
        groups = waiting_pods(context)
        around = rooms(context, window.end) if groups else []
        wanted = served(waiting(groups, around), groups, around, self._freed)
        told = context.inventory.complete
        complete = not context.inventory.problems if told is None else told
        view = ClusterView(window, nodes, wanted, complete)
        answers = evaluate_cluster(view, context)
        return Clusterwide(
            findings=tuple(one for one in answers if isinstance(one, Finding)),
            silences=tuple(one for one in answers if isinstance(one, Silence)),
            free_pools=free_pools(nodes, window),
            waiting=wanted,
        )
