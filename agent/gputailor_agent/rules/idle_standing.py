"""What rule ``idle`` holds against its limits: all devices of a workload together, in numbers.

Nothing here decides; ``idle`` does. Each number is that of the device that speaks most against
idleness: the least idle, the least covered, the hottest.
"""

from dataclasses import dataclass
from typing import Final

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Evidence
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules.base import Limits, held_against, noted
from gputailor_agent.rules.idleness import VIDEO_SIGNALS, DeviceIdleness, Doubt
from gputailor_agent.rules.requesting import request_evidence

HELD_NOW: Final = "devices of pods that hold them at the window's end"
_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
_IDLE_POWER: Final = "(energy - board power x seconds of busy hours) / seconds of hours at zero"


@dataclass(frozen=True, slots=True)
class Standing:
    """All devices of a workload together; it is idle for as long as its least idle device."""

    devices: tuple[DeviceIdleness, ...]
    warn_seconds: float
    act_seconds: float

    @property
    def seconds(self) -> float:
        """Idle time of the least idle device."""
        return min(device.seconds for device in self.devices)

    @property
    def since(self) -> float:
        """Since when (Unix seconds) nothing has run on any of them."""
        return max(device.since for device in self.devices)

    @property
    def from_start(self) -> bool:
        """Whether none of them has worked since its pod got it."""
        return all(device.from_start for device in self.devices)

    @property
    def doubted(self) -> tuple[DeviceIdleness, ...]:
        """Devices of which it cannot be said whether they were idle for long enough."""
        return tuple(device for device in self.devices if self.doubt(device) is not None)

    def doubt(self, device: DeviceIdleness) -> Doubt | None:
        """Why not; a gap that is too near leaves too short a time that was observed."""
        if device.doubt is None and device.cut and device.seconds < self.warn_seconds:
            return Doubt.COVERAGE
        return device.doubt

    @property
    def active(self) -> tuple[DeviceIdleness, ...]:
        """Devices that certainly worked too lately to be idle.

        Within the last hour that is certain; before that only if nothing stopped since.
        """
        return tuple(
            device
            for device in self.devices
            if device.seconds < self.warn_seconds
            and not device.from_start
            and device.doubt not in {Doubt.NEVER_MEASURED, Doubt.VIDEO_TIME}
            and not device.cut
            and (device.doubt is None or device.seconds < _HOUR)
        )

    @property
    def acts(self) -> bool:
        """Whether it has been idle for so long that another idle hour is sure enough."""
        return self.seconds >= self.act_seconds

    @property
    def video_known(self) -> bool:
        """Whether encoder and decoder could be read on all of them."""
        return all(device.video_known for device in self.devices)

    @property
    def power_known(self) -> bool:
        """Whether power could be held against the counters on all of them."""
        return all(d.watts is not None and d.watts_limit is not None for d in self.devices)


def standing_of(profile: Profile, devices: tuple[DeviceIdleness, ...], limits: Limits) -> Standing:
    """Return the devices with the rule's times for them: of a notebook the first is its own."""
    start = all(device.from_start for device in devices)
    kind = "start_" if start else ""
    warn = limits[f"{kind}warn_minutes"]
    if profile.workload.task_class == TaskClass.NOTEBOOK:
        warn = limits["notebook_minutes"]
    act = max(warn, limits[f"{kind}act_minutes"])
    return Standing(devices, warn * _MINUTE, act * _MINUTE)


def idle_evidence(profile: Profile, standing: Standing, limits: Limits) -> tuple[Evidence, ...]:
    """Return the numbers: the least idle, least covered device decides."""
    devices = standing.devices
    signal = devices[0].signal
    items = (
        noted("GPUs now", len(devices), unit="gpus", profile=profile, formula=HELD_NOW),
        held_against(
            "idle time", standing.seconds, ">=", standing.warn_seconds, unit="seconds",
            profile=profile, signal=signal,
            formula="window's end - last active time (or start), least of all GPUs",
        ),
        held_against(
            "coverage of the idle time", min(device.coverage for device in devices), ">=",
            limits["coverage"], unit="ratio", profile=profile, signal=signal,
            formula=f"observed seconds of {signal} / idle seconds, least of all GPUs",
        ),
    )  # fmt: skip
    active = (
        noted(
            f"{name} active",
            profile.use(name).active_seconds if profile.use(name).observed_seconds > 0 else None,
            unit="seconds",
            profile=profile,
            signal=name,
            formula="integral of the signal over the window, all GPUs",
        )
        for name in ("kernel", *VIDEO_SIGNALS)
    )
    against = (_power(profile, devices), *_link(profile, devices, limits))
    return (*items, *active, *against, *request_evidence(profile))


def _power(profile: Profile, devices: tuple[DeviceIdleness, ...]) -> Evidence:
    name, unit = "least mean power while idle", "watts"
    known = [
        (device.watts, device.watts_limit)
        for device in devices
        if device.watts is not None and device.watts_limit is not None
    ]
    if not known:
        return noted(name, None, unit=unit, profile=profile, formula=_IDLE_POWER)
    watts, limit = max(known, key=lambda pair: pair[0] / (pair[1] or 1.0))
    return held_against(name, watts, "<=", limit, unit=unit, profile=profile, formula=_IDLE_POWER)


def _link(
    profile: Profile, devices: tuple[DeviceIdleness, ...], limits: Limits
) -> tuple[Evidence, ...]:
    rates = [d.link_bytes_per_second for d in devices if d.link_bytes_per_second is not None]
    return tuple(
        held_against(
            "link traffic while idle", rate, "<=", limits["link_bytes_per_second"],
            unit="bytes per second", profile=profile,
            formula="bytes over PCIe and NVLink / seconds held, most of all GPUs",
        )
        for rate in sorted(rates)[-1:]
    )  # fmt: skip
