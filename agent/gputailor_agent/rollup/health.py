"""What exporters of gauges say of a device's health while somebody held it, as a row's conditions.

They say it in four ways, of which each proves something else:

- a flag or a share of time (throttled, a fault): its mean x the time held;
- a counter (nanoseconds throttled, ECC errors): its rise from step to step. Whoever takes over a
  device takes over its counters, so a container's first step counts from what was last told of the
  device, by whatever series; with nothing told before, nothing is proved. A counter that fell began
  anew. A counter of one code of errors appears with the first of them: from zero, where the device
  was there before;
- a mask of reasons: of five minutes only its lowest and its highest value are known. Below the
  lowest bit that is a fault there was none; where both are equal it stood so all the time; else the
  step is unknown;
- the latest code of an error: a code in a step that was in none of the device's series in the step
  before proves one error. What stays proves none, and repeats of it are not seen: errors are at
  least as many.

Steps of which nobody told are counted (``untold/…``), so that silence of an exporter is no health.
As with our own exporter, a device's health counts for each of its holders.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from gputailor_agent.dialects import conditions
from gputailor_agent.dialects.base import Holder
from gputailor_agent.dialects.gauges import Gauge, Measure
from gputailor_agent.model.usage import quantise
from gputailor_agent.rollup.steps import Held
from gputailor_agent.sources.prometheus.readings import GaugeHour, HealthSeries

_Values = list[float | None]
_Counter = tuple[Gauge, str]  # and its part
_Told = dict[str, float]
_COUNTERS: Final = frozenset({Measure.THROTTLED_SECONDS, Measure.ERRORS})
_SHARES: Final = frozenset({Measure.THROTTLED, Measure.FAULT})
#: Whether errors occurred is told by these; a counter of codes is silent until there is one.
_OF_ERRORS: Final = frozenset({conditions.XID, conditions.ECC_UNCORRECTED})


class Health:
    """An hour's health of one kind of exporter's devices."""

    def __init__(self, hour: GaugeHour) -> None:
        self._by_device: dict[str, list[HealthSeries]] = defaultdict(list)
        for series in hour.health:
            self._by_device[series.device.gpu_uuid].append(series)

    def of_device(
        self, uuid: str, holders: Mapping[Holder | None, Held], steps: int
    ) -> dict[Holder | None, _Told]:
        """Conditions by holder of the device; nothing where the exporter tells of no health."""
        series = self._by_device.get(uuid)
        if not series:
            return {}
        device = _Device(series, holders, steps)
        return {holder: device.of(holder) for holder in holders}


class _Device:
    """One device; step 0 of its values is the one before the hour."""

    def __init__(
        self, series: Iterable[HealthSeries], holders: Mapping[Holder | None, Held], steps: int
    ) -> None:
        self._holders = holders
        self._steps = steps
        self._values: dict[tuple[Gauge, str, str], dict[Holder | None, _Values]] = {}
        for one in series:
            values = [None if raw is None else one.gauge.canonical(raw) for raw in one.values]
            place = self._values.setdefault((one.gauge, one.way, one.part), {})
            known = place.get(one.holder)
            choose = min if one.way == "min" else max
            place[one.holder] = values if known is None else _joined(known, values, choose)

    def of(self, holder: Holder | None) -> _Told:
        """What was told while the holder had the device."""
        found: _Told = {}
        untold = {conditions.UNTOLD_THROTTLING: 0.0, conditions.UNTOLD_ERRORS: 0.0}
        for step in range(self._steps):
            seconds = self._holders[holder].held_seconds(step)
            if seconds <= 0:
                continue
            told: _Told = {}
            for name, amount in self._step(holder, step + 1, seconds):
                told[name] = max(amount, told.get(name, 0.0))  # several may tell of one condition
            for name, amount in told.items():
                found[name] = found.get(name, 0.0) + quantise(amount)
            if not any(name.startswith(conditions.THROTTLED) for name in told):
                untold[conditions.UNTOLD_THROTTLING] += quantise(seconds)
            if not _OF_ERRORS & told.keys():
                untold[conditions.UNTOLD_ERRORS] += quantise(seconds)
        kept = {name: amount for name, amount in found.items() if amount > 0 or _is_shown(name)}
        return kept | {name: seconds for name, seconds in untold.items() if seconds > 0}

    def _step(self, holder: Holder | None, at: int, seconds: float) -> Iterator[tuple[str, float]]:
        """Conditions of one step and how much of each; a zero says that there was none.

        ``xid/`` alone says that the latest code is told.
        """
        for (gauge, way, part), by_holder in self._values.items():
            if gauge.measure in _SHARES:
                share = _value(by_holder, holder, at)
                if share is not None:
                    yield gauge.signal, share * seconds
            elif gauge.measure in _COUNTERS:
                rise = self._rise(by_holder, holder, at, anew=bool(part))
                if rise is not None:
                    most = seconds if gauge.measure is Measure.THROTTLED_SECONDS else rise
                    yield gauge.signal + part, min(rise, most)
            elif gauge.measure is Measure.REASONS and way == "min":
                highest = self._values.get((gauge, "max", part), {})
                ends = _value(by_holder, holder, at), _value(highest, holder, at)
                yield from _reasons(*ends, seconds)
            elif gauge.measure is Measure.LAST_ERROR and way == "min":
                yield from self._codes(gauge, holder, at)

    def _rise(
        self,
        by_holder: Mapping[Holder | None, _Values],
        holder: Holder | None,
        at: int,
        *,
        anew: bool,
    ) -> float | None:
        now = _value(by_holder, holder, at)
        if now is None:
            return None
        before = _value(by_holder, holder, at - 1)
        if before is None:
            before = _taken_over(by_holder, holder, at)
        if before is None:
            if not anew or not self._there(at - 1):
                return None
            before = 0.0
        return now - before if now >= before else now

    def _there(self, at: int) -> bool:
        """Whether anything told of the device in the step."""
        told = (values[at] for place in self._values.values() for values in place.values())
        if any(value is not None for value in told):
            return True
        return at > 0 and any(held.held_seconds(at - 1) > 0 for held in self._holders.values())

    def _codes(self, gauge: Gauge, holder: Holder | None, at: int) -> Iterator[tuple[str, float]]:
        ends = [self._values.get((gauge, way, ""), {}) for way in ("min", "max")]
        before = {code for end in ends for code in _everybodys(end, at - 1)}
        now = {_value(end, holder, at) for end in ends} - {None}
        if not now or not before:
            return
        yield conditions.XID, 0.0
        came = all(_value(end, holder, at - 1) is None for end in ends)
        for code in now - before - {0.0}:
            others = (
                values
                for end in ends
                for other, values in end.items()
                if other != holder and values[at] == code and values[at - 1] is not None
            )
            if code is not None and not (came and any(others)):
                yield f"{conditions.XID}{code:.0f}", 1.0


def _is_shown(name: str) -> bool:
    """Whether a condition at zero says something: that nothing held the clocks down."""
    return name.startswith(conditions.THROTTLED)


def _joined(one: _Values, other: _Values, choose: Callable[..., float]) -> _Values:
    return [
        b if a is None else a if b is None else choose(a, b)
        for a, b in zip(one, other, strict=True)
    ]


def _value(
    by_holder: Mapping[Holder | None, _Values], holder: Holder | None, at: int
) -> float | None:
    """The holder's own value, else what is told of the device alone."""
    own = by_holder.get(holder)
    if own is not None and own[at] is not None:
        return own[at]
    nobodys = by_holder.get(None)
    return None if nobodys is None else nobodys[at]


def _taken_over(
    by_holder: Mapping[Holder | None, _Values], holder: Holder | None, at: int
) -> float | None:
    """The device's counter as its holder before left it: in this step, or in the one before."""
    others = [values for other, values in by_holder.items() if other != holder]
    left = [values for values in others if values[at - 1] is not None]
    known = [now for values in left if (now := values[at]) is not None]
    known = known or [before for values in left if (before := values[at - 1]) is not None]
    return max(known, default=None)


def _everybodys(by_holder: Mapping[Holder | None, _Values], at: int) -> set[float]:
    return {value for values in by_holder.values() if (value := values[at]) is not None}


def _reasons(
    lowest: float | None, highest: float | None, seconds: float
) -> Iterator[tuple[str, float]]:
    if lowest is None or highest is None:
        return
    if highest >= conditions.LOWEST_BIT and lowest != highest:
        return
    for bit, name in conditions.BITS.items():
        yield name, seconds if int(highest) & bit else 0.0
