"""One workload over one window: what the rules look at. Built by ``profiles``."""

import msgspec

from gputailor_agent.model.containers import EngineUse, HostUse
from gputailor_agent.model.inventory import Outcome, Workload
from gputailor_agent.model.usage import NO_USE, Device, SignalUse, Warmup


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Half-open time window in Unix seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return self.end - self.start


class GpuUse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one container did with one device over the window (all its hourly rows merged)."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    gpu_uuid: str
    run_id: str
    device: Device | None
    allocated_seconds: float
    share: float
    signals: dict[str, SignalUse]
    warmup: dict[str, Warmup]
    conditions: dict[str, float]
    memory_peak_bytes: int | None
    memory_peak_kind: str
    memory_total_bytes: int | None
    energy_joules: float | None
    last_active: float | None
    first_hour: int
    last_hour: int
    samples: int
    spread_seconds: float
    # (hour, observed, active seconds) of the signal that tells whether the device worked
    hours: tuple[tuple[int, float, float], ...] = ()
    link_bytes: dict[str, float] = msgspec.field(default_factory=dict)  # "pcie/rx" -> bytes


class RunUse(msgspec.Struct, frozen=True, kw_only=True):
    """One run inside the window. ``gpus`` counts distinct devices asked for (or seen)."""

    id: str
    started: float | None
    finished: float | None
    outcome: Outcome
    oom: bool
    gpus: float
    pods: int
    gpu_seconds: float  # allocated, inside the window
    memory_peak_bytes: int | None
    mean_sm: float | None
    mean_kernel: float | None


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What a workload asked for and what it used, inside ``window``.

    ``allocated_seconds`` is by the inventory's clock where pods' times are known
    (``allocated_clock`` says which), so an exporter that was down shows as missing coverage.
    """

    workload: Workload
    window: Window
    gpus: tuple[GpuUse, ...]
    runs: tuple[RunUse, ...]
    gpus_per_pod: float  # devices one pod asks for (its most common shape)
    pods_now: int  # pods that hold devices at the window's end
    pending_pods: int
    allocated_seconds: float
    allocated_clock: str  # "inventory" or "source"
    signals: dict[str, SignalUse]  # every device merged
    warmup: dict[str, Warmup]
    conditions: dict[str, float]
    device_models: tuple[str, ...]
    memory_peak_bytes: int | None  # highest on any one device
    memory_peak_kind: str
    memory_total_bytes: int | None  # smallest of the devices used
    energy_joules: float | None
    last_active: float | None
    allocated_since: float | None  # of the pods that hold devices now: the earliest start
    full_days: int  # whole UTC days of the window in which the workload was observed
    oom_seen: bool
    dialects: tuple[str, ...]
    samples: int
    spread_seconds: float
    # signal or figure -> who told it, where the device's own source could not
    filled: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    # of its containers themselves, whatever devices they hold; None where nobody told
    host: HostUse | None = None
    engine: EngineUse | None = None

    def use(self, signal: str) -> SignalUse:
        """Use of a signal; empty where it was never readable."""
        return self.signals.get(signal, NO_USE)

    def coverage(self, signal: str) -> float | None:
        """Observed / allocated seconds, 0..1; None when nothing was allocated in the window."""
        if self.allocated_seconds <= 0:
            return None
        return min(1.0, self.use(signal).observed_seconds / self.allocated_seconds)
