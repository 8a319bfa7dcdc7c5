"""The exporter on the GPU at hand: its counters against loads that are known, and nvidia-smi.

Run by ``make test-gpu``; skipped by name where there is no GPU. Nothing else should use the GPU.
All in one module, for two loads at a time would not be known.
"""

import platform
import sys
from pathlib import Path

import pytest

from tests.gpu.comparing import Load, LoadError, exporter, observe
from tests.gpu.judging import judge, judge_sharing
from tests.gpu.kernels import Kind
from tests.gpu.presence import missing_gpu
from tests.gpu.table import MATRIX, SHARING

pytestmark = [pytest.mark.gpu, pytest.mark.system, pytest.mark.timeout(300)]

WINDOW_SECONDS = 10.0
#: Kernel activity of a GPU that nobody else uses.
QUIET = 0.02
#: The first pid namespace of a machine (PROC_PID_INIT_INO of Linux): only there are the driver's
#: process ids ours.
HOST_PIDS = "pid:[4026531836]"


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    """The exporter's process on a GPU that nobody else uses."""
    reason = missing_gpu()
    if reason:
        pytest.skip(reason)
    with exporter(tmp_path_factory.mktemp("gpu")) as made:
        resting = observe(made, [Load(Kind.COPY, 0.0)], 5.0).means.get("kernel", 0.0)
        if resting > QUIET:
            pytest.skip(f"this machine's GPU is used by others: busy for {resting:.0%} of the time")
        yield made


def observed(beside, *loads):
    try:
        return observe(beside, loads, WINDOW_SECONDS)
    except LoadError as error:
        if "needs compute capability" in str(error):
            pytest.skip(str(error))
        raise


def missed(verdicts):
    """Those that do not keep to their bounds; what cannot be read is printed and is no fault."""
    for one in verdicts:
        sys.stdout.write(f"{one}\n")
    return [str(one) for one in verdicts if one.kept is False]


@pytest.mark.parametrize("load", MATRIX, ids=lambda one: f"{one.kind}-{one.duty:.0%}")
def test_the_counters_say_what_the_load_did(beside, load):
    if load.kind is Kind.COPY and platform.machine() == "aarch64":
        pytest.skip("copies may go over NVLink-C2C on this machine, which no PCIe counter sees")
    assert missed(judge(observed(beside, load))) == []


@pytest.fixture(scope="module")
def shared(beside):
    """Two processes at once."""
    return observed(beside, *SHARING)


def sharers(shared, *, own):
    """Verdicts about each sharer's own figures, or those about the sums."""
    return [one for one in judge_sharing(shared) if one.what.startswith("sharers") is not own]


def test_sharers_and_the_rest_are_the_device(shared):
    verdicts = sharers(shared, own=False)
    assert all(one.kept is not None for one in verdicts)
    assert missed(verdicts) == []


def test_each_sharer_is_told_with_its_own_memory_and_work(shared):
    verdicts = sharers(shared, own=True)
    unknown = [str(one) for one in verdicts if one.kept is None]
    if unknown and Path("/proc/self/ns/pid").readlink() != Path(HOST_PIDS):
        pytest.skip("the driver's process ids are not ours in this container (no host's pids)")
    assert unknown == []
    assert missed(verdicts) == []
