"""Series of kube-state-metrics, for those pods alone that ask for accelerators.

What it costs: of pods that are there, one sample of each series. Of pods that have gone, first one
sample of one series every five minutes, which finds when they were last seen; then the samples of
the last hour of each. Owners that have gone come from the list of series, which touches no samples.
Pods that lived for less than five minutes are read raw: a handful of samples each.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Self

import httpx

from gputailor_agent.dialects import kube_state_metrics as names
from gputailor_agent.dialects.kube_state_metrics import (
    OF_NAMESPACES,
    OF_NODES,
    OF_PODS,
    OWNERS,
    PHASE,
    REQUESTS,
    KubeState,
    OwnerSeries,
    StateSample,
    original,
)
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.sources.prometheus.answers import Sample, labels_of
from gputailor_agent.sources.prometheus.client import Access, Budget, Cost, PrometheusClient
from gputailor_agent.sources.prometheus.promql import chunks, equal, one_of, quoted, selector

_STEP_SECONDS: Final = 300  # how finely the end of a life is looked for
_FINE_SECONDS: Final = 30  # and how finely the end of its running
_SPAN_SECONDS: Final = HOUR_SECONDS + 2 * _STEP_SECONDS  # holds the last sample of a slot's pods
_LEVELS: Final = 5  # of owners above owners
_RUNNING: Final = 'phase="Running"'


class KubeStateReader:
    """Reads one server; ``labels`` narrow every query where it holds several clusters.

    ``transport`` and ``sleep`` stand in for the network and the clock in tests.
    """

    def __init__(
        self,
        url: str,
        *,
        access: Access | None = None,
        budget: Budget | None = None,
        labels: Mapping[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._budget = budget or Budget()
        self._client = PrometheusClient(
            url,
            access or Access(),
            budget=self._budget,
            transport=transport,
            sleep=sleep,
        )
        self._matchers = equal(labels or {})

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close."""
        self._client.close()

    @property
    def address(self) -> str:
        """The server's address without a password."""
        return self._client.shown

    @property
    def cost(self) -> Cost:
        """What was asked of the server so far."""
        return self._client.cost

    def read(self, accelerators: str, start: float, end: float) -> KubeState:
        """What was there at ``end``, and what went since ``start`` (Unix seconds).

        ``accelerators``: a regular expression over the label ``resource``. Where no
        kube-state-metrics was scraped at ``end``, it is read as of the last time that one was.
        Raises ``PrometheusError``.
        """
        spent = self.cost.samples
        asking = self._select(REQUESTS, f"resource=~{quoted(accelerators)}")
        at, asked_now = self._present(accelerators, start, end)
        if at is None:
            return KubeState(
                at=end, found=False, current=False, partial=self._client.take_partial()
            )
        here = {sample.labels["uid"] for sample in asked_now if sample.labels.get("uid")}
        ever = {original(one).get("uid", "") for one in self._client.series(asking, start, at)}
        gone = sorted(ever - here - {""})
        samples = self._of_pods(sorted(here), at)
        life = _Lives(self, gone, start, at)
        life.find()
        samples += life.read(lambda: self.cost.samples - spent >= self._budget.samples)
        self._endings(samples, life.ran, start, at)
        samples += self._owners(samples, start, at)
        samples += self._job_ends(samples, life.seen, start, at)
        samples += self._nodes(accelerators, at)
        samples += self.ask(self._select(OF_NAMESPACES), at)
        return KubeState(
            at=at,
            current=at == end,
            nameless=bool(asked_now) and not here,
            samples=tuple(samples),
            gone=life.seen,
            ran=life.ran,
            unread=life.unread,
            partial=self._client.take_partial(),
        )

    def _select(self, metrics: Sequence[str], *matchers: str) -> str:
        return selector(metrics, *self._matchers, *matchers)

    def _present(
        self, accelerators: str, start: float, end: float
    ) -> tuple[float | None, list[StateSample]]:
        """As of when there is news, and what asks for accelerators then; None for never."""
        resource = f"resource=~{quoted(accelerators)}"
        asking, info = self._select(REQUESTS, resource), self._select((names.NODE_INFO,))
        here = self.ask(asking, end)
        if here or self.ask(f"count({info})", end):
            return end, here
        span = max(_STEP_SECONDS, round(end - start))
        last = [
            sample.value
            for series in (info, self._select(REQUESTS[:1], resource))
            for sample in self.ask(f"max({_last_time(series, span, _STEP_SECONDS)})", end)
        ]
        if not last:
            return None, []
        return max(last), self.ask(asking, max(last))

    def ask(self, expression: str, at: float) -> list[StateSample]:
        """The elements of an instant vector; values that are no numbers are left out."""
        return [
            found
            for sample in self._client.query(expression, at).result
            if math.isfinite((found := _state(sample)).value)
        ]

    def ask_each(self, expressions: Iterable[str], at: float) -> list[StateSample]:
        """Likewise for several at the same time."""
        answers = self._client.each(lambda one: self.ask(one, at), expressions)
        return [sample for answer in answers for sample in answer]

    def raw(self, metric: str, uids: Sequence[str], span: int, at: float) -> dict[str, float]:
        """When each pod last had a sample, out of its raw samples."""
        found: dict[str, float] = {}
        chosen = self._select((metric,), _RUNNING, one_of("uid", uids))
        for series in self._client.samples(chosen, span, at).result:
            uid = original(labels_of(series.metric)).get("uid", "")
            for when, _ in series.values:
                found[uid] = max(found.get(uid, when), when)
        return found

    def _of_pods(self, uids: Sequence[str], at: float) -> list[StateSample]:
        return self.ask_each(
            (self._select(OF_PODS, one_of("uid", part)) for part in chunks(uids)), at
        )

    def last_of_pods(self, uids: Sequence[str], span: int, at: float) -> list[StateSample]:
        """The last samples inside ``span`` seconds."""
        return self.ask(
            f"last_over_time({self._select(OF_PODS, one_of('uid', uids))}[{span}s])", at
        )

    def last_times(
        self, uids: Sequence[str], span: int, step: int, at: float, *, running: bool
    ) -> dict[str, float]:
        """When pods were last seen, or last seen running, by uid."""
        phase = self._select((PHASE,), _RUNNING, one_of("uid", uids))
        told = self.ask(f"max by (uid) ({_last_time(phase, span, step, running=running)})", at)
        return {sample.labels.get("uid", ""): sample.value for sample in told}

    def _endings(
        self, samples: Sequence[StateSample], ran: dict[str, float], start: float, at: float
    ) -> None:
        """Look further back for those that ended at a time which is not told."""
        told = {one.labels.get("uid", "") for one in samples if one.name == names.COMPLETION}
        ended = {uid for uid, phase in names.phases(samples).items() if phase in names.ENDED}
        span = max(_STEP_SECONDS, round(at - start))
        for part in chunks(sorted(ended - told - set(ran))):
            ran.update(self.last_times(part, span, _STEP_SECONDS, at, running=True))

    def _owners(self, samples: Iterable[StateSample], start: float, at: float) -> list[StateSample]:
        found: list[StateSample] = []
        done: set[tuple[str, str]] = set()
        fresh = names.owners_told(samples)
        for _ in range(_LEVELS):
            fresh = {one for one in fresh - done if one[0] in OWNERS}
            if not fresh:
                break
            done |= fresh
            level = self._owner_level(fresh, start, at)
            fresh = names.owners_told(level)
            found += level
        return found

    def _owner_level(
        self, wanted: Iterable[tuple[str, str]], start: float, at: float
    ) -> list[StateSample]:
        by_kind: dict[str, list[str]] = defaultdict(list)
        for kind, name in sorted(wanted):
            by_kind[kind].append(name)
        found: list[StateSample] = []
        for kind, called in by_kind.items():
            for part in chunks(called):
                found += self._owners_of(OWNERS[kind], part, start, at)
        return found

    def _owners_of(
        self, kind: OwnerSeries, called: Sequence[str], start: float, at: float
    ) -> list[StateSample]:
        """Those that are there as they are now; of those that went everything ever told."""
        chosen = one_of(kind.label, called)
        now = self.ask(self._select((*kind.facts, *kind.values), chosen), at)
        there = {_named(kind, one.labels) for one in now}
        past = self._client.series(self._select(kind.facts, chosen), start, at)
        gone = [StateSample(row["__name__"], original(row), 1.0) for row in past]
        return now + [one for one in gone if _named(kind, one.labels) not in there]

    def _job_ends(
        self, samples: Sequence[StateSample], gone: Mapping[str, float], start: float, at: float
    ) -> list[StateSample]:
        """How Jobs ended whose pods went before anybody saw them end."""
        seen = names.phases(samples)
        jobs = {
            one.labels.get("owner_name", "")
            for one in samples
            if one.name == names.POD_OWNER
            and one.labels.get("owner_kind") == "Job"
            and one.labels.get("uid", "") in gone
            and seen.get(one.labels["uid"]) not in names.ENDED
        }
        ends = (names.JOB_COMPLETE, names.JOB_FAILED)
        span = max(_STEP_SECONDS, round(at - start))
        return self.ask_each(
            (
                "last_over_time("
                + self._select(ends, 'condition="true"', one_of("job_name", part))
                + f"[{span}s])"
                for part in chunks(sorted(jobs))
            ),
            at,
        )

    def _nodes(self, accelerators: str, at: float) -> list[StateSample]:
        devices = (names.NODE_CAPACITY, names.NODE_ALLOCATABLE)
        return self.ask_each(
            [
                self._select(OF_NODES),
                self._select(devices, f"resource=~{quoted(accelerators)}"),
                self._select((names.NODE_ALLOCATABLE,), 'resource=~"cpu|memory"'),
                self._select((names.NODE_CONDITION,), 'condition="Ready"'),
            ],
            at,
        )


