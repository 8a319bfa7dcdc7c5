"""The fixed machines whose whole /metrics pages are kept in tests/exporter/golden.

``python -m tests.exporter.golden_machines`` writes the files anew; look at the diff before it is
committed. Each page comes from the real binding over the fake driver, after 65 s of a stopped clock.
"""

import ctypes
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pynvml

from gputailor_exporter.attribution.allocations import Allocation, ContainerRef
from gputailor_exporter.metrics import Sharing
from tests.exporter.fake_nodes import FakeNode, rich_gpu
from tests.fakes.fixtures import cache_folder
from tests.fakes.nvml import (
    GIB,
    STATE_VARIABLE,
    FakeDriver,
    FakeEvent,
    FakeGpu,
    FakeMig,
    FakeProcess,
    build,
    square,
)

FOLDER: Final = Path(__file__).with_name("golden")
SECONDS: Final = 65

#: A machine: given a driver and an empty folder, a node that has run.
Machine = Callable[[FakeDriver, Path], FakeNode]


def container(name: str, *, mps_server: bool = False) -> ContainerRef:
    """A container of a pod in the namespace ``team``."""
    uid = f"00000000-0000-4000-9000-{sum(name.encode()):012d}"
    return ContainerRef("team", name, "main", uid, mps_server=mps_server)


def held(name: str, uuid: str, sharing: Sharing = Sharing.EXCLUSIVE, share: float = 1.0):
    """An allocation of that container."""
    return Allocation(container(name), uuid, sharing, share)


def a100(**about) -> FakeGpu:
    """An A100 without GPM, as all before Hopper."""
    told = {
        "util_gpu": 80.0,
        "util_memory": 30.0,
        "memory_used": 41 * GIB,
        "power_watts": 280.0,
        "temperature_memory": 60,
        "nvlink_links": 12,
        "nvlink_mbps": 25_781,
        "nvlink_errors": {"crc_flit": 0, "crc_data": 0, "replay": 2, "recovery": 0, "ecc_data": 0},
        "mig_mode": 0,
        "persistence": 1,
    }
    return FakeGpu(**{**told, **about})


def h100_exclusive(driver: FakeDriver, folder: Path) -> FakeNode:
    """Eight H100, each for one pod; the fourth had an Xid, the last has a link down."""
    for index in range(8):
        busy = 99.0 - 12.0 * index
        driver.add(rich_gpu(util_gpu=square(3.0, 1.0, busy), power_watts=650.0 - 60.0 * index))
    driver.gpus[7].nvlink_down = (17,)
    node = FakeNode(driver, folder)
    node.discover()
    everyone = [held(f"train-{index}", gpu.uuid) for index, gpu in enumerate(driver.gpus)]
    node.hold(*everyone)
    node.run(5, everyone)
    driver.gpus[3].events += [FakeEvent(31), FakeEvent(31), FakeEvent(94)]
    driver.write()
    return node.run(SECONDS - 5, everyone)


def h100_mig(driver: FakeDriver, folder: Path) -> FakeNode:
    """An H100 cut into unlike slices beside a whole one; a slice is free."""
    name = "NVIDIA H100 80GB HBM3 MIG "
    driver.add(
        rich_gpu(
            mig_mode=1,
            processes=[FakeProcess(31, gi=1, ci=0, memory=20 * GIB)],
            mig=[
                FakeMig(
                    "MIG-3g",
                    name + "3g.40gb",
                    gi=1,
                    gpu_slices=3,
                    compute_slices=3,
                    multiprocessors=60,
                    memory_total=40 * GIB,
                    memory_used=20.0 * GIB,
                    gpm={1: 90.0, 2: 64.0, 3: 30.0, 5: 22.0, 10: 18.0, 11: 0.0, 12: 21.0, 13: 3.0},
                ),
                FakeMig("MIG-1g", name + "1g.10gb", gi=9, memory_used=1.0 * GIB, gpm={1: 0, 2: 0}),
                FakeMig("MIG-free", name + "1g.10gb", gi=10, gpm={1: 0.0, 2: 0.0}),
            ],
        )
    )
    driver.add(rich_gpu())
    node = FakeNode(driver, folder)
    node.discover()
    everyone = [
        held("slice-big", "MIG-3g", Sharing.MIG),
        held("slice-small", "MIG-1g", Sharing.MIG),
        held("whole", driver.gpus[1].uuid),
    ]
    node.hold(*everyone)
    return node.run(SECONDS, everyone)


def a100_time_sliced(driver: FakeDriver, folder: Path) -> FakeNode:
    """An A100 in four replicas: three pods at work, one at rest, and a process of nobody."""
    processes = [
        FakeProcess(101, sm=40.0, memory=12 * GIB),
        FakeProcess(102, sm=20.0, memory=8 * GIB),
        FakeProcess(103, sm=10.0, memory=8 * GIB, encoder=5.0),
        FakeProcess(999, sm=5.0, memory=2 * GIB),
    ]
    gpu = driver.add(a100(processes=processes, util_encoder=5.0, memory_used=31 * GIB))
    owners = {pid: container(f"notebook-{pid - 100}") for pid in (101, 102, 103)}
    node = FakeNode(driver, folder, owners=owners)
    node.discover()
    everyone = [
        held(f"notebook-{number}", gpu.uuid, Sharing.TIME_SLICING, 0.25) for number in range(1, 5)
    ]
    node.hold(*everyone)
    return node.run(SECONDS, everyone)


