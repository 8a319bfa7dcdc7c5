"""What changes seldom on a GPU, as the NVML back end reads it: seldom."""

import pynvml
import pytest

from gputailor_exporter.devices.base import DeviceState, Fabric, Reason
from gputailor_exporter.devices.nvml_state import SLOW_SECONDS
from tests.exporter.devices.calls import counted_calls


def state(rig, **about) -> DeviceState:
    rig.add(**about)
    return rig.step(rig.device()).state


def reason(rig, value):
    return rig.step(rig.device()).unavailable.get(value)


def test_temperature_limits_come_by_name(rig):
    found = state(rig, temperature_thresholds={0: 92, 1: 89, 2: 95, 3: 85})
    assert found.temperature_limits_celsius == {
        "shutdown": 92,
        "slowdown": 89,
        "memory_max": 95,
        "gpu_max": 85,
    }


def test_a_card_without_a_memory_limit_lacks_nothing(rig):
    assert set(state(rig).temperature_limits_celsius) == {"shutdown", "slowdown", "gpu_max"}
    assert reason(rig, "temperature_limits") is None


def test_a_card_that_tells_no_limit_says_so(rig):
    assert state(rig, temperature_thresholds={}).temperature_limits_celsius == {}
    assert reason(rig, "temperature_limits") is Reason.NOT_SUPPORTED


def test_power_limits_are_told_as_set_at_first_and_at_most(rig):
    rig.add(power_limit_watts=500.0, power_limit_default_watts=700.0, power_limit_max_watts=750.0)
    reading = rig.step(rig.device())
    assert reading.power_limit_watts == 500.0
    assert reading.state.power_limit_default_watts == 700.0
    assert reading.state.power_limit_max_watts == 750.0


def test_modes_are_told_with_what_they_will_be_after_a_reset(rig):
    found = state(rig, ecc=True, ecc_pending=False, mig_mode=0, mig_mode_pending=1, persistence=1)
    assert found.modes == {"ecc": True, "mig": False, "persistence": True}
    assert found.modes_pending == {"ecc": False, "mig": True}


def test_a_mode_that_the_card_does_not_have_is_absent_with_a_reason(rig):
    found = state(rig, mig_mode=None)
    assert "mig" not in found.modes
    assert reason(rig, "mig_mode") is Reason.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("number", "name"),
    [(0, "default"), (1, "exclusive_thread"), (2, "prohibited"), (3, "exclusive_process")],
)
def test_the_compute_mode_has_a_name(rig, number, name):
    assert state(rig, compute_mode=number).compute_mode == name


def test_a_compute_mode_that_nobody_knows_is_invalid(rig):
    assert state(rig, compute_mode=9).compute_mode == ""
    assert reason(rig, "compute_mode") is Reason.INVALID_VALUE


def test_remapped_rows_say_whether_some_wait_and_whether_one_failed(rig):
    rig.add(remapped_rows=(2, 1, 1, 0))
    reading = rig.step(rig.device())
    assert reading.remapped_rows == {"corrected": 2, "uncorrected": 1}
    assert reading.state.remapped_rows_pending is True
    assert reading.state.remapped_rows_failed is False


def test_retired_pages_come_by_cause_with_those_that_wait(rig):
    found = state(rig, retired_pages=(3, 1, 1))
    assert found.retired_pages == {"single_bit_ecc": 3, "double_bit_ecc": 1}
    assert found.retired_pages_pending is True


def test_a_card_that_remaps_rows_has_no_retired_pages_and_says_so(rig):
    found = state(rig)
    assert (found.retired_pages, found.retired_pages_pending) == ({}, None)
    assert reason(rig, "retired_pages") is Reason.NOT_SUPPORTED


def test_a_fan_is_told_as_a_part_of_its_highest_speed(rig):
    assert state(rig, fan=35).fan_speed_ratio == pytest.approx(0.35)


def test_nvlinks_are_up_or_down_one_by_one(rig):
    assert state(rig, nvlink_links=3, nvlink_down=(1,)).nvlinks_up == {
        "0": True,
        "1": False,
        "2": True,
    }


@pytest.mark.parametrize("how", [{"nvlink_mbps": 25_781}, {"nvlink_mbps_by_link": 25_781}])
def test_the_capacity_is_that_of_the_links_that_are_up(rig, how):
    found = state(rig, nvlink_links=12, nvlink_down=(3, 4), **how)
    assert found.nvlink_bytes_per_second == 10 * 25_781e6


def test_a_driver_that_tells_no_speed_leaves_the_capacity_unknown(rig):
    assert state(rig, nvlink_links=12).nvlink_bytes_per_second is None
    assert reason(rig, "nvlink_capacity") is Reason.NOT_SUPPORTED


def test_nvlink_errors_come_by_kind_over_all_links(rig):
    found = state(rig, nvlink_links=4, nvlink_errors={"crc_flit": 5, "replay": 2})
    assert found.nvlink_errors == {"crc_flit": 5, "replay": 2}