class _Lives:
    """Pods that have gone: when they were last seen, and what was said of them then."""

    def __init__(
        self, reader: KubeStateReader, uids: Sequence[str], start: float, at: float
    ) -> None:
        self._reader = reader
        self._uids = uids
        self._at = at
        self._span = max(_STEP_SECONDS, round(at - start))
        self.seen: dict[str, float] = {}
        self.ran: dict[str, float] = {}
        self.unread = 0

    def find(self) -> None:
        """Learn when each was last seen; the very short-lived are seen by their raw samples."""
        for part in chunks(self._uids):
            found = self._reader.last_times(
                part, self._span, _STEP_SECONDS, self._at, running=False
            )
            short = [uid for uid in part if uid not in found]
            if short:
                found |= self._reader.raw(PHASE, short, self._span, self._at)
            self.seen.update(found)

    def read(self, spent: Callable[[], bool]) -> list[StateSample]:
        """The last samples of each, the latest first, until the budget is spent."""
        slots: dict[int, list[str]] = defaultdict(list)
        for uid, seen in sorted(self.seen.items()):
            slots[math.ceil((seen + _STEP_SECONDS) / HOUR_SECONDS) * HOUR_SECONDS].append(uid)
        samples: list[StateSample] = []
        for slot in sorted(slots, reverse=True):
            for part in chunks(slots[slot]):
                if spent():
                    self.unread += len(part)
                    for uid in part:
                        del self.seen[uid]
                    continue
                end = min(float(slot), self._at)
                samples += self._reader.last_of_pods(part, _SPAN_SECONDS, end)
                ran = self._reader.last_times(part, _SPAN_SECONDS, _FINE_SECONDS, end, running=True)
                self.ran.update(ran)
        return samples


def _last_time(series: str, span: int, step: int, *, running: bool = False) -> str:
    """When the series last had a sample (of value 1) that a look every ``step`` seconds sees."""
    when = f"timestamp({series})"
    if running:
        when = f"({when} and ({series} == 1))"
    return f"max_over_time({when}[{span}s:{step}s])"


def _named(kind: OwnerSeries, labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get("namespace", ""), labels.get(kind.label, "")


def _state(sample: Sample) -> StateSample:
    labels = labels_of(sample.metric)
    return StateSample(labels.get("__name__", ""), original(labels), float(sample.value[1]))
