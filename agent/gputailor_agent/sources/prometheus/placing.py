"""Where the values of our exporter's series belong, and whose they are; each series looked up once.

A target (job and instance) is one exporter process or its successor at the same address. Pages are
kept per node: the exporter of a node that comes back under another address is the same exporter.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from gputailor_agent.dialects import Field, Holder, Place, PlaceError
from gputailor_agent.dialects.gputailor import DIALECT
from gputailor_agent.sources.prometheus.answers import labels_of
from gputailor_exporter import metrics

#: Labels that our exporter or a scrape gives; others tell which of several servers stored a series.
_KNOWN: Final = frozenset(
    {"__name__", "le", "job", "instance"} | {x for one in metrics.FAMILIES for x in one.labels}
)
_RENAMED: Final = "exported_"

_REMEMBERED: Final = 400_000  # series; emptied when full, since pods come and go


class Target(NamedTuple):
    """Whom Prometheus scraped."""

    job: str
    instance: str


class Placed(NamedTuple):
    """Where one series belongs.

    ``origin``: labels that neither the exporter nor the scrape gave, such as ``replica="a"``.
    """

    target: Target
    node: str
    place: Place
    origin: str = ""


class Reading:
    """Values of any number of targets at one time."""

    def __init__(self) -> None:
        self.values: dict[Target, list[tuple[Place, float]]] = {}
        self.nodes: dict[Target, str] = {}

    def put(self, placed: Placed, value: float) -> None:
        """Keep one value. A share is told of as long as its holder has the device."""
        values = self.values.setdefault(placed.target, [])
        values.append((placed.place, value))
        if placed.place.field is Field.SHARE:
            values.append((placed.place._replace(field=Field.ALLOCATED), 1.0))
        if placed.node:
            self.nodes[placed.target] = placed.node

    def join(self, other: "Reading") -> None:
        """Take over what another reading says of its targets."""
        self.values.update(other.values)
        self.nodes.update(other.nodes)

    def started(self, target: Target) -> float | None:
        """Start of the target's process, where the reading says."""
        found = self.values.get(target, ())
        told = [value for place, value in found if place.field is Field.PROCESS_STARTED]
        return max(told, default=None)  # of several servers one may not know of the next process

    def node(self, target: Target) -> str:
        """The target's node; its instance where it names none."""
        return self.nodes.get(target) or target.instance

    def of_nodes(self) -> dict[str, list[Target]]:
        """Targets by node, each node's youngest process last; at a tie the last by name."""
        found: dict[str, list[Target]] = {}
        for target in sorted(self.values, key=lambda t: (self.started(t) or 0.0, t)):
            found.setdefault(self.node(target), []).append(target)
        return found

    def holders(self) -> set[tuple[Target, Holder]]:
        """Every container and device with a value, and who says so."""
        return {
            (target, place.holder)
            for target, values in self.values.items()
            for place, _ in values
            if place.holder is not None
        }

    def shares(self) -> set[tuple[Target, Holder]]:
        """Likewise where the share of the device is told."""
        return {
            (target, place.holder)
            for target, values in self.values.items()
            for place, _ in values
            if place.field is Field.SHARE and place.holder is not None
        }


class Placer:
    """Finds the place of a series by the bytes of its label set."""

    def __init__(self, cluster: str) -> None:
        self._faults: Counter[str] = Counter()
        self._cluster = cluster
        self._known: dict[tuple[str, bytes], Placed | None] = {}

    def find(self, metric: msgspec.Raw, name: str = "") -> Placed | None:
        """Where the series belongs; None where it tells nothing of use.

        ``name``: the metric's, where a function of the query took it off.
        """
        key = (name, bytes(metric))
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            labels = labels_of(metric)
            self._known[key] = self.place({**labels, "__name__": name} if name else labels)
        return self._known[key]

    def take_faults(self) -> list[str]:
        """Return what broke the contract since it was last asked."""
        told = [f"{name} ({count} series)" for name, count in self._faults.items()]
        self._faults.clear()
        return told

    def place(self, labels: dict[str, str]) -> Placed | None:
        """Likewise for labels taken apart."""
        name = labels.get("__name__", "")
        try:
            place = DIALECT.place(name, labels, self._cluster)
        except PlaceError as error:
            self._faults[f"{name} without {error}"] += 1
            return None
        if place is None:
            return None
        return Placed(target_of(labels), node_of(labels), place, origin_of(labels))


def target_of(labels: dict[str, str]) -> Target:
    """The target a series came from."""
    return Target(labels.get("job", ""), labels.get("instance", ""))


def origin_of(labels: Mapping[str, str]) -> str:
    """Labels that tell copies of one series apart; '' where there are none."""
    more = [
        f"{name}={value}"
        for name, value in sorted(labels.items())
        if name.removeprefix(_RENAMED) not in _KNOWN
    ]
    return sys.intern(",".join(more)) if more else ""


def node_of(labels: dict[str, str]) -> str:
    """The node that the exporter named; '' where the series does not say."""
    if "gpu_uuid" not in labels and "exported_gpu_uuid" not in labels:
        return ""  # of the exporter itself: a node here is what Prometheus knows of the target
    return labels.get("exported_node", labels.get("node", ""))


def settled(reading: Reading, targets: Iterable[Target]) -> list[tuple[Place, float]]:
    """Values of one node's targets: of each device and container only the last target's."""
    targets = list(targets)
    if len(targets) == 1:
        return reading.values[targets[0]]
    owners: dict[object, Target] = {}
    for target in targets:
        for place, _ in reading.values.get(target, ()):
            owners[_subject(place)] = target
    return [
        (place, value)
        for target in targets
        for place, value in reading.values.get(target, ())
        if owners[_subject(place)] == target
    ]


def _subject(place: Place) -> object:
    if place.holder is not None:
        return place.holder
    return place.device.gpu_uuid if place.device is not None else place.field
