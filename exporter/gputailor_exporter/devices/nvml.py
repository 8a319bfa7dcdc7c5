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
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import pynvml

from gputailor_exporter import collectors as registry
from gputailor_exporter.devices.base import (
    DeviceError,
    DeviceIdentity,
    DeviceReading,
    Reason,
    XidEvent,
)
from gputailor_exporter.devices.nvml_calls import (
    address_of,
    call,
    describe,
    driver_gone,
    reason_of,
)
from gputailor_exporter.devices.nvml_counts import MOST_GPUS, ImpossibleCount, counted
from gputailor_exporter.devices.nvml_dcgm import Holder, profilers
from gputailor_exporter.devices.nvml_discovery import (
    Versions,
    board_and_instances,
    divided,
    instance_or_board,
    read_versions,
)
from gputailor_exporter.devices.nvml_events import EventSet
from gputailor_exporter.devices.nvml_library import preload
from gputailor_exporter.devices.nvml_reading import ReadDevice
from gputailor_exporter.devices.patience import PATIENCE_SECONDS, Patience

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


#: A GPU and its MIG instances, each with its handle.
_Board: TypeAlias = list[tuple[DeviceIdentity, Any]]

#: What DCGM on the same node means; the reasons stand in nvml_dcgm.
BESIDE_DCGM: Final = (
    "DCGM runs on this node too. GPM (Hopper and later) may have several readers, so that neither "
    "disturbs the other; on older cards only DCGM has SM, tensor and memory activity"
)


