"""Which GPUs nobody held, node by node and hour by hour, as far as that is known.

Held is what pods of the inventory held by its clock, and what was measured of pods that it no
longer knows. A node is known from the first hour on in which anything was measured on it: a node on
which nothing ever was may have held pods that have since been deleted, so of it only now is known.
Nodes are taken to have had the GPUs they have now; those that are cordoned or not ready are left
out.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from gputailor_agent.model.inventory import Pod
from gputailor_agent.model.judgement import FreePool
from gputailor_agent.model.profile import Profile, Window
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.planner.capacity import NodeBook, held_by
from gputailor_agent.profiles.holding import held_from, held_seconds
from gputailor_agent.rules import Context
from gputailor_agent.rules.cluster_rules import NodeHours
from gputailor_agent.rules.pricing import equivalent, node_of

Hours = npt.NDArray[np.float64]

_HOURS_OF_DAY: Final = 24


class Occupancy:
    """What profiles and pods held of each node; profiles come one after another, in any order."""

    def __init__(self, context: Context, window: Window) -> None:
        """``window``: the time profiles were built over; its whole hours are looked at."""
        self._context = context
        self._window = window
        self._start = -(-int(window.start) // HOUR_SECONDS) * HOUR_SECONDS
        self._hours = max(0, int(window.end) // HOUR_SECONDS - self._start // HOUR_SECONDS)
        self._measured: dict[str, int] = {}  # node -> start of its first hour with a row
        self._gone: dict[str, Hours] = {}  # held by pods that the inventory does not know

    def add(self, profile: Profile) -> None:
        """Take in one workload's use."""
        for use in profile.gpus:
            node = node_of(self._context, use)
            if node is None or not use.hours:
                continue
            first = min(use.first_hour, self._measured.get(node.name, use.first_hour))
            self._measured[node.name] = first
            pod = self._context.holdings.find(use.namespace, use.pod, use.pod_uid)
            if pod is not None and held_from(pod) is not None:
                continue
            gpus, held = equivalent(self._context, use), self._of(self._gone, node.name)
            for hour, observed, _ in use.hours:
                place = (hour - self._start) // HOUR_SECONDS
                if 0 <= place < self._hours:
                    held[place] += gpus * min(1.0, observed / HOUR_SECONDS)

    def _of(self, by_node: dict[str, Hours], name: str) -> Hours:
        if name not in by_node:
            by_node[name] = np.zeros(self._hours)
        return by_node[name]

    def nodes(self, books: Iterable[NodeBook]) -> tuple[NodeHours, ...]:
        """Return every node whose GPUs can be asked for, with its free hours; by name."""
        held = self._held_by_pods()
        found = []
        for book in sorted(books, key=lambda book: book.node.name):
            free_now, _, _ = book.split(book.held, book.gpus)
            if not book.node.schedulable or book.node.ready is not True:
                continue
            gpus = book.gpus - book.broken
            taken = self._of(held, book.node.name) + self._of(self._gone, book.node.name)
            known = self._known_hours(book.node.name)
            free = np.clip(gpus - taken, 0.0, gpus)[self._hours - known :]
            found.append(
                NodeHours(
                    name=book.node.name,
                    model=book.model,
                    pool=book.node.pool,
                    resources=book.node.capacity,
                    gpus=gpus,
                    free_now=free_now,
                    free=tuple(float(hour) for hour in free),
                    price=book.price,
                    currency=book.currency,
                )
            )
        return tuple(found)

    def _known_hours(self, name: str) -> int:
        first = self._measured.get(name)
        if first is None:
            return 0
        since = max(first, self._start)
        return min(self._hours, max(0, self._hours - (since - self._start) // HOUR_SECONDS))

    def _held_by_pods(self) -> dict[str, Hours]:
        """GPUs held by pods of the inventory: means of whole hours, by node."""
        held: dict[str, Hours] = {}
        if not self._hours:
            return held
        end = self._start + self._hours * HOUR_SECONDS
        window = Window(start=float(self._start), end=float(end))
        for pod in self._context.inventory.pods:
            node = self._context.nodes.get(pod.node or "")
            if node is None:
                continue
            gpus = held_by(self._context, node, pod)
            if gpus > 0:
                self._spread(self._of(held, node.name), pod, gpus, window)
        return held

    def _spread(self, hours: Hours, pod: Pod, gpus: float, window: Window) -> None:
        """Add what the pod held to the hours of ``window`` (all of them) in which it did."""
        seconds = held_seconds(pod, window, self._window.end)
        start = held_from(pod)
        if not seconds or start is None:
            return
        if seconds == window.seconds:  # all of it, as most do
            hours += gpus * float(HOUR_SECONDS) / HOUR_SECONDS
            return
        begin = max(start, window.start) - self._start
        edges = np.clip(np.arange(self._hours + 1) * float(HOUR_SECONDS), begin, begin + seconds)
        hours += gpus * np.diff(edges) / HOUR_SECONDS


def free_pools(nodes: Iterable[NodeHours], window: Window) -> tuple[FreePool, ...]:
    """Return one line per model and pool, for people to look at; ``window`` as in ``Occupancy``."""
    last = int(window.end) // HOUR_SECONDS
    groups: dict[tuple[str, str], list[NodeHours]] = defaultdict(list)
    for node in nodes:
        groups[node.model, node.pool].append(node)
    return tuple(_pool(model, pool, groups[model, pool], last) for model, pool in sorted(groups))


def _pool(model: str, pool: str, nodes: list[NodeHours], last: int) -> FreePool:
    """Sums over the hours in which every node of the pool is known that is known at all.

    The least counts now as one more: what a pod took since the last whole hour is not always free.
    ``last``: hours since the Unix epoch at which the nodes' hours end.
    """
    known = [node for node in nodes if node.free]
    hours = min((len(node.free) for node in known), default=0)
    sums = np.zeros(hours)
    for node in known:
        sums += np.array(node.free[len(node.free) - hours :])
    return FreePool(
        model=model,
        pool=pool,
        nodes=len(nodes),
        gpus=sum(node.gpus for node in nodes),
        free_now=sum(node.free_now for node in nodes),
        known_hours=hours,
        free_gpu_hours=float(sums.sum()) if hours else None,
        least_free=min(float(sums.min()), sum(node.free_now for node in known)) if hours else None,
        by_hour=_by_hour(sums, last),
    )


def _by_hour(sums: Hours, last: int) -> tuple[float | None, ...]:
    """Means by UTC hour of the day; None for an hour of which nothing is known."""
    if not len(sums):
        return ()
    of_day = (np.arange(last - len(sums), last)) % _HOURS_OF_DAY
    return tuple(
        float(sums[of_day == hour].mean()) if (of_day == hour).any() else None
        for hour in range(_HOURS_OF_DAY)
    )
