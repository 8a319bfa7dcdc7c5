"""When the NVIDIA driver fails: lost and hanging GPUs, old drivers, refusals, events."""

import json
import subprocess
import sys
import threading
import time

import pynvml
import pytest

from gputailor_exporter.devices.base import DeviceError, Reason, XidEvent
from gputailor_exporter.metrics import Signal
from tests.fakes.nvml import FakeEvent, FakeGpu, FakeMig


def test_a_lost_gpu_raises_and_the_others_read_on(rig):
    lost, well = rig.add(), rig.add()
    devices = {device.uuid: device for device in rig.backend.devices()}
    rig.step(devices[lost.uuid])
    rig.fault("*", 0, error=pynvml.NVML_ERROR_GPU_IS_LOST)
    with pytest.raises(DeviceError, match=f"on {lost.uuid}: GPU is lost") as error:
        rig.step(devices[lost.uuid])
    assert error.value.reason is Reason.GPU_IS_LOST
    assert rig.step(devices[well.uuid]).power_watts == 60.0
    with pytest.raises(DeviceError):
        rig.step(devices[lost.uuid])


def test_a_gpu_that_comes_back_is_read_again(rig):
    rig.add(util_gpu=50.0)
    device = rig.device()
    rig.second(device)
    rig.fault("*", 0, error=pynvml.NVML_ERROR_GPU_IS_LOST)
    with pytest.raises(DeviceError):
        rig.step(device)
    rig.driver.faults.clear()
    assert rig.second(device).signals[Signal.KERNEL].value == pytest.approx(0.5)


def test_a_device_that_is_no_longer_there_is_lost(rig):
    rig.add(mig_mode=1, mig=[FakeMig("MIG-a", "GPU MIG 1g.10gb", gi=7)])
    device = rig.device("MIG-a")
    rig.step(device)
    rig.change(mig=[])
    rig.backend.devices()
    assert "MIG-a" not in rig.backend._devices  # nothing is kept of it
    with pytest.raises(DeviceError) as error:
        rig.step(device)
    assert error.value.reason is Reason.GPU_IS_LOST


def test_a_slice_that_took_the_place_of_another_is_not_read_under_its_name(rig):
    rig.add(mig_mode=1, mig=[FakeMig("MIG-a", "GPU MIG 1g.10gb", gi=7)])
    device = rig.device("MIG-a")
    rig.step(device)
    rig.change(mig=[FakeMig("MIG-b", "GPU MIG 1g.10gb", gi=7, memory_used=5 << 30)])
    with pytest.raises(DeviceError, match="MIG-b is in its place") as error:
        rig.step(device)
    assert error.value.reason is Reason.GPU_IS_LOST
    assert rig.step(rig.device("MIG-b")).memory.used_bytes == 5 << 30


def test_one_failing_call_costs_one_value(rig):
    rig.add()
    rig.fault("nvmlDeviceGetPowerUsage", error=pynvml.NVML_ERROR_UNKNOWN)
    reading = rig.second(rig.device())
    assert reading.power_watts is None
    assert reading.unavailable["power"] is Reason.DRIVER_ERROR
    assert reading.energy_joules > 0


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (pynvml.NVML_ERROR_NOT_SUPPORTED, Reason.NOT_SUPPORTED),
        (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, Reason.FUNCTION_NOT_FOUND),
        (pynvml.NVML_ERROR_NO_PERMISSION, Reason.NO_PERMISSION),
        (pynvml.NVML_ERROR_TIMEOUT, Reason.TIMEOUT),
        (pynvml.NVML_ERROR_UNKNOWN, Reason.DRIVER_ERROR),
        (pynvml.NVML_ERROR_IN_USE, Reason.IN_USE),
    ],
)
def test_an_error_code_becomes_its_reason(rig, code, reason):
    rig.add()
    rig.fault("nvmlDeviceGetTotalEnergyConsumption", error=code)
    assert rig.second(rig.device()).unavailable["energy"] is reason


