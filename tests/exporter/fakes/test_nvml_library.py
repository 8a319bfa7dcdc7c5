"""The fake NVIDIA driver, seen through the real pynvml: identity, health, MIG, changes."""

import pynvml
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.nvml import GIB, FakeDriver, FakeGpu, FakeMig, FakeProcess, ramp, square


def handle(driver: FakeDriver, **about):
    gpu = driver.add(FakeGpu(**about))
    driver.write()
    return pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)


def test_gpus_of_different_models_stand_side_by_side(machine):
    machine.add(FakeGpu(name="NVIDIA A100-SXM4-80GB"))
    machine.add(FakeGpu(name="Tesla T4", architecture=6, compute_capability="7.5", serial="42"))
    machine.write()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    assert [pynvml.nvmlDeviceGetName(h) for h in handles] == ["NVIDIA A100-SXM4-80GB", "Tesla T4"]
    t4 = handles[1]
    assert pynvml.nvmlDeviceGetArchitecture(t4) == pynvml.NVML_DEVICE_ARCH_TURING
    assert pynvml.nvmlDeviceGetCudaComputeCapability(t4) == (7, 5)
    assert pynvml.nvmlDeviceGetSerial(t4) == "42"
    assert pynvml.nvmlDeviceGetMinorNumber(t4) == 1
    assert pynvml.nvmlDeviceGetIndex(t4) == 1
    assert pynvml.nvmlDeviceGetPciInfo(t4).busId == "00000000:11:00.0"
    assert pynvml.nvmlDeviceGetPciInfo(t4).bus == 0x11
    assert pynvml.nvmlDeviceGetPersistenceMode(t4) == 1
    assert pynvml.nvmlDeviceGetComputeMode(t4) == 0


def test_the_driver_tells_its_versions(machine):
    assert pynvml.nvmlSystemGetDriverVersion() == "550.54.15"
    assert pynvml.nvmlSystemGetNVMLVersion() == "12.550.54.15"
    assert pynvml.nvmlSystemGetCudaDriverVersion() == 12040


def test_an_index_beyond_the_last_gpu_is_an_invalid_argument(machine):
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetHandleByIndex(0)


def test_a_uuid_that_is_not_there_is_not_found(machine):
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByUUID("GPU-none")


def test_memory_version_2_keeps_the_reserve_apart_and_version_1_counts_it_as_used(machine):
    gpu = handle(machine, memory_total=80 * GIB, memory_used=8 << 20, memory_reserved=904 << 20)
    newer = pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)
    assert (newer.used, newer.reserved) == (8 << 20, 904 << 20)
    assert newer.total == newer.used + newer.reserved + newer.free
    assert pynvml.nvmlDeviceGetMemoryInfo(gpu).used == 912 << 20


def test_a_bare_2_is_no_memory_version(machine):
    gpu = handle(machine)
    with pytest.raises(pynvml.NVMLError) as refused:
        pynvml.nvmlDeviceGetMemoryInfo(gpu, version=2)
    assert refused.value.value == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


def test_power_limits_temperatures_and_clocks_are_as_told(machine):
    gpu = handle(machine, power_watts=251.5, power_limit_watts=300.0, temperature_gpu=71, fan=33)
    assert pynvml.nvmlDeviceGetPowerUsage(gpu) == 251_500
    assert pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) == 300_000
    assert pynvml.nvmlDeviceGetPowerManagementLimit(gpu) == 300_000
    assert pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU) == 71
    assert pynvml.nvmlDeviceGetTemperatureV(gpu, pynvml.NVML_TEMPERATURE_GPU) == 71
    shutdown = pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN
    assert pynvml.nvmlDeviceGetTemperatureThreshold(gpu, shutdown) == 92
    assert pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM) == 1593
    assert pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_SM) == 1410
    assert pynvml.nvmlDeviceGetFanSpeed(gpu) == 33


def test_the_energy_counter_is_the_integral_of_power(machine):
    gpu = handle(machine, power_watts=square(1.0, 1.0, 300.0, 100.0), energy_start_joules=5000.0)
    before = pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
    machine.advance(10.0)
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu) - before == pytest.approx(2_000_000)
    assert before == pytest.approx(5_000_000 + 100 * 200_000)


def test_a_counter_never_jumps_when_its_rate_changes(machine):
    gpu = handle(machine, power_watts=400.0)
    machine.advance(10.0)
    before = pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
    machine.gpus[0].power_watts = 50.0
    machine.write()
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu) == before
    machine.advance(2.0)
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu) == before + 100_000


numbers = st.floats(0.0, 700.0, allow_nan=False).map(lambda x: round(x, 3))
spans = st.floats(0.05, 20.0).map(lambda x: round(x, 3))
patterns = st.one_of(
    numbers,
    st.builds(square, spans, spans, numbers, numbers),
    st.builds(ramp, spans, numbers, numbers),
)


@given(steps=st.lists(st.tuples(patterns, spans), min_size=1, max_size=4))
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # the machine is emptied each time
)
def test_the_library_and_the_truth_agree_on_every_integral(machine, steps):
    machine.gpus.clear()
    machine._timelines.clear()
    gpu = handle(machine)
    start = machine.now
    before = pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)
    for pattern, seconds in steps:
        machine.gpus[0].power_watts = pattern
        machine.write()
        machine.advance(seconds)
    told = machine.integral("gpu.0.power.watts", start, machine.now)
    measured = (pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu) - before) / 1000.0
    assert measured == pytest.approx(told, abs=0.01)


