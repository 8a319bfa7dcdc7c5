"""The fake NVIDIA driver, seen through the real pynvml: samples, processes, GPM, events, faults."""

import math
import subprocess
import sys
import threading
import time
from itertools import pairwise

import pynvml
import pytest

from tests.fakes.nvml import FakeEvent, FakeGpu, FakeProcess, square

KERNEL = pynvml.NVML_GPU_UTILIZATION_SAMPLES


def handle(driver, **about):
    gpu = driver.add(FakeGpu(**about))
    driver.write()
    return pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)


def samples(gpu, since: float = 0.0):
    _, rows = pynvml.nvmlDeviceGetSamples(gpu, KERNEL, round(since * 1e6))
    return [(row.timeStamp / 1e6, row.sampleValue.uiVal) for row in rows]


def test_the_sample_buffer_holds_what_the_pattern_did(machine):
    gpu = handle(machine, util_gpu=square(1.0, 1.0, 90.0, 10.0))
    rows = samples(gpu, machine.now - 4.0)
    assert len(rows) == 24
    assert sum(value for _, value in rows) / 24 == 50.0
    assert rows[-1][0] == machine.now
    assert {round(b[0] - a[0], 2) for a, b in pairwise(rows)} == {0.17}


def test_the_sample_buffer_keeps_20_seconds(machine):
    gpu = handle(machine, util_gpu=1.0)
    assert samples(gpu)[0][0] == pytest.approx(machine.now - 20.0, abs=0.2)


def test_samples_keep_their_values_when_the_load_changes(machine):
    gpu = handle(machine, util_gpu=100.0)
    machine.gpus[0].util_gpu = 0.0
    machine.write()
    machine.advance(1.0)
    assert [value for _, value in samples(gpu, machine.now - 2.0)] == [100] * 6 + [0] * 6


def test_a_sample_buffer_can_run_dry_while_the_rates_go_on(machine):
    gpu = handle(machine, util_gpu=30.0, samples_stop=machine.now)
    seen = machine.now
    machine.advance(5.0)
    with pytest.raises(pynvml.NVMLError_NotFound):
        samples(gpu, seen)
    assert pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu == 30


def test_codecs_have_rates_and_samples(machine):
    gpu = handle(machine, util_encoder=12.0, util_decoder=34.0)
    assert pynvml.nvmlDeviceGetEncoderUtilization(gpu)[0] == 12
    assert pynvml.nvmlDeviceGetDecoderUtilization(gpu)[0] == 34
    _, rows = pynvml.nvmlDeviceGetSamples(gpu, pynvml.NVML_DEC_UTILIZATION_SAMPLES, 0)
    assert rows[-1].sampleValue.uiVal == 34


def test_processes_are_listed_by_kind(machine):
    gpu = handle(
        machine,
        processes=[
            FakeProcess(1, memory=100),
            FakeProcess(2, kind="graphics"),
            FakeProcess(3, kind="mps", memory=None),
        ],
    )
    assert [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses_v3(gpu)] == [1]
    assert [p.pid for p in pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3(gpu)] == [2]
    (mps,) = pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3(gpu)
    assert (mps.pid, mps.usedGpuMemory) == (3, None)


def test_busy_processes_have_utilisation_rows_and_idle_ones_none(machine):
    gpu = handle(
        machine,
        processes=[FakeProcess(1, sm=60.0, encoder=5.0), FakeProcess(2)],
        process_samples_trailing=2,
    )
    rows = pynvml.nvmlDeviceGetProcessUtilization(gpu, round((machine.now - 1) * 1e6))
    assert [(row.pid, row.smUtil, row.encUtil) for row in rows] == [
        (1, 60, 5),
        (0, 0, 0),
        (0, 0, 0),
    ]
    newer = pynvml.nvmlDeviceGetProcessesUtilizationInfo(gpu, round((machine.now - 1) * 1e6))
    assert [(row.pid, row.smUtil) for row in newer] == [(1, 60), (0, 0), (0, 0)]


@pytest.mark.parametrize(("how", "code"), [("not_found", 6), ("success", 0)])
def test_drivers_say_differently_that_there_are_no_process_samples(machine, how, code):
    gpu = handle(machine, processes=[FakeProcess(1, sm=60.0)], process_samples=how)
    with pytest.raises(pynvml.NVMLError) as nothing:
        pynvml.nvmlDeviceGetProcessUtilization(gpu, 0)
    assert nothing.value.value == code


def gpm_metrics(first, second, *wanted):
    metrics = pynvml.c_nvmlGpmMetricsGet_t()
    metrics.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    metrics.numMetrics = len(wanted)
    metrics.sample1, metrics.sample2 = first, second
    for i, metric in enumerate(wanted):
        metrics.metrics[i].metricId = metric
    metrics.metrics[len(wanted)].value = 123.0
    pynvml.nvmlGpmMetricsGet(metrics)
    return metrics.metrics


