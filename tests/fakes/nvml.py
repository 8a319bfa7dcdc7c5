"""Python's side of the fake NVIDIA driver: builds the library, writes its state, knows the truth.

``FakeDriver`` is a description of a machine; ``write`` puts it, at once, where the library reads it
(the file is replaced, so a reader sees one whole version). A value that varies in time is a pattern
(a number, ``square(...)`` or ``ramp(...)``); when a test changes one, what it was before stays in the
timeline, so counters never jump back and old samples keep their values. ``mean`` and ``integral``
say what the driver was told, to compare with what was measured.
"""

import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.compiling import compiled
from tests.fakes.nvml_parts import GIB, FakeEvent, FakeGpu, FakeMig, FakeProcess
from tests.fakes.nvml_timeline import Timeline, ramp, square

__all__ = [
    "GIB",
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
LIBRARY = "libnvidia-ml.so.1"


@dataclass
class FakeDriver:
    """The machine. ``now`` None: the driver's clock is the real one, else it stands still there.

    ``faults`` maps (function or "*", GPU index or "*") to ``{"error": code}``, ``{"hang": 1}``
    (2: it holds the driver's one lock meanwhile) or ``{"latency": seconds}``; ``raw`` maps (function, GPU index) to the integer it answers,
    ``counts`` (function, GPU index; -1 where it names no GPU) to the length it tells of its list.
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
    counts: dict[tuple[str, int], int] = field(default_factory=dict)
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
        yield from ((f"count.{name}.{gpu}", value) for (name, gpu), value in self.counts.items())
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


def build(cache: Path, missing_symbols: tuple[str, ...] = (), compiler: str = "gcc") -> Path:
    """Compile ``libnvidia-ml.so.1`` without the named symbols; one built before is used again."""
    hidden = " ".join(f"{name};" for name in missing_symbols)
    return compiled(
        cache,
        LIBRARY,
        SOURCES.glob("nvml*.[ch]"),
        options=("-fvisibility=hidden", f"-Wl,-soname,{LIBRARY}", "-lm", "-lpthread"),
        version_script=f"{{ global: nvml*; local: {hidden} *; }};\n",
        compiler=compiler,
    )
