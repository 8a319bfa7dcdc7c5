"""Processes on a device as the NVML back end reads them: once per reading, unknown where unknown."""

import pynvml
import pytest

from gputailor_exporter.devices.base import ProcessReading, Reason
from tests.fakes.nvml import GIB, FakeMig, FakeProcess


def by_pid(reading) -> dict[int, ProcessReading]:
    return {process.pid: process for process in reading.processes}


def test_each_process_has_its_memory_and_its_use(rig):
    rig.add(
        util_gpu=90.0,
        processes=[
            FakeProcess(10, memory=2 * GIB, sm=60.0, encoder=10.0, decoder=5.0),
            FakeProcess(20, memory=GIB, sm=30.0),
        ],
    )
    reading = rig.second(rig.device())
    assert reading.process_utilization_known
    assert by_pid(reading) == {
        10: ProcessReading(10, 2 * GIB, 0.6, 0.1, 0.05),
        20: ProcessReading(20, GIB, 0.3, 0.0, 0.0),
    }


def test_compute_graphics_and_mps_processes_are_one_list(rig):
    rig.add(
        processes=[
            FakeProcess(1, memory=100),
            FakeProcess(1, memory=300, kind="graphics"),
            FakeProcess(2, kind="mps", memory=50),
            FakeProcess(3, kind="graphics", memory=None),
        ]
    )
    processes = by_pid(rig.second(rig.device()))
    assert {pid: p.memory_used_bytes for pid, p in processes.items()} == {1: 300, 2: 50, 3: None}


def test_trailing_rows_of_pid_0_are_no_processes(rig):
    rig.add(util_gpu=50.0, processes=[FakeProcess(7, sm=50.0)], process_samples_trailing=5)
    assert set(by_pid(rig.second(rig.device()))) == {7}


def test_rows_of_processes_that_ended_before_our_time_are_left_out(rig):
    rig.add(util_gpu=80.0, processes=[FakeProcess(7, sm=40.0), FakeProcess(8, sm=40.0)])
    rig.driver.advance(5.0)
    rig.change(util_gpu=40.0, processes=[FakeProcess(7, sm=40.0), FakeProcess(8, sm=0.0)])
    rig.driver.advance(5.0)
    reading = rig.step(rig.device())
    assert {pid: p.kernel for pid, p in by_pid(reading).items()} == {7: 0.4, 8: 0.0}


def test_an_idle_process_on_an_idle_gpu_is_a_sure_zero(rig):
    rig.add(util_gpu=0.0, processes=[FakeProcess(7)])
    reading = rig.second(rig.device())
    assert reading.process_utilization_known
    assert by_pid(reading)[7].kernel == 0.0


@pytest.mark.parametrize("how", ["not_found", "success"])
def test_empty_process_samples_on_a_busy_gpu_are_unknown_not_zero(rig, how):
    rig.add(util_gpu=95.0, processes=[FakeProcess(7, sm=95.0)], process_samples=how)
    reading = rig.second(rig.device())
    assert not reading.process_utilization_known
    assert by_pid(reading)[7] == ProcessReading(7, GIB)
    assert reading.unavailable["process_utilization"] is Reason.NO_SAMPLES


def test_rows_of_zero_on_a_busy_gpu_contradict_it(rig):
    rig.add(util_gpu=95.0, processes=[FakeProcess(7, memory_utilization=5.0)])
    reading = rig.second(rig.device())
    assert not reading.process_utilization_known
    assert reading.unavailable["process_utilization"] is Reason.CONTRADICTED


def test_process_samples_without_a_device_value_to_check_zero_against_are_unknown(rig):
    rig.add(util_gpu=None, processes=[FakeProcess(7)])
    assert not rig.second(rig.device()).process_utilization_known


def test_process_samples_that_are_not_due_yet_keep_the_last_value(rig):
    rig.add(util_gpu=40.0, processes=[FakeProcess(7, sm=40.0)])
    device = rig.device()
    rig.second(device)
    between = rig.step(device, 0.05)
    assert between.process_utilization_known
    assert by_pid(between)[7].kernel == pytest.approx(0.4)


def test_a_driver_with_the_new_call_only_is_asked_by_it(rig):
    rig.add(util_gpu=40.0, processes=[FakeProcess(7, sm=40.0)])
    rig.fault("nvmlDeviceGetProcessUtilization", error=pynvml.NVML_ERROR_NOT_SUPPORTED)
    reading = rig.second(rig.device())
    assert reading.process_utilization_known
    assert by_pid(reading)[7].kernel == pytest.approx(0.4)


def test_a_process_whose_memory_is_not_told_leaves_a_reason(rig):
    rig.add(processes=[FakeProcess(7, memory=None), FakeProcess(8)])
    reading = rig.second(rig.device())
    assert by_pid(reading)[7].memory_used_bytes is None
    assert by_pid(reading)[8].memory_used_bytes == GIB
    assert reading.unavailable["process_memory"] is Reason.NOT_SUPPORTED


def test_process_utilisation_that_is_refused_leaves_memory_and_a_reason(rig):
    rig.add(util_gpu=40.0, processes=[FakeProcess(7, sm=40.0)])
    rig.fault("nvmlDeviceGetProcessUtilization", error=pynvml.NVML_ERROR_NO_PERMISSION)
    reading = rig.second(rig.device())
    assert by_pid(reading)[7] == ProcessReading(7, GIB)
    assert reading.unavailable["process_utilization"] is Reason.NO_PERMISSION


def test_nonsense_of_a_process_makes_the_shares_unknown(rig):
    rig.add(util_gpu=40.0, processes=[FakeProcess(7, sm=4294967295.0)])
    reading = rig.second(rig.device())
    assert not reading.process_utilization_known
    assert reading.unavailable["process_utilization"] is Reason.INVALID_VALUE


def test_a_process_list_that_is_refused_is_unknown_not_empty(rig):
    rig.add(processes=[FakeProcess(7)])
    rig.fault("nvmlDeviceGetComputeRunningProcesses_v3", error=pynvml.NVML_ERROR_UNKNOWN)
    reading = rig.second(rig.device())
    assert reading.processes is None
    assert reading.unavailable["processes"] is Reason.DRIVER_ERROR


def test_processes_of_a_mig_instance_are_its_own(rig):
    rig.add(
        mig_mode=1,
        mig=[FakeMig("MIG-a", "GPU MIG 1g.10gb", gi=7), FakeMig("MIG-b", "GPU MIG 1g.10gb", gi=8)],
        processes=[FakeProcess(1, gi=7, ci=0), FakeProcess(2, gi=8, ci=0)],
    )
    reading = rig.second(rig.device("MIG-b"))
    assert set(by_pid(reading)) == {2}
    assert not reading.process_utilization_known
    assert reading.unavailable["process_utilization"] is Reason.NOT_SUPPORTED
