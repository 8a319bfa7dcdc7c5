"""A whole machine in processes: fake driver, kubelet, exporter."""

import sys
from collections.abc import Iterator

import pytest

from tests.fakes.fixtures import driver_library, fake_driver, fake_nvml_library
from tests.processes import Process

__all__ = ["driver_library", "fake_driver", "fake_nvml_library", "start"]


@pytest.fixture
def start(tmp_path) -> Iterator:
    """A function that starts ``python -m ARGUMENTS``; what is left is stopped after the test."""
    started: list[Process] = []

    def begin(*arguments: str, env=None) -> Process:
        log = tmp_path / f"process-{len(started)}.log"
        process = Process([sys.executable, "-m", *arguments], log, env)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.end()
