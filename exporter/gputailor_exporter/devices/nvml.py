"""NVIDIA devices through NVML (the ``pynvml`` binding of the driver's own library).

One thread per device calls ``read``, one calls ``wait_events``, one calls ``devices``; a call that
hangs holds up its own thread only, as far as the driver lets the others go on. What a device does
not support is remembered for ten minutes, or until ``devices`` finds the device changed. The parent
of MIG instances keeps what belongs to the board (power, energy, temperature, clocks, links,
errors); its slices carry the rest.

The binding never unloads the library: after a driver upgrade the process has to start anew.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pynvml

from gputailor_exporter.devices.base import (
    DeviceError,
    DeviceIdentity,
    DeviceReading,
    PcieLink,
    Reason,
    SignalReading,
    XidEvent,
)
from gputailor_exporter.devices.nvml_activity import (
    BUFFERS,
    Processes,
    SampleBuffer,
    codec_or_rates,
)
from gputailor_exporter.devices.nvml_calls import Calls, address_of, call, describe, reason_of
from gputailor_exporter.devices.nvml_discovery import (
    Versions,
    board_and_instances,
    divided,
    instance_or_board,
    read_versions,
)
from gputailor_exporter.devices.nvml_events import EventSet
from gputailor_exporter.devices.nvml_gpm import SIGNALS, Gpm, GpmReading, contradicted
from gputailor_exporter.devices.nvml_health import (
    Fields,
    read_clocks,
    read_ecc_errors,
    read_energy,
    read_memory,
    read_pcie_link,
    read_power,
    read_power_limit,
    read_remapped_rows,
    read_temperature,
    read_throttle_reasons,
)
from gputailor_exporter.metrics import Signal

_LOG = logging.getLogger(__name__)

#: What to do where the driver's library does not start.
_ADVICE: Final[dict[int, str]] = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "libnvidia-ml.so.1 is not here. On a GPU node install the NVIDIA driver; in a container "
        "use its runtime (runtimeClassName: nvidia) with NVIDIA_VISIBLE_DEVICES=all and "
        "NVIDIA_DRIVER_CAPABILITIES=utility"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "the driver's kernel module is not loaded: on a GPU node see `dmesg | grep -i nvidia` "
        "and `modprobe nvidia`; on others do not run the exporter (a node selector)"
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "library and kernel module are of different driver versions, as after an upgrade: reload "
        "the modules or restart the node"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "let this user read and write /dev/nvidiactl and /dev/nvidia*, or run the container with "
        "the NVIDIA runtime"
    ),
}


@dataclass
class _Device:
    """What is remembered of one device between readings."""

    identity: DeviceIdentity
    handle: Any
    calls: Calls
    gpm: Gpm
    buffers: dict[Signal, SampleBuffer]
    processes: Processes
    fields: Fields
    reading: threading.Lock = field(default_factory=threading.Lock)
    read_at: float | None = None
    link: PcieLink | None = None
    clocks_max: dict[str, float] | None = None


class NvmlBackend:
    """Reads NVIDIA GPUs and MIG instances; see ``Backend`` for what each method owes."""

    name = "nvml"

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        pci_devices: Path = Path("/sys/bus/pci/devices"),
    ) -> None:
        """``clock`` gives Unix time; ``pci_devices`` is where the kernel lists PCI devices."""
        self._clock = clock
        self._pci_devices = pci_devices
        self._lock = threading.Lock()
        self._known: dict[str, DeviceIdentity] = {}
        self._handles: dict[str, Any] = {}
        self._devices: dict[str, _Device] = {}
        self._most = 0
        self._silent: set[int] = set()
        self._versions = Versions()
        self._events: EventSet | None = None
        self._closed = threading.Event()

    def open(self) -> None:
        """Load and start the driver's library; raises ``DeviceError`` where that fails."""
        self._closed.clear()
        try:
            call("nvmlInit")
        except pynvml.NVMLError as error:
            advice = _ADVICE.get(error.value, "see whether `nvidia-smi` works here")
            text = f"nvmlInit: {describe(error)}. What to do: {advice}"
            raise DeviceError(reason_of(error), text) from error
        self._versions = read_versions()
        self._events = EventSet()

    def expected(self) -> int | None:
        """GPUs that should be here: the most ever seen, or bound to the driver by the kernel."""
        with suppress(pynvml.NVMLError):
            self._most = max(self._most, call("nvmlDeviceGetCount"))
        return max(self._most, self._bound_to_driver()) or None

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """GPUs that answer, each followed by its MIG instances; a lost GPU harms only itself."""
        try:
            count = call("nvmlDeviceGetCount")
        except pynvml.NVMLError as error:
            text = f"nvmlDeviceGetCount: {describe(error)}"
            raise DeviceError(reason_of(error), text) from error
        self._most = max(self._most, count)
        found: dict[str, DeviceIdentity] = {}
        handles: dict[str, Any] = {}
        silent: set[int] = set()
        for index in range(count):
            try:
                for identity, handle in board_and_instances(index, self._versions, self._known):
                    found[identity.uuid] = identity
                    handles[identity.uuid] = handle
            except pynvml.NVMLError as error:
                silent.add(index)
                if index not in self._silent:  # said once, not at each discovery
                    _LOG.warning("GPU %d does not answer: %s", index, describe(error))
        self._silent = silent
        with self._lock:
            self._known, self._handles = found, handles
            for uuid in self._devices.keys() - found.keys():
                del self._devices[uuid]  # its samples are left: its reader may still be at work
        if self._events is not None:
            self._events.watch(found, handles)
        return tuple(found.values())

    def read(self, device: DeviceIdentity, at: float) -> DeviceReading:
        """Read one device at monotonic time ``at``; raises ``DeviceError`` when it is lost."""
        state = self._state(device)
        state.calls.begin(at)
        try:
            with state.reading:
                reading = _read(state, at)
            _require_answers(state)
        except DeviceError:
            with suppress(pynvml.NVMLError):
                state.gpm.close()
            with self._lock:  # a device that comes back is met anew
                self._devices.pop(device.uuid, None)
                self._handles.pop(device.uuid, None)
            raise
        return reading

    def wait_events(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        """Xid errors since the last call; waits at most ``timeout_seconds``."""
        events = None if self._events is None else self._events.wait(timeout_seconds)
        if events is None:  # this driver has no events: do not spin
            self._closed.wait(timeout_seconds)
            return ()
        now = self._clock()
        with self._lock:
            identities = tuple(self._known.values())
        return tuple(
            XidEvent(instance_or_board(uuid, instance, identities), xid, now)
            for uuid, xid, instance in events
        )

    def close(self) -> None:
        """Release samples, events and the driver."""
        self._closed.set()
        with self._lock:
            devices, self._devices = self._devices, {}
        with suppress(pynvml.NVMLError):
            for state in devices.values():
                if state.reading.acquire(blocking=False):  # not those of a call that still hangs
                    state.gpm.close()
            if self._events is not None:
                self._events.close()
            call("nvmlShutdown")
        self._events = None

    def _state(self, device: DeviceIdentity) -> _Device:
        """What is remembered of the device; begun anew where its identity changed."""
        with self._lock:
            state = self._devices.get(device.uuid)
            shared = divided(device, self._known.values())
            handle = self._handles.get(device.uuid)
            board = self._handles.get(device.parent_uuid)
        if (
            state is not None
            and state.identity == device
            and address_of(state.handle) == address_of(handle)
        ):
            state.gpm.divided = shared
            return state
        if state is not None:
            with suppress(pynvml.NVMLError):
                state.gpm.close()
        try:
            handle = handle or call("nvmlDeviceGetHandleByUUID", device.uuid)
            if device.parent_uuid:
                board = board or call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
        except pynvml.NVMLError as error:
            text = f"nvmlDeviceGetHandleByUUID({device.uuid}): {describe(error)}"
            reason = reason_of(error)
            if reason is Reason.NO_SAMPLES:  # "not found": there is no such device any more
                reason = Reason.GPU_IS_LOST
            raise DeviceError(reason, text) from error
        fresh = _Device(
            identity=device,
            handle=handle,
            calls=Calls(device.uuid, mig=bool(device.parent_uuid)),
            gpm=Gpm(board or handle, device.gpu_instance_id, divided=shared),
            buffers={signal: SampleBuffer(signal) for signal in BUFFERS},
            processes=Processes(),
            fields=Fields(),
        )
        with self._lock:
            self._devices[device.uuid] = fresh
            self._handles[device.uuid] = handle
        return fresh

    def _bound_to_driver(self) -> int:
        """Display and 3D controllers that the kernel has bound to the nvidia driver."""
        count = 0
        with suppress(OSError):
            for device in self._pci_devices.iterdir():
                kind = (device / "class").read_text(encoding="ascii")[:6]
                bound = (device / "driver").resolve().name == "nvidia"
                count += bound and kind in {"0x0300", "0x0302"}
        return count


def _require_answers(state: _Device) -> None:
    """Raise where the driver answered nothing at all: such a device is not up."""
    if state.calls.answers == 0:
        reasons = set(state.calls.reasons.values())
        reason = reasons.pop() if len(reasons) == 1 else Reason.DRIVER_ERROR
        text = f"{state.identity.uuid}: the driver answers no call ({reason})"
        raise DeviceError(reason, text)


def _read(state: _Device, at: float) -> DeviceReading:
    """One reading of a device from its several sources."""
    calls, handle, device = state.calls, state.handle, state.identity
    if device.mig_enabled:
        calls.reasons.update(dict.fromkeys(Signal, Reason.NOT_SUPPORTED))
        return _health(state, at, DeviceReading(at=at), GpmReading())
    signals: dict[Signal, SignalReading] = {}
    for signal, buffer in state.buffers.items():
        value = buffer.read(calls, handle, at) or codec_or_rates(calls, handle, signal)
        if value is not None:
            signals[signal] = value
            calls.reasons.pop(signal, None)
    gpm = state.gpm.read(calls, at)
    signals.update(gpm.signals)
    if contradicted(signals):
        for signal in SIGNALS.values():
            signals.pop(signal, None)
            calls.reasons[signal] = Reason.CONTRADICTED
    processes, known = state.processes.read(calls, handle, at, signals.get(Signal.KERNEL))
    reading = DeviceReading(
        at=at,
        signals=signals,
        unavailable=calls.reasons,
        memory=read_memory(calls, handle),
        processes=processes,
        process_utilization_known=known,
        pcie_bytes=gpm.link_bytes.get("pcie", {}),
        nvlink_bytes=gpm.link_bytes.get("nvlink", {}),
    )
    return reading if device.parent_uuid else _health(state, at, reading, gpm)


def _health(state: _Device, at: float, reading: DeviceReading, gpm: GpmReading) -> DeviceReading:
    """Add what belongs to the board."""
    calls, handle = state.calls, state.handle
    state.link = read_pcie_link(calls, handle, state.link)
    since = None if state.read_at is None else at - state.read_at
    state.read_at = at
    counters = state.fields.read(calls, handle, state.link, since)
    for link, value in (("pcie", counters.pcie_bytes), ("nvlink", counters.nvlink_bytes)):
        if not value and link in gpm.link_bytes:
            calls.reasons.pop(f"{link}_bytes", None)
    temperatures = {"gpu": read_temperature(calls, handle), "memory": counters.memory_celsius}
    if not state.clocks_max:
        state.clocks_max = read_clocks(calls, handle, highest=True)
    return DeviceReading(
        at=at,
        signals=reading.signals,
        memory=reading.memory,
        processes=reading.processes,
        process_utilization_known=reading.process_utilization_known,
        power_watts=read_power(calls, handle),
        power_limit_watts=read_power_limit(calls, handle),
        energy_joules=read_energy(calls, handle),
        temperatures_celsius={k: v for k, v in temperatures.items() if v is not None},
        clocks_hertz=read_clocks(calls, handle),
        clocks_max_hertz=state.clocks_max,
        pcie_bytes=counters.pcie_bytes or reading.pcie_bytes,
        pcie_counter_modulus=counters.pcie_modulus,
        pcie_link=state.link,
        nvlink_bytes=counters.nvlink_bytes or reading.nvlink_bytes,
        throttle_reasons=read_throttle_reasons(calls, handle),
        ecc_errors=read_ecc_errors(calls, handle),
        remapped_rows=read_remapped_rows(calls, handle),
        unavailable=calls.reasons,
    )
