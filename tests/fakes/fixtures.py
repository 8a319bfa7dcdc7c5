"""Fixtures of the fake NVIDIA driver. A test folder uses them by its conftest:

``from tests.fakes.fixtures import fake_driver, fake_nvml_library, preloaded_nvml``
"""

import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.nvml import STATE_VARIABLE, FakeDriver, build

#: The library that this process has loaded; the real pynvml finds it by its soname.
_loaded: list[ctypes.CDLL] = []


def cache_folder() -> Path:
    """Where built libraries are kept between runs; a hash of the sources names each."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = Path(base) if base else Path.home() / ".cache"
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        folder = Path(tempfile.gettempdir())
    return folder / "gputailor" / "fake-nvml"


def _compiler() -> str:
    for name in ("gcc", "cc"):
        if shutil.which(name):
            return name
    message = "a C compiler is not here (gcc or cc): the fake NVIDIA driver cannot be built"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def fake_nvml_library() -> Path:
    """Path of the whole library; skips by name where there is no compiler (fails under CI)."""
    return build(cache_folder(), compiler=_compiler())


@pytest.fixture
def fake_driver(tmp_path: Path, fake_nvml_library: Path) -> FakeDriver:
    """A machine without GPUs whose clock runs; add GPUs, then ``write``."""
    return FakeDriver(tmp_path / "nvml-state")


@pytest.fixture
def driver_library(fake_nvml_library: Path) -> Callable[[FakeDriver], Path]:
    """A function: the library that a driver asks for, that is, without its missing symbols."""
    return lambda driver: build(cache_folder(), driver.missing_symbols, _compiler())


@pytest.fixture
def preloaded_nvml(
    fake_driver: FakeDriver, fake_nvml_library: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeDriver]:
    """``fake_driver`` as the NVIDIA driver of this very process (the whole library only)."""
    monkeypatch.setenv(STATE_VARIABLE, str(fake_driver.state))
    if not _loaded:
        _loaded.append(ctypes.CDLL(str(fake_nvml_library), mode=ctypes.RTLD_GLOBAL))
    fake_driver.write()
    yield fake_driver
    fake_driver.faults.clear()  # sets threads free that still hang
    fake_driver.write()
