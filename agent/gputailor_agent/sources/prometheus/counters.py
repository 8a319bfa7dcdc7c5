"""Pages of our exporter out of a server's memory: one at each hour's end, more where they are due.

An hour costs one sample per series, read at its end. Three things need a look inside the hour, and
only for whom they happened: a container that ended (its last counters), an exporter whose process
began anew (the last counters before), and a node that was never seen (its first ones: what it had
counted before anybody looked is not credited). They are found without touching samples: by the list
of series that lived in the hour. Values at an hour's end are up to one scrape old; since every
boundary is read the same way, a sum over hours is right to one scrape at each of its two ends.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from gputailor_agent.dialects import Holder, Place
from gputailor_agent.dialects.gputailor_series import (
    ALLOCATED_SECONDS,
    ALLOCATED_SHARE,
    CONTAINER,
    DEVICE,
    DEVICE_COUNTERS,
    DEVICE_INFO,
    DEVICE_UP,
    HOURLY,
    PROCESS_START,
)
from gputailor_agent.model.usage import Page
from gputailor_agent.sources.prometheus.answers import Sample, Vector
from gputailor_agent.sources.prometheus.client import LOOKS, PrometheusClient
from gputailor_agent.sources.prometheus.history import SLOT_SECONDS, Life, life_of
from gputailor_agent.sources.prometheus.paging import (
    Ending,
    Held,
    Moment,
    began_anew,
    dated,
    moments_of,
    pages_of,
    unread,
)
from gputailor_agent.sources.prometheus.placing import Placed, Placer, Reading, Target
from gputailor_agent.sources.prometheus.promql import chunks, equal, one_of, selector
from gputailor_agent.sources.prometheus.splitting import Splitting

#: Older than this at an hour's end, a series has ended. Exporters publish an ended container for
#: two scrapes and 60 s; a Prometheus that is not told of an end keeps a value for 300 s.
LOOK_BACK_SECONDS: Final = 150.0

_CHANGING: Final = (DEVICE_UP, *DEVICE_COUNTERS)
_CONSTANT: Final = tuple(name for name in DEVICE if name not in {DEVICE_INFO, *_CHANGING})
_DAY_SECONDS: Final = 86_400


class _Listed(NamedTuple):
    """A container's series that may have lived in an hour, and a matcher that finds its pod."""

    target: Target
    node: str
    holder: Holder
    pod_label: str


