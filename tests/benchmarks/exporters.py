"""Exporters side by side on one fake driver: what each costs, measured from outside in one run.

    python -m tests.benchmarks.exporters            # the table of docs/benchmarks.md

Both run at the same time, at 1 s sampling, on drivers of the same description with the same call
latencies, with compiled bytecode, and are scraped at the same moments. CPU is user and system time
from /proc/<pid>/stat over the window, which contains the scrapes. A latency sleeps inside the
call: it costs its caller time but no CPU, so that the figures are what the exporters themselves
spend; how long each stood in driver calls is counted beside it, because a real driver spends part
of that in the kernel at the caller's cost.
"""

import argparse
import gzip
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from statistics import median

from tests.fakes.fixtures import cache_folder
from tests.fakes.kubelet import Container, Kubelet, Pod
from tests.fakes.nvml import GIB, FakeDriver, FakeGpu, FakeMig, FakeProcess, build, square

#: Seconds a call sleeps. Real drivers: utilisation and samples 30 microseconds to 1 ms, process
#: lists 1 to 5 ms; the PCIe throughput call looks at 20 ms (NVML's documentation); the rest is
#: an ioctl.
LATENCIES: Mapping[str, float] = {
    "*": 30e-6,
    "nvmlDeviceGetUtilizationRates": 0.3e-3,
    "nvmlDeviceGetSamples": 0.3e-3,
    "nvmlGpmSampleGet": 1e-3,
    "nvmlGpmMigSampleGet": 1e-3,
    "nvmlDeviceGetComputeRunningProcesses_v3": 2e-3,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": 1e-3,
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": 1e-3,
    "nvmlDeviceGetProcessUtilization": 5e-3,
    "nvmlDeviceGetPcieThroughput": 20e-3,
}
SLICES = 7
TICKS = os.sysconf("SC_CLK_TCK")
MIB = 2**20


@dataclass(frozen=True)
class Load:
    """A node: GPUs, each cut into seven MIG instances or whole, and processes spread over them."""

    gpus: int
    processes: int
    mig: bool = False

    @property
    def name(self) -> str:
        """Words for the table."""
        return f"{self.gpus} x {SLICES} MIG" if self.mig else f"{self.gpus}"


LOADS = tuple(
    Load(gpus, processes, mig)
    for gpus, mig in ((1, False), (8, False), (16, False), (8, True))
    for processes in (0, 8, 200)
)


@dataclass
class Figures:
    """What one exporter took over one window."""

    cpu_seconds: float
    window_seconds: float
    resident_mib: float
    proportional_mib: float
    driver_calls: int
    driver_seconds: float
    page_bytes: int
    series: int
    scrapes: list[float] = field(default_factory=list)  # seconds, sorted

    def cpu_ms_per_gpu_second(self, gpus: int) -> float:
        """Milliseconds of CPU for each second of each GPU."""
        return self.cpu_seconds / self.window_seconds / gpus * 1000

    def scrape_ms(self, quantile: float) -> float:
        """Quantile of the scrapes' latency, by the nearest rank."""
        return self.scrapes[min(len(self.scrapes) - 1, int(quantile * len(self.scrapes)))] * 1000


@dataclass
class Process:
    """One exporter under measurement."""

    name: str
    pid: int
    port: int
    calls: Path
    scrapes: list[float] = field(default_factory=list)
    page: bytes = b""

    def scrape(self) -> None:
        """Fetch the page as Prometheus does, gzipped; a failed one raises."""
        before = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        body = answer.read()
        self.scrapes.append(time.perf_counter() - before)
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{self.name}: HTTP {answer.status}")
        zipped = answer.headers.get("Content-Encoding") == "gzip"
        self.page = gzip.decompress(body) if zipped else body

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def kib(self, file: str, key: str) -> int:
        """A figure of /proc/<pid>/status or smaps_rollup."""
        for line in Path(f"/proc/{self.pid}/{file}").read_text().splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1])
        raise LookupError(key)

    def driver(self) -> tuple[int, float]:
        """Driver calls so far and the latency they slept in all, seconds."""
        counts = self.calls.read_bytes()
        calls, nanoseconds = (int.from_bytes(counts[i : i + 8], "little") for i in (0, 8))
        return calls, nanoseconds / 1e9