def mps(driver: FakeDriver, folder: Path) -> FakeNode:
    """Two clients of MPS on a workstation card with a fan; the server is in a container of its own."""
    processes = [
        FakeProcess(201, kind="mps", memory=6 * GIB, sm=35.0),
        FakeProcess(202, kind="mps", memory=4 * GIB, sm=15.0),
        FakeProcess(200, memory=GIB // 4),
    ]
    gpu = driver.add(
        a100(
            name="NVIDIA RTX A6000",
            architecture=7,
            util_gpu=50.0,
            compute_capability="8.6",
            memory_total=48 * GIB,
            memory_used=11 * GIB,
            temperature_memory=None,
            nvlink_links=0,
            mig_mode=None,
            compute_mode=3,
            fan=42,
            processes=processes,
        )
    )
    owners = {
        200: container("mps-control", mps_server=True),
        201: container("client-a"),
        202: container("client-b"),
    }
    node = FakeNode(driver, folder, owners=owners)
    node.discover()
    everyone = [held(f"client-{letter}", gpu.uuid, Sharing.MPS, 0.5) for letter in "ab"]
    node.hold(*everyone)
    return node.run(SECONDS, everyone)


def t4(driver: FakeDriver, folder: Path) -> FakeNode:
    """A T4: no GPM, no NVLink, no MIG; pages are retired, not rows remapped."""
    gpu = driver.add(
        FakeGpu(
            name="Tesla T4",
            architecture=6,
            compute_capability="7.5",
            pci_device_id=0x1EB810DE,
            util_gpu=square(1.0, 1.0),
            util_memory=12.0,
            util_decoder=30.0,
            memory_total=15 * GIB,
            memory_reserved=450 << 20,
            memory_used=3 * GIB,
            power_watts=44.0,
            power_limit_watts=70.0,
            clocks_mhz={"graphics": 1590, "sm": 1590, "memory": 5000, "video": 1470},
            clocks_max_mhz={"graphics": 1590, "sm": 1590, "memory": 5001, "video": 1470},
            throttle=0x4,
            remapped_rows=None,
            retired_pages=(1, 0, 0),
            pcie_generation=3,
            pcie_generation_max=3,
            pcie_width=8,
        )
    )
    node = FakeNode(driver, folder)
    node.discover()
    everyone = [held("transcode", gpu.uuid)]
    node.hold(*everyone)
    return node.run(SECONDS, everyone)


def gpu_lost(driver: FakeDriver, folder: Path) -> FakeNode:
    """Two A100, each for one pod; the first falls off the bus, the other tells nonsense of ECC."""
    driver.add(a100())
    driver.add(a100(util_gpu=35.0))
    driver.raw[("nvmlDeviceGetTotalEccErrors", 1)] = (1 << 64) - 1
    node = FakeNode(driver, folder)
    node.discover()
    everyone = [held(f"train-{index}", gpu.uuid) for index, gpu in enumerate(driver.gpus)]
    node.hold(*everyone)
    node.run(SECONDS - 5, everyone)
    driver.faults[("*", 0)] = {"error": pynvml.NVML_ERROR_GPU_IS_LOST}
    driver.write()
    node.run(5, everyone)
    node.discover()
    return node


def no_device(driver: FakeDriver, folder: Path) -> FakeNode:
    """A driver without a GPU."""
    node = FakeNode(driver, folder)
    node.discover()
    return node.run(SECONDS)


MACHINES: Final[dict[str, Machine]] = {
    "h100-exclusive": h100_exclusive,
    "h100-mig": h100_mig,
    "a100-time-sliced": a100_time_sliced,
    "mps": mps,
    "t4": t4,
    "gpu-lost": gpu_lost,
    "no-device": no_device,
}


def page_of(name: str, driver: FakeDriver, folder: Path) -> str:
    """The page of one of ``MACHINES`` on a driver without GPUs."""
    node = MACHINES[name](driver, folder)
    try:
        return node.page()
    finally:
        node.close()


def main() -> int:
    """Write every page; needs gcc."""
    ctypes.CDLL(str(build(cache_folder())), mode=ctypes.RTLD_GLOBAL)  # pynvml finds it by its name
    for name in MACHINES:
        with tempfile.TemporaryDirectory() as place:
            driver = FakeDriver(Path(place) / "nvml-state")
            os.environ[STATE_VARIABLE] = str(driver.state)
            driver.write()
            page = page_of(name, driver, Path(place))
        (FOLDER / f"{name}.prom").write_text(page, encoding="utf-8")
        sys.stdout.write(f"{name}.prom: {len(page.splitlines())} lines\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
