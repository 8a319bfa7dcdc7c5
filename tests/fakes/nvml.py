"""Python's side of the fake NVIDIA driver: builds the library, writes its state, knows the truth.

``FakeDriver`` is a description of a machine; ``write`` puts it, at once, where the library reads it
(the file is replaced, so a reader sees one whole version). A value that varies in time is a pattern
(a number, ``square(...)`` or ``ramp(...)``); when a test changes one, what it was before stays in the
timeline, so counters never jump back and old samples keep their values. ``mean`` and ``integral``
say what the driver was told, to compare with what was measured.
"""

import hashlib
import math
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.nvml_timeline import Pattern, Timeline, ramp, square

__all__ = [
    "FakeDriver",
    "FakeEvent",
    "FakeGpu",
    "FakeMig",
    "FakeProcess",
    "build",
    "ramp",
    "square",
]

STATE_VARIABLE = "GPUTAILOR_FAKE_NVML_STATE"
SOURCES = Path(__file__).parent
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
    remapped_rows: tuple[int, int, int, int] | None = (0, 0, 0, 0)
    retired_pages: tuple[int, int] | None = None  # corrected, uncorrected
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
    fan: int | None = None
    gpm: dict[int, Pattern] | None = None  # None: GPM not supported
    processes: list[FakeProcess] = field(default_factory=list)
    process_samples: str | None = None  # "not_found" or "success": there are none
    process_samples_trailing: int = 0  # rows of pid 0 behind the real ones
    mig_mode: int | None = None
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
        yield "persistence", 1
        yield "compute_mode", 0
        yield "display", 0
        yield "brand", 2
        yield "performance_state", 0
        yield "gpm", int(self.gpm is not None)
        yield "mig.mode", self.mig_mode
        yield "mig.max", self.mig_max
        yield "processes", len(self.processes)
        yield "process_samples", self.process_samples
        yield "process_samples_trailing", self.process_samples_trailing
        yield "events", len(self.events)
        yield "event_types", self.event_types
        yield "samples.stop", self.samples_stop

    def _health_lines(self) -> Iterator[tuple[str, object]]:
        limit = None if self.power_limit_watts is None else round(self.power_limit_watts * 1000)
        yield "memory.total", self.memory_total
        yield "memory.reserved", self.memory_reserved
        for name in ("limit", "default", "max"):
            yield f"power.{name}_milliwatts", limit
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
        yield "nvlink.links", self.nvlink_links
        yield "nvlink.totals", int(self.nvlink_totals)
        yield "fan", self.fan

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