def test_a_hopper_tells_nvlink_errors_link_by_link(rig):
    found = state(rig, nvlink_links=4, nvlink_errors_by_link={"crc": 2, "replay": 1, "recovery": 0})
    assert found.nvlink_errors == {"crc": 8, "replay": 4, "recovery": 0}


def test_a_card_without_nvlink_has_one_reason_and_no_links(rig):
    found = state(rig)
    assert (found.nvlinks_up, found.nvlink_errors) == ({}, {})
    assert reason(rig, "nvlinks") is Reason.NOT_SUPPORTED


def test_the_fabric_is_told_with_status_and_health(rig):
    found = state(rig, fabric_state=3, fabric_status=0, fabric_health=3)
    assert found.fabric == Fabric("completed", "ok", "limited_capacity")


def test_a_fabric_that_failed_names_the_drivers_error(rig):
    found = state(rig, fabric_state=3, fabric_status=pynvml.NVML_ERROR_UNKNOWN)
    assert found.fabric == Fabric("completed", "error_999", "")


def test_the_status_of_a_fabric_that_is_not_complete_means_nothing(rig):
    assert state(rig, fabric_state=2, fabric_status=9).fabric == Fabric("in_progress", "", "")


def test_a_driver_that_knows_the_older_layout_is_asked_by_it(rig):
    found = state(rig, fabric_state=3, fabric_health=1, fabric_version=2)
    assert found.fabric == Fabric("completed", "ok", "")


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({}, Reason.NOT_SUPPORTED),
        ({"fabric_state": 0}, Reason.NOT_SUPPORTED),
        ({"fabric_state": 77}, Reason.INVALID_VALUE),
    ],
)
def test_a_card_outside_any_fabric_says_why(rig, about, why):
    assert state(rig, **about).fabric is None
    assert reason(rig, "fabric") is why


@pytest.mark.parametrize(
    ("function", "raw", "value"),
    [
        ("nvmlDeviceGetTemperatureThreshold", 0xFFFFFFFF, "temperature_limits"),
        ("nvmlDeviceGetEccMode", 0xFFFFFFFF, "ecc_mode"),
        ("nvmlDeviceGetPersistenceMode", 0xFFFFFFFF, "persistence_mode"),
        ("nvmlDeviceGetComputeMode", 0xFFFFFFFF, "compute_mode"),
        ("nvmlDeviceGetRemappedRows", 0xFFFFFFFF, "remapped_rows"),
        ("nvmlDeviceGetRetiredPagesPendingStatus", 0xFFFFFFFF, "retired_pages_pending"),
        ("nvmlDeviceGetNvLinkState", 0xFFFFFFFF, "nvlinks"),
        ("nvmlDeviceGetGpuFabricInfoV", 0xFF, "fabric"),
        ("nvmlDeviceGetFanSpeed", 0xFFFFFFFF, "fan_speed"),
        ("nvmlDeviceGetPowerManagementDefaultLimit", 0xFFFFFFFF, "power_limit_default"),
    ],
)
def test_a_sentinel_is_no_value_and_costs_no_other(rig, function, raw, value):
    about = {
        "fan": 30,
        "retired_pages": (0, 0, 0),
        "nvlink_links": 2,
        "nvlink_mbps": 25_781,
        "fabric_state": 3,
        "mig_mode": 0,
    }
    rig.add(**about)
    whole = rig.step(rig.device())
    assert value not in whole.unavailable
    rig.driver.raw[(function, 0)] = raw
    rig.driver.write()
    rig.driver.advance(SLOW_SECONDS)
    reading = rig.step(rig.device())
    assert reading.unavailable[value] is Reason.INVALID_VALUE
    assert reading.power_watts == whole.power_watts
    assert reading.unavailable.keys() - whole.unavailable.keys() <= {value, "nvlink_capacity"}


def test_the_serial_number_is_not_asked_for_unless_wanted(rig, monkeypatch):
    asked = counted_calls(monkeypatch)
    assert state(rig).serial == ""
    assert "nvmlDeviceGetSerial" not in asked


def test_slow_values_are_read_every_half_minute_and_stand_in_between(rig, monkeypatch):
    rig.add(remapped_rows=(0, 0, 0, 0))
    device = rig.device()
    rig.step(device)
    asked = counted_calls(monkeypatch)
    rig.change(remapped_rows=(1, 0, 0, 0))
    between = [rig.step(device) for _ in range(29)]
    assert {r.remapped_rows["corrected"] for r in between} == {0}
    assert {r.unavailable.get("retired_pages") for r in between} == {Reason.NOT_SUPPORTED}
    assert "nvmlDeviceGetRemappedRows" not in asked
    assert rig.step(device).remapped_rows["corrected"] == 1
    assert asked["nvmlDeviceGetRemappedRows"] == 1
