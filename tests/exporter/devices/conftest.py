"""A machine of fake NVIDIA GPUs read by the NVML back end, in steps of a stopped clock."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gputailor_exporter.devices.base import DeviceIdentity, DeviceReading
from gputailor_exporter.devices.nvml import NvmlBackend
from tests.fakes.fixtures import driver_library, fake_driver, fake_nvml_library, preloaded_nvml
from tests.fakes.nvml import FakeDriver, FakeGpu

__all__ = ["driver_library", "fake_driver", "fake_nvml_library", "preloaded_nvml"]


@dataclass
class Rig:
    """The driver, the back end on it, and steps of time."""

    driver: FakeDriver
    backend: NvmlBackend

    def add(self, **about) -> FakeGpu:
        gpu = self.driver.add(FakeGpu(**about))
        self.driver.write()
        return gpu

    def change(self, index: int = 0, **about) -> None:
        for name, value in about.items():
            setattr(self.driver.gpus[index], name, value)
        self.driver.write()

    def fault(self, function: str, gpu: int | str = "*", **behaviour: float) -> None:
        self.driver.faults[(function, gpu)] = behaviour
        self.driver.write()

    def device(self, uuid: str | None = None) -> DeviceIdentity:
        found = {device.uuid: device for device in self.backend.devices()}
        return found[uuid or self.driver.gpus[0].uuid]

    def step(self, device: DeviceIdentity, seconds: float = 1.0) -> DeviceReading:
        self.driver.advance(seconds)
        return self.backend.read(device, self.driver.now)

    def second(self, device: DeviceIdentity) -> DeviceReading:
        """The reading after the first one, which only sets marks."""
        self.step(device)
        return self.step(device)


@pytest.fixture
def rig(preloaded_nvml: FakeDriver, tmp_path: Path) -> Iterator[Rig]:
    preloaded_nvml.origin = 1_764_500_000.0
    preloaded_nvml.now = 1_764_500_100.0
    preloaded_nvml.write()
    backend = NvmlBackend(clock=preloaded_nvml.clock, pci_devices=tmp_path / "pci")
    backend.open()
    yield Rig(preloaded_nvml, backend)
    preloaded_nvml.faults.clear()
    preloaded_nvml.write()
    backend.close()
