"""Sources whose behaviour a test decides while the sampler runs."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gputailor_exporter.attribution.allocations import Allocation, ContainerRef
from gputailor_exporter.devices.base import DeviceIdentity, DeviceReading, XidEvent
from gputailor_exporter.metrics import Signal
from tests.exporter.machines import GPU, reading


def half_busy(_: DeviceIdentity, at: float) -> DeviceReading:
    return reading(at, {Signal.KERNEL: 0.5})


@dataclass
class StubBackend:
    """Reads what ``answers`` says; counts its calls."""

    identities: tuple[DeviceIdentity, ...] = (GPU,)
    answer: Callable[[DeviceIdentity, float], DeviceReading] = half_busy
    discover: Callable[[], None] = lambda: None
    events: list[XidEvent] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    starting: Callable[[], None] = lambda: None
    closed: bool = False
    name: str = "stub"

    def open(self) -> None:
        self.starting()
        self.closed = False

    def expected(self) -> int | None:
        return 1

    def devices(self) -> tuple[DeviceIdentity, ...]:
        self.discover()
        return self.identities

    def read(self, device: DeviceIdentity, at: float) -> DeviceReading:
        self.reads.append(at)
        return self.answer(device, at)

    def wait_events(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        taken, self.events = tuple(self.events), []
        if not taken:
            time.sleep(min(timeout_seconds, 0.02))
        return taken

    def close(self) -> None:
        self.closed = True


@dataclass
class StubAllocations:
    """Answers ``held``, after ``before`` ran (it may raise or wait)."""

    held: tuple[Allocation, ...] = ()
    before: Callable[[], None] = lambda: None
    closed: bool = False
    name: str = "kubelet"
    unmatched: dict[str, int] = field(default_factory=dict)
    problems: dict[str, int] = field(default_factory=dict)
    asked: tuple[DeviceIdentity, ...] = ()

    def allocations(self, devices: Sequence[DeviceIdentity], at: float) -> tuple[Allocation, ...]:
        self.asked = tuple(devices)
        self.before()
        return self.held

    def close(self) -> None:
        self.closed = True


@dataclass
class StubAttribution:
    """Every process belongs to the same container."""

    container: ContainerRef | None

    def owner(self, pid: int) -> ContainerRef | None:
        if pid < 0:
            raise ValueError(pid)
        return self.container


class Gate:
    """Where calls wait until the test lets them go."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.entered = threading.Event()

    def wait(self) -> None:
        self.entered.set()
        self._open.wait(30)

    def open(self) -> None:
        self._open.set()


def eventually(condition: Callable[[], object], within: float = 5.0) -> None:
    """Wait until ``condition`` is true; fail after ``within`` seconds."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)
