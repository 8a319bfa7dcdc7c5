"""The hours that are not in the store yet, where usage comes out of a Prometheus.

Whole hours are kept some minutes after their end. Who stopped working is to be told sooner: this
asks the server who worked lately, and, for those who did not, what happened since the last hour
that is kept. None of it is written.
"""

from typing import Protocol

from gputailor_agent.model.usage import Device, UsageRow
from gputailor_agent.rollup.history import fill_store
from gputailor_agent.rollup.hours import HourRollup
from gputailor_agent.sources.prometheus import PrometheusSource
from gputailor_agent.sources.prometheus.lately import Lately, held_lately
from gputailor_agent.store import Store


class Live(Protocol):
    """What tells of the time since the last hour that is kept; may raise."""

    def holdings(self, now: float, quiet_seconds: float) -> list[Lately]:
        """Who holds a device at ``now`` (Unix seconds), looking back so long for a sign of work."""
        ...

    def rows(self, since: float, now: float) -> tuple[list[UsageRow], list[Device]]:
        """Use of the hours from ``since`` (a whole hour) on, and the devices it was on."""
        ...


class PrometheusUsage:
    """``Live`` out of a Prometheus, and what fills a store with its whole hours."""

    def __init__(self, source: PrometheusSource) -> None:
        """``source`` is closed by whoever opened it."""
        self._source = source

    def __call__(self, start: float, end: float, store: Store) -> list[str]:
        """Put the whole hours that the store lacks into it, as ``backfill.HistoryFiller``."""
        return fill_store(self._source, start, end, store)

    def holdings(self, now: float, quiet_seconds: float) -> list[Lately]:
        """One instant query per metric; raises ``PrometheusError``."""
        return held_lately(self._source, now, quiet_seconds)

    def rows(self, since: float, now: float) -> tuple[list[UsageRow], list[Device]]:
        """Read anew each time, as far as the server's clock has come."""
        end = now - self._source.ahead_seconds()
        rollup = HourRollup(self._source.cluster)
        rows: list[UsageRow] = []
        devices: dict[str, Device] = {}
        for reading in self._source.hours(since, end, complete=False):
            rolled = rollup.add(reading)
            rows += [row for row in rolled.rows if row.key.hour >= since]
            devices |= {device.gpu_uuid: device for device in rolled.devices}
        return rows, list(devices.values())
