"""Opens a back end as soon as it can be opened, and lists its devices from then on.

A driver that cannot be loaded is waited for, not died of: it is tried again at growing intervals,
its trouble is said once, and ``trouble`` tells a probe what is waited for. A driver that was
replaced under the process (an upgrade, a reload) never comes back to it, because the binding
cannot unload the library: then ``renewal`` says that only a new process will do.

Times are seconds of the sampler's clock, passed in. One thread calls ``step``; others only look.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gputailor_exporter.devices.base import Backend, DeviceError, DeviceIdentity

log = logging.getLogger(__name__)

#: Label values of ``source``: the driver as a whole, and the listing of its devices.
DRIVER: Final = "driver"
DISCOVERY: Final = "discovery"

#: How soon a listing that failed, or that lacks a GPU, is tried again. A GPU that stays away is
#: looked for at doubling intervals.
RETRY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class DiscoverySettings:
    """When what is tried again; seconds.

    ``interval``: between two listings. ``open_retry`` and ``open_retry_most``: first and longest
    wait before the back end is opened again, doubled in between. ``replaced``: how long the driver
    may say that it was replaced before a new process is asked for, ``failing``: how long a listing
    that once worked may fail in other ways. ``renew_every``: how often a driver that was never
    opened may ask for a new process (its library may have been replaced meanwhile).
    """

    interval: float = 10.0
    open_retry: float = 1.0
    open_retry_most: float = 30.0
    replaced: float = 5.0
    failing: float = 120.0
    renew_every: float = 60.0


@dataclass(frozen=True, slots=True)
class Found:
    """Devices present, and how many GPUs should be; ``listed`` False while the driver is away."""

    devices: tuple[DeviceIdentity, ...]
    expected: int | None
    listed: bool = True


class Discovery:
    """The driver as a whole: not open yet, listing its devices, or gone."""

    def __init__(
        self,
        backend: Backend,
        settings: DiscoverySettings,
        count_error: Callable[[str, str], None],
    ) -> None:
        """``count_error`` takes a source and a reason."""
        self.opened = False
        self.listed = False  # at least once
        self.trouble = ""  # why there is nothing to measure now; empty while all is well
        self._backend = backend
        self._settings = settings
        self._count_error = count_error
        self.on_soon: Callable[[], None] = lambda: None  # wakes whoever steps
        self._due = self._listed_at = float("-inf")
        self._retry = min(RETRY_SECONDS, settings.interval)
        self._wait = settings.open_retry
        self._search = RETRY_SECONDS  # until a GPU that is not here is looked for again
        self._failing: float | None = None  # since this time
        self._replaced: float | None = None  # likewise
        self._logged = ""

    def step(self, now: float) -> Found | None:
        """Open or list if that is due; None where there is nothing new."""
        if now < self._due:
            return None
        if not self.opened:
            waiting = self._open(now)
            if waiting is not None:
                return waiting
        return self._list(now)

    def soon(self) -> None:
        """List as soon as the last listing is ``RETRY_SECONDS`` old."""
        self._due = min(self._due, self._listed_at + self._retry)
        self.on_soon()

    def pause(self, now: float) -> float:
        """Seconds until the next step has something to do."""
        return min(max(0.0, self._due - now), self._settings.interval)

    def answered(self) -> None:
        """A device was read well: the driver is here, whatever a single call said."""
        self._replaced = None

    def failed(self, error: DeviceError, now: float) -> None:
        """Note what a call said of the driver as a whole."""
        if error.driver_replaced and self._replaced is None:
            self._replaced = now

    def renewal(self, now: float) -> str:
        """Why only a new process can read the devices; empty while this one will do."""
        limits = self._settings
        patience = limits.replaced if self.listed else limits.renew_every
        if self._replaced is not None and now - self._replaced >= patience:
            return "the driver was replaced under this process"
        failing = self._failing
        if self.listed and failing is not None and now - failing >= limits.failing:
            return f"the driver has listed no devices for {now - failing:.0f} s"
        return ""

    def _open(self, now: float) -> Found | None:
        try:
            self._backend.open()
        except DeviceError as error:
            self._count_error(DRIVER, error.reason)
            self.failed(error, now)
            self.trouble = f"cannot read devices: {error}"
            self._say(f"{self.trouble}. Trying again until it works")
            self._due = now + self._wait
            self._wait = min(2 * self._wait, self._settings.open_retry_most)
            return Found((), self._expected(), listed=False)
        self.opened = True
        self._replaced = None
        if self.trouble:
            log.info("the driver is here now")
        self.trouble = ""
        return None

    def _list(self, now: float) -> Found | None:
        self._listed_at = now
        try:
            devices = self._backend.devices()
            expected = self._backend.expected()
        except DeviceError as error:
            self._count_error(DISCOVERY, error.reason)
            self.failed(error, now)
            if self._failing is None:
                self._failing = now
            self.trouble = f"finding devices failed: {error}"
            self._say(self.trouble)
            self._due = now + self._retry
            return None
        if not devices and not self.listed:
            log.warning("the %s back end lists no device on this node", self._backend.name)
        self._failing = self._replaced = None
        self.trouble = self._logged = ""
        self.listed = True
        self._due = now + self._until_next(devices, expected)
        return Found(devices, expected)

    def _until_next(self, devices: tuple[DeviceIdentity, ...], expected: int | None) -> float:
        boards = sum(1 for device in devices if not device.parent_uuid)
        if boards >= (expected or 0):
            self._search = RETRY_SECONDS
            return self._settings.interval
        wait = min(self._search, self._settings.interval)
        self._search = min(2 * self._search, self._settings.interval)
        return wait

    def _expected(self) -> int | None:
        """GPUs that should be here, as far as that can be known without the driver."""
        try:
            return self._backend.expected()
        except DeviceError:
            return None

    def _say(self, text: str) -> None:
        if text != self._logged:  # said once, not at each attempt
            log.warning("%s", text)
            self._logged = text
