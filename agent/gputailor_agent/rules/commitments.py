"""What a commitment costs, and how many GPUs are in use round the clock.

A commitment is paid whether it is used or not. It pays for the k-th GPU of a workload when at least
k GPUs work for a greater share of the time than the commitment's share of the present price:
k* = max k with P(q >= k) >= 1 - discount. P is taken over the hours of the window and over the
hours of the week (Monday 0:00 UTC on), and the lower one counts, so that a window which holds more
working days than weekends, or a night that is always quiet, decides as it should.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from gputailor_agent.catalog import Price
from gputailor_agent.model.inventory import Node
from gputailor_agent.model.profile import GpuUse, Profile
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.profiles.courses import HOURS_OF_WEEK, hour_of_week
from gputailor_agent.rules.base import Context
from gputailor_agent.rules.pricing import equivalent, node_spec, price_of

#: Terms that price lists know, shortest first: by the node's capacity type, kind and years.
TERMS: Final = (("reserved-1y", "reserved_1y", 1), ("reserved-3y", "reserved_3y", 3))
#: An hour counts a GPU that was observed for so much of it.
_OBSERVED: Final = 0.9
#: Share of an hour from which on a GPU counts as working in it: less is waste, not to be reserved.
_WORKS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Commitment:
    """Prices per GPU-hour of one instance type, on demand and for a term."""

    present: Price
    reserved: Price
    years: int

    @property
    def ratio(self) -> float:
        """Price of the commitment, of the present one: 1 - discount."""
        return self.reserved.amount_per_gpu_hour / self.present.amount_per_gpu_hour


def commitments(context: Context, node: Node) -> tuple[Commitment, ...]:
    """Commitments for a node's instance type that have a price of their own, shortest first.

    Only a price for that kind of capacity counts: the list price on demand, which stands in for
    one elsewhere, has no discount.
    """
    spec = node_spec(context, node)
    present = price_of(context, spec, node)
    if spec is None or present is None or present.amount_per_gpu_hour <= 0:
        return ()
    found = []
    for capacity_type, kind, years in TERMS:
        price = price_of(context, spec, msgspec.structs.replace(node, capacity_type=capacity_type))
        if price is not None and price.kind == kind and price.currency == present.currency:
            found.append(Commitment(present, price, years))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Steadiness:
    """GPUs at work by hour: over the window, and as means by hour of the week."""

    hours: tuple[float, ...]
    week: tuple[float, ...]

    def share_at_least(self, gpus: float) -> float:
        """Share of the time (0..1) with so many GPUs at work, by window and by week the lower."""
        return min(_share(self.hours, gpus), _share(self.week, gpus))

    def round_the_clock(self, least: float, most: int) -> int:
        """Most GPUs (up to ``most``) at work for at least this share of the time."""
        return next((k for k in range(most, 0, -1) if self.share_at_least(k) >= least), 0)

    def mean_of(self, gpus: int) -> float:
        """Mean number of GPUs at work, counted up to so many."""
        return sum(min(hour, gpus) for hour in self.hours) / len(self.hours) if self.hours else 0.0


def _share(values: tuple[float, ...], gpus: float) -> float:
    """Share of values that reach ``gpus``, but for rounding of observed seconds."""
    enough = sum(1 for value in values if value >= gpus - (1 - _OBSERVED))
    return enough / len(values) if values else 0.0


def steadiness(profile: Profile, context: Context, uses: Iterable[GpuUse]) -> Steadiness:
    """How many of the devices were at work in each whole hour of the profile's window.

    An hour in which a device was not observed counts as one without it: what is unknown is never
    taken for use.
    """
    first = -(-int(profile.window.start) // HOUR_SECONDS) * HOUR_SECONDS
    last = int(profile.window.end) // HOUR_SECONDS * HOUR_SECONDS
    working: Mapping[int, float] = _working(context, uses)
    hours = tuple(working.get(hour, 0.0) for hour in range(first, last, HOUR_SECONDS))
    by_week: dict[int, list[float]] = defaultdict(list)
    for place, gpus in enumerate(hours):
        by_week[hour_of_week(first + place * HOUR_SECONDS)].append(gpus)
    week = tuple(
        sum(by_week[place]) / len(by_week[place]) if by_week[place] else 0.0
        for place in range(HOURS_OF_WEEK)
    )
    return Steadiness(hours, week)


def _working(context: Context, uses: Iterable[GpuUse]) -> dict[int, float]:
    found: dict[int, float] = defaultdict(float)
    for use in uses:
        gpus = equivalent(context, use)
        for hour, observed, active in use.hours:
            if active >= _WORKS * observed > 0:
                found[hour] += gpus * min(1.0, observed / HOUR_SECONDS)
    return found
