"""Memory, power, clocks, links and errors of a device as the NVML back end reads them."""

import pynvml
import pytest

from gputailor_exporter.devices.base import Memory, PcieLink, Reason
from tests.fakes.nvml import GIB, square

KIB_PER_SECOND = 1024.0


def test_memory_keeps_the_drivers_reserve_apart(rig):
    rig.add(memory_total=80 * GIB, memory_used=8 << 20, memory_reserved=904 << 20)
    assert rig.second(rig.device()).memory == Memory(80 * GIB, 8 << 20, 904 << 20)


def test_an_old_driver_hides_the_reserve_in_the_used_memory(rig):
    rig.add(memory_total=80 * GIB, memory_used=8 << 20, memory_reserved=904 << 20)
    rig.fault("nvmlDeviceGetMemoryInfo_v2", error=pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    reading = rig.second(rig.device())
    assert reading.memory == Memory(80 * GIB, 912 << 20, None)
    assert "memory" not in reading.unavailable


def test_memory_beyond_the_device_is_nonsense(rig):
    rig.add(memory_total=GIB, memory_used=2.0 * GIB, memory_reserved=0)
    reading = rig.second(rig.device())
    assert reading.memory is None
    assert reading.unavailable["memory"] is Reason.INVALID_VALUE


def test_power_its_limit_and_energy_come_in_watts_and_joules(rig):
    rig.add(power_watts=square(1.0, 1.0, 300.0, 100.0), power_limit_watts=350.0)
    device = rig.device()
    before = rig.step(device)
    after = rig.step(device, 10.0)
    assert before.power_watts == 100.0
    assert before.power_limit_watts == 350.0
    assert after.energy_joules - before.energy_joules == pytest.approx(2000.0, abs=0.01)


@pytest.mark.parametrize(
    ("function", "raw", "value"),
    [
        ("nvmlDeviceGetPowerUsage", 0xFFFFFFFF, "power"),
        ("nvmlDeviceGetPowerUsage", 2147483632, "power"),
        ("nvmlDeviceGetPowerUsage", 0, "power"),
        ("nvmlDeviceGetEnforcedPowerLimit", 0, "power_limit"),
        ("nvmlDeviceGetEnforcedPowerLimit", 0xFFFFFFFF, "power_limit"),
        ("nvmlDeviceGetTotalEnergyConsumption", 9223372036854775794, "energy"),
        ("nvmlDeviceGetTotalEnergyConsumption", (1 << 64) - 1, "energy"),
        ("nvmlDeviceGetTemperatureV", 0x7FFFFFF0, "temperature"),
        ("nvmlDeviceGetCurrentClocksEventReasons", (1 << 64) - 1, "throttle_reasons"),
        ("nvmlDeviceGetTotalEccErrors", (1 << 64) - 1, "ecc_errors"),
    ],
)
def test_a_sentinel_is_no_value(rig, function, raw, value):
    rig.add()
    rig.driver.raw[(function, 0)] = raw
    rig.driver.write()
    reading = rig.second(rig.device())
    assert reading.unavailable[value] is Reason.INVALID_VALUE
    kept = {
        "power": reading.power_watts,
        "power_limit": reading.power_limit_watts,
        "energy": reading.energy_joules,
        "temperature": reading.temperatures_celsius.get("gpu"),
        "throttle_reasons": reading.throttle_reasons,
        "ecc_errors": reading.ecc_errors or None,
    }
    assert kept.pop(value) is None
    assert None not in kept.values()


def test_temperatures_come_by_sensor(rig):
    rig.add(temperature_gpu=61, temperature_memory=74)
    assert rig.second(rig.device()).temperatures_celsius == {"gpu": 61, "memory": 74}


def test_an_old_driver_is_asked_for_its_temperature_in_the_old_way(rig):
    rig.add(temperature_gpu=61)
    rig.fault("nvmlDeviceGetTemperatureV", error=pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    reading = rig.second(rig.device())
    assert reading.temperatures_celsius == {"gpu": 61}
    assert "temperature" not in reading.unavailable


def test_clocks_come_in_hertz_by_domain_with_their_maxima(rig):
    rig.add(clocks_mhz={"graphics": 1200, "sm": 1200, "memory": 1593})
    reading = rig.second(rig.device())
    assert reading.clocks_hertz == {"graphics": 1.2e9, "sm": 1.2e9, "memory": 1.593e9}
    assert reading.clocks_max_hertz["video"] == 1.29e9
    assert reading.unavailable["clock_video"] is Reason.NOT_SUPPORTED


def test_throttle_reasons_have_names(rig):
    rig.add(throttle=0x4 | 0x40 | 0x80 | 0x2000)
    assert rig.second(rig.device()).throttle_reasons == {
        "sw_power_cap",
        "hw_thermal_slowdown",
        "hw_power_brake_slowdown",
        "bit_13",
    }


def test_an_idle_gpu_is_not_throttled(rig):
    rig.add(throttle=0x1)
    assert rig.second(rig.device()).throttle_reasons == frozenset()


def test_a_gpu_that_is_not_throttled_has_no_reason_and_that_is_known(rig):
    rig.add(throttle=0)
    assert rig.second(rig.device()).throttle_reasons == frozenset()


def test_an_old_driver_is_asked_for_throttle_reasons_by_their_old_name(rig):
    rig.add(throttle=0x20)
    rig.fault("nvmlDeviceGetCurrentClocksEventReasons", error=pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    assert rig.second(rig.device()).throttle_reasons == {"sw_thermal_slowdown"}


def test_ecc_errors_and_remapped_rows_are_of_the_devices_life(rig):
    rig.add(ecc_corrected=11, ecc_uncorrected=1, remapped_rows=(2, 1, 0, 0))
    reading = rig.second(rig.device())
    assert reading.ecc_errors == {"corrected": 11, "uncorrected": 1}
    assert reading.remapped_rows == {"corrected": 2, "uncorrected": 1}


def test_a_card_without_ecc_says_so(rig):
    rig.add(ecc=False, remapped_rows=None)
    reading = rig.second(rig.device())
    assert reading.ecc_errors == {}
    assert reading.unavailable["ecc_errors"] is Reason.NOT_SUPPORTED
    assert reading.unavailable["remapped_rows"] is Reason.NOT_SUPPORTED


def test_the_pcie_link_is_told_now_and_at_best(rig):
    rig.add(pcie_generation=1, pcie_width=8)
    assert rig.second(rig.device()).pcie_link == PcieLink(1, 4, 8, 16)


def test_pcie_bytes_come_from_the_drivers_counters(rig):
    rig.add(pcie_tx_bytes_per_second=1e9, pcie_rx_bytes_per_second=2e9)
    device = rig.device()
    before = rig.step(device)
    after = rig.step(device, 5.0)
    assert after.pcie_bytes["tx"] - before.pcie_bytes["tx"] == 5_000_000_000
    assert after.pcie_bytes["rx"] - before.pcie_bytes["rx"] == 10_000_000_000
    assert after.pcie_counter_modulus is None


def test_pcie_bytes_never_come_from_the_throughput_call(rig):
    rig.add(pcie_tx_bytes_per_second=1e9)
    rig.fault("nvmlDeviceGetFieldValues", error=pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    reading = rig.second(rig.device())
    assert reading.pcie_bytes == {}
    assert reading.unavailable["pcie_bytes"] is Reason.FUNCTION_NOT_FOUND


def test_field_values_have_room_for_one_more_than_asked(rig, monkeypatch):
    rig.add(pcie_tx_bytes_per_second=1e6)
    asked: list[int] = []
    call = pynvml.nvmlDeviceGetFieldValues

    def counted(handle, ids):
        asked.append(len(ids) - len(set(ids)))
        return call(handle, ids)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", counted)
    rig.second(rig.device())
    assert asked
    assert set(asked) == {1}


def test_a_32_bit_counter_tells_where_it_wraps(rig):
    rig.add(
        pcie_tx_bytes_per_second=1e6,
        pcie_rx_bytes_per_second=1e6,
        pcie_counter_bits=32,
        pcie_generation=1,
        pcie_width=4,
    )
    reading = rig.second(rig.device())
    assert reading.pcie_counter_modulus == 1 << 32
    assert reading.pcie_bytes == {"tx": 102_000_000, "rx": 102_000_000}


def test_a_32_bit_counter_that_the_link_can_lap_proves_nothing(rig):
    rig.add(pcie_tx_bytes_per_second=1e6, pcie_rx_bytes_per_second=1e6, pcie_counter_bits=32)
    reading = rig.second(rig.device())
    assert reading.pcie_bytes == {}
    assert reading.unavailable["pcie_bytes"] is Reason.CONTRADICTED


def test_pcie_and_nvlink_bytes_come_from_gpm_where_there_are_no_counters(rig):
    rig.add(gpm={20: 100.0, 21: 200.0, 60: 300.0, 61: 400.0})
    device = rig.device()
    rig.second(device)
    before = rig.step(device)
    after = rig.step(device, 2.0)
    rise = {d: after.pcie_bytes[d] - before.pcie_bytes[d] for d in ("tx", "rx")}
    assert rise == {"tx": 200 << 20, "rx": 400 << 20}
    rise = {d: after.nvlink_bytes[d] - before.nvlink_bytes[d] for d in ("tx", "rx")}
    assert rise == {"tx": 800 << 20, "rx": 600 << 20}
    assert not {"pcie_bytes", "nvlink_bytes"} & after.unavailable.keys()


@pytest.mark.parametrize("totals", [True, False])
def test_nvlink_bytes_are_the_sum_over_all_links(rig, totals):
    rig.add(
        nvlink_links=4,
        nvlink_totals=totals,
        nvlink_tx_bytes_per_second=4000 * KIB_PER_SECOND,
        nvlink_rx_bytes_per_second=8000 * KIB_PER_SECOND,
    )
    device = rig.device()
    rig.step(device)
    before = rig.step(device)
    after = rig.step(device, 3.0)
    assert after.nvlink_bytes["tx"] - before.nvlink_bytes["tx"] == 12_000 * 1024
    assert after.nvlink_bytes["rx"] - before.nvlink_bytes["rx"] == 24_000 * 1024


def test_a_card_without_nvlink_says_so(rig):
    rig.add()
    assert rig.second(rig.device()).unavailable["nvlink_bytes"] is Reason.NOT_SUPPORTED


def test_blank_counters_are_no_counters(rig):
    rig.add(pcie_tx_bytes_per_second=1.0, pcie_rx_bytes_per_second=1.0)
    rig.driver.raw_fields[(197, 0)] = 9223372036854775794
    rig.driver.write()
    reading = rig.second(rig.device())
    assert "tx" not in reading.pcie_bytes
    assert reading.unavailable["pcie_bytes"] is Reason.INVALID_VALUE
