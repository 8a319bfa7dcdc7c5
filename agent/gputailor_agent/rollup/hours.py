"""Makes rows of one hour after another, out of what a Prometheus told of each.

Where several exporters tell of the same device, the better one counts for each signal (``mixing``).
"""

from collections import Counter
from typing import Final

import msgspec

from gputailor_agent.dialects.gauges import gauge_dialects
from gputailor_agent.model.usage import HOUR_SECONDS, Device, UsageRow
from gputailor_agent.rollup.containers import Span, container_rows
from gputailor_agent.rollup.counters import CounterRollup
from gputailor_agent.rollup.devices import merge_device
from gputailor_agent.rollup.means import MeansRollup
from gputailor_agent.rollup.mixing import Told, mix
from gputailor_agent.rollup.owing import LateHistograms
from gputailor_agent.sources.prometheus import GaugeHour, HourReading

#: An hour of which the server itself says that it told but a part is asked for again for so long.
PARTIAL_PATIENCE_SECONDS: Final = 6.0 * HOUR_SECONDS

_PARTIAL: Final = (
    "the server answered in part, so what was used may show as not observed; hours of the last "
    f"{PARTIAL_PATIENCE_SECONDS / HOUR_SECONDS:.0f} are asked for again"
)


class RolledHour(msgspec.Struct, frozen=True, kw_only=True):
    """An hour's rows as absolute figures; a few may be of earlier hours and replace those.

    ``late`` completes rows that were given out with earlier hours.
    """

    hour: int
    end: int
    whole: bool
    partial: bool = False  # the server said that it lacked something
    rows: tuple[UsageRow, ...]
    devices: tuple[Device, ...]
    late: tuple[LateHistograms, ...] = ()  # of rows of earlier hours


class HourRollup:
    """Makes rows of hours that come in order of time; ``at`` is the end of the last one."""

    def __init__(self, cluster: str, counters: CounterRollup | None = None) -> None:
        self.counters = counters or CounterRollup(cluster)
        self.means = MeansRollup(cluster)
        self.problems: Counter[str] = Counter()

    def add(self, reading: HourReading) -> RolledHour:
        """Roll one hour up."""
        for page in reading.pages:
            self.counters.add(page)
        ours = self.counters.take_rows()
        devices = {device.gpu_uuid: device for device in self.counters.devices()}
        now = [row for row in ours if row.key.hour == reading.hour]
        earlier = [row for row in ours if row.key.hour != reading.hour]
        own = {device.gpu_uuid for page in reading.pages for device in page.devices}
        sources = [Told(now, dict(devices), _allocating(reading))]
        for gauges in sorted(reading.gauges, key=_rank):
            rows, seen = self.means.add(gauges)
            told = {device.gpu_uuid: device for device in seen}
            sources.append(Told(rows, told))
            for uuid, device in told.items():
                if not {uuid, device.parent_uuid} & own:
                    known, at = devices.get(uuid), device.last_seen
                    devices[uuid] = merge_device(known, device, self.counters.cluster, at)
        span = Span(self.counters.cluster, reading.hour, reading.end)
        mixed = mix(sources, span.seconds)
        mixed += container_rows(reading.beside, mixed, devices, span)
        self.problems.update(reading.problems)
        self.problems.update(f"{_PARTIAL}: {said}" for said in reading.partial)
        return RolledHour(
            hour=reading.hour,
            end=reading.end,
            whole=reading.whole,
            partial=bool(reading.partial),
            rows=(*earlier, *mixed),
            devices=tuple(devices.values()),
            late=tuple(self.counters.take_histograms()),
        )

    def told(self) -> list[str]:
        """Return what went wrong, as sentences."""
        counted = self.counters.problems + self.means.problems
        lines = [f"{what.replace('_', ' ')} ({count}x)" for what, count in counted.most_common()]
        return [*self.problems, *lines]


def _allocating(reading: HourReading) -> set[str]:
    """Devices of exporters of ours that told in the hour itself who holds devices.

    Such an exporter's word counts where it says that nobody holds one; an exporter that cannot
    ask kubelet names no containers at all.
    """
    pages = [page for page in reading.pages if page.at > reading.hour]
    able = {page.exporter for page in pages if page.containers}
    return {device.gpu_uuid for page in pages if page.exporter in able for device in page.devices}


def _rank(gauges: GaugeHour) -> tuple[int, str]:
    """Place of a dialect among sources, as ``gauge_dialects`` has them."""
    order = [dialect.name for dialect in gauge_dialects()]
    name = gauges.dialect
    return (order.index(name) if name in order else len(order), name)