class CounterReader:
    """Reads one cluster's pages, hour by hour."""

    def __init__(
        self,
        client: PrometheusClient,
        cluster: str,
        matchers: tuple[str, ...] = (),
        look_back_seconds: float = LOOK_BACK_SECONDS,
    ) -> None:
        self.placer = Placer(cluster)
        self._client = client
        self._matchers = matchers
        self._look_back = look_back_seconds
        self._splitting = Splitting(client, self._select)
        self._told: set[bytes] = set()  # devices whose constants are known
        self._constants: list[Sample] = []
        self._left: tuple[float, Held] | None = None  # whose histograms an hour's end left unread

    def boundary(self, at: float) -> list[Page]:
        """A page of each node as of one time."""
        self._left = (at, {})
        return pages_of({float(at): self._whole(at, CONTAINER)}, ())

    def hour(
        self, begin: float, end: float, known: Collection[str], *, histograms: bool = True
    ) -> list[Page]:
        """Pages of (begin, end] in order of time; ``known``: nodes of which there was a page.

        Without ``histograms`` those of containers that go on are left to a later hour.
        """
        now = self._whole(end, CONTAINER if histograms else HOURLY)
        lives = self._lives(self._suspects(now, begin, end, known), begin, end)
        gone, before = unread(self._left_at(begin), now, lives, begin)
        moments = [*before, *moments_of(lives, now, known)]
        readings = {float(end): now}
        for moment, found in zip(moments, self._client.each(self._of, moments), strict=True):
            told = found if found.values else self._of_another(moment)
            readings.setdefault(moment[1], Reading()).join(told)
        ages = self._ages(begin) if moments else {}
        present = now.holders()
        ended = [
            life
            for life in lives
            if (life.target, life.holder) not in present and (life.target, life.last) not in moments
        ]
        endings = [*self._endings(ended, end), *self._last_words(gone, begin)]
        self._add_shares(now, endings, (begin, end))
        self._left = (end, {} if histograms else {one: now.node(one[0]) for one in present})
        return [
            msgspec.structs.replace(
                dated(page, ages.get(page.exporter, 0.0), begin, end),
                histograms_later=page.at == end and not histograms,
            )
            for page in pages_of(readings, endings)
        ]

    def _left_at(self, at: float) -> Held:
        """Containers there at an hour's end whose histograms may not have been read then."""
        if self._left is not None and self._left[0] == at:
            return self._left[1]
        found = self._client.query(f"timestamp({self._select((ALLOCATED_SECONDS,))})", at).result
        return {
            (placed.target, holder): placed.node or placed.target.instance
            for sample in found
            if float(sample.value[1]) >= at - self._look_back
            and (placed := self.placer.find(sample.metric, ALLOCATED_SECONDS)) is not None
            and (holder := placed.place.holder) is not None
        }

    def _select(self, names: Sequence[str], *matchers: str) -> str:
        return selector(names, *self._matchers, *matchers)

    def _whole(self, at: float, names: Sequence[str]) -> Reading:
        """Everything alive at one time; not what ended, though the server still shows it."""
        aged = [f"timestamp({self._select((name,))})" for name in (ALLOCATED_SECONDS, DEVICE_INFO)]
        holders, devices = self._client.each(lambda one: self._client.query(one, at), aged)
        values = self._splitting.whole((*names, *_CHANGING), at)
        alive: dict[object, tuple[float, str]] = {}  # when last told of, and by which copy
        for name, vector in ((ALLOCATED_SECONDS, holders), (DEVICE_INFO, devices)):
            for sample in vector.result:
                placed = self.placer.find(sample.metric, name)
                if placed is not None and float(sample.value[1]) >= at - self._look_back:
                    key, told = (placed.target, placed.place.holder), float(sample.value[1])
                    alive[key] = max(alive.get(key, (0.0, "")), (told, placed.origin))
        reading = self._put((*values, *self._read_constants(devices, at)), alive)
        for sample in devices.result:  # what a device is stands in the labels
            placed = self.placer.find(sample.metric, DEVICE_INFO)
            if placed is not None and (placed.target, None) in alive:
                reading.put(placed, 1.0)
        self._note_starts(reading, at)
        return reading

    def _read_constants(self, devices: Vector, at: float) -> list[Sample]:
        """What does not change of a device: read for a new one, and of all of them once a day."""
        there = {bytes(sample.metric) for sample in devices.result}
        if not there <= self._told or not at % _DAY_SECONDS:
            self._told = there
            self._constants = self._client.query(self._select(_CONSTANT), at).result
        return self._constants

    def _put(self, samples: Iterable[Sample], alive: Mapping[object, tuple[float, str]]) -> Reading:
        """What is alive; of copies of a series that of the server that was told last."""
        reading = Reading()
        newest: list[tuple[Placed, float]] = []
        for sample in samples:
            placed = self.placer.find(sample.metric)
            if placed is None:
                continue
            told = alive.get((placed.target, placed.place.holder))
            if told is None:
                continue
            if placed.origin == told[1]:
                newest.append((placed, float(sample.value[1])))
            else:
                reading.put(placed, float(sample.value[1]))
        for placed, value in newest:  # a page takes the last value that it is given
            reading.put(placed, value)
        return reading

    def _ages(self, at: float) -> dict[str, float]:
        """How old each node's values were at an hour's begin (seconds)."""
        expression = f"timestamp({self._select((DEVICE_INFO,))})"
        ages: dict[str, float] = {}
        for sample in self._client.query(expression, at).result:
            placed = self.placer.find(sample.metric, DEVICE_INFO)
            age = at - float(sample.value[1])
            if placed is not None and age <= self._look_back:
                node = placed.node or placed.target.instance
                ages[node] = min(age, ages.get(node, age))
        return ages

    def _note_starts(self, reading: Reading, at: float) -> None:
        """Add when each target's process began; other jobs' processes are none of ours."""
        if not reading.values:
            return
        jobs = one_of("job", {target.job for target in reading.values})
        for sample in self._client.query(self._select((PROCESS_START,), jobs), at).result:
            placed = self.placer.find(sample.metric)
            if placed is not None and placed.target in reading.values:
                reading.put(placed, float(sample.value[1]))

    def _of(self, moment: Moment) -> Reading:
        """One target's page at the time of one of its scrapes."""
        target, at = moment
        own = equal(target._asdict())
        reading = Reading()
        found = [
            (float(sample.value[1]), placed)
            for sample in self._splitting.of((*CONTAINER, *DEVICE, PROCESS_START), at, *own)
            if (placed := self.placer.find(sample.metric)) is not None
        ]
        for value, placed in sorted(found, key=_value):  # the last, so the newest, of copies counts
            reading.put(placed, value)
        return reading

    def _of_another(self, moment: Moment) -> Reading:
        """Likewise, of who told of a sample at that time: several servers answer by turns."""
        before, self._client.looks = self._client.looks, LOOKS
        found = self._of(moment)
        if not found.values:
            self._client.looks = before
        return found

    def _suspects(
        self, now: Reading, begin: float, end: float, known: Collection[str]
    ) -> list[_Listed]:
        """Containers of the hour that the page at its end does not tell all about."""
        present = now.holders()
        restarted = began_anew(now, begin)
        return [
            one
            for one in self._listed(begin, end)
            if (one.target, one.holder) not in present
            or one.target in restarted
            or one.node not in known
        ]

    def _listed(self, begin: float, end: float) -> list[_Listed]:
        found: list[_Listed] = []
        for labels in self._client.series(self._select((ALLOCATED_SECONDS,)), begin, end):
            placed = self.placer.place(labels)
            if placed is None or placed.place.holder is None:
                continue
            label = "exported_pod" if "exported_pod" in labels else "pod"
            node = placed.node or placed.target.instance
            found.append(_Listed(placed.target, node, placed.place.holder, label))
        return found

    def _lives(self, suspects: list[_Listed], begin: float, end: float) -> list[Life]:
        wanted = {(one.target, one.holder): one.node for one in suspects}
        span = round(end - begin)
        selectors = [self._select((ALLOCATED_SECONDS,), pods) for pods in _pod_matchers(suspects)]
        lives: dict[tuple[Target, Holder], Life] = {}
        for matrix in self._client.each(lambda s: self._client.samples(s, span, end), selectors):
            for series in matrix.result:
                placed = self.placer.find(series.metric)
                if placed is None or (holder := placed.place.holder) is None:
                    continue
                node = wanted.get((placed.target, holder))
                if node is not None:
                    samples = [(at, float(value)) for at, value in series.values]
                    life = life_of(placed.target, node, holder, samples, begin)
                    if life is not None:
                        lives[life.target, holder] = life.of_both(lives.get((life.target, holder)))
        return list(lives.values())

    def _endings(self, ended: list[Life], end: float) -> list[Ending]:
        """Last counters of containers that ended, read in slots of their last samples."""
        slots: dict[float, list[Life]] = {}
        for life in ended:
            slots.setdefault(min(end, life.slot), []).append(life)
        found: list[Ending] = []
        for at, lives in sorted(slots.items()):
            found.extend(self._slot(at, lives))
        return found

    def _add_shares(
        self, now: Reading, endings: Iterable[Ending], span: tuple[float, float]
    ) -> None:
        """Give containers that ended the share they held: its gauge vanishes with the pod."""
        told = now.shares()
        lacking: dict[tuple[Target, Holder], list[tuple[Place, float]]] = {
            (target, holder): now.values[target]
            for target, holder in now.holders()
            if (target, holder) not in told
        }
        lacking |= {(life.target, life.holder): values for life, values in endings}
        if not lacking:
            return
        begin, end = span
        pods = sorted({holder.pod for _, holder in lacking})
        for placed, value in self._last_of((ALLOCATED_SHARE,), pods, end, end - begin):
            if placed.place.holder is not None:
                values = lacking.get((placed.target, placed.place.holder))
                if values is not None:
                    values.append((placed.place, value))

    def _last_of(
        self, names: tuple[str, ...], pods: list[str], at: float, seconds: float
    ) -> Iterator[tuple[Placed, float]]:
        """Last values of pods' series in so many seconds.

        Read as ranges: some servers take the names off what ``last_over_time`` returns.
        """
        pod_matchers = [
            one_of(label, part) for part in chunks(pods) for label in ("pod", "exported_pod")
        ]
        asked = self._client.each(
            lambda matcher: self._splitting.raw(names, seconds, at, matcher), pod_matchers
        )
        lasts = [
            (series.values[-1], placed)
            for found in asked
            for series in found
            if series.values and (placed := self.placer.find(series.metric)) is not None
        ]
        for (_, value), placed in sorted(lasts, key=_time):  # the newest of copies comes last
            yield placed, float(value)

    def _last_words(self, gone: list[Life], at: float) -> Iterable[Ending]:
        """Counters of containers that were told of at a time and never again."""
        pods = sorted({life.holder.pod for life in gone})
        asked = [one_of(label, part) for part in chunks(pods) for label in ("pod", "exported_pod")]
        found = self._client.each(lambda one: self._splitting.of(CONTAINER, at, one), asked)
        told = [
            (float(sample.value[1]), placed)
            for samples in found
            for sample in samples
            if (placed := self.placer.find(sample.metric)) is not None
        ]
        return _endings_of(gone, ((placed, value) for value, placed in sorted(told, key=_value)))

    def _slot(self, at: float, lives: list[Life]) -> Iterable[Ending]:
        pods = sorted({life.holder.pod for life in lives})
        return _endings_of(lives, self._last_of(CONTAINER, pods, at, SLOT_SECONDS))


def _endings_of(lives: Iterable[Life], told: Iterable[tuple[Placed, float]]) -> list[Ending]:
    """Put what was told with the container that it is of; of copies the last counts."""
    values: dict[tuple[Target, Holder], Ending] = {
        (life.target, life.holder): (life, []) for life in lives
    }
    for placed, value in told:
        if placed.place.holder is not None:
            ending = values.get((placed.target, placed.place.holder))
            if ending is not None:
                ending[1].append((placed.place, value))
    return list(values.values())


def _value(told: tuple[float, Placed]) -> float:
    return told[0]


def _time(told: tuple[tuple[float, str], Placed]) -> float:
    return told[0][0]


def _pod_matchers(suspects: Iterable[_Listed]) -> list[str]:
    by_label: dict[str, set[str]] = {}
    for one in suspects:
        by_label.setdefault(one.pod_label, set()).add(one.holder.pod)
    return [
        one_of(label, part) for label, pods in by_label.items() for part in chunks(sorted(pods))
    ]
