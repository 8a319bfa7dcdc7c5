"""One reading of one NVIDIA device, put together from its several sources.

The parent of MIG instances keeps what belongs to the board (power, energy, temperature, clocks,
links, errors); its slices carry the rest. A collector that is off is not asked for, and what it
would have told is not listed as unavailable.
"""

import threading
from collections.abc import Container
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import pynvml

from gputailor_exporter.devices.base import (
    DeviceError,
    DeviceIdentity,
    DeviceReading,
    Memory,
    Reason,
    SignalReading,
)
from gputailor_exporter.devices.nvml_activity import (
    BUFFERS,
    RATES,
    Processes,
    SampleBuffer,
    codec_or_rates,
)
from gputailor_exporter.devices.nvml_calls import Calls
from gputailor_exporter.devices.nvml_dcgm import Holder
from gputailor_exporter.devices.nvml_gauges import Gauges, LinkState
from gputailor_exporter.devices.nvml_gpm import SIGNALS, Gpm, GpmReading, contradicted
from gputailor_exporter.devices.nvml_health import (
    read_energy,
    read_memory,
    read_throttle_reasons,
)
from gputailor_exporter.devices.nvml_links import Fields, LinkCounters
from gputailor_exporter.devices.nvml_lists import Lists
from gputailor_exporter.devices.nvml_state import SlowValues
from gputailor_exporter.metrics import Signal

#: How often the handle of a MIG instance at rest is asked whose it is.
SAME_SECONDS: Final = 5.0


