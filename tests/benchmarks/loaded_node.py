"""A node under load for measurements: GPUs of a fake driver that answers as slowly as a real one.

Pods hold its devices, processes run in them, kubelet tells who holds what: all that an exporter
looks at, in a folder.
"""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.kubelet import Container, Kubelet, Pod
from tests.fakes.nvml import GIB, FakeDriver, FakeGpu, FakeMig, FakeProcess, square

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


@dataclass(frozen=True)
class Load:
    """A node: GPUs, each cut into seven MIG instances or whole, and processes spread over them."""

    gpus: int
    processes: int
    mig: bool = False

    @property
    def key(self) -> str:
        """Its name on the command line."""
        return f"{self.gpus}x{self.processes}{'-mig' if self.mig else ''}"

    @property
    def name(self) -> str:
        """Words for the table."""
        return f"{self.gpus} x {SLICES} MIG" if self.mig else f"{self.gpus}"


@contextmanager
def node(load: Load, folder: Path) -> Iterator[FakeDriver]:
    """The machine in ``folder``: driver, processes, cgroups, log folders and kubelet."""
    with ExitStack() as stack:
        (folder / "proc").mkdir()
        pids = [stack.enter_context(_idler()) for _ in range(load.processes)]
        driver = machine(load, folder / "driver", pids)
        holders = _pods(load, driver, folder, pids)
        stack.enter_context(Kubelet(folder / "kubelet.sock", holders))
        yield driver


def machine(load: Load, state: Path, pids: Sequence[int]) -> FakeDriver:
    """Write the state of a driver with H100s that work half of the time."""
    driver = FakeDriver(
        state, faults={(name, "*"): {"latency": s} for name, s in LATENCIES.items()}
    )
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
            _process(
                folder / "proc" / str(pid), pid, f"0::/kubepods/pod{uid}/{'c' * 52}{number:012d}"
            )
    return pods


def _process(folder: Path, pid: int, cgroup: str) -> None:
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (python) S {'0 ' * 18}100 0\n")
    (folder / "cgroup").write_text(cgroup)
