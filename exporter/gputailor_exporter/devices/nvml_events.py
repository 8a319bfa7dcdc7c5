"""Xid errors from the NVIDIA driver's event set: told once each, so that repeats are counted."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pynvml

from gputailor_exporter.devices.base import DeviceIdentity
from gputailor_exporter.devices.nvml_calls import address_of, call
from gputailor_exporter.devices.nvml_counts import MOST_EVENTS


class EventSet:
    """One thread waits, another adds devices."""

    def __init__(self) -> None:
        """A driver without events gives a set that never has any."""
        self._set: Any = None
        with suppress(pynvml.NVMLError):
            self._set = call("nvmlEventSetCreate")
        self._watched: dict[int, str] = {}  # address of a handle -> uuid

    def unwatched(
        self, devices: Mapping[str, DeviceIdentity], handles: Mapping[str, Any]
    ) -> list[str]:
        """UUIDs of GPUs whose events are not asked for yet; MIG instances are told by their GPU."""
        return [
            uuid
            for uuid, device in devices.items()
            if self._set is not None
            and not device.parent_uuid
            and self._watched.get(address_of(handles[uuid])) != uuid
        ]

    def watch(self, uuid: str, handle: Any) -> None:
        """Ask for the Xid errors of a GPU."""
        with suppress(pynvml.NVMLError):
            kind = pynvml.nvmlEventTypeXidCriticalError
            call("nvmlDeviceRegisterEvents", handle, kind, self._set)
            self._watched[address_of(handle)] = uuid

    def wait(self, timeout_seconds: float) -> list[tuple[str, int, int]] | None:
        """(GPU's uuid, Xid, GPU instance) of each event; None where there can be none."""
        if self._set is None or not self._watched:
            return None
        found: list[tuple[str, int, int]] = []
        milliseconds = round(timeout_seconds * 1000)
        for _ in range(MOST_EVENTS):
            try:
                event = call("nvmlEventSetWait_v2", self._set, milliseconds)
            except pynvml.NVMLError as error:
                waited = error.value == pynvml.NVML_ERROR_TIMEOUT
                return found if waited or found else None
            milliseconds = 0  # take what else is there, without waiting
            uuid = self._watched.get(address_of(event.device))
            if uuid is not None and event.eventType & pynvml.nvmlEventTypeXidCriticalError:
                found.append((uuid, int(event.eventData), int(event.gpuInstanceId)))
        return found

    def close(self) -> None:
        """Give the set back."""
        if self._set is not None:
            call("nvmlEventSetFree", self._set)
            self._set = None
