"""vGPU guests and containers without all permissions: each call costs what it would have told."""

from dataclasses import asdict

import pynvml
import pytest

from gputailor_exporter import collectors
from gputailor_exporter.devices.base import DeviceError, DeviceState, Reason
from gputailor_exporter.devices.nvml import NvmlBackend
from gputailor_exporter.metrics import Signal
from tests.exporter.devices.calls import counted_calls
from tests.exporter.fake_nodes import rich_gpu
from tests.fakes.nvml import FakeProcess

#: Function of the driver -> names in ``unavailable`` that it alone leads to.
#: Several functions where any of them would do: only together they cost a value.
COSTS = {
    ("nvmlDeviceGetPowerUsage",): {"power"},
    ("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit"): {"power_limit"},
    ("nvmlDeviceGetPowerManagementDefaultLimit",): {"power_limit_default"},
    ("nvmlDeviceGetPowerManagementLimitConstraints",): {"power_limit_max"},
    ("nvmlDeviceGetTotalEnergyConsumption",): {"energy"},
    ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"): {"temperature"},
    ("nvmlDeviceGetTemperatureThreshold",): {"temperature_limits"},
    ("nvmlDeviceGetClockInfo",): {f"clock_{d}" for d in ("graphics", "sm", "memory", "video")},
    ("nvmlDeviceGetMaxClockInfo",): {
        f"clock_max_{d}" for d in ("graphics", "sm", "memory", "video")
    },
    (
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
    ): {"throttle_reasons"},
    ("nvmlDeviceGetTotalEccErrors",): {"ecc_errors"},
    ("nvmlDeviceGetRemappedRows",): {"remapped_rows"},
    ("nvmlDeviceGetRetiredPages",): {"retired_pages"},
    ("nvmlDeviceGetRetiredPagesPendingStatus",): {"retired_pages_pending"},
    ("nvmlDeviceGetEccMode",): {"ecc_mode"},
    ("nvmlDeviceGetMigMode",): {"mig_mode"},
    ("nvmlDeviceGetPersistenceMode",): {"persistence_mode"},
    ("nvmlDeviceGetComputeMode",): {"compute_mode"},
    ("nvmlDeviceGetFanSpeed",): {"fan_speed"},
    ("nvmlDeviceGetGpuFabricInfoV",): {"fabric"},
    ("nvmlDeviceGetNvLinkState",): {"nvlinks", "nvlink_capacity"},
    ("nvmlDeviceGetSerial",): {"serial"},
    ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"): {"memory"},
    ("nvmlDeviceGetComputeRunningProcesses_v3",): {"processes"},
    ("nvmlDeviceGetProcessUtilization", "nvmlDeviceGetProcessesUtilizationInfo"): {
        "process_utilization"
    },
    ("nvmlDeviceGetSamples", "nvmlDeviceGetUtilizationRates"): {Signal.KERNEL, Signal.MEMCOPY},
    (
        "nvmlDeviceGetSamples",
        "nvmlDeviceGetEncoderUtilization",
    ): {Signal.ENCODER},
    (
        "nvmlDeviceGetSamples",
        "nvmlDeviceGetDecoderUtilization",
    ): {Signal.DECODER},
    ("nvmlGpmSampleGet",): {Signal.SM, Signal.TENSOR, Signal.DRAM},
    ("nvmlGpmQueryDeviceSupport",): {Signal.SM, Signal.TENSOR, Signal.DRAM},
    (
        "nvmlDeviceGetCurrPcieLinkGeneration",
        "nvmlDeviceGetCurrPcieLinkWidth",
        "nvmlDeviceGetMaxPcieLinkGeneration",
        "nvmlDeviceGetMaxPcieLinkWidth",
    ): {"pcie_link"},
    ("nvmlDeviceGetFieldValues",): {"nvlinks"},
}
REFUSALS = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: Reason.NOT_SUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION: Reason.NO_PERMISSION,
}


