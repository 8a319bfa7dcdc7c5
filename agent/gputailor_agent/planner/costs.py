"""Money of the window: workloads + free + unavailable + unknown = nodes.

The nodes of the inventory are taken to have been there all window, in the state they are in now.
Time before the first measurement is unknown, not free. A node that only its usage still tells of
(it has left the inventory) costs what was used on it. GPUs without a price stand outside the
sums and are counted; those priced in another currency than most likewise, apart (``currencies``).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum
from typing import Final

from gputailor_agent.model.judgement import CostLine
from gputailor_agent.model.profile import Profile, Window
from gputailor_agent.planner.capacity import NodeBook
from gputailor_agent.planner.choosing import gpu_hours
from gputailor_agent.rules import Context
from gputailor_agent.rules.pricing import node_of, use_price

_HOUR: Final = 3600.0
#: Pods that follow each other on a device may overlap by seconds; more than this is a fault.
OVERLAP: Final = 0.005


@dataclass(frozen=True, slots=True)
class Taken:
    """What workloads took of one node ('' where it is not in the inventory)."""

    gpu_hours: float
    cost: float


class Accounts:
    """What profiles took, added up one after another; sums are exact, so in any order the same."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._hours: dict[str, list[float]] = defaultdict(list)  # by node
        self._costs: dict[tuple[str, str], list[float]] = defaultdict(list)  # and currency
        self._by_workload: dict[str, list[float]] = defaultdict(list)  # costs by currency
        self._currencies: Counter[str] = Counter()

    def add(self, profile: Profile) -> None:
        """Take in one workload."""
        own: dict[str, float] = {}
        for use, used in gpu_hours(self._context, profile):
            node = node_of(self._context, use)
            name = node.name if node is not None else ""
            self._hours[name].append(used)
            price = use_price(self._context, use)
            if price is not None:
                cost = used * price.amount_per_gpu_hour
                self._currencies[price.currency] += 1
                self._costs[name, price.currency].append(cost)
                own[price.currency] = own.get(price.currency, 0.0) + cost
        for currency, cost in own.items():
            self._by_workload[currency].append(cost)

    def main_currency(self, books: Iterable[NodeBook]) -> str:
        """Currency of most priced GPUs; of the devices used where no node has one; '' if none."""
        gpus: Counter[str] = Counter()
        for book in books:
            if book.currency:
                gpus[book.currency] += round(book.gpus * 1000)
        gpus = gpus or self._currencies
        return max(gpus, key=lambda name: (gpus[name], name)) if gpus else ""

    def taken(self, currency: str) -> dict[str, Taken]:
        """Whole GPU-hours and their cost by node; what has no price costs nothing here."""
        return {
            name: Taken(fsum(self._hours[name]), fsum(self._costs.get((name, currency), ())))
            for name in sorted(self._hours)
        }

    def cost(self, currency: str) -> float:
        """Cost of all workloads."""
        return fsum(self._by_workload.get(currency, ()))


def cost_line(
    books: list[NodeBook],
    taken: dict[str, Taken],
    window: Window,
    first_measured: float | None,
    currency: str,
) -> CostLine:
    """Return the cost line of the window in ``currency``."""
    hours = window.seconds / _HOUR
    unseen = (first_measured if first_measured is not None else window.end) - window.start
    nodes = workloads = free = unavailable = unknown = unpriced = 0.0
    for book in books:
        if book.price is None:
            unpriced += book.gpus
            continue
        if book.currency != currency:
            continue
        used = taken.get(book.node.name, Taken(0.0, 0.0))
        whole = book.gpus * hours
        if whole < used.gpu_hours <= whole * (1 + OVERLAP):
            whole = used.gpu_hours
        idle, broken, untold = book.split(used.gpu_hours, whole)
        early = min(idle, book.gpus * max(0.0, unseen) / _HOUR)
        nodes += whole * book.price
        workloads += used.cost
        free += (idle - early) * book.price
        unavailable += broken * book.price
        unknown += (untold + early) * book.price
    listed = {book.node.name for book in books}
    gone = sum(part.cost for name, part in taken.items() if name not in listed)
    return CostLine(
        currency=currency,
        nodes=nodes + gone,
        workloads=workloads + gone,
        free=free,
        unavailable=unavailable,
        unknown=unknown,
        unpriced_gpus=unpriced,
    )