@contextmanager
def node(load: Load, folder: Path) -> Iterator[Mapping[str, str]]:
    """The machine: driver state, processes, cgroups and kubelet; gives the driver's environment."""
    with ExitStack() as stack:
        pids = [stack.enter_context(_idler()) for _ in range(load.processes)]
        driver = machine(load, folder / "driver", pids)
        holders = _pods(load, driver, folder, pids)
        stack.enter_context(Kubelet(folder / "kubelet.sock", holders))
        yield driver.environment(build(cache_folder()), compiled_environment())


def machine(load: Load, state: Path, pids: Sequence[int]) -> FakeDriver:
    """Write the state of a driver with H100s that work half of the time."""
    driver = FakeDriver(state, faults={(name, "*"): {"latency": s} for name, s in LATENCIES.items()})
    for index in range(load.gpus):
        driver.add(_gpu(load, pids[index :: load.gpus]))
    driver.write()
    return driver


def _gpu(load: Load, pids: Sequence[int]) -> FakeGpu:
    activities = {n: square(1.7, 1.3, 60.0, 5.0) for n in (1, 2, 3, 4, 5, 10, 11, 12, 13)}
    gpu = FakeGpu(
        name="NVIDIA H100 80GB HBM3",
        architecture=9,
        compute_capability="9.0",
        util_gpu=square(1.7, 1.3, 95.0, 3.0),
        util_memory=square(1.7, 1.3, 40.0, 1.0),
        memory_used=30 * GIB,
        power_watts=square(1.7, 1.3, 610.0, 120.0),
        temperature_memory=51.0,
        pcie_tx_bytes_per_second=1e9,
        pcie_rx_bytes_per_second=2e9,
        nvlink_links=18,
        nvlink_tx_bytes_per_second=1e9,
        nvlink_rx_bytes_per_second=1e9,
        fan=40,
        gpm={**activities, 20: 1000.0, 21: 2000.0, 60: 900.0, 61: 900.0},
        mig_mode=int(load.mig),
        processes=[FakeProcess(pid, GIB, sm=square(1.7, 1.3, 60.0, 2.0)) for pid in pids],
    )
    if load.mig:
        gpu.mig = [
            FakeMig("", f"{gpu.name} MIG 1g.10gb", gi=7 + n, gpm=activities) for n in range(SLICES)
        ]
        for place, process in enumerate(gpu.processes):
            process.gi, process.ci = 7 + place % SLICES, 0
    return gpu


