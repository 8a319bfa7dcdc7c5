"""Fixtures of the fake NVIDIA driver for the tests of the fake itself."""

from collections.abc import Iterator

import pynvml
import pytest

from tests.fakes.fixtures import driver_library, fake_driver, fake_nvml_library, preloaded_nvml
from tests.fakes.nvml import FakeDriver

__all__ = ["driver_library", "fake_driver", "fake_nvml_library", "preloaded_nvml"]


@pytest.fixture
def machine(preloaded_nvml: FakeDriver) -> Iterator[FakeDriver]:
    """The fake driver, initialised through the real binding; its clock stands still."""
    preloaded_nvml.origin = 1_764_500_000.0
    preloaded_nvml.now = 1_764_500_100.0
    preloaded_nvml.write()
    pynvml.nvmlInit()
    yield preloaded_nvml
    preloaded_nvml.faults.clear()
    preloaded_nvml.write()
    pynvml.nvmlShutdown()
