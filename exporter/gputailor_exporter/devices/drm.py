"""Any other GPU with a DRM driver (i915, xe, panthor, msm, nouveau and others), by its clients.

The kernel signal is the busy time of the device's engines summed over all clients, as far as the
driver tells it in fdinfo. Engines that work side by side add up, so that it is an upper bound.
It holds only where every process's files can be read (root with CAP_SYS_PTRACE, the host's process
ids): otherwise it is unknown. Sensors come from hwmon. How much memory the device has is told by no
common interface; what its processes hold is.
"""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gputailor_exporter.devices.base import (
    DeviceError,
    DeviceIdentity,
    DeviceReading,
    PcieLink,
    Reason,
    SignalReading,
    XidEvent,
)
from gputailor_exporter.devices.drm_cards import Card, cards, driver_version, pci_name
from gputailor_exporter.devices.drm_clients import DeviceClients, OpenFiles
from gputailor_exporter.devices.drm_hwmon import Sensors
from gputailor_exporter.devices.drm_link import read_pcie_link
from gputailor_exporter.devices.drm_sysfs import DeviceFiles, Slowly
from gputailor_exporter.metrics import Signal

#: Drivers with a back end that knows more: what DRM alone shows of them would be too little.
_OTHERS: Final = frozenset({"amdgpu", "nvidia", "nvidia-drm"})
_LINK_SECONDS: Final = 10.0
_SUSPENDED: Final = "suspended"

_ADVICE: Final = (
    "no GPU with a DRM driver and a render node (/dev/dri/renderD*) is here, AMD's and NVIDIA's "
    "apart. What to do: see `ls /sys/class/drm`; for those two use --backend amd or nvml"
)


@dataclass
class _Device:
    """What is remembered of one device between readings."""

    identity: DeviceIdentity
    card: Card
    files: DeviceFiles
    clients: DeviceClients
    sensors: Sensors
    link: Slowly[PcieLink | None]
    reading: threading.Lock = field(default_factory=threading.Lock)


class DrmBackend:
    """Reads GPUs by what every DRM driver shows; see ``Backend`` for what each method owes."""

    name = "drm"

    def __init__(self, sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> None:
        """``sys`` and ``proc``: the host's."""
        self._sys = sys
        self._proc = proc
        self._open_files = OpenFiles(proc)
        self._lock = threading.Lock()
        self._devices: dict[str, _Device] = {}
        self._models: dict[str, str] = {}
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
        """Return the GPUs present by their numbers; displays without a render node are none."""
        found = {}
        for card in cards(self._sys):
            if card.render is not None and card.driver not in _OTHERS:
                identity = self._identity(card)
                found[identity.uuid] = (identity, card)
        with self._lock:
            self._most = max(self._most, len(found))
            for uuid in self._devices.keys() - found.keys():
                del self._devices[uuid]
            for uuid, (identity, card) in found.items():
                state = self._devices.get(uuid)
                if state is None or (state.identity, state.card) != (identity, card):
                    self._devices[uuid] = _begin(identity, card)
        return tuple(identity for identity, _ in found.values())

    def read(self, device: DeviceIdentity, at: float) -> DeviceReading:
        """Read one device at monotonic time ``at``; raises ``DeviceError`` when it is lost."""
        with self._lock:
            state = self._devices.get(device.uuid)
        if state is None or not state.card.folder.is_dir():
            raise DeviceError(Reason.GPU_IS_LOST, f"{device.uuid}: its folder in sysfs is gone")
        with state.reading:
            state.files.begin(at)
            return _read(state, self._open_files, at)

    def wait_events(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        """There are no Xid events; waits as a driver would."""
        self._closed.wait(timeout_seconds)
        return ()

    def close(self) -> None:
        """Let a waiting caller go."""
        self._closed.set()

    def _identity(self, card: Card) -> DeviceIdentity:
        model = self._models.get(card.name)
        if model is None:
            known = f"{card.vendor} {card.device_id.removeprefix('0x')}".strip()
            model = self._models[card.name] = (pci_name(card) if card.pci else "") or known
        return DeviceIdentity(
            index=str(card.number),
            uuid=f"{'PCI' if card.pci else 'DRM'}-{card.name}",
            vendor=card.vendor,
            model=model,
            architecture=card.driver,
            driver_version=driver_version(self._sys, self._proc, card.driver),
            pci_bus_id=card.name if card.pci else "",
            plugin_ids=(card.name, f"card{card.number}"),
        )


def _begin(identity: DeviceIdentity, card: Card) -> _Device:
    files = DeviceFiles(card.folder)
    return _Device(
        identity=identity,
        card=card,
        files=files,
        clients=DeviceClients(card.minors, card.name if card.pci else ""),
        sensors=Sensors(files),
        link=Slowly(_LINK_SECONDS, lambda: read_pcie_link(files), files),
    )


def _read(state: _Device, open_files: OpenFiles, at: float) -> DeviceReading:
    files, sensors = state.files, state.sensors
    clients = state.clients.read(open_files, at)
    signals = {
        signal: SignalReading(share, clients.covers_seconds)
        for signal, share in clients.shares.items()
    }
    asleep = files.text("power_state", "power/runtime_status") == _SUSPENDED
    for signal in Signal:
        files.reasons[signal] = clients.reasons.get(signal, Reason.NOT_SUPPORTED)
    files.reasons["memory"] = Reason.NOT_SUPPORTED
    for known in ("power_state", *signals):
        files.reasons.pop(known, None)
    if clients.reason is not None:
        files.reasons["processes"] = clients.reason
    reading = DeviceReading(
        at=at,
        signals=signals,
        processes=clients.processes,
        process_utilization_known=Signal.KERNEL in signals,
        unavailable=files.reasons,
    )
    if asleep:  # its sensors would wake it
        missing = ("power", "temperature", "clock")
        files.reasons.update(dict.fromkeys(missing, Reason.NO_SAMPLES))
        return reading
    return DeviceReading(
        at=at,
        signals=reading.signals,
        processes=reading.processes,
        process_utilization_known=reading.process_utilization_known,
        power_watts=sensors.power(at),
        power_limit_watts=sensors.power_limit(at),
        energy_joules=sensors.energy(at),
        temperatures_celsius=sensors.temperatures(at),
        clocks_hertz=sensors.clocks(at),
        pcie_link=state.link.get(at) if state.card.pci else None,
        unavailable=files.reasons,
    )