@pytest.fixture
def machine(rig):
    """Return a GPU that tells everything, read with every collector on."""
    gpu = rich_gpu(
        retired_pages=(0, 0, 0), fan=40, processes=[FakeProcess(7, sm=50.0)], util_encoder=1.0
    )
    rig.driver.add(gpu)
    rig.driver.write()
    rig.backend.close()
    on = frozenset(one.name for one in collectors.COLLECTORS)
    rig.backend = NvmlBackend(clock=rig.driver.clock, collectors=on)
    rig.backend.open()
    return rig


def numbers(value: object, path: str = "") -> dict[str, float]:
    """All numbers of a reading, each by the way that leads to it."""
    if isinstance(value, dict):
        found = {}
        for name, part in value.items():
            found.update(numbers(part, f"{path}/{name}"))
        return found
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return {path: float(value)} if known else {}


def test_everything_is_told_where_nothing_is_refused(machine):
    assert set(machine.second(machine.device()).unavailable) == set()


@pytest.mark.parametrize("error", REFUSALS, ids=list(REFUSALS.values()))
@pytest.mark.parametrize("functions", COSTS, ids=lambda functions: functions[-1])
def test_a_refused_call_costs_its_own_value_which_says_why(machine, functions, error):
    whole = machine.second(machine.device())
    machine.backend.close()
    machine.backend.open()
    for function in functions:
        machine.fault(function, error=error)
    reading = machine.second(machine.device())
    lost = COSTS[functions]
    assert lost <= reading.unavailable.keys()
    assert {reading.unavailable[name] for name in lost} <= {REFUSALS[error], Reason.NOT_SUPPORTED}
    assert REFUSALS[error] in {reading.unavailable[name] for name in lost}
    before, after = numbers(asdict(whole)), numbers(asdict(reading))
    assert not [path for path, number in after.items() if number == 0.0 and before.get(path)]
    assert reading.memory == whole.memory or "memory" in lost
    assert reading.power_watts == whole.power_watts or "power" in lost


def test_every_call_of_a_reading_is_in_the_table(machine, monkeypatch):
    asked = counted_calls(monkeypatch)
    machine.second(machine.device())
    named = {name.removesuffix("_v2") for functions in COSTS for name in functions}
    identity = {
        "nvmlDeviceGetCount",
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetName",
        "nvmlDeviceGetArchitecture",
        "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetPciInfo",
        "nvmlDeviceRegisterEvents",
        "nvmlDeviceGetPciInfo_v3",
    }
    optional = {  # other lists of processes: a driver without them lacks nothing
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlGpmMetricsGet",
        "nvmlGpmSampleAlloc",
        "nvmlDeviceGetTemperatureV1",  # by which the binding makes nvmlDeviceGetTemperatureV
    }
    calls = {name for name in asked if not name.startswith(("nvmlStruct", "nvmlError"))}
    assert calls - named - identity - optional == set()


@pytest.mark.parametrize("error", REFUSALS, ids=list(REFUSALS.values()))
def test_a_guest_that_may_ask_for_memory_alone_has_memory_and_reasons(machine, error):
    for functions in COSTS:
        for function in functions:
            if "MemoryInfo" not in function:
                machine.fault(function, error=error)
    reading = machine.second(machine.device())
    assert reading.memory is not None
    assert reading.signals == {}
    assert reading.power_watts is None
    assert reading.processes is None
    assert reading.state == DeviceState()
    told = set(reading.unavailable.values())
    assert told <= {REFUSALS[error], Reason.NOT_SUPPORTED}


def test_a_gpu_that_may_not_be_asked_anything_is_down_with_the_reason(machine):
    device = machine.device()
    machine.fault("*", 0, error=pynvml.NVML_ERROR_NO_PERMISSION)
    with pytest.raises(DeviceError) as error:
        machine.step(device)
    assert error.value.reason is Reason.NO_PERMISSION