def test_gpm_gives_the_mean_between_two_samples_and_touches_no_other_entry(machine):
    gpu = handle(machine, gpm={2: square(1.0, 1.0, 80.0), 5: 12.5})
    assert pynvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice == 1
    first, second = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
    pynvml.nvmlGpmSampleGet(gpu, first)
    machine.advance(3.0)
    pynvml.nvmlGpmSampleGet(gpu, second)
    sm, tensor, absent, untouched = gpm_metrics(first, second, 2, 5, 10)[:4]
    assert sm.value == pytest.approx(80.0 * 2 / 3)
    assert tensor.value == 12.5
    assert absent.nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert untouched.value == 123.0
    pynvml.nvmlGpmSampleFree(first)
    pynvml.nvmlGpmSampleFree(second)


def test_a_gpu_without_gpm_says_so(machine):
    gpu = handle(machine)
    assert pynvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice == 0
    sample = pynvml.nvmlGpmSampleAlloc()
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlGpmSampleGet(gpu, sample)
    pynvml.nvmlGpmSampleFree(sample)


def test_gpm_can_hand_out_nonsense(machine):
    gpu = handle(machine, gpm={2: 129.0, 3: "nan"})
    first, second = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
    pynvml.nvmlGpmSampleGet(gpu, first)
    machine.advance(1.0)
    pynvml.nvmlGpmSampleGet(gpu, second)
    sm, occupancy = gpm_metrics(first, second, 2, 3)[:2]
    assert sm.value == 129.0
    assert math.isnan(occupancy.value)


def test_an_xid_reaches_the_event_set_once(machine):
    gpu = handle(machine)
    machine.gpus[0].events.append(FakeEvent(13))
    machine.write()
    watched = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(gpu, pynvml.nvmlEventTypeXidCriticalError, watched)
    with pytest.raises(pynvml.NVMLError_Timeout):  # what was before is not told
        pynvml.nvmlEventSetWait_v2(watched, 10)
    machine.gpus[0].events.append(FakeEvent(79, gi=2))
    machine.write()
    event = pynvml.nvmlEventSetWait_v2(watched, 1000)
    assert (event.eventData, event.eventType, event.gpuInstanceId) == (79, 8, 2)
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(watched, 0)
    pynvml.nvmlEventSetFree(watched)


def test_a_fault_hits_one_gpu_or_all(machine):
    lost, well = handle(machine), handle(machine)
    machine.faults[("*", 0)] = {"error": pynvml.NVML_ERROR_GPU_IS_LOST}
    machine.faults[("nvmlDeviceGetPowerUsage", "*")] = {"error": pynvml.NVML_ERROR_UNKNOWN}
    machine.write()
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetName(lost)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetName(well)
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetPowerUsage(well)


def test_a_sentinel_takes_the_place_of_an_answer(machine):
    gpu = handle(machine, pcie_tx_bytes_per_second=1.0)
    machine.raw[("nvmlDeviceGetTotalEnergyConsumption", 0)] = 9223372036854775794
    machine.raw[("nvmlDeviceGetPowerUsage", 0)] = 0xFFFFFFFF
    machine.raw_fields[(197, 0)] = (1 << 64) - 1
    machine.write()
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu) == 9223372036854775794
    assert pynvml.nvmlDeviceGetPowerUsage(gpu) == 0xFFFFFFFF
    assert pynvml.nvmlDeviceGetFieldValues(gpu, [197])[0].value.ullVal == (1 << 64) - 1


def test_a_call_can_be_slow(machine):
    gpu = handle(machine)
    machine.faults[("nvmlDeviceGetPowerUsage", 0)] = {"latency": 0.2}
    machine.write()
    before = time.monotonic()
    pynvml.nvmlDeviceGetPowerUsage(gpu)
    assert time.monotonic() - before >= 0.2


def test_a_hung_call_holds_its_gpu_only_and_ends_when_told(machine):
    hung, well = handle(machine), handle(machine)
    machine.faults[("nvmlDeviceGetPowerUsage", 0)] = {"hang": 1}
    machine.write()
    caller = threading.Thread(target=pynvml.nvmlDeviceGetPowerUsage, args=(hung,))
    caller.start()
    caller.join(0.1)
    assert caller.is_alive()
    assert pynvml.nvmlDeviceGetPowerUsage(well) == 60_000
    machine.faults.clear()
    machine.write()
    caller.join(5)
    assert not caller.is_alive()


def test_without_a_state_file_no_driver_is_loaded(machine, monkeypatch):
    machine.state.unlink()
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        pynvml.nvmlDeviceGetCount()
    machine.write()


ASK = """
import pynvml
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
print(pynvml.nvmlDeviceGetName(gpu))
try:
    pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
    print("has energy")
except pynvml.NVMLError_FunctionNotFound:
    print("no such function")
"""


def test_an_old_driver_lacks_symbols_and_has_the_others(fake_driver, driver_library):
    fake_driver.add(FakeGpu(name="Tesla P4"))
    fake_driver.write()
    old = ("nvmlDeviceGetTotalEnergyConsumption", "nvmlGpmQueryDeviceSupport")
    answers = []
    for missing in ((), old):
        fake_driver.missing_symbols = missing
        done = subprocess.run(
            [sys.executable, "-c", ASK],
            env=fake_driver.environment(driver_library(fake_driver)),
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        answers.append(done.stdout.split("\n")[:2])
    assert answers == [["Tesla P4", "has energy"], ["Tesla P4", "no such function"]]
