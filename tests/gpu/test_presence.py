"""Whether a GPU is at hand is said by name; and what that means under CI."""

import os
import subprocess
import sys

import pytest

from tests.fakes import cuda
from tests.fakes.nvml import FakeDriver, FakeGpu
from tests.gpu import presence


@pytest.fixture
def machine(tmp_path, fake_nvml_library, fake_cuda_library):
    """A function: the environment of a machine with these GPUs for NVML and for CUDA."""

    def build(*gpus, devices=1, faults=None):
        driver = FakeDriver(tmp_path / "nvml-state", faults=faults or {})
        for gpu in gpus:
            driver.add(gpu)
        driver.write()
        environment = driver.environment(fake_nvml_library)
        return cuda.environment(fake_cuda_library, environment, devices=devices)

    return build


def test_a_gpu_that_nvml_and_cuda_see_is_at_hand(machine):
    assert presence.missing_gpu(machine(FakeGpu())) is None


def test_a_machine_without_a_gpu_is_told(machine):
    said = presence.missing_gpu(machine())
    assert said == "no NVIDIA GPU on this machine: libnvidia-ml.so.1 counts none"


def test_a_driver_that_fails_is_told_in_its_words(machine):
    said = presence.missing_gpu(
        machine(FakeGpu(), faults={("nvmlInitWithFlags", "*"): {"error": 9}})
    )
    assert said is not None
    assert said.startswith("the NVIDIA driver of this machine cannot be used: libnvidia-ml.so.1: ")


def test_a_gpu_that_cuda_cannot_use_is_told(machine):
    said = presence.missing_gpu(machine(FakeGpu(), devices=0))
    assert said is not None
    assert said.startswith("no GPU can be used for calculating on this machine: libcuda.so.1: ")
    assert "CUDA_ERROR_NO_DEVICE" in said


def test_a_driver_that_hangs_is_told(machine, monkeypatch):
    monkeypatch.setattr(presence, "PATIENCE_SECONDS", 1.5)
    said = presence.missing_gpu(
        machine(FakeGpu(), faults={("nvmlInitWithFlags", "*"): {"hang": 1}})
    )
    assert said == "the NVIDIA driver of this machine does not answer within 1.5 s"


def test_a_machine_without_a_driver_is_told_by_the_librarys_name(tmp_path):
    """A stand-in for the loader's search path: the name is looked for where it cannot be."""
    site = tmp_path / "sitecustomize.py"
    site.write_text(
        "import ctypes\n"
        "class Nowhere(ctypes.CDLL):\n"
        "    def __init__(self, name, *more, **kind):\n"
        "        super().__init__('/nowhere/' + name if name else name, *more, **kind)\n"
        "ctypes.CDLL = Nowhere\n",
        encoding="utf-8",
    )
    said = presence.missing_gpu({**os.environ, "PYTHONPATH": str(tmp_path)})
    assert said == "no NVIDIA driver on this machine: libnvidia-ml.so.1 not found"


SKIPPING = """
import pytest

@pytest.mark.gpu
def test_on_a_card():
    pytest.skip("no NVIDIA driver on this machine")

def test_with_a_server():
    pytest.skip("no server on this machine")
"""


def test_under_ci_only_what_needs_a_gpu_may_be_skipped(repository, tmp_path):
    (tmp_path / "conftest.py").write_text((repository / "tests" / "conftest.py").read_text("utf-8"))
    (tmp_path / "test_skipping.py").write_text(SKIPPING, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", str(tmp_path)],
        env={**os.environ, "CI": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 1 skipped" in done.stdout, done.stdout
    assert "no NVIDIA driver on this machine" in done.stdout
    assert "skipped under CI" in done.stdout
