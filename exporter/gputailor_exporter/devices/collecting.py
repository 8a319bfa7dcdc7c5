"""Takes out of a back end's readings what is turned off, whichever back end it is.

A back end that costs calls leaves out by itself what nobody wants (``BackendSettings.collectors``);
that nothing of it is published, and none of it listed as missing, is seen to here. Signals are not
touched: whether they come by GPM, which can be turned off, the back end alone knows.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gputailor_exporter.collectors import COLLECTORS
from gputailor_exporter.devices.base import (
    Backend,
    DeviceIdentity,
    DeviceReading,
    DeviceState,
    Wrapped,
    XidEvent,
)


@dataclass(frozen=True, slots=True)
class _Part:
    """What a collector tells: fields of a reading and of its state; how names of gaps begin."""

    reading: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


_PARTS: Final[Mapping[str, _Part]] = {
    "clocks": _Part(("clocks_hertz", "clocks_max_hertz"), (), ("clock",)),
    "temperature": _Part(
        ("temperatures_celsius",), ("temperature_limits_celsius",), ("temperature",)
    ),
    "fan": _Part((), ("fan_speed_ratio",), ("fan_speed",)),
    "pcie": _Part(("pcie_bytes", "pcie_link"), (), ("pcie_",)),
    "nvlink": _Part(
        ("nvlink_bytes",), ("nvlinks_up", "nvlink_errors", "nvlink_bytes_per_second"), ("nvlink",)
    ),
    "fabric": _Part((), ("fabric",), ("fabric",)),
    "throttle": _Part(("throttle_reasons",), (), ("throttle_reasons",)),
    "ecc": _Part(("ecc_errors",), (), ("ecc_errors",)),
    "rows": _Part(
        ("remapped_rows",),
        ("remapped_rows_pending", "remapped_rows_failed", "retired_pages", "retired_pages_pending"),
        ("remapped_rows", "retired_pages"),
    ),
    "modes": _Part(
        (),
        ("modes", "modes_pending", "compute_mode"),
        ("ecc_mode", "mig_mode", "persistence_mode", "compute_mode"),
    ),
    "serial": _Part((), ("serial",), ("serial",)),
}
_NO_READING: Final = DeviceReading(at=0.0)
_NO_STATE: Final = DeviceState()


class Collected(Wrapped):
    """A back end without what is turned off."""

    def __init__(self, backend: Backend, on: Container[str]) -> None:
        """``on``: names of the collectors that are on."""
        super().__init__(backend)
        off = [_PARTS[one.name] for one in COLLECTORS if one.name in _PARTS and one.name not in on]
        self._reading = tuple(name for part in off for name in part.reading)
        self._state = tuple(name for part in off for name in part.state)
        self._missing = tuple(name for part in off for name in part.missing)
        self._xid = "xid" in on

    def read(self, device: DeviceIdentity, at: float) -> DeviceReading:
        """See ``Backend``; what is off is neither there nor missing."""
        reading = super().read(device, at)
        state = _without(reading.state, _NO_STATE, self._state)
        changes = _without(reading, _NO_READING, self._reading)
        if state:
            changes["state"] = replace(reading.state, **state)
        if any(name.startswith(self._missing) for name in reading.unavailable):
            changes["unavailable"] = {
                name: reason
                for name, reason in reading.unavailable.items()
                if not name.startswith(self._missing)
            }
        return replace(reading, **changes) if changes else reading

    def wait_events(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        """See ``Backend``; waits also for what is off, to keep the beat."""
        events = super().wait_events(timeout_seconds)
        return events if self._xid else ()


def _without(values: Any, blank: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Blanks for those of ``names`` that have a value."""
    empty = {name: getattr(blank, name) for name in names}
    return {name: none for name, none in empty.items() if getattr(values, name) != none}
