"""AMD GPUs through the kernel's own interfaces: no ROCm, and for most values no privileges.

Activity, power, energy and temperatures come from the firmware's table of metrics
(``amd_metrics``), single files of sysfs fill what it lacks. Who uses a device comes from KFD
(compute) and the DRM clients' fdinfo (graphics, video). Engine times of KFD's user queues are
nowhere to be read, so that a compute process's share of time is unknown, never 0. ``pcie_bw`` is
never read: the driver sleeps a second over it.

A suspended device is left asleep: it runs nothing, and its sensors are unknown.
"""

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from gputailor_exporter.collectors import DEFAULT
from gputailor_exporter.devices.amd_activity import BANDWIDTH_CONTENT, Activity
from gputailor_exporter.devices.amd_discovery import AmdDevice, Discovery
from gputailor_exporter.devices.amd_health import Health
from gputailor_exporter.devices.amd_metrics import ENERGY_UNIT, GpuMetrics, parse_metrics
from gputailor_exporter.devices.amd_topology import ComputeProcesses
from gputailor_exporter.devices.base import (
    DeviceError,
    DeviceIdentity,
    DeviceReading,
    Memory,
    ProcessReading,
    Reason,
    SignalReading,
    XidEvent,
)
from gputailor_exporter.devices.drm_clients import SIGNALS, ClientActivity, DeviceClients, OpenFiles
from gputailor_exporter.devices.drm_sysfs import DeviceFiles
from gputailor_exporter.metrics import Signal

#: Cards whose table has no unit for its energy, but whose driver states it (MI200, "aldebaran").
_ENERGY_ARCHITECTURES: Final = frozenset({"gfx90a"})
_METRICS: Final = "gpu_metrics"
_SUSPENDED: Final = "suspended"
#: What PCI answers for a device that is gone.
_NO_DEVICE: Final = b"\xff\xff"

_ADVICE: Final = (
    "no AMD GPU is driven by the amdgpu kernel module here. What to do: on a GPU node see "
    "`lsmod | grep amdgpu` and `dmesg | grep amdgpu`; on others do not run the exporter there "
    "(a node selector)"
)


@dataclass
class _Device:
    """What is remembered of one device between readings."""

    found: AmdDevice
    files: DeviceFiles
    activity: Activity
    clients: DeviceClients
    compute: ComputeProcesses
    health: Health
    reading: threading.Lock = field(default_factory=threading.Lock)


