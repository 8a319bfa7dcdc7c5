"""Integrals, gaps and energy of one device."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_exporter import metrics as m
from gputailor_exporter.accounting import AccountingSettings
from gputailor_exporter.devices.base import PcieLink, Reason, XidEvent
from gputailor_exporter.metrics import Signal
from tests.exporter.machines import (
    GIB,
    GPU,
    OTHER,
    PARENT,
    SLICE,
    WALL,
    accounts,
    advance,
    holds,
    one,
    reading,
    samples,
)

KERNEL = {"signal": "kernel"}


def seconds(made, **labels):
    snapshot = made.snapshot(WALL)
    return (
        one(snapshot, m.DEVICE_ACTIVE_SECONDS, **labels),
        one(snapshot, m.DEVICE_OBSERVED_SECONDS, **labels),
    )


def test_the_first_reading_makes_a_signal_known_and_observes_nothing():
    made = accounts()
    advance(made, [reading(10.0, {Signal.KERNEL: 1.0})])
    assert seconds(made, **KERNEL) == (0.0, 0.0)


def test_a_first_reading_with_a_stated_span_counts_it_up_to_one_interval():
    made = accounts()
    advance(made, [reading(10.0, {Signal.KERNEL: 0.5}, covers=14.0)])
    assert seconds(made, **KERNEL) == (0.5, 1.0)


def test_a_value_is_held_over_the_time_since_the_previous_cycle():
    made = accounts()
    advance(made, [reading(at, {Signal.KERNEL: 0.25}) for at in (0.0, 1.0, 2.5)])
    assert seconds(made, **KERNEL) == (0.625, 2.5)


def test_a_gap_is_not_observed_time():
    made = accounts()
    advance(made, [reading(at, {Signal.KERNEL: 1.0}) for at in (0.0, 1.0, 4.0, 5.0)])
    assert seconds(made, **KERNEL) == (2.0, 2.0)


def test_a_span_longer_than_the_gap_counts_because_the_driver_saw_it():
    made = accounts()
    advance(
        made, [reading(0.0, {Signal.KERNEL: 1.0}), reading(9.0, {Signal.KERNEL: 0.5}, covers=9.0)]
    )
    assert seconds(made, **KERNEL) == (4.5, 9.0)


def test_spans_that_waver_around_the_interval_lose_and_double_no_time():
    made = accounts()
    wavering = [
        reading(float(at), {Signal.KERNEL: 1.0}, covers=1.25 if at % 2 else 0.75)
        for at in range(101)
    ]
    advance(made, wavering)
    active, observed = seconds(made, **KERNEL)
    assert observed == pytest.approx(100.75, abs=0.3)
    assert active == observed


def test_a_stated_span_never_counts_more_than_the_time_that_passed():
    made = accounts()
    advance(made, [reading(float(at), {Signal.KERNEL: 1.0}, covers=5.0) for at in range(11)])
    assert seconds(made, **KERNEL) == (11.0, 11.0)


def test_after_a_gap_at_most_one_interval_is_made_good():
    made = accounts()
    advance(made, [reading(0.0, {Signal.KERNEL: 1.0}, covers=1.0)])
    beats = [reading(100.0 + at, {Signal.KERNEL: 1.0}, covers=1.5) for at in range(21)]
    advance(made, beats)
    assert seconds(made, **KERNEL)[1] == pytest.approx(1.0 + 1.5 + 20.0 + 1.0)


def test_observed_time_stops_when_a_signal_stops_and_its_reason_is_told():
    made = accounts()
    advance(made, [reading(at, {Signal.KERNEL: 1.0, Signal.SM: 1.0}) for at in (0.0, 1.0)])
    silent = [
        reading(at, {Signal.KERNEL: 1.0}, unavailable={"sm": Reason.NO_SAMPLES})
        for at in (2.0, 3.0)
    ]
    advance(made, silent)
    assert seconds(made, signal="sm") == (1.0, 1.0)
    assert seconds(made, **KERNEL) == (3.0, 3.0)
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.EXPORTER_SIGNAL_UNAVAILABLE, signal="sm", reason="no_samples") == 1.0
    assert one(snapshot, m.DEVICE_ACTIVITY_RATIO, signal="sm") is None


@pytest.mark.parametrize("value", [1.29, -0.01, math.nan, math.inf])
def test_a_value_outside_0_to_1_is_dropped_and_named(value):
    made = accounts()
    advance(made, [reading(at, {Signal.KERNEL: value}) for at in (0.0, 1.0)])
    assert seconds(made, **KERNEL) == (None, None)
    reasons = samples(made.snapshot(WALL), m.EXPORTER_SIGNAL_UNAVAILABLE)
    assert list(reasons) == [("GPU-a", "kernel", "invalid_value")]


def test_a_reading_that_is_not_newer_is_ignored():
    made = accounts()
    advance(made, [reading(at, {Signal.KERNEL: 1.0}) for at in (0.0, 1.0, 1.0, 0.5)])
    assert seconds(made, **KERNEL) == (1.0, 1.0)


@given(
    steps=st.lists(
        st.tuples(st.floats(0.1, 5.0), st.floats(0.0, 1.0), st.none() | st.floats(0.0, 6.0)),
        max_size=40,
    )
)
def test_observed_time_never_exceeds_elapsed_time_nor_active_observed(steps):
    made = accounts()
    at = 0.0
    for step, value, covers in steps:
        at += step
        advance(made, [reading(at, {Signal.KERNEL: value}, covers=covers)])
    active, observed = seconds(made, **KERNEL)
    if steps:
        assert observed <= at + 1.0 + 1e-9  # the first span may reach back one interval
        assert 0.0 <= active <= observed + 1e-9


@given(values=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30))
def test_one_step_of_a_minute_counts_as_sixty_steps_of_a_second(values):
    coarse = accounts(interval_seconds=60.0, allocations=[holds("a")])
    fine = accounts(allocations=[holds("a")])
    advance(coarse, [reading(0.0, {Signal.KERNEL: 0.0})])
    advance(fine, [reading(0.0, {Signal.KERNEL: 0.0})])
    for minute, value in enumerate(values):
        advance(coarse, [reading(60.0 * (minute + 1), {Signal.KERNEL: value})])
        advance(fine, [reading(60.0 * minute + s, {Signal.KERNEL: value}) for s in range(1, 61)])
    assert seconds(coarse, **KERNEL) == pytest.approx(seconds(fine, **KERNEL))
    rows = [
        next(f.values for f in made.snapshot(WALL).families if f.family is m.CONTAINER_ACTIVITY)
        for made in (coarse, fine)
    ]
    assert rows[0] == pytest.approx(rows[1])


def test_a_lost_device_is_down_and_the_others_go_on():
    made = accounts((GPU, OTHER), [holds("a")])
    for device in (GPU, OTHER):
        advance(
            made,
            [reading(at, {Signal.KERNEL: 1.0}, power_watts=100.0) for at in (0.0, 1.0)],
            device,
        )
    made.fail("GPU-a", Reason.GPU_IS_LOST, 2.0)
    advance(made, [reading(2.0, {Signal.KERNEL: 1.0})], OTHER)
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.DEVICE_UP, gpu_uuid="GPU-a") == 0.0
    assert one(snapshot, m.DEVICE_UP, gpu_uuid="GPU-b") == 1.0
    assert one(snapshot, m.DEVICE_POWER, gpu_uuid="GPU-a") is None
    assert one(snapshot, m.DEVICE_OBSERVED_SECONDS, gpu_uuid="GPU-a") == 1.0
    assert one(snapshot, m.DEVICE_OBSERVED_SECONDS, gpu_uuid="GPU-b") == 2.0
    assert (
        one(snapshot, m.EXPORTER_SIGNAL_UNAVAILABLE, gpu_uuid="GPU-a", reason="gpu_is_lost") == 1.0
    )


def test_a_gpu_that_vanished_from_the_bus_stays_with_up_0_beside_expected_and_present():
    made = accounts((GPU, OTHER))
    advance(made, [reading(0.0, {Signal.KERNEL: 1.0})])
    made.set_devices((OTHER,), 2)
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.DEVICE_UP, gpu_uuid="GPU-a") == 0.0
    assert samples(snapshot, m.EXPORTER_DEVICES) == {("expected",): 2.0, ("present",): 1.0}


def test_an_unknown_number_of_expected_devices_is_absent():
    made = accounts()
    made.set_devices((GPU,), None)
    assert samples(made.snapshot(WALL), m.EXPORTER_DEVICES) == {("present",): 1.0}


def test_a_mig_instance_that_was_taken_apart_leaves_and_is_no_gpu_of_its_own():
    made = accounts((PARENT, SLICE))
    assert samples(made.snapshot(WALL), m.EXPORTER_DEVICES)["present",] == 1.0
    made.set_devices((PARENT,), 1)
    assert one(made.snapshot(WALL), m.DEVICE_INFO, gpu_uuid="MIG-1") is None


def test_mig_instances_of_a_gpu_that_vanished_stay_with_up_0():
    made = accounts((PARENT, SLICE))
    made.set_devices((), 1)
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.DEVICE_UP, gpu_uuid="MIG-1") == 0.0
    made.set_devices((PARENT,), 1)  # back, and in one piece
    assert one(made.snapshot(WALL), m.DEVICE_INFO, gpu_uuid="MIG-1") is None


def test_of_two_devices_with_one_number_the_present_one_comes_last():
    made = accounts((GPU,))
    newcomer = replace(OTHER, index=GPU.index)
    made.set_devices((newcomer,), 1)
    assert made.identities() == (GPU, newcomer)


def test_the_parent_of_mig_instances_keeps_power_energy_and_temperature_only():
    made = accounts((PARENT, SLICE))
    full = [
        reading(
            at,
            {Signal.SM: 0.5},
            used_bytes=GIB,
            power_watts=200.0,
            temperatures_celsius={"gpu": 40.0},
        )
        for at in (0.0, 1.0)
    ]
    advance(made, full, PARENT)
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.DEVICE_ENERGY) == 200.0
    assert one(snapshot, m.DEVICE_TEMPERATURE, sensor="gpu") == 40.0
    assert one(snapshot, m.DEVICE_MEMORY_USED) is None
    assert samples(snapshot, m.DEVICE_ACTIVE_SECONDS) == {}


def test_energy_is_the_rise_of_the_drivers_counter_across_gaps_too():
    made = accounts()
    advance(
        made,
        [reading(at, energy_joules=1e6 + at * 50, power_watts=1.0) for at in (0.0, 1.0, 100.0)],
    )
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.DEVICE_ENERGY) == 5000.0
    assert one(snapshot, m.DEVICE_ENERGY_SOURCE, source="driver") == 1.0


def test_a_reloaded_driver_does_not_turn_energy_back():
    made = accounts()
    for at, joules in ((0.0, 900.0), (1.0, 1000.0), (2.0, 5.0), (3.0, 105.0)):
        advance(made, [reading(at, energy_joules=joules, power_watts=80.0)])
    assert one(made.snapshot(WALL), m.DEVICE_ENERGY) == 100.0 + 80.0 + 100.0


def test_a_signal_that_is_told_seldom_has_all_its_seconds():
    made = accounts()
    for at in range(13):
        covers = 4.0 if at % 4 == 0 else 0.0  # in between the next one is not due
        advance(made, [reading(float(at), {Signal.ENCODER: 0.5}, covers=covers)])
    snapshot = made.snapshot(WALL)
    first = 1.0  # of the time before the first cycle an interval at most is counted
    assert one(snapshot, m.DEVICE_OBSERVED_SECONDS, signal="encoder") == 12.0 + first
    assert one(snapshot, m.DEVICE_ACTIVE_SECONDS, signal="encoder") == (12.0 + first) / 2


def test_no_time_is_counted_twice_when_a_reading_covers_more_than_has_passed():
    made = accounts()
    for at, covers in ((0.0, 1.0), (1.0, 0.0), (2.0, 9.0), (3.0, 9.0)):
        advance(made, [reading(at, {Signal.ENCODER: 1.0}, covers=covers)])
    assert one(made.snapshot(WALL), m.DEVICE_OBSERVED_SECONDS, signal="encoder") == 4.0


def test_without_a_counter_energy_is_the_trapezoid_of_power_without_gaps():
    made = accounts()
    for at, watts in ((0.0, 100.0), (1.0, 200.0), (9.0, 200.0), (10.0, 100.0)):
        advance(made, [reading(at, power_watts=watts)])
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.DEVICE_ENERGY) == 300.0
    assert one(snapshot, m.DEVICE_ENERGY_SOURCE, source="integral") == 1.0


def test_byte_counters_wrap_at_the_modulus():
    made = accounts()
    link = PcieLink(generation=4, width=16)
    for at, raw in ((0.0, 2**32 - 100), (1.0, 50)):
        advance(
            made, [reading(at, pcie_bytes={"rx": raw}, pcie_counter_modulus=2**32, pcie_link=link)]
        )
    assert one(made.snapshot(WALL), m.DEVICE_PCIE_BYTES, direction="rx") == 150.0


def test_a_wrap_the_link_could_not_have_carried_is_a_reset():
    made = accounts()
    link = PcieLink(generation=1, width=1)  # 250 MB/s
    for at, raw in ((0.0, 10**6), (1.0, 1000)):
        advance(
            made, [reading(at, pcie_bytes={"rx": raw}, pcie_counter_modulus=2**32, pcie_link=link)]
        )
    assert one(made.snapshot(WALL), m.DEVICE_PCIE_BYTES) == 1000.0


def test_a_wrapping_counter_is_not_trusted_across_a_gap():
    made = accounts()
    for at, raw in ((0.0, 0), (60.0, 1000), (61.0, 1500)):
        advance(made, [reading(at, pcie_bytes={"rx": raw}, pcie_counter_modulus=2**32)])
    assert one(made.snapshot(WALL), m.DEVICE_PCIE_BYTES) == 500.0


def test_an_nvlink_counter_that_fell_was_reset():
    made = accounts()
    for at, raw in ((0.0, 5000), (1.0, 7000), (2.0, 300)):
        advance(made, [reading(at, nvlink_bytes={"tx": raw})])
    assert one(made.snapshot(WALL), m.DEVICE_NVLINK_BYTES, direction="tx") == 2300.0


def test_throttled_seconds_are_held_by_reason():
    made = accounts()
    reasons = (frozenset(), frozenset({"power"}), frozenset({"power", "thermal"}))
    advance(made, [reading(float(at), throttle_reasons=r) for at, r in enumerate(reasons)])
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.DEVICE_THROTTLED_SECONDS, reason="power") == 2.0
    assert one(snapshot, m.DEVICE_THROTTLED_SECONDS, reason="thermal") == 1.0


def test_a_device_that_is_never_throttled_has_zeros_and_an_unreadable_one_nothing():
    made = accounts((GPU, OTHER))
    advance(made, [reading(at, throttle_reasons=frozenset()) for at in (0.0, 1.0)])
    advance(made, [reading(at) for at in (0.0, 1.0)], OTHER)
    found = samples(made.snapshot(WALL), m.DEVICE_THROTTLED_SECONDS)
    assert {row[-1] for row in found} == {str(reason) for reason in m.ThrottleReason}
    assert {row[2] for row in found} == {"GPU-a"}
    assert set(found.values()) == {0.0}


def test_repeated_xids_count_up_and_keep_their_last_time():
    made = accounts()
    for at in (WALL + 5, WALL + 9, WALL + 7):
        made.add_xid(XidEvent("GPU-a", 79, at))
    made.add_xid(XidEvent("GPU-a", 31, WALL))
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.DEVICE_XID_ERRORS, xid="79") == 3.0
    assert one(snapshot, m.DEVICE_XID_LAST, xid="79") == WALL + 9
    assert one(snapshot, m.DEVICE_XID_ERRORS, xid="31") == 1.0


def test_a_snapshot_does_not_change_afterwards():
    made = accounts()
    advance(made, [reading(at, {Signal.KERNEL: 1.0}) for at in (0.0, 1.0)])
    before = made.snapshot(WALL)
    advance(made, [reading(2.0, {Signal.KERNEL: 1.0})])
    assert one(before, m.DEVICE_ACTIVE_SECONDS) == 1.0


@pytest.mark.parametrize(
    "wrong", [{"interval_seconds": 0.0}, {"linger_seconds": -1.0}, {"max_gap_seconds": 0.5}]
)
def test_settings_that_could_observe_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        AccountingSettings(**wrong)
