"""Public NVML clients run on the fake driver: it is close enough to a real one for them."""

import os
import subprocess
import sys

import pytest

from tests.fakes.nvml import GIB, FakeGpu, FakeProcess


@pytest.mark.parametrize(
    "command", [["nvitop", "--once", "--ascii"], ["gpustat", "--no-color", "--show-pid"]]
)
def test_a_peer_prints_the_names_of_our_gpus(fake_driver, fake_nvml_library, command):
    fake_driver.add(
        FakeGpu(
            name="NVIDIA H100 80GB HBM3",
            util_gpu=64.0,
            memory_used=3 * GIB,
            processes=[FakeProcess(os.getpid(), memory=3 * GIB, sm=64.0)],
        )
    )
    fake_driver.add(FakeGpu(name="Tesla T4", memory_total=16 * GIB))
    fake_driver.write()
    done = subprocess.run(
        [sys.executable, "-m", *command],
        env={**fake_driver.environment(fake_nvml_library), "TERM": "xterm", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "H100 80GB HBM3" in done.stdout
    assert "T4" in done.stdout
    assert "64" in done.stdout
    assert str(os.getpid()) in done.stdout