class ReadDevice:
    """A device and what is remembered of it between readings.

    ``reading`` is held by whoever is inside ``read``; a call of the driver may hang there.
    """

    def __init__(
        self,
        identity: DeviceIdentity,
        handle: Any,
        board: Any,
        *,
        divided: bool,
        collectors: Container[str],
        holder: Holder,
    ) -> None:
        """``board``: handle of the GPU, also for a MIG instance; ``divided``: see ``Gpm``."""
        self.identity = identity
        self.handle = handle
        self.reading = threading.Lock()
        self.gpm = Gpm(
            board,
            identity.gpu_instance_id,
            divided=divided,
            collectors=collectors,
            holder=holder,
        )
        self._collectors = collectors
        self._calls = Calls(identity.uuid, mig=bool(identity.parent_uuid))
        lists = Lists()
        self._buffers = {signal: SampleBuffer(signal, lists) for signal in BUFFERS}
        self._processes = Processes(lists)
        self._fields = Fields(collectors)
        self._slow = SlowValues(identity.uuid, collectors)
        self._gauges = Gauges(identity.uuid, collectors)
        self._mute: dict[str, Reason] = {}  # signals without a source in this round
        self._round = 0
        self._memory: Memory | None = None  # of the last reading
        self._same_at = 0.0  # when a MIG instance's handle was last seen to be its own
        self._read_at: float | None = None
        self._link = LinkState()

    def close(self) -> None:
        """Give samples back to the driver; raises nothing."""
        with suppress(pynvml.NVMLError):
            self.gpm.close()

    def read(self, at: float, *, processes: bool = True) -> DeviceReading:
        """Read everything at monotonic time ``at``; raises ``DeviceError`` where it is lost.

        ``processes``: whether those of this device are wanted; else they are seldom looked for.
        """
        self._calls.begin(at)
        if self.identity.mig_enabled:
            reading = self._board(at, self._parent(at), GpmReading())
        else:
            memory = read_memory(self._calls, self.handle)
            self._require_same(at, memory)
            gpm, reading = self._activity(at, memory, processes=processes)
            if not self.identity.parent_uuid:
                reading = self._board(at, reading, gpm)
        self._require_answers()
        return reading

    def _parent(self, at: float) -> DeviceReading:
        """The parent of MIG instances has no activity of its own that anyone tells."""
        told = [signal for signal in Signal if self._on("gpm") or signal not in SIGNALS.values()]
        self._calls.reasons.update(dict.fromkeys(told, Reason.NOT_SUPPORTED))
        return DeviceReading(at=at, unavailable=self._calls.reasons)

    def _activity(
        self, at: float, memory: Memory | None, *, processes: bool
    ) -> tuple[GpmReading, DeviceReading]:
        calls, handle = self._calls, self.handle
        signals: dict[Signal, SignalReading] = {}
        if self._round != calls.rounds:
            self._round, self._mute = calls.rounds, {}
        calls.reasons.update(self._mute)
        for signal, buffer in self._buffers.items():
            if signal in self._mute:
                continue
            value = buffer.read(calls, handle, at) or codec_or_rates(calls, handle, signal)
            if value is not None:
                signals[signal] = value
                calls.reasons.pop(signal, None)
            elif calls.refused("nvmlDeviceGetSamples", BUFFERS[signal]):
                never = calls.refused(RATES[signal])
                if never is not None:
                    self._mute[signal] = never
        gpm = self.gpm.read(calls, at)
        signals.update(gpm.signals)
        if contradicted(signals):
            for signal in SIGNALS.values():
                signals.pop(signal, None)
                calls.reasons[signal] = Reason.CONTRADICTED
        kernel = signals.get(Signal.KERNEL)
        found, known = self._processes.read(calls, handle, at, kernel, wanted=processes)
        return gpm, DeviceReading(
            at=at,
            signals=signals,
            unavailable=calls.reasons,
            memory=memory,
            processes=found,
            process_utilization_known=known,
            pcie_bytes=gpm.link_bytes.get("pcie", {}),
            nvlink_bytes=gpm.link_bytes.get("nvlink", {}),
        )

    def _board(self, at: float, reading: DeviceReading, gpm: GpmReading) -> DeviceReading:
        """Add what belongs to the board."""
        calls, handle = self._calls, self.handle
        counters = self._link_counters(at, gpm)
        slow = self._slow.read(handle, at)
        gauges = self._gauges.read(handle, at)
        temperatures = {"gpu": gauges.temperature_celsius, "memory": counters.memory_celsius}
        energy = read_energy(calls, handle)
        throttle = read_throttle_reasons(calls, handle) if self._on("throttle") else None
        return replace(
            reading,
            power_watts=self._gauges.power(calls, handle, at, counted=energy is not None),
            power_limit_watts=slow.power_limit_watts,
            energy_joules=energy,
            temperatures_celsius={k: v for k, v in temperatures.items() if v is not None},
            clocks_hertz=gauges.clocks_hertz,
            clocks_max_hertz=slow.clocks_max_hertz,
            pcie_bytes=counters.pcie_bytes or reading.pcie_bytes,
            pcie_counter_modulus=counters.pcie_modulus,
            pcie_link=self._link.link,
            nvlink_bytes=counters.nvlink_bytes or reading.nvlink_bytes,
            throttle_reasons=throttle,
            ecc_errors=slow.ecc_errors,
            remapped_rows=slow.remapped_rows,
            state=slow.state,
            unavailable={**slow.reasons, **gauges.reasons, **calls.reasons},
        )

    def _link_counters(self, at: float, gpm: GpmReading) -> LinkCounters:
        calls, handle = self._calls, self.handle
        if self._on("pcie"):
            self._link.read(calls, handle, at)
        since = None if self._read_at is None else at - self._read_at
        self._read_at = at
        counters = self._fields.read(calls, handle, self._link.link, since)
        for link, value in (("pcie", counters.pcie_bytes), ("nvlink", counters.nvlink_bytes)):
            if not value and link in gpm.link_bytes:
                calls.reasons.pop(f"{link}_bytes", None)
        return counters

    def _on(self, collector: str) -> bool:
        return collector in self._collectors

    def _require_same(self, at: float, memory: Memory | None) -> None:
        """Raise where the handle of a MIG instance names another one that took its place.

        No work begins in another one without a context, which takes memory: as long as the memory
        in use stays what it was, nothing can be counted for the wrong one, and it is enough to
        look now and then.
        """
        if not self.identity.parent_uuid:
            return
        before, self._memory = self._memory, memory
        if memory is not None and memory == before and at - self._same_at < SAME_SECONDS:
            return
        uuid = self._calls.ask("uuid", "nvmlDeviceGetUUID", self.handle)
        self._calls.reasons.pop("uuid", None)
        self._same_at = at
        if uuid not in {None, self.identity.uuid}:
            text = f"{self.identity.uuid}: this MIG instance is gone, {uuid} is in its place"
            raise DeviceError(Reason.GPU_IS_LOST, text)

    def _require_answers(self) -> None:
        """Raise where the driver answered nothing at all: such a device is not up."""
        if self._calls.answers == 0:
            reasons = set(self._calls.reasons.values())
            reason = reasons.pop() if len(reasons) == 1 else Reason.DRIVER_ERROR
            text = f"{self.identity.uuid}: the driver answers no call ({reason})"
            raise DeviceError(reason, text)
