"""The load as a process, on the fake driver."""

import json
import os
import subprocess
import sys

import pytest

from tests.fakes import cuda
from tests.gpu.presence import REPOSITORY


@pytest.fixture
def load(fake_cuda_library):
    """A function: run it with arguments; (exit code, lines of JSON, errors)."""

    def run(*arguments, **numbers):
        done = subprocess.run(
            [sys.executable, "-m", "tests.gpu.load", *arguments],
            env=cuda.environment(fake_cuda_library, os.environ, **numbers),
            capture_output=True,
            text=True,
            check=False,
            cwd=REPOSITORY,
        )
        return done.returncode, [json.loads(one) for one in done.stdout.splitlines()], done.stderr

    return run


def test_it_says_when_it_begins_and_what_it_did(load):
    code, (begun, done), errors = load(
        "--kind", "fp16", "--duty", "0.5", "--seconds", "1", "--hold-mib", "64", "--name", "known"
    )
    assert (code, errors) == (0, "")
    assert begun["state"] == "running"
    assert begun["device"] == "Fake GPU 0"
    assert 0.2 < done["held"] < 0.6  # by the machine's own clock; how well it is held: test_pacing
    assert done["operations_per_busy_second"] > 1e12


def test_a_card_without_the_feature_ends_in_one_line(load):
    code, lines, errors = load("--kind", "tf32", major=7)
    assert (code, lines) == (1, [])
    assert errors == "error: tf32 needs compute capability 8.0, and Fake GPU 0 has 7.0\n"


def test_memory_that_is_not_there_ends_in_one_line(load):
    code, _, errors = load("--kind", "fp32", "--hold-mib", "10", memory_bytes=1e6)
    assert code == 1
    assert errors == "error: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory\n"


def test_a_machine_without_a_device_ends_in_one_line(load):
    code, _, errors = load("--kind", "fp32", devices=0)
    assert code == 1
    assert errors.startswith("error: cuInit: CUDA_ERROR_NO_DEVICE (100)")


@pytest.mark.parametrize("wrong", ["1.5", "-0.1", "much", "nan"])
def test_a_duty_beyond_its_limits_is_wrong_usage(load, wrong):
    code, _, errors = load("--kind", "fp32", f"--duty={wrong}")
    assert code == 2
    assert f"expected 0 to 1, not '{wrong}'" in errors