def test_errors_of_the_memory_are_as_told(machine):
    gpu = handle(
        machine,
        ecc_corrected=7,
        ecc_uncorrected=2,
        remapped_rows=(3, 1, 1, 0),
        retired_pages=(2, 0),
    )
    total = pynvml.nvmlDeviceGetTotalEccErrors
    assert total(gpu, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_AGGREGATE_ECC) == 7
    assert total(gpu, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_AGGREGATE_ECC) == 2
    assert pynvml.nvmlDeviceGetRemappedRows(gpu) == (3, 1, 1, 0)
    assert len(pynvml.nvmlDeviceGetRetiredPages(gpu, 0)) == 2
    assert pynvml.nvmlDeviceGetRetiredPages(gpu, 1) == []


def test_throttle_reasons_have_an_old_and_a_new_name(machine):
    gpu = handle(machine, throttle=0x24)
    assert pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu) == 0x24
    assert pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu) == 0x24


def test_a_value_that_is_none_is_not_supported(machine):
    gpu = handle(machine, temperature_gpu=None, throttle=None, ecc=False, memory_total=None)
    for call in (
        lambda: pynvml.nvmlDeviceGetTemperature(gpu, 0),
        lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu),
        lambda: pynvml.nvmlDeviceGetTotalEccErrors(gpu, 0, 1),
        lambda: pynvml.nvmlDeviceGetMemoryInfo(gpu),
    ):
        with pytest.raises(pynvml.NVMLError_NotSupported):
            call()


def fields(gpu, *wanted):
    return pynvml.nvmlDeviceGetFieldValues(gpu, list(wanted))


def test_pcie_counters_of_32_bits_wrap(machine):
    gpu = handle(
        machine,
        pcie_tx_bytes_per_second=1e6,
        pcie_tx_start=(1 << 32) - 50_000_000,
        pcie_counter_bits=32,
    )
    (tx, rx) = fields(gpu, 197, 198)
    assert tx.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
    assert tx.value.uiVal == 50_000_000
    assert rx.nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_nvlink_counters_come_in_total_and_for_each_link(machine):
    gpu = handle(machine, nvlink_links=4, nvlink_tx_bytes_per_second=4096.0 * 1000)
    total, one, beyond = fields(gpu, (138, 0xFFFFFFFF), (138, 3), (138, 4))
    assert total.value.ullVal == 4 * one.value.ullVal == 400_000
    assert beyond.nvmlReturn == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert fields(gpu, 91)[0].value.uiVal == 4
    assert pynvml.nvmlDeviceGetNvLinkState(gpu, 3) == 1


def test_pcie_throughput_and_link_are_as_told(machine):
    gpu = handle(machine, pcie_rx_bytes_per_second=2048e3, pcie_generation=1, pcie_width=8)
    assert pynvml.nvmlDeviceGetPcieThroughput(gpu, pynvml.NVML_PCIE_UTIL_RX_BYTES) == 2000
    assert pynvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu) == 1
    assert pynvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu) == 4
    assert pynvml.nvmlDeviceGetCurrPcieLinkWidth(gpu) == 8
    assert pynvml.nvmlDeviceGetMaxPcieLinkWidth(gpu) == 16


def sliced() -> FakeGpu:
    """An A100 with a 3g and a 1g slice; the second index is free."""
    name = "NVIDIA A100-SXM4-80GB MIG "
    return FakeGpu(
        mig_mode=1,
        mig=[
            FakeMig("MIG-a", name + "3g.40gb", gi=2, gpu_slices=3, memory_total=40 * GIB),
            FakeMig("MIG-b", name + "1g.10gb", gi=9, ci=0, memory_used=2 * GIB),
        ],
        processes=[FakeProcess(100, gi=2, ci=0), FakeProcess(200, gi=9, ci=0)],
        util_gpu=80.0,
    )


def test_mig_instances_are_reached_by_index_and_by_uuid(machine):
    board = machine.add(sliced())
    machine.write()
    gpu = pynvml.nvmlDeviceGetHandleByUUID(board.uuid)
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [1, 1]
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu) == 7
    first = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    assert pynvml.nvmlDeviceGetUUID(first) == "MIG-a"
    assert pynvml.nvmlDeviceGetAttributes(first).gpuInstanceSliceCount == 3
    assert pynvml.nvmlDeviceGetAttributes(first).memorySizeMB == 40 * 1024
    second = pynvml.nvmlDeviceGetHandleByUUID("MIG-b")
    assert pynvml.nvmlDeviceGetGpuInstanceId(second) == 9
    assert pynvml.nvmlDeviceGetComputeInstanceId(second) == 0
    assert pynvml.nvmlDeviceIsMigDeviceHandle(second).value == 1
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(second)
    assert pynvml.nvmlDeviceGetUUID(parent) == board.uuid
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 2)


def test_a_mig_instance_has_its_own_memory_and_processes_and_no_utilisation(machine):
    machine.add(sliced())
    machine.write()
    instance = pynvml.nvmlDeviceGetHandleByUUID("MIG-b")
    memory = pynvml.nvmlDeviceGetMemoryInfo(instance, version=pynvml.nvmlMemory_v2)
    assert (memory.total, memory.used) == (10 * GIB, 2 * GIB)
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(instance)
    assert [(p.pid, p.gpuInstanceId) for p in processes] == [(200, 9)]
    for call in (pynvml.nvmlDeviceGetUtilizationRates, pynvml.nvmlDeviceGetPowerUsage):
        with pytest.raises(pynvml.NVMLError_NotSupported):
            call(instance)


def test_a_gpu_in_mig_mode_lists_all_processes_and_has_no_utilisation(machine):
    board = machine.add(sliced())
    machine.write()
    gpu = pynvml.nvmlDeviceGetHandleByUUID(board.uuid)
    assert len(pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)) == 2
    assert pynvml.nvmlDeviceGetPowerUsage(gpu) == 60_000
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetUtilizationRates(gpu)
