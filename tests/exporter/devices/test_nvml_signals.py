"""Activity of a device as the NVML back end reads it: buffers, rates, GPM, and their lies."""

import time

import pynvml
import pytest

from gputailor_exporter.devices.base import Reason, SignalReading
from gputailor_exporter.devices.nvml import NvmlBackend
from gputailor_exporter.metrics import Signal
from tests.fakes.nvml import FakeGpu, FakeMig, ramp, square

GPM = {1: 70.0, 2: 45.0, 3: 20.0, 4: 3.0, 5: 30.0, 10: 25.0, 11: 1.0, 12: 10.0, 13: 5.0}
GPM_SIGNALS = {
    Signal.GRAPHICS: 0.7,
    Signal.SM: 0.45,
    Signal.OCCUPANCY: 0.2,
    Signal.INTEGER: 0.03,
    Signal.TENSOR: 0.3,
    Signal.DRAM: 0.25,
    Signal.FP64: 0.01,
    Signal.FP32: 0.1,
    Signal.FP16: 0.05,
}


def integral(readings, signal=Signal.KERNEL):
    """(active seconds, observed seconds) of readings that state their spans."""
    values = [reading.signals[signal] for reading in readings]
    return (
        sum(v.value * v.covers_seconds for v in values),
        sum(v.covers_seconds for v in values),
    )


@pytest.mark.parametrize("rhythm", [0.3, 1.0, 2.7, 7.0])
def test_kernel_integrates_every_burst_whatever_our_rhythm(rig, rhythm):
    rig.add(util_gpu=square(1.0, 1.0))
    device = rig.device()
    rig.step(device)
    start = rig.driver.now
    readings = [rig.step(device, rhythm) for _ in range(round(28 / rhythm))]
    active, observed = integral(readings)
    told = rig.driver.mean("gpu.0.util.gpu", start, rig.driver.now) / 100
    assert observed == pytest.approx(rig.driver.now - start, abs=0.2)
    assert active / observed == pytest.approx(told, abs=0.01)


def test_all_four_buffers_are_read(rig):
    rig.add(util_gpu=80.0, util_memory=40.0, util_encoder=20.0, util_decoder=10.0)
    signals = rig.second(rig.device()).signals
    assert {s: r.value for s, r in signals.items()} == pytest.approx(
        {Signal.KERNEL: 0.8, Signal.MEMCOPY: 0.4, Signal.ENCODER: 0.2, Signal.DECODER: 0.1}
    )
    assert signals[Signal.KERNEL].covers_seconds == pytest.approx(1.0)


def test_what_the_buffer_held_before_our_time_is_not_counted(rig):
    rig.add(util_gpu=100.0)
    device = rig.device()
    first = rig.step(device)
    assert first.signals[Signal.KERNEL] == SignalReading(1.0)
    assert rig.step(device).signals[Signal.KERNEL].covers_seconds == pytest.approx(1.0)


def test_a_reading_between_two_samples_adds_no_time(rig):
    rig.add(util_gpu=100.0)
    device = rig.device()
    rig.second(device)
    between = rig.step(device, 0.05)
    assert between.signals[Signal.KERNEL] == SignalReading(1.0, 0.0)
    assert rig.step(device, 0.95).signals[Signal.KERNEL].covers_seconds == pytest.approx(1.0)


def test_a_dry_buffer_falls_back_to_the_rates_so_that_idle_is_measured(rig):
    rig.add(util_gpu=0.0)
    device = rig.device()
    rig.second(device)
    rig.change(samples_stop=rig.driver.now)
    rig.step(device)
    dry = rig.step(device)
    assert dry.signals[Signal.KERNEL] == SignalReading(0.0)
    assert Signal.KERNEL not in dry.unavailable


def test_a_buffer_that_was_dry_from_the_start_does_not_look_dead(rig):
    rig.add(util_gpu=0.0, samples_stop=rig.driver.origin)
    reading = rig.second(rig.device())
    assert reading.signals[Signal.KERNEL] == SignalReading(0.0)


def test_a_buffer_that_comes_back_counts_no_second_twice(rig):
    rig.add(util_gpu=50.0)
    device = rig.device()
    rig.second(device)
    rig.change(samples_stop=rig.driver.now)
    for _ in range(10):
        rig.step(device)
    rig.change(samples_stop=None)
    back = rig.step(device)  # the buffer now also holds the 10 s that the rates have told
    assert back.signals[Signal.KERNEL].covers_seconds == pytest.approx(1.0)
    assert rig.step(device).signals[Signal.KERNEL].covers_seconds == pytest.approx(1.0)