def test_a_device_that_answers_nothing_is_not_up(rig):
    rig.add()
    device = rig.device()
    rig.step(device)
    rig.fault("*", 0, error=pynvml.NVML_ERROR_UNKNOWN)
    with pytest.raises(DeviceError, match="answers no call") as error:
        rig.step(device)
    assert error.value.reason is Reason.DRIVER_ERROR


def test_what_is_not_supported_is_asked_once_and_what_fails_is_asked_again(rig, monkeypatch):
    rig.add()
    rig.fault("nvmlDeviceGetTotalEccErrors", error=pynvml.NVML_ERROR_NOT_SUPPORTED)
    rig.fault("nvmlDeviceGetPowerUsage", error=pynvml.NVML_ERROR_UNKNOWN)
    asked: dict[str, int] = {}
    for name in ("nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetPowerUsage"):
        call = getattr(pynvml, name)

        def counted(*arguments, name=name, call=call):
            asked[name] = asked.get(name, 0) + 1
            return call(*arguments)

        monkeypatch.setattr(pynvml, name, counted)
    device = rig.device()
    readings = [rig.step(device) for _ in range(5)]
    assert asked == {"nvmlDeviceGetTotalEccErrors": 2, "nvmlDeviceGetPowerUsage": 5}
    assert {r.unavailable["ecc_errors"] for r in readings} == {Reason.NOT_SUPPORTED}


def test_what_was_not_supported_is_asked_again_when_the_device_has_changed(rig):
    rig.add(mig_mode=1)
    assert rig.second(rig.device()).unavailable[Signal.KERNEL] is Reason.NOT_SUPPORTED
    rig.change(mig_mode=0, util_gpu=30.0)
    assert rig.second(rig.device()).signals[Signal.KERNEL].value == pytest.approx(0.3)


def test_what_was_not_supported_is_asked_again_after_ten_minutes(rig):
    rig.add(util_gpu=50.0, ecc=False)
    device = rig.device()
    assert rig.second(device).unavailable[Signal.SM] is Reason.NOT_SUPPORTED
    rig.change(ecc=True, gpm={2: 40.0}, nvlink_links=2)
    soon = rig.second(device).unavailable
    assert {soon[value] for value in ("sm", "ecc_errors", "nvlink_bytes")} == {Reason.NOT_SUPPORTED}
    rig.driver.advance(600.0)
    later = rig.second(device)
    assert later.signals[Signal.SM].value == pytest.approx(0.4)
    assert later.ecc_errors["corrected"] == 0
    assert "tx" in later.nvlink_bytes


def test_a_gpu_that_does_not_answer_is_logged_once(rig, caplog):
    rig.add()
    rig.fault("*", 0, error=pynvml.NVML_ERROR_GPU_IS_LOST)
    for _ in range(3):
        rig.backend.devices()
    assert caplog.messages == ["GPU 0 does not answer: GPU is lost (NVML error 15)"]


def test_a_hanging_gpu_holds_up_its_own_reader_only(rig):
    hung, well = rig.add(), rig.add()
    devices = {device.uuid: device for device in rig.backend.devices()}
    rig.fault("nvmlDeviceGetPowerUsage", 0, hang=1)
    at = rig.driver.now
    reader = threading.Thread(target=rig.backend.read, args=(devices[hung.uuid], at))
    reader.start()
    reader.join(0.2)
    assert reader.is_alive()
    assert rig.backend.read(devices[well.uuid], at).power_watts == 60.0
    assert len(rig.backend.devices()) == 2
    rig.driver.faults.clear()
    rig.driver.write()
    reader.join(5)
    assert not reader.is_alive()


READ = """
import dataclasses, json, sys, time
from gputailor_exporter.devices.nvml import NvmlBackend
backend = NvmlBackend()
backend.open()
(device,) = backend.devices()
backend.read(device, time.monotonic())
time.sleep(0.4)
reading = backend.read(device, time.monotonic())
print(json.dumps({
    "unavailable": reading.unavailable,
    "kernel": reading.signals["kernel"].value,
    "reserved": reading.memory.reserved_bytes,
    "energy": reading.energy_joules,
    "gpu": reading.temperatures_celsius["gpu"],
    "events": backend.wait_events(0.05),
    "throttle": sorted(reading.throttle_reasons),
}))
backend.close()
"""