@contextmanager
def _idler() -> Iterator[int]:
    """A process that does nothing, for exporters that look processes up."""
    process = subprocess.Popen(["sleep", "3600"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _pods(load: Load, driver: FakeDriver, folder: Path, pids: Sequence[int]) -> list[Pod]:
    """A pod for each device; eight on a single GPU, by replicas; their cgroups and log folders."""
    ids: list[str] = []
    for index, gpu in enumerate(driver.gpus):
        for place, instance in enumerate(gpu.mig):
            instance.uuid = f"MIG-00000000-0000-4000-8000-{index:06d}{place:06d}"
        ids += [instance.uuid for instance in gpu.mig] or [gpu.uuid]
    driver.write()
    if load.gpus == 1 and load.processes:
        ids = [f"{ids[0]}::{replica}" for replica in range(8)]
    resource = "nvidia.com/mig-1g.10gb" if load.mig else "nvidia.com/gpu"
    pods = []
    for number, device in enumerate(ids):
        uid = f"0f3a1c52-7b8e-4b61-9d0e-{number:012d}"
        (folder / "pods" / f"team_train-{number}_{uid}" / "main").mkdir(parents=True)
        pods.append(Pod("team", f"train-{number}", [Container("main", {resource: [device]})]))
        for pid in pids[number :: len(ids)]:
            _process(folder / "proc" / str(pid), pid, f"0::/kubepods/pod{uid}/{'c' * 52}{number:012d}")
    return pods


def _process(folder: Path, pid: int, cgroup: str) -> None:
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (python) S {'0 ' * 18}100 0\n")
    (folder / "cgroup").write_text(cgroup)


def compiled_environment() -> dict[str, str]:
    """An environment in which bytecode is compiled and kept, as in an image."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GPUTAILOR_EXPORTER_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    return {**kept, "PYTHONPYCACHEPREFIX": str(cache_folder().parent / "bytecode")}


def ours(folder: Path, port: int) -> list[str]:
    """Our exporter as on a node of a cluster, its files from ``folder``."""
    return [
        sys.executable, "-m", "gputailor_exporter", "--listen", f"127.0.0.1:{port}",
        "--proc-root", str(folder / "proc"), "--pod-logs-root", str(folder / "pods"),
        "--pod-resources-socket", str(folder / "kubelet.sock"), "--node", "bench",
    ]  # fmt: skip


def nvitop(_folder: Path, port: int) -> list[str]:
    """The exporter of the nvitop project, 1 s by default."""
    return [
        sys.executable, "-m", "nvitop_exporter",
        "--bind-address", "127.0.0.1", "--port", str(port), "--hostname", "bench",
    ]  # fmt: skip


EXPORTERS = {"gputailor-exporter": ours, "nvitop-exporter": nvitop}


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def started(name: str, folder: Path, environment: Mapping[str, str]) -> Iterator[Process]:
    """Start one exporter and wait for its first page; it is killed at the end."""
    port, calls = free_port(), folder / f"{name}.calls"
    (folder / "proc").mkdir(exist_ok=True)
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            EXPORTERS[name](folder, port),
            env={**environment, "GPUTAILOR_FAKE_NVML_CALLS": str(calls)},
            stdout=log,
            stderr=log,
        )
    made = Process(name, process.pid, port, calls)
    try:
        _await_page(made, process, folder / f"{name}.log")
        yield made
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_page(made: Process, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            made.scrape()
        except OSError:
            time.sleep(0.1)
        else:
            made.scrapes.clear()
            return
    raise RuntimeError(f"{made.name} does not serve:\n{log.read_text()}")


def measure(
    load: Load, *, seconds: float, scrapes: int, names: Sequence[str] = tuple(EXPORTERS)
) -> dict[str, Figures]:
    """Run the exporters beside each other on ``load``; scrapes are spread over the window."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        root = Path(folder)
        environment = stack.enter_context(node(load, root))
        running = [stack.enter_context(started(name, root, environment)) for name in names]
        time.sleep(6.0)  # the first readings, discovery and allocations are over
        before = {one.name: (one.cpu_seconds(), *one.driver()) for one in running}
        begun = time.monotonic()
        for number in range(scrapes):
            time.sleep(max(0.0, begun + (number + 0.5) * seconds / scrapes - time.monotonic()))
            for one in running if number % 2 else reversed(running):
                one.scrape()
        time.sleep(max(0.0, begun + seconds - time.monotonic()))
        return {one.name: _figures(one, before[one.name], begun) for one in running}


def _figures(one: Process, before: tuple[float, int, float], begun: float) -> Figures:
    cpu, window = one.cpu_seconds() - before[0], time.monotonic() - begun
    calls, slept = one.driver()
    return Figures(
        cpu_seconds=cpu,
        window_seconds=window,
        resident_mib=one.kib("status", "VmRSS") / 1024,
        proportional_mib=one.kib("smaps_rollup", "Pss") / 1024,
        driver_calls=calls - before[1],
        driver_seconds=slept - before[2],
        page_bytes=len(one.page),
        series=sum(1 for line in one.page.splitlines() if line and not line.startswith(b"#")),
        scrapes=sorted(one.scrapes),
    )
