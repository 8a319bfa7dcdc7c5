"""Fixtures of the tests of loads on a GPU: a fake CUDA driver, to try them without one."""

from pathlib import Path

import pytest

from tests.fakes import cuda
from tests.fakes.cuda import FakeCuda
from tests.fakes.fixtures import cache_folder, fake_driver, fake_nvml_library

__all__ = ["fake_driver", "fake_nvml_library"]


@pytest.fixture(scope="session")
def fake_cuda_library(fake_nvml_library: Path) -> Path:
    """Path of the fake libcuda; skipped like the fake NVML where there is no compiler."""
    return cuda.build(cache_folder())


@pytest.fixture
def fake_cuda(tmp_path: Path, fake_cuda_library: Path) -> FakeCuda:
    """A fake CUDA driver of this process whose clock stands still."""
    return FakeCuda(fake_cuda_library, tmp_path)
