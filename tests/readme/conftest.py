"""What the tests of the README share: a reader's folder, and commands that go on."""

from collections.abc import Iterator

import pytest

from tests.fakes.fixtures import fake_driver, fake_nvml_library
from tests.processes import Process
from tests.readme.commands import begin

__all__ = ["fake_driver", "fake_nvml_library", "typed"]


@pytest.fixture
def typed(tmp_path) -> Iterator:
    """A function that starts a command in the reader's folder; ended after the test."""
    started: list[Process] = []

    def start(command: str, env, folder=tmp_path) -> Process:
        started.append(begin(command, folder, env, tmp_path / f"typed-{len(started)}.log"))
        return started[-1]

    yield start
    for process in started:
        process.end()