class AmdBackend:
    """Reads AMD GPUs and their partitions; see ``Backend`` for what each method owes."""

    name = "amd"

    def __init__(
        self,
        sys: Path = Path("/sys"),
        proc: Path = Path("/proc"),
        collectors: frozenset[str] = DEFAULT,
    ) -> None:
        """``sys`` and ``proc``: the host's; ``collectors``: what is read."""
        self._sys = sys
        self._collectors = collectors
        self._discovery = Discovery(sys, proc)
        self._open_files = OpenFiles(proc)
        self._lock = threading.Lock()
        self._devices: dict[str, _Device] = {}
        self._most = 0
        self._closed = threading.Event()

    def open(self) -> None:
        """Look whether there is a device; raises ``DeviceError`` where there is none."""
        self._closed.clear()
        if not self.devices():
            raise DeviceError(Reason.DRIVER_ERROR, _ADVICE)

    def expected(self) -> int | None:
        """Return the most GPUs seen so far."""
        return self._most or None

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """Return the GPUs present, partitions after their GPU."""
        found = {one.identity.uuid: one for one in self._discovery.devices()}
        with self._lock:
            gpus = sum(not one.identity.parent_uuid for one in found.values())
            self._most = max(self._most, gpus)
            for uuid in self._devices.keys() - found.keys():
                del self._devices[uuid]
            for uuid, one in found.items():
                state = self._devices.get(uuid)
                if state is None or state.found != one:
                    self._devices[uuid] = self._begin(one)
        return tuple(one.identity for one in found.values())

    def read(self, device: DeviceIdentity, at: float) -> DeviceReading:
        """Read one device at monotonic time ``at``; raises ``DeviceError`` when it is lost."""
        with self._lock:
            state = self._devices.get(device.uuid)
        if state is None or not state.found.card.folder.is_dir():
            raise DeviceError(Reason.GPU_IS_LOST, f"{device.uuid}: its folder in sysfs is gone")
        with state.reading:
            state.files.begin(at)
            return self._read(state, at)

    def wait_events(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        """AMD has no Xid events; waits as a driver would."""
        self._closed.wait(timeout_seconds)
        return ()

    def close(self) -> None:
        """Let a waiting caller go."""
        self._closed.set()

    def opened(self, device: DeviceIdentity) -> int:
        """Return how many files the device's last reading opened, those of ``/proc`` apart."""
        state = self._devices[device.uuid]
        return state.files.opened + state.clients.opened + state.compute.opened

    def _begin(self, found: AmdDevice) -> _Device:
        files = DeviceFiles(found.card.folder)
        pdev = found.card.name
        return _Device(
            found=found,
            files=files,
            activity=Activity(found.partition),
            clients=DeviceClients(found.minors, pdev),
            compute=ComputeProcesses(self._sys, found.node.gpu_id if found.node else None),
            health=Health(files, self._collectors),
        )

    def _read(self, state: _Device, at: float) -> DeviceReading:
        files, identity = state.files, state.found.identity
        # A card in partitions is used through these: their readings tell by whom.
        clients = None if identity.mig_enabled else state.clients.read(self._open_files, at)
        if files.text("power_state", "power/runtime_status") == _SUSPENDED:
            return _asleep(state, at, clients)
        files.reasons.pop("power_state", None)
        table = files.content(_METRICS, _METRICS)
        metrics = None if table is None else parse_metrics(table)
        files.reasons.pop(_METRICS, None)  # its values have reasons of their own
        signals, throttle = _signals(state, metrics)
        reading = DeviceReading(
            at=at,
            signals={} if identity.mig_enabled else signals,
            throttle_reasons=throttle,
            unavailable=files.reasons,
        )
        if not identity.parent_uuid:
            reading = state.health.add(reading, metrics, at)
            reading = replace(reading, energy_joules=_energy(state, metrics))
        _require_answers(state, reading)
        if clients is not None:
            reading = _who(state, reading, clients)
        _name_missing(state, reading)
        return reading


def _signals(
    state: _Device, metrics: GpuMetrics | None
) -> tuple[dict[Signal, SignalReading], frozenset[str] | None]:
    """Return the signals of the table, else those of the single files."""
    signals: dict[Signal, SignalReading] = {}
    throttle = None
    if metrics is not None:
        signals, throttle = state.activity.advance(metrics)
    if state.found.partition is None:
        files = state.files
        if Signal.KERNEL not in signals:
            busy = files.number(Signal.KERNEL, "gpu_busy_percent", unit=0.01, high=1.0)
            if busy is not None:
                signals[Signal.KERNEL] = SignalReading(busy)
        if not signals.keys() & {Signal.DRAM, Signal.MEMCOPY}:
            busy = files.number(Signal.MEMCOPY, "mem_busy_percent", unit=0.01, high=1.0)
            if busy is not None:
                signals[Signal.MEMCOPY] = SignalReading(busy)
    return signals, throttle


def _energy(state: _Device, metrics: GpuMetrics | None) -> float | None:
    """Return joules by the accumulator where its unit is stated; consumer cards' is not."""
    if metrics is None or metrics.energy is None:
        return None
    node = state.found.node
    stated = metrics.content >= BANDWIDTH_CONTENT
    if stated or (node is not None and node.architecture in _ENERGY_ARCHITECTURES):
        return metrics.energy * ENERGY_UNIT
    return None


def _require_answers(state: _Device, reading: DeviceReading) -> None:
    """Raise where the device answers nothing: it fell off the bus, or hangs in a reset."""
    if reading.signals or reading.power_watts is not None or reading.temperatures_celsius:
        return
    if state.found.identity.parent_uuid or state.found.identity.mig_enabled:
        return
    head = state.files.content("config", "config")
    state.files.reasons.pop("config", None)
    reasons = set(state.files.reasons.values())
    if (head is not None and head[:2] == _NO_DEVICE) or Reason.GPU_IS_LOST in reasons:
        text = f"{state.found.identity.uuid}: PCI says that there is no such device any more"
        raise DeviceError(Reason.GPU_IS_LOST, text)
    if reasons and Reason.NOT_SUPPORTED not in reasons:
        text = f"{state.found.identity.uuid}: the driver answers no question"
        raise DeviceError(Reason.DRIVER_ERROR, text)


def _asleep(state: _Device, at: float, clients: ClientActivity | None) -> DeviceReading:
    """Return the reading of a suspended device: no kernel runs, nothing else is known."""
    reasons = state.files.reasons
    reasons.pop("power_state", None)
    reasons.update(dict.fromkeys(("memory", "power", "temperature", "clock"), Reason.NO_SAMPLES))
    signals = {} if state.found.identity.mig_enabled else {Signal.KERNEL: SignalReading(0.0)}
    reading = DeviceReading(at=at, signals=signals, unavailable=reasons)
    _name_missing(state, reading)
    return replace(reading, processes=None if clients is None else clients.processes)


def _who(state: _Device, reading: DeviceReading, clients: ClientActivity) -> DeviceReading:
    """Add memory and processes; video engines by client where the table has none."""
    files = state.files
    held, missing = state.compute.read()
    missing = missing or clients.reason
    signals = dict(reading.signals)
    for signal in SIGNALS[1:]:  # engines that compute does not use
        share = clients.shares.get(signal)
        if signal not in signals and share is not None:
            signals[signal] = SignalReading(share, clients.covers_seconds)
    processes: tuple[ProcessReading, ...] | None = None
    if missing is None and clients.processes is not None:
        processes = _processes(clients.processes, dict(held))
    else:
        files.reasons["processes"] = missing or Reason.NO_SAMPLES
    if state.found.partition is None:
        memory = _memory(files)
    else:
        memory = _partition_memory(state, sum(held.values()))
    timed = processes is not None and not held
    return replace(
        reading,
        signals=signals,
        memory=memory,
        processes=processes,
        process_utilization_known=timed and clients.covers_seconds is not None,
    )


def _processes(
    drawing: tuple[ProcessReading, ...], held: dict[int, int]
) -> tuple[ProcessReading, ...]:
    """Join DRM clients and compute processes; the larger memory figure has both in it."""
    found: dict[int, ProcessReading] = {one.pid: one for one in drawing}
    for pid, size in held.items():
        known = found.get(pid, ProcessReading(pid))
        most = max(size, known.memory_used_bytes or 0)
        found[pid] = ProcessReading(pid, most, None, known.encoder, known.decoder)
    return tuple(found[pid] for pid in sorted(found))


def _memory(files: DeviceFiles) -> Memory | None:
    total = files.number("memory", "mem_info_vram_total", low=1.0)
    used = None if total is None else files.number("memory", "mem_info_vram_used", high=total)
    return None if total is None or used is None else Memory(int(total), int(used))


def _partition_memory(state: _Device, held: int) -> Memory | None:
    """Return a partition's memory: its own size by KFD, and what compute processes hold of it."""
    node = state.found.node
    if node is None or node.memory_bytes is None:
        state.files.reasons["memory"] = Reason.NOT_SUPPORTED
        return None
    return Memory(node.memory_bytes, min(held, node.memory_bytes))


def _name_missing(state: _Device, reading: DeviceReading) -> None:
    """Leave a reason for every signal that is not there."""
    reasons = state.files.reasons
    for signal in Signal:
        if signal in reading.signals:
            reasons.pop(signal, None)
        else:
            reasons.setdefault(signal, Reason.NOT_SUPPORTED)
    if reading.energy_joules is None and not state.found.identity.parent_uuid:
        reasons.setdefault("energy", Reason.NOT_SUPPORTED)