@dataclass
class FakeDriver:
    """The machine. ``now`` None: the driver's clock is the real one, else it stands still there.

    ``faults`` maps (function or "*", GPU index or "*") to ``{"error": code}``, ``{"hang": 1}`` or
    ``{"latency": seconds}``; ``raw`` maps (function, GPU index) to the integer it answers.
    """

    state: Path
    gpus: list[FakeGpu] = field(default_factory=list)
    version: str = "550.54.15"
    nvml_version: str = "12.550.54.15"
    cuda_version: int = 12040
    now: float | None = None
    origin: float = field(default_factory=lambda: float(math.floor(time.time())) - 60.0)
    faults: dict[tuple[str, int | str], dict[str, float]] = field(default_factory=dict)
    raw: dict[tuple[str, int], int] = field(default_factory=dict)
    raw_fields: dict[tuple[int, int], int] = field(default_factory=dict)  # (field, GPU) -> value
    missing_symbols: tuple[str, ...] = ()  # of an old driver; chooses the variant that is built
    _timelines: dict[str, Timeline] = field(default_factory=dict)

    def add(self, gpu: FakeGpu) -> FakeGpu:
        """Plug a GPU in; names that it lacks are made from its index."""
        index = len(self.gpus)
        gpu.uuid = gpu.uuid or f"GPU-00000000-0000-4000-8000-{index:012d}"
        gpu.pci_bus_id = gpu.pci_bus_id or f"00000000:{0x10 + index:02X}:00.0"
        gpu.serial = gpu.serial or f"16509{index:08d}"
        self.gpus.append(gpu)
        return gpu

    def clock(self) -> float:
        """Unix seconds of the driver."""
        return time.time() if self.now is None else self.now

    def advance(self, seconds: float) -> None:
        """Move a stopped clock and write."""
        if self.now is None:
            raise ValueError("only a stopped clock can be moved: give FakeDriver a now")
        self.now += seconds
        self.write()

    def mean(self, key: str, start: float, end: float) -> float:
        """Mean of a timeline (``gpu.0.util.gpu``) over Unix times: what the driver was told."""
        return self.integral(key, start, end) / (end - start)

    def integral(self, key: str, start: float, end: float) -> float:
        """Integral of a timeline over Unix times."""
        return self._timelines[key].integral(start, end, self.origin)

    def write(self) -> None:
        """Replace the state file by the present description; changes hold from now on."""
        text = "".join(f"{key} = {value}\n" for key, value in self._lines())
        draft = self.state.with_name(f"{self.state.name}.{os.getpid()}.new")
        draft.write_text(text, encoding="utf-8")
        draft.replace(self.state)

    def environment(self, library: Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """Variables under which a new process loads ``library`` as its NVIDIA driver."""
        found = dict(os.environ if base is None else base)
        found[STATE_VARIABLE] = str(self.state)
        rest = found.get("LD_LIBRARY_PATH")
        found["LD_LIBRARY_PATH"] = f"{library.parent}:{rest}" if rest else str(library.parent)
        return found

    def _lines(self) -> Iterator[tuple[str, object]]:
        yield "driver.version", self.version
        yield "driver.nvml_version", self.nvml_version
        yield "driver.cuda_version", self.cuda_version
        yield "driver.gpus", len(self.gpus)
        yield "clock.origin", repr(self.origin)
        if self.now is not None:
            yield "clock.now", repr(self.now)
        for (function, gpu), behaviours in self.faults.items():
            yield from ((f"call.{function}.{gpu}.{k}", v) for k, v in behaviours.items())
        yield from ((f"raw.{name}.{gpu}", value) for (name, gpu), value in self.raw.items())
        yield from ((f"raw.field.{i}.{gpu}", v) for (i, gpu), v in self.raw_fields.items())
        for index, gpu in enumerate(self.gpus):
            yield from self._gpu_lines(f"gpu.{index}.", gpu)

    def _gpu_lines(self, prefix: str, gpu: FakeGpu) -> Iterator[tuple[str, object]]:
        yield prefix + "uuid", gpu.uuid
        yield prefix + "minor", int(prefix.split(".")[1])
        yield prefix + "pci_bus_id", gpu.pci_bus_id
        yield from ((prefix + key, value) for key, value in gpu.lines() if value is not None)
        at = self.clock()
        for key, pattern in gpu.patterns():
            if pattern is None:
                self._timelines.pop(prefix + key, None)
                continue
            text = pattern if isinstance(pattern, str) else repr(float(pattern))
            timeline = self._timelines.setdefault(prefix + key, Timeline([(math.inf, text)]))
            timeline.change(text, at)
            yield prefix + key, timeline.text()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")


def build(cache: Path, missing_symbols: tuple[str, ...] = (), compiler: str = "gcc") -> Path:
    """Compile ``libnvidia-ml.so.1`` without the named symbols; one built before is used again.

    The folder below ``cache`` is named by a hash of the sources and of the missing symbols.
    """
    sources = sorted(SOURCES.glob("nvml*.[ch]"))
    digest = hashlib.sha256("\0".join(missing_symbols).encode())
    for source in sources:
        digest.update(source.read_bytes())
    folder = cache / digest.hexdigest()[:16]
    library = folder / "libnvidia-ml.so.1"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    hidden = " ".join(f"{name};" for name in missing_symbols)
    script = folder / f"{os.getpid()}.map"
    script.write_text(f"{{ global: nvml*; local: {hidden} *; }};\n", encoding="utf-8")
    draft = folder / f"{os.getpid()}.so"
    _run(
        [
            compiler, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
            "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1",
            f"-Wl,--version-script,{script}", "-o", str(draft),
            *(str(source) for source in sources if source.suffix == ".c"), "-lm", "-lpthread",
        ]
    )  # fmt: skip
    draft.replace(library)
    script.unlink()
    return library