def test_a_hole_in_the_buffer_is_not_observed(rig):
    rig.add(util_gpu=100.0)
    device = rig.device()
    rig.second(device)
    reading = rig.step(device, 60.0)  # the buffer holds 20 s
    assert 19.0 < reading.signals[Signal.KERNEL].covers_seconds < 22.0


def test_a_clock_that_was_set_back_does_not_silence_the_buffer(rig):
    rig.add(util_gpu=60.0)
    device = rig.device()
    rig.second(device)
    at = rig.driver.now
    rig.driver.advance(-40.0)
    readings = []
    for _ in range(5):
        rig.driver.advance(1.0)
        at += 1.0
        readings.append(rig.backend.read(device, at))
    assert readings[-1].signals[Signal.KERNEL].covers_seconds == pytest.approx(1.0)


def test_rates_that_are_refused_too_leave_a_reason(rig):
    rig.add(util_gpu=None, util_memory=None)
    reading = rig.second(rig.device())
    assert Signal.KERNEL not in reading.signals
    assert reading.unavailable[Signal.KERNEL] is Reason.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("percent", "gpm"),
    [(4294967295.0, 9223372036854775794.0), (129.0, 129.0), (2147483632.0, "nan"), (103.0, -1.0)],
)
def test_nonsense_is_dropped_and_named(rig, percent, gpm):
    rig.add(util_gpu=percent, gpm={2: gpm})
    reading = rig.second(rig.device())
    for signal in (Signal.KERNEL, Signal.SM):
        assert signal not in reading.signals
        assert reading.unavailable[signal] is Reason.INVALID_VALUE


def test_a_hair_above_one_is_rounding(rig):
    rig.add(gpm={2: 100.9})
    reading = rig.second(rig.device())
    assert reading.signals[Signal.SM].value == 1.0
    assert Signal.SM not in reading.unavailable


def test_gpm_gives_the_nine_activities_where_the_driver_says_so(rig):
    rig.add(util_gpu=80.0, gpm=GPM)
    reading = rig.second(rig.device())
    found = {s: reading.signals[s].value for s in GPM_SIGNALS}
    assert found == pytest.approx(GPM_SIGNALS)
    assert reading.signals[Signal.SM].covers_seconds == pytest.approx(1.0)


def test_gpm_is_a_mean_over_the_time_between_two_readings(rig):
    rig.add(gpm={5: ramp(10.0, 0.0, 100.0)})
    device = rig.device()
    rig.step(device)
    start = rig.driver.now
    readings = [rig.step(device, seconds) for seconds in (0.5, 2.0, 3.5, 1.0)]
    active, observed = integral(readings, Signal.TENSOR)
    assert active == pytest.approx(
        rig.driver.integral("gpu.0.gpm.5", start, rig.driver.now) / 100, rel=1e-6
    )
    assert observed == pytest.approx(7.0)


def test_the_first_gpm_sample_has_nothing_to_compare_with(rig):
    rig.add(gpm=GPM)
    reading = rig.step(rig.device())
    assert reading.unavailable[Signal.SM] is Reason.NO_SAMPLES


def test_a_gpu_without_gpm_says_not_supported(rig):
    rig.add(name="Tesla T4")
    reading = rig.second(rig.device())
    assert {reading.unavailable[s] for s in GPM_SIGNALS} == {Reason.NOT_SUPPORTED}


def test_a_single_metric_may_be_missing(rig):
    rig.add(gpm={k: v for k, v in GPM.items() if k != 4})
    reading = rig.second(rig.device())
    assert reading.unavailable[Signal.INTEGER] is Reason.NOT_SUPPORTED
    assert Signal.SM in reading.signals


def test_gpm_counters_at_zero_on_a_busy_gpu_are_unknown_not_idle(rig):
    rig.add(util_gpu=98.0, gpm=dict.fromkeys(GPM, 0.0))
    reading = rig.second(rig.device())
    assert not GPM_SIGNALS.keys() & reading.signals.keys()
    assert {reading.unavailable[s] for s in GPM_SIGNALS} == {Reason.CONTRADICTED}
    assert reading.signals[Signal.KERNEL].value == pytest.approx(0.98)


def test_gpm_counters_at_zero_on_an_idle_gpu_are_zero(rig):
    rig.add(util_gpu=0.0, gpm=dict.fromkeys(GPM, 0.0))
    reading = rig.second(rig.device())
    assert reading.signals[Signal.SM].value == 0.0


def test_idle_tensor_pipes_on_a_busy_gpu_are_zero(rig):
    rig.add(util_gpu=98.0, gpm={**GPM, 5: 0.0})
    assert rig.second(rig.device()).signals[Signal.TENSOR].value == 0.0


