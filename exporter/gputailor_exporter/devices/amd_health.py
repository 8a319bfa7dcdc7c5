"""An AMD board's sensors, limits, links and errors.

The table of metrics comes first, single files of sysfs fill what it lacks.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gputailor_exporter.devices.amd_metrics import GpuMetrics
from gputailor_exporter.devices.base import DeviceReading, PcieLink, Reason
from gputailor_exporter.devices.drm_hwmon import Sensors
from gputailor_exporter.devices.drm_link import read_pcie_link
from gputailor_exporter.devices.drm_sysfs import DeviceFiles, Slowly, names_in

_LINK_SECONDS: Final = 10.0
#: Asking for error counts makes the driver ask each block of the chip: seldom.
_ERRORS_SECONDS: Final = 60.0
_LEVELS_SECONDS: Final = 600.0

_CLOCKS: Final = {"graphics": "pp_dpm_sclk", "memory": "pp_dpm_mclk"}
_BLOCK: Final = "_err_count"
_ERRORS: Final = {"ue": "uncorrected", "ce": "corrected"}


class Health:
    """What belongs to the board. Not safe for several threads."""

    def __init__(self, files: DeviceFiles, collectors: frozenset[str]) -> None:
        """``files``: the device's, which keep the reasons; ``collectors``: what is read."""
        self._files = files
        self._on = collectors
        self._sensors = Sensors(files)
        self._counting: set[str] = set()  # blocks that told their errors once
        self._link: Slowly[PcieLink | None] = Slowly(
            _LINK_SECONDS, lambda: read_pcie_link(files), files
        )
        self._errors = Slowly(_ERRORS_SECONDS, self._read_errors, files)
        self._levels = Slowly(_LEVELS_SECONDS, self._read_levels, files)

    def add(self, reading: DeviceReading, metrics: GpuMetrics | None, at: float) -> DeviceReading:
        """Return the reading with the board's values."""
        sensors, table = self._sensors, metrics or GpuMetrics(0)
        power: float | None = table.power_watts
        return replace(
            reading,
            power_watts=power if power is not None else sensors.power(at),
            power_limit_watts=sensors.power_limit(at),
            temperatures_celsius=self._temperatures(table, at),
            clocks_hertz=self._clocks(table, at),
            clocks_max_hertz=self._levels.get(at) if "clocks" in self._on else {},
            pcie_link=self._link.get(at) if "pcie" in self._on else None,
            nvlink_bytes=table.xgmi_bytes if "nvlink" in self._on else {},
            ecc_errors=self._errors.get(at) if "ecc" in self._on else {},
        )

    def _temperatures(self, table: GpuMetrics, at: float) -> Mapping[str, float]:
        if "temperature" not in self._on:
            return {}
        return table.temperatures_celsius or self._sensors.temperatures(at)

    def _clocks(self, table: GpuMetrics, at: float) -> Mapping[str, float]:
        if "clocks" not in self._on:
            return {}
        return table.clocks_hertz or self._sensors.clocks(at)

    def _read_levels(self) -> dict[str, float]:
        """Return the highest of the levels ("2: 2100Mhz *" a line) by domain, in hertz."""
        found: dict[str, float] = {}
        for domain, file in _CLOCKS.items():
            levels = []
            for line in (self._files.text("clock_max", file) or "").splitlines():
                number = line.partition(":")[2].lower().partition("mhz")[0].strip()
                if number.isdecimal():
                    levels.append(int(number))
            if levels:
                found[domain] = max(levels) * 1e6
        return found

    def _read_errors(self) -> dict[str, int]:
        """Return errors of all blocks by severity; empty without RAS.

        A block that does not count is left out. One that did, and does not tell now (the driver
        says "Query currently inaccessible" during a reset), leaves the sum unknown: without it the
        sum would fall, and rise by old errors later.
        """
        names = {name for name in names_in(self._files.folder / "ras") if name.endswith(_BLOCK)}
        sums: dict[str, int] = {}
        reason = None
        for name in sorted(names | self._counting):
            text = self._files.text("ecc_errors", f"ras/{name}")
            counts = _counts(text or "")
            if counts:
                self._counting.add(name)
            elif text is not None or name in self._counting:
                reason = self._files.reasons.get("ecc_errors", Reason.NO_SAMPLES)
            for severity, count in counts.items():
                sums[severity] = sums.get(severity, 0) + count
        if reason is not None:
            self._files.reasons["ecc_errors"] = reason
            return {}
        if sums:
            self._files.reasons.pop("ecc_errors", None)
        return sums


def _counts(text: str) -> dict[str, int]:
    """Errors of one block by severity ("ue: 0", "ce: 3"); empty where it does not tell both."""
    found = {}
    for line in text.splitlines():
        kind, _, count = line.partition(":")
        severity = _ERRORS.get(kind.strip())
        if severity is not None and count.strip().isdecimal():
            found[severity] = int(count)
    return found if len(found) == len(_ERRORS) else {}
