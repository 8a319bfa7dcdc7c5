"""DCGM beside us: seen, named, and never disturbed."""

import logging

import pynvml
import pytest

from gputailor_exporter.devices.base import Reason
from gputailor_exporter.devices.nvml import NvmlBackend
from gputailor_exporter.devices.nvml_dcgm import HELD_SECONDS, profilers
from gputailor_exporter.metrics import Signal
from tests.exporter.devices.calls import counted_calls

GPM = {1: 70.0, 2: 45.0, 5: 30.0, 10: 25.0}


@pytest.fixture
def proc(tmp_path):
    folder = tmp_path / "host-proc"
    (folder / "self").mkdir(parents=True)
    (folder / "meminfo").touch()

    def run(pid, name):
        (folder / str(pid)).mkdir()
        (folder / str(pid) / "comm").write_text(f"{name}\n")

    run(1, "systemd")
    (folder / "77").mkdir()  # has just ended
    return folder, run


def test_the_processes_of_dcgm_are_found_by_name(proc):
    folder, run = proc
    assert profilers(folder) == ()
    run(400, "nv-hostengine")
    run(401, "dcgm-exporter")
    run(402, "nv-hostengine")
    run(403, "not-dcgm-export")
    assert profilers(folder) == ("dcgm-exporter", "nv-hostengine")


def test_a_host_whose_proc_cannot_be_read_has_none(tmp_path):
    assert profilers(tmp_path / "nowhere") == ()


@pytest.fixture
def beside(rig, proc):
    """Return a back end on the rig's driver that looks for DCGM in ``proc``."""
    backend = NvmlBackend(clock=rig.driver.clock, proc_root=proc[0])
    rig.backend.close()
    rig.backend = backend
    return rig, proc[1], backend


def test_dcgm_on_the_node_is_said_at_the_start(beside, caplog):
    _, run, backend = beside
    run(400, "nv-hostengine")
    with caplog.at_level(logging.INFO):
        backend.open()
    assert "nv-hostengine: DCGM runs on this node too" in caplog.text


def test_gpm_is_read_though_dcgm_runs_because_neither_takes_a_lock(beside):
    rig, run, backend = beside
    run(400, "nv-hostengine")
    rig.add(gpm=GPM)
    backend.open()
    assert rig.second(rig.device()).signals[Signal.SM].value == pytest.approx(0.45)


@pytest.mark.parametrize(
    ("process", "reason"),
    [("nv-hostengine", Reason.HELD_BY_DCGM), ("nsys", Reason.IN_USE)],
)
@pytest.mark.parametrize("function", ["nvmlGpmSampleGet", "nvmlGpmQueryDeviceSupport"])
def test_counters_in_use_name_dcgm_where_it_runs(beside, process, reason, function):
    rig, run, backend = beside
    run(400, process)
    rig.add(gpm=GPM, util_gpu=50.0)
    backend.open()
    rig.fault(function, error=pynvml.NVML_ERROR_IN_USE)
    reading = rig.second(rig.device())
    assert {reading.unavailable[s] for s in (Signal.SM, Signal.TENSOR, Signal.DRAM)} == {reason}
    assert reading.signals[Signal.KERNEL].value == pytest.approx(0.5)


def test_counters_in_use_are_left_alone_for_a_minute_and_then_asked_again(beside, monkeypatch):
    rig, _, backend = beside
    rig.add(gpm=GPM)
    backend.open()
    device = rig.device()
    rig.fault("nvmlGpmSampleGet", error=pynvml.NVML_ERROR_IN_USE)
    rig.step(device)
    asked = counted_calls(monkeypatch)
    for _ in range(int(HELD_SECONDS) - 1):
        assert rig.step(device).unavailable[Signal.SM] is Reason.IN_USE
    assert asked["nvmlGpmSampleGet"] == 0
    rig.driver.faults.clear()
    rig.step(device)
    assert rig.step(device).signals[Signal.SM].value == pytest.approx(0.45)
