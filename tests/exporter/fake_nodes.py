"""A whole node in steps of a stopped clock: fake driver, real binding, back end, accounts, page.

What the sampler does with threads and clocks happens here in order, so that a page is the same
each time: find the devices, read each, take what kubelet would have said, render.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from gputailor_exporter import collectors
from gputailor_exporter.accounting import AccountingSettings, NodeAccounts, Snapshot
from gputailor_exporter.attribution.allocations import Allocation, ContainerRef
from gputailor_exporter.devices.base import DeviceError, DeviceIdentity, DeviceReading
from gputailor_exporter.devices.nvml import NvmlBackend
from gputailor_exporter.sampling.selfmetrics import SelfMetrics
from gputailor_exporter.serving.exposition import render
from tests.fakes.nvml import FakeDriver, FakeGpu

#: When the fixed machines were started; the driver has run for 100 s then.
ORIGIN = 1_764_500_000.0
STARTED = ORIGIN + 100.0

#: What each cycle is said to have taken: a real figure would differ from run to run.
CYCLE_SECONDS = 0.004


@dataclass
class FakeNode:
    """An exporter on ``driver``; ``owners`` leads process ids to containers."""

    driver: FakeDriver
    folder: Path  # holds nothing: no PCI devices, no processes
    name: str = "gpu-node-1"
    on: frozenset[str] = collectors.DEFAULT
    owners: Mapping[int, ContainerRef] = field(default_factory=dict)
    settings: AccountingSettings = field(default_factory=AccountingSettings)

    def __post_init__(self) -> None:
        """Stop the clock and open the driver."""
        self.driver.origin = ORIGIN
        self.driver.now = STARTED
        self.driver.write()
        self.accounts = NodeAccounts(self.name, self.settings)
        self.itself = SelfMetrics(STARTED, version="0.0.0")
        self.readings: dict[str, DeviceReading] = {}
        self.devices: tuple[DeviceIdentity, ...] = ()
        self.backend = NvmlBackend(
            clock=self.driver.clock,
            pci_devices=self.folder / "pci",
            collectors=self.on,
            proc_root=self.folder / "proc",
        )
        self.backend.open()

    @property
    def at(self) -> float:
        """Now, on the monotonic clock and in Unix time alike."""
        return self.driver.clock()

    def discover(self) -> None:
        """Find the devices."""
        self.devices = self.backend.devices()
        self.accounts.set_devices(self.devices, self.backend.expected())
        self.itself.succeed("discovery", self.at)

    def hold(self, *allocations: Allocation) -> None:
        """Let kubelet say who holds what."""
        self.accounts.set_allocations(allocations, self.at)
        self.itself.succeed("kubelet", self.at)

    def run(self, seconds: int, held: Iterable[Allocation] = ()) -> "FakeNode":
        """Go on for ``seconds`` cycles of a second."""
        for _ in range(seconds):
            self.driver.advance(1.0)
            for device in self.devices:
                self._cycle(device)
            for event in self.backend.wait_events(0.0):
                self.accounts.add_xid(event)
            if held:
                self.hold(*held)
        return self

    def _cycle(self, device: DeviceIdentity) -> None:
        self.itself.take_cycle(device.uuid, CYCLE_SECONDS)
        try:
            reading = self.backend.read(device, self.at)
        except DeviceError as error:
            self.readings.pop(device.uuid, None)
            self.accounts.fail(device.uuid, error.reason, self.at)
            self.itself.count_error("nvml", error.reason)
            return
        self.readings[device.uuid] = reading
        self.accounts.advance(device, reading, self.owners.get, self.at)
        self.itself.succeed("nvml", self.at)

    def snapshot(self) -> Snapshot:
        """All samples now."""
        return self.accounts.snapshot(self.at).with_families(self.itself.families())

    def page(self) -> str:
        """The text of /metrics now."""
        return render(self.snapshot()).decode()

    def close(self) -> None:
        """Set hanging calls free and release the driver."""
        self.driver.faults.clear()
        self.driver.write()
        self.backend.close()


def sample_names(page: str) -> set[str]:
    """Names of all samples of a page."""
    return {
        sample.name for family in text_string_to_metric_families(page) for sample in family.samples
    }


def rich_gpu(**about) -> FakeGpu:
    """An H100 of an NVSwitch machine that tells everything the fake driver knows."""
    gpm = {1: 88.0, 2: 71.0, 3: 35.0, 4: 6.0, 5: 41.0, 10: 33.0, 11: 0.0, 12: 12.0, 13: 4.0}
    links = {20: 900.0, 21: 1200.0, 60: 5000.0, 61: 4800.0}
    told = {
        "name": "NVIDIA H100 80GB HBM3",
        "architecture": 9,
        "compute_capability": "9.0",
        "pci_device_id": 0x233010DE,
        "util_gpu": 92.0,
        "util_memory": 40.0,
        "memory_used": 61 << 30,
        "power_watts": 612.0,
        "power_limit_watts": 700.0,
        "temperature_gpu": 58,
        "temperature_memory": 66,
        "temperature_thresholds": {0: 92, 1: 89, 2: 95, 3: 87},
        "clocks_mhz": {"graphics": 1755, "sm": 1755, "memory": 2619, "video": 1335},
        "clocks_max_mhz": {"graphics": 1980, "sm": 1980, "memory": 2619, "video": 1545},
        "throttle": 0x4,
        "pcie_tx_bytes_per_second": 900e6,
        "pcie_rx_bytes_per_second": 1200e6,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "nvlink_links": 18,
        "nvlink_mbps_by_link": 26_562,
        "nvlink_errors_by_link": {"crc": 0, "replay": 0, "recovery": 0},
        "nvlink_tx_bytes_per_second": 60e9,
        "nvlink_rx_bytes_per_second": 62e9,
        "fabric_state": 3,
        "fabric_health": 1,
        "mig_mode": 0,
        "gpm": {**gpm, **links},
    }
    return FakeGpu(**{**told, **about})
