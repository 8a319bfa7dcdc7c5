"""Sensors of one device by the kernel's hwmon interface (``device/hwmon/hwmonN``).

Units are those of the kernel's ``Documentation/hwmon/sysfs-interface.rst``: milli-degrees,
microwatts, microjoules, hertz.
"""

import re
from typing import Final

from gputailor_exporter.devices.drm_sysfs import DeviceFiles, Slowly, names_in, read_text

_INPUT: Final = re.compile(r"^(temp|freq)(\d+)_input$")
#: The contract's names for what drivers label; other labels stay as they are.
_SENSORS: Final = {"mem": "memory", "vram": "memory", "pkg": "package"}
_DOMAINS: Final = {"sclk": "graphics", "mclk": "memory"}

#: How often the sensors are looked for, and slow settings read, in seconds.
_LAYOUT_SECONDS: Final = 600.0
_LIMIT_SECONDS: Final = 10.0

#: Hotter or colder than this is no reading.
_CELSIUS: Final = (-50.0, 250.0)
_WATTS: Final = 10_000.0


class Sensors:
    """Temperatures, power, energy and clocks of one device; units of the contract."""

    def __init__(self, files: DeviceFiles) -> None:
        """``files``: the device's, which keep the reasons."""
        self._files = files
        self._folder = ""
        self._layout = Slowly(_LAYOUT_SECONDS, self._find)
        self._limit = Slowly(_LIMIT_SECONDS, self._read_limit, files)

    def temperatures(self, at: float) -> dict[str, float]:
        """Return degrees Celsius by sensor; empty, with a reason, where there is none."""
        low, high = _CELSIUS
        found: dict[str, float] = {}
        for sensor, file in self._inputs(at, "temp").items():
            value = self._files.number("temperature", file, unit=1e-3, low=low, high=high)
            if value is not None:
                found[_SENSORS.get(sensor, sensor)] = value
        return found

    def clocks(self, at: float) -> dict[str, float]:
        """Return hertz by domain."""
        found: dict[str, float] = {}
        for domain, file in self._inputs(at, "freq").items():
            value = self._files.number("clock", file)
            if value is not None:
                found[_DOMAINS.get(domain, domain)] = value
        return found

    def power(self, at: float) -> float | None:
        """Return watts: the average where the driver has it, else the value now."""
        self._layout.get(at)
        for file in ("power1_average", "power1_input"):
            value = self._files.number("power", f"{self._folder}/{file}", unit=1e-6, high=_WATTS)
            if value is not None:
                return value
        return None

    def power_limit(self, at: float) -> float | None:
        """Return the limit in force in watts; read every ten seconds."""
        self._layout.get(at)
        return self._limit.get(at)

    def energy(self, at: float) -> float | None:
        """Return joules since the driver was loaded."""
        self._layout.get(at)
        return self._files.number("energy", f"{self._folder}/energy1_input", unit=1e-6)

    def _read_limit(self) -> float | None:
        for file in ("power1_cap", "power1_max"):
            path = f"{self._folder}/{file}"
            value = self._files.number("power_limit", path, unit=1e-6, high=_WATTS)
            if value:  # 0: no limit is set
                return value
        return None

    def _inputs(self, at: float, kind: str) -> dict[str, str]:
        return {name: file for (one, name), file in self._layout.get(at).items() if one == kind}

    def _find(self) -> dict[tuple[str, str], str]:
        """Return the files of temperatures and clocks by kind and label."""
        folder = self._files.folder / "hwmon"
        found: dict[tuple[str, str], str] = {}
        self._folder = "hwmon"
        for one in names_in(folder)[:1]:
            self._folder = f"hwmon/{one}"
            for name in names_in(folder / one):
                match = _INPUT.match(name)
                if match is not None:
                    label = read_text(folder / one / f"{match[1]}{match[2]}_label")
                    found[match[1], label or match[1] + match[2]] = f"{self._folder}/{name}"
        return found
