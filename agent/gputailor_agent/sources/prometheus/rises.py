"""How much counters rose in an hour, from one sample of each at its begin and one at its end.

What the two do not tell is read sample by sample: whatever ended inside the hour, fell, began anew
or appeared without saying when it started. A series that is new counts from 0 only if its process
began inside the hour or its target was scraped before; else from its first sample. A restart of
which nothing tells, and after which the counter overtook its former value, makes the rise too
small, never too large. Copies of a series (replicas of the server, a second scrape job) count once.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from gputailor_agent.sources.prometheus.answers import Matrix, Vector, labels_of


class SeriesKey(NamedTuple):
    """One counter. ``group``: what is read as a whole where two samples are not enough."""

    group: str  # a pod, a target
    name: str
    of: tuple[str, ...]  # whose it is
    apart: tuple[str, ...]  # values of the labels that tell series of one owner apart


class Rise(NamedTuple):
    """How much a counter rose, and in how many seconds of the hour it was there."""

    amount: float
    seconds: float


Identify = Callable[[Mapping[str, str]], SeriesKey | None]
Boundary = dict[SeriesKey, float]
#: By counter, each copy's samples in order of time.
Samples = dict[SeriesKey, list[list[tuple[float, float]]]]


class Hour(NamedTuple):
    """Both ends of an hour. ``started``: when a counter's process began, where that is told."""

    begin: float
    end: float
    before: Boundary
    after: Boundary
    started: Callable[[SeriesKey], float | None]

    def fresh(self, key: SeriesKey) -> bool:
        """Whether the counter's process began inside the hour."""
        start = self.started(key)
        return start is not None and start > self.begin

    def doubtful(self, seen: Collection[str] = ()) -> set[str]:
        """Groups of which the ends do not tell all; ``seen``: scraped at the begin, in any case."""
        known = {key.group for key in self.before} | set(seen)
        ended = {key.group for key in self.before if key not in self.after}
        return ended | {
            key.group for key, value in self.after.items() if not self._plain(key, value, known)
        }

    def _plain(self, key: SeriesKey, value: float, known: Collection[str]) -> bool:
        before = self.before.get(key)
        if before is not None:
            return value >= before and not self.fresh(key)
        return self.fresh(key) or key.group in known

    def rises(self, samples: Samples, doubtful: Collection[str]) -> dict[SeriesKey, Rise]:
        """Every counter's rise; ``samples``: of the groups that are ``doubtful``."""
        found = {
            key: Rise(value - self.before.get(key, 0.0), self.end - self._from(key))
            for key, value in self.after.items()
            if key.group not in doubtful
        }
        known = {key.group for key in self.before}
        for key, copies in samples.items():
            if key.group in doubtful:
                base = self.before.get(key)
                if base is None and (self.fresh(key) or key.group in known):
                    base = 0.0
                found[key] = max(self._over(key, base, copy) for copy in copies)
        return found

    def _from(self, key: SeriesKey) -> float:
        start = self.started(key)
        if key in self.before or start is None:
            return self.begin
        return min(self.end, max(self.begin, start))

    def _over(self, key: SeriesKey, base: float | None, samples: list[tuple[float, float]]) -> Rise:
        first, last = samples[0][0], samples[-1][0]
        since = first if base is None else self._from(key)
        until = self.end if key in self.after else last
        amount, previous = 0.0, samples[0][1] if base is None else base
        for _, value in samples:
            amount += value - previous if value >= previous else value
            previous = value
        return Rise(amount, max(0.0, until - since))


def boundary(vector: Vector, identify: Identify) -> Boundary:
    """Values by counter; of copies the highest, which is the newest."""
    found: Boundary = {}
    for sample in vector.result:
        key, value = identify(labels_of(sample.metric)), float(sample.value[1])
        if key is not None and math.isfinite(value):
            found[key] = max(value, found.get(key, value))
    return found


def samples_after(matrices: Iterable[Matrix], identify: Identify, begin: float) -> Samples:
    """Samples by counter; one at the very begin is not the hour's."""
    found: Samples = {}
    for matrix in matrices:
        for series in matrix.result:
            key = identify(labels_of(series.metric))
            told = [
                (at, value)
                for at, text in series.values
                if at > begin and math.isfinite(value := float(text))
            ]
            if key is not None and told:
                found.setdefault(key, []).append(told)
    return found
