"""Series by the object that they tell of. Replicas that tell the same twice count once."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from gputailor_agent.dialects.kube_state_metrics import StateSample
from gputailor_agent.inventory.kube_state_metrics.names import real_key


class Rows:
    """The series of one object."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[StateSample]] = defaultdict(list)

    def add(self, sample: StateSample) -> None:
        """Take in one series."""
        self._by_name[sample.name].append(sample)

    def __contains__(self, name: str) -> bool:
        """Whether there is any series of this name."""
        return name in self._by_name

    def of(self, *names: str) -> Iterator[StateSample]:
        """The series of these names."""
        for name in names:
            yield from self._by_name.get(name, ())

    def value(self, name: str) -> float | None:
        """The value; of several that replicas tell, the highest. None where nobody tells it."""
        return max((sample.value for sample in self.of(name)), default=None)

    def time(self, name: str) -> float | None:
        """Likewise of a time in Unix seconds, which 0 is not."""
        told = self.value(name)
        return told if told is not None and told > 0 else None

    def text(self, name: str, *labels: str) -> str:
        """The first label that says anything; the longest where it has changed ('' -> 'node-1')."""
        for label in labels:
            told = max(
                (sample.labels.get(label, "") for sample in self.of(name)),
                key=lambda value: (len(value), value),
                default="",
            )
            if told and told != "<none>":
                return told
        return ""

    def flagged(self, name: str, label: str) -> list[str]:
        """Values of a label whose series stands at 1."""
        found = {one.labels.get(label, "") for one in self.of(name) if one.value == 1}
        return sorted(found - {""})

    def keyed(self, name: str, prefix: str) -> dict[str, str]:
        """Labels or annotations of the object: what follows the prefix, with real keys."""
        found: dict[str, str] = {}
        for sample in self.of(name):
            for label, value in sorted(sample.labels.items()):
                if label.startswith(prefix):
                    found[real_key(label.removeprefix(prefix))] = value
        return found

    def by(self, label: str, *names: str) -> "dict[str, Rows]":
        """The series of these names apart by a label, e.g. by container."""
        found: dict[str, Rows] = defaultdict(Rows)
        for sample in self.of(*names):
            if sample.labels.get(label):
                found[sample.labels[label]].add(sample)
        return dict(sorted(found.items()))


def by_label(samples: Iterable[StateSample], *labels: str) -> Mapping[tuple[str, ...], Rows]:
    """Series apart by labels that all of them have; those without one are left out."""
    found: dict[tuple[str, ...], Rows] = defaultdict(Rows)
    for sample in samples:
        key = tuple(sample.labels.get(label, "") for label in labels)
        if all(key):
            found[key].add(sample)
    return found