def test_a_failing_gpm_call_costs_the_gpm_signals_only(rig):
    rig.add(util_gpu=50.0, gpm=GPM)
    device = rig.device()
    rig.second(device)
    rig.fault("nvmlGpmMetricsGet", error=pynvml.NVML_ERROR_UNKNOWN)
    reading = rig.step(device)
    assert reading.unavailable[Signal.SM] is Reason.DRIVER_ERROR
    assert reading.signals[Signal.KERNEL].value == pytest.approx(0.5)
    rig.driver.faults.clear()
    assert rig.step(device).signals[Signal.SM].value == pytest.approx(0.45)


def mig(rig, *instances, gpm=None):
    rig.add(mig_mode=1, mig=list(instances), gpm=gpm, util_gpu=90.0)


def test_a_mig_instance_has_no_utilisation_and_says_why(rig):
    mig(rig, FakeMig("MIG-a", "GPU MIG 1g.10gb", gi=7))
    reading = rig.second(rig.device("MIG-a"))
    assert reading.signals == {}
    assert reading.unavailable[Signal.KERNEL] is Reason.NOT_SUPPORTED
    assert reading.unavailable[Signal.SM] is Reason.NOT_SUPPORTED
    assert reading.memory is not None


def test_a_mig_handle_that_the_driver_calls_an_invalid_argument_is_not_supported(rig):
    mig(rig, FakeMig("MIG-a", "GPU MIG 1g.10gb", gi=7))
    rig.fault("nvmlDeviceGetUtilizationRates", error=pynvml.NVML_ERROR_INVALID_ARGUMENT)
    reading = rig.second(rig.device("MIG-a"))
    assert reading.unavailable[Signal.KERNEL] is Reason.NOT_SUPPORTED


def test_a_mig_instance_has_gpm_where_the_driver_has_it(rig):
    a = FakeMig("MIG-a", "GPU MIG 1g.10gb", gi=7, gpm={1: 90.0, 2: 60.0})
    b = FakeMig("MIG-b", "GPU MIG 1g.10gb", gi=8, gpm={1: 0.0, 2: 0.0})
    mig(rig, a, b, gpm={})
    busy = rig.second(rig.device("MIG-a"))
    idle = rig.second(rig.device("MIG-b"))
    assert busy.signals[Signal.SM].value == pytest.approx(0.6)
    assert busy.signals[Signal.GRAPHICS].value == pytest.approx(0.9)
    assert idle.signals[Signal.SM].value == 0.0


def test_a_gpu_instance_with_two_compute_instances_is_nobodys(rig):
    a = FakeMig("MIG-a", "GPU MIG 1c.2g.20gb", gi=3, ci=0, gpm={2: 60.0})
    b = FakeMig("MIG-b", "GPU MIG 1c.2g.20gb", gi=3, ci=1, gpm={2: 60.0})
    mig(rig, a, b, gpm={})
    reading = rig.second(rig.device("MIG-a"))
    assert Signal.SM not in reading.signals
    assert reading.unavailable[Signal.SM] is Reason.NOT_ATTRIBUTABLE


def test_the_parent_of_mig_instances_keeps_power_energy_and_temperature(rig):
    mig(rig, FakeMig("MIG-a", "GPU MIG 1g.10gb", gi=7), gpm={2: 60.0})
    reading = rig.second(rig.device())
    assert reading.signals == {}
    assert set(Signal) <= reading.unavailable.keys()
    assert reading.power_watts == 60.0
    assert reading.energy_joules > 0
    assert reading.temperatures_celsius == {"gpu": 35}
    assert reading.memory is None
    assert reading.processes is None


def test_discovery_in_between_does_not_start_the_device_anew(rig):
    rig.add(util_gpu=70.0, gpm=GPM)
    device = rig.device()
    rig.second(device)
    rig.backend.devices()
    reading = rig.step(device)
    assert reading.signals[Signal.KERNEL].covers_seconds == pytest.approx(1.0)
    assert Signal.SM in reading.signals


def test_one_second_on_one_second_off_reads_half_on_the_real_clock(preloaded_nvml, tmp_path):
    preloaded_nvml.add(FakeGpu(util_gpu=square(0.5, 0.5)))
    preloaded_nvml.write()
    backend = NvmlBackend(pci_devices=tmp_path)
    backend.open()
    (device,) = backend.devices()
    backend.read(device, time.monotonic())
    readings = []
    for _ in range(4):
        time.sleep(0.5)
        readings.append(backend.read(device, time.monotonic()))
    backend.close()
    active, observed = integral(readings)
    assert observed == pytest.approx(2.0, abs=0.4)
    assert active / observed == pytest.approx(0.5, abs=0.1)