def test_an_old_driver_gives_what_it_has_and_reasons_for_the_rest(fake_driver, driver_library):
    fake_driver.add(FakeGpu(util_gpu=50.0, temperature_gpu=40, throttle=0x4))
    fake_driver.missing_symbols = (
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlGpmQueryDeviceSupport",
        "nvmlGpmSampleAlloc",
        "nvmlDeviceGetFieldValues",
        "nvmlEventSetCreate",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    )
    fake_driver.write()
    done = subprocess.run(
        [sys.executable, "-c", READ],
        env=fake_driver.environment(driver_library(fake_driver)),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["kernel"] == pytest.approx(0.5)
    assert told["reserved"] is None
    assert told["energy"] is None
    assert told["gpu"] == 40
    assert told["throttle"] == ["sw_power_cap"]
    assert told["events"] == []
    unavailable = told["unavailable"]
    for value in ("energy", "sm", "tensor", "pcie_bytes", "nvlink_bytes"):
        assert unavailable[value] == "function_not_found"
    assert not {"kernel", "memory", "temperature", "processes"} & unavailable.keys()


def test_each_xid_is_told_once_with_its_device_and_time(rig):
    gpu = rig.add()
    rig.backend.devices()
    assert rig.backend.wait_events(0.01) == ()
    gpu.events.extend([FakeEvent(31), FakeEvent(31)])
    rig.driver.write()
    expected = XidEvent(gpu.uuid, 31, rig.driver.now)
    before = time.monotonic()
    assert rig.backend.wait_events(5.0) == (expected, expected)
    assert time.monotonic() - before < 2.0
    assert rig.backend.wait_events(0.01) == ()


def test_an_xid_of_a_slice_names_the_slice_and_one_of_the_board_the_board(rig):
    gpu = rig.add(mig_mode=1, mig=[FakeMig("MIG-a", "GPU MIG 1g.10gb", gi=7)])
    rig.backend.devices()
    gpu.events.extend([FakeEvent(31, gi=7, ci=0), FakeEvent(79)])
    rig.driver.write()
    told = rig.backend.wait_events(1.0)
    assert [(event.gpu_uuid, event.xid) for event in told] == [("MIG-a", 31), (gpu.uuid, 79)]


def test_other_events_are_no_xid(rig):
    gpu = rig.add()
    rig.backend.devices()
    gpu.events.extend([FakeEvent(1, type=2), FakeEvent(48)])
    rig.driver.write()
    assert [event.xid for event in rig.backend.wait_events(1.0)] == [48]


def test_a_driver_without_events_does_not_spin(rig):
    rig.add(event_types=0)
    rig.backend.devices()
    before = time.monotonic()
    assert rig.backend.wait_events(0.1) == ()
    assert time.monotonic() - before >= 0.1


def test_closing_while_a_call_hangs_does_not_wait_for_it(rig, monkeypatch):
    rig.add(gpm={2: 50.0})
    device = rig.device()
    rig.second(device)
    rig.fault("nvmlGpmMetricsGet", 0, hang=1)
    freed: list[object] = []
    monkeypatch.setattr(pynvml, "nvmlGpmSampleFree", freed.append)
    failures = []

    def read():
        try:
            rig.backend.read(device, rig.driver.now + 1.0)
        except DeviceError as error:
            failures.append(error.reason)

    reader = threading.Thread(target=read)
    reader.start()
    reader.join(0.1)
    before = time.monotonic()
    rig.backend.close()
    assert time.monotonic() - before < 2.0
    assert freed == []  # the hanging call still uses its samples
    rig.driver.faults.clear()
    rig.driver.write()
    reader.join(5)
    assert failures == [Reason.DRIVER_ERROR]  # the driver was shut down under it
