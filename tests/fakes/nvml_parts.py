"""Descriptions of the fake NVIDIA driver's parts: GPUs, MIG instances, processes, events.

Each gives the lines of the state file that hold still (``lines``) and those that vary in time
(``patterns``). Use them through tests/fakes/nvml.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.fakes.nvml_timeline import Pattern

GIB = 1 << 30


@dataclass
class FakeProcess:
    """A process on a GPU. Utilisation in percent; memory in bytes, None: not available."""

    pid: int
    memory: int | None = GIB
    kind: str = "compute"  # compute, graphics, mps
    sm: Pattern = 0.0
    memory_utilization: Pattern = 0.0
    encoder: Pattern = 0.0
    decoder: Pattern = 0.0
    gi: int | None = None  # MIG: GPU instance and compute instance
    ci: int | None = None

    def lines(self) -> Iterator[tuple[str, object]]:
        """Plain keys."""
        yield "pid", self.pid
        yield "kind", self.kind
        for name, value in (("memory", self.memory), ("gi", self.gi), ("ci", self.ci)):
            if value is not None:
                yield name, value

    def patterns(self) -> Iterator[tuple[str, Pattern]]:
        """Keys that vary in time."""
        yield "sm", self.sm
        yield "memory_utilization", self.memory_utilization
        yield "encoder", self.encoder
        yield "decoder", self.decoder


@dataclass
class FakeMig:
    """A MIG device: a compute instance of a GPU instance."""

    uuid: str
    name: str  # "NVIDIA A100-SXM4-80GB MIG 1g.10gb"
    gi: int
    ci: int = 0
    gpu_slices: int = 1
    compute_slices: int = 1
    multiprocessors: int = 14
    memory_total: int = 10 * GIB
    memory_reserved: int = 0
    memory_used: Pattern = 0.0
    gpm: dict[int, Pattern] = field(default_factory=dict)  # metric id -> percent or MiB/s

    def lines(self) -> Iterator[tuple[str, object]]:
        """Plain keys."""
        for name in ("uuid", "name", "gi", "ci", "gpu_slices", "compute_slices", "multiprocessors"):
            yield name, getattr(self, name)
        yield "memory.total", self.memory_total
        yield "memory.reserved", self.memory_reserved

    def patterns(self) -> Iterator[tuple[str, Pattern]]:
        """Keys that vary in time."""
        yield "memory.used", self.memory_used
        for metric, value in self.gpm.items():
            yield f"gpm.{metric}", value


@dataclass
class FakeEvent:
    """Something the driver tells through an event set; type 8 is an Xid error."""

    data: int
    type: int = 8
    gi: int | None = None
    ci: int | None = None


@dataclass
class FakeGpu:
    """A GPU. None: the driver does not support the value. Utilisation and GPM in percent."""

    name: str = "NVIDIA A100-SXM4-80GB"
    uuid: str = ""  # made from the index where empty
    serial: str = ""
    architecture: int | None = 7
    compute_capability: str = "8.0"
    pci_bus_id: str = ""
    pci_device_id: int = 0x20B210DE
    util_gpu: Pattern | None = 0.0
    util_memory: Pattern | None = 0.0
    util_encoder: Pattern | None = 0.0
    util_decoder: Pattern | None = 0.0
    samples_stop: float | None = None  # Unix time after which the sample buffers stay as they are
    memory_total: int | None = 80 * GIB
    memory_reserved: int = 640 << 20
    memory_used: Pattern = 0.0
    power_watts: Pattern | None = 60.0
    power_limit_watts: float | None = 400.0
    energy: bool = True
    energy_start_joules: float = 0.0
    temperature_gpu: Pattern | None = 35.0
    temperature_memory: Pattern | None = None
    temperature_thresholds: dict[int, int] = field(default_factory=lambda: {0: 92, 1: 89, 3: 85})
    clocks_mhz: dict[str, int] = field(
        default_factory=lambda: {"graphics": 210, "sm": 210, "memory": 1593, "video": 585}
    )
    clocks_max_mhz: dict[str, int] = field(
        default_factory=lambda: {"graphics": 1410, "sm": 1410, "memory": 1593, "video": 1290}
    )
    throttle: int | None = 0x1  # bits as NVML names them; 1: idle
    ecc: bool = True
    ecc_corrected: int = 0
    ecc_uncorrected: int = 0
    ecc_pending: bool | None = None  # after the next reset; None: as it is
    remapped_rows: tuple[int, int, int, int] | None = (0, 0, 0, 0)  # two causes, pending, failed
    retired_pages: tuple[int, int, int] | None = None  # corrected, uncorrected, pending
    persistence: int | None = 1
    compute_mode: int | None = 0
    pcie_tx_bytes_per_second: Pattern | None = None
    pcie_rx_bytes_per_second: Pattern | None = None
    pcie_tx_start: int = 0
    pcie_rx_start: int = 0
    pcie_counter_bits: int = 64
    pcie_generation: int | None = 4
    pcie_generation_max: int | None = 4
    pcie_width: int | None = 16
    pcie_width_max: int | None = 16
    nvlink_links: int = 0
    nvlink_totals: bool = True  # the driver also adds up over all links
    nvlink_tx_bytes_per_second: Pattern = 0.0
    nvlink_rx_bytes_per_second: Pattern = 0.0
    nvlink_mbps: int | None = None  # speed of each link in MB/s, told once for all
    nvlink_mbps_by_link: int | None = None  # the same, told link by link (Hopper and later)
    nvlink_down: tuple[int, ...] = ()
    nvlink_errors: dict[str, int] = field(default_factory=dict)  # crc_flit, replay, …
    nvlink_errors_by_link: dict[str, int] = field(default_factory=dict)  # of each link; Hopper
    fabric_state: int | None = None
    fabric_status: int = 0  # an NVML error
    fabric_health: int = 0
    fabric_version: int = 3  # the newest that the driver knows
    fan: int | None = None
    power_limit_default_watts: float | None = None  # None: the limit
    power_limit_max_watts: float | None = None
    gpm: dict[int, Pattern] | None = None  # None: GPM not supported
    processes: list[FakeProcess] = field(default_factory=list)
    process_samples: str | None = None  # "not_found" or "success": there are none
    process_samples_trailing: int = 0  # rows of pid 0 behind the real ones
    mig_mode: int | None = None
    mig_mode_pending: int | None = None
    mig_max: int = 7
    mig: list[FakeMig] = field(default_factory=list)
    events: list[FakeEvent] = field(default_factory=list)  # append only
    event_types: int = 0x1F

    def lines(self) -> Iterator[tuple[str, object]]:
        """Plain keys."""
        yield from self._identity_lines()
        yield from self._health_lines()
        for i, process in enumerate(self.processes):
            yield from ((f"process.{i}.{key}", value) for key, value in process.lines())
        for i, instance in enumerate(self.mig):
            yield from ((f"mig.{i}.{key}", value) for key, value in instance.lines())
        for i, event in enumerate(self.events):
            for key, value in vars(event).items():
                yield f"event.{i}.{key}", value

    def _identity_lines(self) -> Iterator[tuple[str, object]]:
        yield "name", self.name
        yield "serial", self.serial
        yield "architecture", self.architecture
        yield "compute_capability", self.compute_capability
        yield "pci_device_id", self.pci_device_id
        yield "persistence", self.persistence
        yield "compute_mode", self.compute_mode
        yield "display", 0
        yield "brand", 2
        yield "performance_state", 0
        yield "gpm", int(self.gpm is not None)
        yield "mig.mode", self.mig_mode
        yield "mig.mode_pending", self.mig_mode_pending
        yield "mig.max", self.mig_max
        yield "processes", len(self.processes)
        yield "process_samples", self.process_samples
        yield "process_samples_trailing", self.process_samples_trailing
        yield "events", len(self.events)
        yield "event_types", self.event_types
        yield "samples.stop", self.samples_stop

    def _health_lines(self) -> Iterator[tuple[str, object]]:
        yield "memory.total", self.memory_total
        yield "memory.reserved", self.memory_reserved
        limit = self.power_limit_watts
        for name, watts in (
            ("limit", limit),
            ("default", self.power_limit_default_watts or limit),
            ("max", self.power_limit_max_watts or limit),
        ):
            yield f"power.{name}_milliwatts", None if watts is None else round(watts * 1000)
        yield "energy", int(self.energy)
        yield "power.watts.start", self.energy_start_joules
        yield from (
            (f"temperature.threshold.{k}", v) for k, v in self.temperature_thresholds.items()
        )
        yield from ((f"clock.{domain}", value) for domain, value in self.clocks_mhz.items())
        yield from ((f"clock_max.{domain}", value) for domain, value in self.clocks_max_mhz.items())
        yield "throttle", self.throttle
        yield "throttle_supported", 0x7FF
        yield "ecc.mode", int(self.ecc)
        yield "ecc.mode_pending", None if self.ecc_pending is None else int(self.ecc_pending)
        yield "ecc.corrected.aggregate", self.ecc_corrected
        yield "ecc.uncorrected.aggregate", self.ecc_uncorrected
        names = ("corrected", "uncorrected", "pending", "failed")
        for name, rows in zip(names, self.remapped_rows or (), strict=False):
            yield f"remapped.{name}", rows
        for name, pages in zip(names, self.retired_pages or (), strict=False):
            yield f"retired.{name}", pages
        yield "pcie.counter_bits", self.pcie_counter_bits
        yield "pcie.tx_bytes.start", self.pcie_tx_start
        yield "pcie.rx_bytes.start", self.pcie_rx_start
        for name in ("generation", "generation_max", "width", "width_max"):
            yield f"pcie.{name}", getattr(self, f"pcie_{name}")
        yield from self._link_lines()
        yield "fan", self.fan

    def _link_lines(self) -> Iterator[tuple[str, object]]:
        yield "nvlink.links", self.nvlink_links
        yield "nvlink.totals", int(self.nvlink_totals)
        yield "nvlink.speed", self.nvlink_mbps
        yield "nvlink.speed_by_link", self.nvlink_mbps_by_link
        yield from ((f"nvlink.link.{link}", 0) for link in self.nvlink_down)
        yield from ((f"nvlink.errors.{name}", count) for name, count in self.nvlink_errors.items())
        for name, count in self.nvlink_errors_by_link.items():
            yield f"nvlink.link_errors.{name}", count
        for name in ("state", "status", "health", "version"):
            yield f"fabric.{name}", getattr(self, f"fabric_{name}")

    def patterns(self) -> Iterator[tuple[str, Pattern | None]]:
        """Keys that vary in time."""
        yield "util.gpu", self.util_gpu
        yield "util.memory", self.util_memory
        yield "util.encoder", self.util_encoder
        yield "util.decoder", self.util_decoder
        yield "memory.used", self.memory_used
        yield "power.watts", self.power_watts
        yield "temperature.gpu", self.temperature_gpu
        yield "temperature.memory", self.temperature_memory
        yield "pcie.tx_bytes", self.pcie_tx_bytes_per_second
        yield "pcie.rx_bytes", self.pcie_rx_bytes_per_second
        yield "nvlink.tx_bytes", self.nvlink_tx_bytes_per_second
        yield "nvlink.rx_bytes", self.nvlink_rx_bytes_per_second
        for metric, value in (self.gpm or {}).items():
            yield f"gpm.{metric}", value
        for i, process in enumerate(self.processes):
            yield from ((f"process.{i}.{key}", value) for key, value in process.patterns())
        for i, instance in enumerate(self.mig):
            yield from ((f"mig.{i}.{key}", value) for key, value in instance.patterns())
