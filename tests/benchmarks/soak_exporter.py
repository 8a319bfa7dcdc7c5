"""Does the exporter grow? Pods, processes and MIG instances come and go for as long as it is told.

    python -m tests.benchmarks.soak_exporter --minutes 30       # make soak

Every second something changes, under names that were never there before, so that whatever is kept
by name would add up. Resident memory is read from outside every two seconds; the slope is that of
the straight line with the least squares through all readings after a warm-up of a quarter, of the
anonymous part: pages of files come and go as the machine needs room, and cannot leak.
"""

import argparse
import itertools
import random
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression, median, quantiles

import psutil

from tests.benchmarks.exporters import keeping_bytecode
from tests.exporter.hosttree import Host
from tests.fakes.fixtures import cache_folder
from tests.fakes.kubelet import Kubelet
from tests.fakes.nvml import FakeDriver, FakeGpu, FakeMig, FakeProcess, build
from tests.system.exporter_parts import Node, busy_gpu, in_pod, mig_gpu, working

WHOLE, CUT, SHARED = range(4), range(4, 6), range(6, 8)
MIB = 1 << 20


@dataclass
class Soaked:
    """What was measured; times in seconds since the start, memory in bytes."""

    minutes: float
    at: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    anonymous: list[int] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)
    pods: int = 0
    instances: int = 0
    threads: int = 0
    files: int = 0

    @property
    def late(self) -> tuple[list[float], list[int]]:
        """Times and anonymous memory after the warm-up."""
        first = next(i for i, at in enumerate(self.at) if at >= self.at[-1] / 4)
        return self.at[first:], self.anonymous[first:]

    @property
    def slope(self) -> float:
        """Bytes per hour."""
        return linear_regression(*self.late).slope * 3600.0

    @property
    def growth(self) -> float:
        """Bytes from the first tenth after the warm-up to the last, by medians."""
        _, anonymous = self.late
        part = max(1, len(anonymous) // 10)
        return median(anonymous[-part:]) - median(anonymous[:part])

    def table(self) -> str:
        """The figures, for docs/benchmarks.md."""
        rows = (
            ("duration", f"{self.minutes:g} min"),
            ("pods that came and went", f"{self.pods}"),
            ("MIG instances that came and went", f"{self.instances}"),
            ("resident memory: highest", f"{max(self.resident) / MIB:.1f} MiB"),
            ("resident memory: at the end", f"{self.resident[-1] / MIB:.1f} MiB"),
            ("anonymous part: after the warm-up", f"{self.late[1][0] / MIB:.1f} MiB"),
            ("anonymous part: at the end", f"{self.anonymous[-1] / MIB:.1f} MiB"),
            ("anonymous part: slope", f"{self.slope / MIB:+.2f} MiB/h"),
            ("anonymous part: first to last tenth", f"{self.growth / MIB:+.2f} MiB"),
            ("threads, open files at the end", f"{self.threads}, {self.files}"),
            ("/metrics p50, p99", f"{median(self.pages) * 1e3:.1f} ms, {self.p99 * 1e3:.1f} ms"),
        )
        return "\n".join(["| what | measured |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])

    @property
    def p99(self) -> float:
        """Seconds of the slowest page in a hundred."""
        return quantiles(self.pages, n=100)[-1] if len(self.pages) > 1 else self.pages[0]


class Tenants:
    """Those who come and go on a node of eight GPUs; each step is one second's change."""

    def __init__(self, node: Node, host: Host) -> None:
        self.pods = self.instances = 0
        self._node, self._host = node, host
        self._dice = random.Random(7)
        self._held: dict[str, list[str]] = {}
        self._uids: dict[str, str] = {}
        self._running: dict[str, tuple[FakeGpu, FakeProcess]] = {}
        self._pids = itertools.count(100)

    def step(self, second: int) -> None:
        """Change something."""
        for pod in [pod for pod in self._held if self._dice.random() < 0.1]:
            self._leave(pod)
        if second % 3 == 0:
            self._recut(self._node.driver.gpus[self._dice.choice(CUT)])
        for device in self._free():
            if self._dice.random() < 0.3:
                self._arrive(device)
        self._node.hand_out(self._held)
        self._node.driver.write()

    def _free(self) -> list[str]:
        gpus = self._node.driver.gpus
        slices = [one.uuid for i in CUT for one in gpus[i].mig]
        replicas = [f"{gpus[i].uuid}::{n}" for i in SHARED for n in range(4)]
        taken = set(itertools.chain.from_iterable(self._held.values()))
        return [d for d in (*(gpus[i].uuid for i in WHOLE), *slices, *replicas) if d not in taken]

    def _arrive(self, device: str) -> None:
        self.pods += 1
        pod, uid = f"pod-{self.pods}", str(uuid.UUID(int=self._dice.getrandbits(128), version=4))
        self._host.pod("team", pod, uid, "main")
        self._held[pod], self._uids[pod] = [device], uid
        pid = next(self._pids)
        in_pod(self._host, pid, uid)
        for gpu in self._node.driver.gpus:
            if device.startswith(gpu.uuid):
                self._running[pod] = (gpu, working(pid, sm=10.0))
                gpu.processes.append(self._running[pod][1])

    def _leave(self, pod: str) -> None:
        del self._held[pod]
        shutil.rmtree(self._host.pods / f"team_{pod}_{self._uids.pop(pod)}")
        if pod in self._running:
            gpu, process = self._running.pop(pod)
            gpu.processes.remove(process)
            self._host.end(process.pid)

    def _recut(self, gpu: FakeGpu) -> None:
        """Take the instances that nobody holds apart and make new ones."""
        taken = set(itertools.chain.from_iterable(self._held.values()))
        kept = [one for one in gpu.mig if one.uuid in taken]
        for place in range(self._dice.randrange(7 - len(kept) + 1)):
            self.instances += 1
            name = f"MIG-{self.instances:08d}-0000-4000-8000-000000000000"
            kept.append(
                FakeMig(name, "NVIDIA H100 80GB HBM3 MIG 1g.10gb", gi=20 + place, gpm={2: 9.0})
            )
        gpu.mig = kept


def anonymous_bytes(pid: int) -> int:
    """Resident memory that belongs to no file."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (kibibytes,) = (line.split()[1] for line in status.splitlines() if "RssAnon" in line)
    return int(kibibytes) * 1024


@contextmanager
def soaking_node(folder: Path, library: Path) -> Iterator[tuple[Node, Host]]:
    """A node of eight GPUs whose exporter samples each second, its bytecode compiled before."""
    driver = FakeDriver(folder / "nvml-state")
    for place in range(8):
        driver.add(mig_gpu(place) if place in CUT else busy_gpu())
    host = Host(folder)
    node = Node(folder, library, driver, Kubelet(folder / "kubelet.sock"), host)
    node.variables |= keeping_bytecode()
    assert node.kubelet is not None
    node.kubelet.start()
    try:
        node.run().end()
        node.run("--interval", "1", "--hang-after", "5", "--linger", "5")
        yield node, host
    finally:
        node.stop()


def soak(folder: Path, library: Path, minutes: float) -> Soaked:
    """Run for ``minutes`` and measure."""
    with soaking_node(folder, library) as (node, host):
        assert node.process is not None
        process, tenants = psutil.Process(node.process.popen.pid), Tenants(node, host)
        found, began = Soaked(minutes), time.monotonic()
        for second in itertools.count():
            at = time.monotonic() - began
            if at >= minutes * 60.0:
                break
            tenants.step(second)
            if second % 2 == 0:
                found.pages.append(node.page().seconds)
                found.at.append(at)
                found.resident.append(process.memory_info().rss)
                found.anonymous.append(anonymous_bytes(process.pid))
            time.sleep(max(0.0, second + 1.0 - (time.monotonic() - began)))
        found.pods, found.instances = tenants.pods, tenants.instances
        found.threads, found.files = process.num_threads(), process.num_fds()
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    asked = parser.parse_args(arguments)
    library = build(cache_folder())
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(soak(Path(folder), library, asked.minutes).table() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