class NvmlBackend:
    """Reads NVIDIA GPUs and MIG instances; see ``Backend`` for what each method owes."""

    name = "nvml"

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        pci_devices: Path = Path("/sys/bus/pci/devices"),
        patience_seconds: float = PATIENCE_SECONDS,
        collectors: frozenset[str] = registry.DEFAULT,
        proc_root: Path = Path("/proc"),
    ) -> None:
        """``clock`` gives Unix time; ``pci_devices`` is where the kernel lists PCI devices.

        ``patience_seconds``: how long the discovery waits for a GPU that hangs. ``collectors``
        names the parts that are read (of ``collectors.COLLECTORS``); the others are neither asked
        for nor unavailable. ``proc_root``: the host's /proc, where DCGM is looked for.
        """
        self._clock = clock
        self._collectors = collectors
        self._proc_root = proc_root
        self._holder = Holder(lambda: profilers(self._proc_root))
        self._pci_devices = pci_devices
        self._lock = threading.Lock()
        self._known: dict[str, DeviceIdentity] = {}
        self._divided: frozenset[str] = frozenset()
        self._wanted: frozenset[str] | None = None  # whose processes; None: everyone's
        self._handles: dict[str, Any] = {}
        self._devices: dict[str, ReadDevice] = {}
        self._most = 0
        self._silent: set[int] = set()
        self._versions = Versions()
        self._events: EventSet | None = None
        self._closed = threading.Event()
        self._patience: Patience[Any] = Patience("nvml", patience_seconds)

    def open(self) -> None:
        """Load and start the driver's library; raises ``DeviceError`` where that fails."""
        self._closed.clear()
        try:
            _start()
        except pynvml.NVMLError as error:
            advice = _ADVICE.get(error.value, "see whether `nvidia-smi` works here")
            text = f"nvmlInit: {describe(error)}. What to do: {advice}"
            # the library stays loaded: one that came with another driver can't be put right
            replaced = error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
            raise DeviceError(reason_of(error), text, driver_replaced=replaced) from error
        with suppress(DeviceError):  # a call that hangs costs what it would have told, no more
            self._versions = self._patience.ask("versions", read_versions)
        if "xid" in self._collectors:
            with suppress(DeviceError):
                self._events = self._patience.ask("events", EventSet)
        beside = profilers(self._proc_root)
        if beside:
            _LOG.info("%s: %s", " and ".join(beside), BESIDE_DCGM)

    def expected(self) -> int | None:
        """GPUs that should be here: the most ever seen, or bound to the driver by the kernel."""
        with suppress(pynvml.NVMLError, ImpossibleCount):
            self._most = max(self._most, _count_gpus())
        return max(self._most, self._bound_to_driver()) or None

    def devices(self) -> tuple[DeviceIdentity, ...]:
        """GPUs that answer, each followed by its MIG instances; a lost GPU harms only itself."""
        try:
            count = _count_gpus()
        except pynvml.NVMLError as error:
            text = f"nvmlDeviceGetCount: {describe(error)}"
            gone = driver_gone(error)
            raise DeviceError(reason_of(error), text, driver_replaced=gone) from error
        except ImpossibleCount as error:
            raise DeviceError(Reason.INVALID_VALUE, f"nvmlDeviceGetCount: {error}") from error
        self._most = max(self._most, count)
        found: dict[str, DeviceIdentity] = {}
        handles: dict[str, Any] = {}
        silent: set[int] = set()
        for index, outcome in self._ask_boards(count):
            board, trouble = self._board(index, outcome, found)
            if trouble:
                silent.add(index)
                if index not in self._silent:  # said once, not at each discovery
                    _LOG.warning("GPU %d does not answer: %s", index, trouble)
            for identity, handle in board:
                found[identity.uuid] = identity
                handles[identity.uuid] = handle
        self._silent = silent
        with self._lock:
            self._known, self._handles = found, handles
            self._divided = divided(found.values())
            left = [self._devices.pop(uuid) for uuid in self._devices.keys() - found.keys()]
        if left:
            with suppress(DeviceError):  # a call that hangs is left alone
                self._patience.ask("samples", partial(_give_back, left))
        self._watch_events(found, handles)
        return tuple(found.values())

    def _ask_boards(self, count: int) -> list[tuple[int, _Board | Exception]]:
        """Ask all GPUs at once who they are, so that one that hangs does not hide the others."""
        outcomes = self._patience.ask_all(
            {
                str(index): partial(board_and_instances, index, self._versions, self._known)
                for index in range(count)
            }
        )
        return [(int(index), outcome) for index, outcome in outcomes.items()]

    def _board(
        self, index: int, outcome: _Board | Exception, found: Mapping[str, DeviceIdentity]
    ) -> tuple[_Board, str]:
        """A GPU with its instances, and what is wrong with it in words (empty: nothing).

        ``found``: the devices met before it; a second GPU of one UUID would be taken for the first.
        """
        if isinstance(outcome, Exception):
            return self._kept(index, outcome), _words(outcome)
        uuid = outcome[0][0].uuid
        if uuid in found:
            return [], f"it says the UUID of GPU {found[uuid].index}, {uuid}"
        return outcome, ""

    def _kept(self, index: int, error: Exception) -> _Board:
        """What is known of a GPU that does not say who it is: it may well go on being read."""
        if not isinstance(error, DeviceError):  # an answer, and not one of a GPU that is well
            return []
        return [
            (device, self._handles[uuid])
            for uuid, device in self._known.items()
            if device.index == str(index) and uuid in self._handles
        ]

    def _watch_events(
        self, found: Mapping[str, DeviceIdentity], handles: Mapping[str, Any]
    ) -> None:
        events = self._events
        if events is not None:
            fresh = events.unwatched(found, handles)
            self._patience.ask_all(
                {uuid: partial(events.watch, uuid, handles[uuid]) for uuid in fresh}
            )

    def read(self, device: DeviceIdentity, at: float) -> DeviceReading:
        """Read one device at monotonic time ``at``; raises ``DeviceError`` when it is lost."""
        state, wanted = self._state(device), self._wanted
        try:
            with state.reading:
                reading = state.read(at, processes=wanted is None or device.uuid in wanted)
        except DeviceError:
            state.close()
            with self._lock:  # a device that comes back is met anew
                self._devices.pop(device.uuid, None)
                self._handles.pop(device.uuid, None)
            raise
        return reading

    def want_processes(self, gpu_uuids: frozenset[str]) -> None:
        """See ``SparesProcesses``."""
        self._wanted = gpu_uuids

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
        for state in devices.values():
            if state.reading.acquire(blocking=False):  # not those of a call that still hangs
                state.close()
        with suppress(pynvml.NVMLError):
            if self._events is not None:
                self._events.close()
            call("nvmlShutdown")
        self._events = None

    def _state(self, device: DeviceIdentity) -> ReadDevice:
        """What is remembered of the device; begun anew where its identity changed."""
        with self._lock:
            state = self._devices.get(device.uuid)
            shared = device.uuid in self._divided
            handle = self._handles.get(device.uuid)
            board = self._handles.get(device.parent_uuid)
        if (
            state is not None
            and state.identity == device
            and (state.handle is handle or address_of(state.handle) == address_of(handle))
        ):
            state.handle, state.gpm.divided = handle, shared
            return state
        if state is not None:
            state.close()
        try:
            handle = handle or call("nvmlDeviceGetHandleByUUID", device.uuid)
            if device.parent_uuid:
                board = board or call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
        except pynvml.NVMLError as error:
            text = f"nvmlDeviceGetHandleByUUID({device.uuid}): {describe(error)}"
            reason = reason_of(error)
            if reason is Reason.NO_SAMPLES:  # "not found": there is no such device any more
                reason = Reason.GPU_IS_LOST
            raise DeviceError(reason, text, driver_replaced=driver_gone(error)) from error
        fresh = ReadDevice(
            device,
            handle,
            board or handle,
            divided=shared,
            collectors=self._collectors,
            holder=self._holder,
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


def _start() -> None:
    """Load and start the library, from wherever it is."""
    try:
        call("nvmlInit")
    except pynvml.NVMLError as error:
        if error.value != pynvml.NVML_ERROR_LIBRARY_NOT_FOUND or not preload():
            raise
        call("nvmlInit")


def _count_gpus() -> int:
    return counted("GPUs", call("nvmlDeviceGetCount"), MOST_GPUS)


def _give_back(devices: list[ReadDevice]) -> None:
    """Free the samples of devices that left, but not of one whose reader is still at work."""
    for device in devices:
        if device.reading.acquire(blocking=False):
            with suppress(pynvml.NVMLError):
                device.gpm.close()
            device.reading.release()


def _words(error: Exception) -> str:
    if isinstance(error, pynvml.NVMLError):
        return describe(error)
    if isinstance(error, UnicodeDecodeError):
        return f"its UUID is no text: {error.object!r}"
    return str(error) if isinstance(error, DeviceError) else repr(error)
