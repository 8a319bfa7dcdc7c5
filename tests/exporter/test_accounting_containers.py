"""What one container is credited with."""

import pytest

from gputailor_exporter import metrics as m
from gputailor_exporter.attribution.allocations import Allocation, ContainerRef
from gputailor_exporter.devices.base import PcieLink, Reason
from gputailor_exporter.metrics import CONTAINER_SIGNALS, HISTOGRAM_SIGNALS, Sharing, Signal
from tests.exporter.machines import (
    GIB,
    GPU,
    PARENT,
    SLICE,
    WALL,
    accounts,
    advance,
    container,
    histogram,
    holds,
    one,
    reading,
    samples,
    sliced,
)

BUSY = {
    Signal.KERNEL: 1.0,
    Signal.SM: 0.5,
    Signal.TENSOR: 0.02,
    Signal.FP64: 0.0,
    Signal.FP32: 0.3,
    Signal.FP16: 0.0,
    Signal.DRAM: 0.2,
    Signal.ENCODER: 0.0,
    Signal.DECODER: 0.0,
    Signal.GRAPHICS: 1.0,
}
LINK = PcieLink(generation=1, width=4)  # 1e9 bytes per second and direction


def full(at, signals=None, *, pcie=0, joules=0.0, used=GIB):
    return reading(
        at,
        signals or BUSY,
        used_bytes=used,
        energy_joules=joules,
        pcie_bytes={"rx": pcie, "tx": 0},
        pcie_link=LINK,
        nvlink_bytes={"rx": 0, "tx": 0},
    )


def test_a_new_holder_has_every_known_counter_at_0_at_once():
    made = accounts()
    advance(made, [full(0.0), full(1.0)])
    made.set_allocations([holds("a")], 1.5)
    snapshot = made.snapshot(WALL)
    for family in (m.CONTAINER_ACTIVE_SECONDS, m.CONTAINER_OBSERVED_SECONDS):
        found = samples(snapshot, family)
        assert {row[-1] for row in found} == {str(signal) for signal in CONTAINER_SIGNALS}
        assert set(found.values()) == {0.0}
    assert set(samples(snapshot, m.CONTAINER_CONDITION_SECONDS).values()) == {0.0}
    assert set(samples(snapshot, m.CONTAINER_LINK_BYTES).values()) == {0.0}
    assert one(snapshot, m.CONTAINER_ENERGY) == 0.0
    assert one(snapshot, m.CONTAINER_ALLOCATED_SECONDS) == 0.0
    assert one(snapshot, m.CONTAINER_ALLOCATED, sharing="exclusive") == 1.0
    assert histogram(snapshot, m.CONTAINER_ACTIVITY, signal="width") == (0.0,) * 9
    assert one(snapshot, m.CONTAINER_LAST_ACTIVE) is None


def test_signals_never_read_on_the_device_are_absent_for_its_holder():
    made = accounts(allocations=[holds("a")])
    advance(made, [reading(at, {Signal.KERNEL: 0.5}) for at in (0.0, 1.0)])
    snapshot = made.snapshot(WALL)
    assert [row[-1] for row in samples(snapshot, m.CONTAINER_OBSERVED_SECONDS)] == ["kernel"]
    assert histogram(snapshot, m.CONTAINER_ACTIVITY, signal="sm") is None
    assert one(snapshot, m.CONTAINER_MEMORY_USED) is None
    assert one(snapshot, m.CONTAINER_ENERGY) is None


def test_a_container_has_at_most_90_series_on_a_device_that_tells_everything():
    made = accounts(allocations=[holds("a")])
    advance(made, [full(0.0), full(1.0), full(61.0)])
    lines = made.snapshot(WALL)
    count = sum(
        len(found.rows) * (10 if found.family is m.CONTAINER_ACTIVITY else 1)
        for found in lines.families
        if found.family.name.startswith("gputailor_container_")
    )
    assert 75 <= count <= 90


def test_without_histograms_there_is_none():
    made = accounts(allocations=[holds("a")], histogram=False)
    advance(made, [full(0.0), full(1.0)])
    assert histogram(made.snapshot(WALL), m.CONTAINER_ACTIVITY) is None


def test_an_exclusive_holder_gets_the_devices_values_from_its_allocation_on():
    made = accounts()
    advance(made, [full(0.0), full(1.0, joules=100.0)])
    made.set_allocations([holds("a")], 1.5)
    advance(made, [full(2.0, joules=200.0), full(3.0, joules=300.0)])
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.CONTAINER_ACTIVE_SECONDS, signal="sm") == 0.75
    assert one(snapshot, m.CONTAINER_OBSERVED_SECONDS, signal="sm") == 1.5
    assert one(snapshot, m.CONTAINER_ENERGY) == 150.0
    assert one(snapshot, m.CONTAINER_ALLOCATED_SECONDS) == 1.5


def test_a_mig_holder_gets_its_slices_values():
    made = accounts((PARENT, SLICE), [holds("a", SLICE, sharing=Sharing.MIG)])
    advance(
        made,
        [reading(at, {Signal.SM: 0.5, Signal.GRAPHICS: 1.0}, used_bytes=7) for at in (0.0, 1.0)],
        SLICE,
    )
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.CONTAINER_ACTIVE_SECONDS, signal="sm") == 0.5
    assert one(snapshot, m.CONTAINER_MEMORY_USED) == 7.0
    assert one(snapshot, m.CONTAINER_LAST_ACTIVE) == WALL + 1.0
    assert one(snapshot, m.CONTAINER_ACTIVE_SECONDS, signal="kernel") is None


def test_an_ended_container_loses_its_allocation_at_once_and_lingers_unchanged():
    made = accounts(allocations=[holds("a")], linger_seconds=30.0)
    advance(made, [full(0.0), full(1.0)])
    made.set_allocations([], 1.0)
    before = samples(made.snapshot(WALL), m.CONTAINER_ACTIVE_SECONDS)
    advance(made, [full(2.0)])
    made.set_allocations([], 31.0)
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.CONTAINER_ALLOCATED) is None
    assert one(snapshot, m.CONTAINER_ALLOCATED_SHARE) is None
    assert one(snapshot, m.CONTAINER_MEMORY_USED) is None
    assert one(snapshot, m.CONTAINER_MEMORY_PEAK) == GIB
    assert one(snapshot, m.CONTAINER_ALLOCATED_SECONDS) == 1.0
    assert samples(snapshot, m.CONTAINER_ACTIVE_SECONDS) == before


def test_nothing_of_an_ended_container_is_left_after_the_linger_time():
    made = accounts(allocations=[holds("a")], linger_seconds=30.0)
    advance(made, [full(0.0), full(1.0)])
    made.set_allocations([], 1.0)
    made.set_allocations([], 31.5)
    names = [found.family.name for found in made.snapshot(WALL).families]
    assert not [name for name in names if "_container_" in name]


def test_the_same_container_seen_again_goes_on_without_the_pause():
    made = accounts(allocations=[holds("a")])
    advance(made, [full(0.0), full(1.0)])
    made.set_allocations([], 1.0)
    made.set_allocations([holds("a")], 5.0)
    advance(made, [full(5.0), full(6.0)])
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.CONTAINER_ALLOCATED) == 1.0
    assert one(snapshot, m.CONTAINER_ALLOCATED_SECONDS) == 2.0
    assert one(snapshot, m.CONTAINER_OBSERVED_SECONDS, signal="kernel") == 2.0


def test_a_container_of_unknown_uid_seen_again_may_be_another_and_begins_at_0():
    unnamed = Allocation(ContainerRef("team", "a", "main"), GPU.uuid)
    made = accounts(allocations=[unnamed])
    advance(made, [full(0.0), full(1.0)])
    made.set_allocations([], 1.0)
    made.set_allocations([unnamed], 5.0)
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.CONTAINER_ALLOCATED_SECONDS) == 0.0
    assert one(snapshot, m.CONTAINER_MEMORY_PEAK) is None
    assert one(snapshot, m.CONTAINER_OBSERVED_SECONDS, signal="kernel") == 0.0


def test_two_replicas_of_one_container_are_one_allocation_with_both_shares():
    made = accounts(allocations=[sliced("a", share=0.25), sliced("a", share=0.25)])
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.CONTAINER_ALLOCATED, sharing="time_slicing") == 1.0
    assert one(snapshot, m.CONTAINER_ALLOCATED_SHARE) == 0.5


def test_allocated_seconds_go_on_while_the_device_hangs():
    made = accounts(allocations=[holds("a")])
    advance(made, [full(0.0), full(1.0)])
    made.fail("GPU-a", Reason.TIMEOUT, 6.0)
    made.set_allocations([holds("a")], 10.0)
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.CONTAINER_ALLOCATED_SECONDS) == 10.0
    assert one(snapshot, m.CONTAINER_OBSERVED_SECONDS, signal="kernel") == 1.0
    assert one(snapshot, m.CONTAINER_MEMORY_USED) is None


def test_an_allocation_of_a_device_that_is_not_here_is_still_told():
    made = accounts((), [holds("a")])
    assert one(made.snapshot(WALL), m.CONTAINER_ALLOCATED) == 1.0


def test_the_memory_peak_is_kept_since_the_allocation_began():
    made = accounts()
    advance(made, [full(0.0, used=50 * GIB)])
    made.set_allocations([holds("a")], 0.5)
    advance(made, [full(float(at), used=used * GIB) for at, used in ((1, 3), (2, 9), (3, 4))])
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.CONTAINER_MEMORY_PEAK) == 9 * GIB
    assert one(snapshot, m.CONTAINER_MEMORY_USED) == 4 * GIB


@pytest.mark.parametrize("signal", [Signal.KERNEL, Signal.ENCODER, Signal.DECODER])
def test_last_active_is_the_last_cycle_with_kernel_encoder_or_decoder(signal):
    made = accounts(allocations=[holds("a")])
    idle = {Signal.KERNEL: 0.0, Signal.ENCODER: 0.0, Signal.DECODER: 0.0}
    for at, value in ((0.0, 0.0), (1.0, 0.1), (2.0, 0.0)):
        advance(made, [reading(at, {**idle, signal: value})])
    assert one(made.snapshot(WALL), m.CONTAINER_LAST_ACTIVE) == WALL + 1.0


def test_the_histogram_has_zero_apart_and_inclusive_upper_bounds():
    made = accounts(allocations=[holds("a")])
    values = (0.0, 0.0, 0.05, 0.06, 0.5, 0.91, 1.0)
    advance(made, [reading(0.0, {Signal.SM: 0.0})])
    advance(made, [reading(float(at), {Signal.SM: v}) for at, v in enumerate(values, 1)])
    found = histogram(made.snapshot(WALL), m.CONTAINER_ACTIVITY, signal="sm")
    assert found[:-1] == (2.0, 3.0, 4.0, 4.0, 5.0, 5.0, 5.0, 7.0)
    assert found[-1] == pytest.approx(sum(values))


def test_histogram_counts_stay_integers_and_follow_time_when_the_beat_wavers():
    made = accounts(allocations=[holds("a")])
    at = 0.0
    advance(made, [reading(at, {Signal.SM: 0.5})])
    for step in range(400):
        at += (1.3, 1.4, 0.9)[step % 3]
        advance(made, [reading(at, {Signal.SM: 0.5})])
    found = histogram(made.snapshot(WALL), m.CONTAINER_ACTIVITY, signal="sm")
    assert found[7] == pytest.approx(at, abs=0.5)
    assert all(count == int(count) for count in found[:-1])


def test_a_mean_over_more_than_the_gap_is_observed_but_no_one_second_value():
    made = accounts(allocations=[holds("a")])
    advance(made, [reading(0.0, BUSY, covers=1.0), reading(20.0, BUSY, covers=20.0)])
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.CONTAINER_OBSERVED_SECONDS, signal="kernel") == 20.0
    assert one(snapshot, m.CONTAINER_CONDITION_SECONDS, condition="amp_candidate") == 0.0
    for signal in ("kernel", "sm", "width"):
        assert histogram(snapshot, m.CONTAINER_ACTIVITY, signal=signal)[7] == 0.0


def test_width_is_sm_over_kernel_while_kernels_run_and_at_most_1():
    made = accounts(allocations=[holds("a")])
    pairs = ((0.0, 0.0), (0.5, 0.2), (0.5, 0.6), (0.0, 0.0))
    for at, (kernel, sm) in enumerate(pairs):
        advance(made, [reading(float(at), {Signal.KERNEL: kernel, Signal.SM: sm})])
    found = histogram(made.snapshot(WALL), m.CONTAINER_ACTIVITY, signal="width")
    assert found[7] == 2.0
    assert found[-1] == pytest.approx(0.4 + 1.0)


def test_histograms_exist_for_the_contracts_signals():
    made = accounts(allocations=[holds("a")])
    advance(made, [full(0.0)])
    found = next(f for f in made.snapshot(WALL).families if f.family is m.CONTAINER_ACTIVITY)
    assert {row[-1] for row in found.rows} == {str(name) for name in HISTOGRAM_SIGNALS}


@pytest.mark.parametrize(
    ("change", "held"),
    [
        ({}, True),
        ({Signal.SM: 0.39}, False),
        ({Signal.TENSOR: 0.05}, False),
        ({Signal.FP32: 0.19}, False),
        ({Signal.FP64: 0.05}, False),
    ],
)
def test_amp_candidate_needs_all_four_thresholds(change, held):
    made = accounts(allocations=[holds("a")])
    advance(made, [full(at, {**BUSY, **change}) for at in (0.0, 1.0)])
    found = one(made.snapshot(WALL), m.CONTAINER_CONDITION_SECONDS, condition="amp_candidate")
    assert found == (1.0 if held else 0.0)


def test_amp_candidate_is_unknown_where_one_of_its_signals_is():
    made = accounts(allocations=[holds("a")])
    part = {signal: value for signal, value in BUSY.items() if signal is not Signal.FP64}
    advance(made, [full(at, part) for at in (0.0, 1.0)])
    assert (
        one(made.snapshot(WALL), m.CONTAINER_CONDITION_SECONDS, condition="amp_candidate") is None
    )


def kernel_seconds(made, values, start=0):
    advance(made, [reading(float(start), {Signal.KERNEL: values[0]})])
    advance(
        made, [reading(float(at), {Signal.KERNEL: v}) for at, v in enumerate(values, start + 1)]
    )
    return made


def zeros(made):
    name = "zero_inside_active_minute"
    return one(made.snapshot(WALL), m.CONTAINER_CONDITION_SECONDS, condition=name)


def test_zeros_count_once_their_minute_is_over_and_had_activity():
    made = kernel_seconds(accounts(allocations=[holds("a")]), [1.0, 0.0] * 30)
    assert zeros(made) == 0.0
    advance(made, [reading(61.0, {Signal.KERNEL: 0.0})])
    assert zeros(made) == 30.0


def test_zeros_of_a_minute_without_activity_do_not_count():
    made = kernel_seconds(accounts(allocations=[holds("a")]), [0.0] * 60 + [1.0] * 60 + [0.0])
    assert zeros(made) == 0.0


def test_the_last_minute_settles_when_the_container_ends():
    made = kernel_seconds(accounts(allocations=[holds("a")]), [1.0, 0.0, 0.0])
    made.set_allocations([], 4.0)
    assert zeros(made) == 2.0


def test_a_link_at_0_6_of_its_capacity_is_saturated():
    made = accounts(allocations=[holds("a")])
    for at, total in ((0.0, 0), (1.0, 600_000_000), (2.0, 1_190_000_000)):
        advance(made, [full(at, pcie=total)])
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.CONTAINER_CONDITION_SECONDS, condition="link_saturated") == 1.0
    assert one(snapshot, m.CONTAINER_LINK_BYTES, link="pcie", direction="rx") == 1.19e9


def test_link_saturation_is_absent_where_the_link_is_unknown():
    made = accounts(allocations=[holds("a")])
    advance(
        made, [reading(at, pcie_bytes={"rx": int(at)}, pcie_link=PcieLink()) for at in (0.0, 1.0)]
    )
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.CONTAINER_CONDITION_SECONDS, condition="link_saturated") is None


def test_a_second_holder_makes_the_first_ones_device_values_stand_still():
    made = accounts(allocations=[holds("a")])
    advance(made, [full(0.0), full(1.0)])
    made.set_allocations([holds("a"), holds("b")], 1.0)
    advance(made, [full(2.0)])
    found = samples(made.snapshot(WALL), m.CONTAINER_OBSERVED_SECONDS, signal="kernel", pod="a")
    assert list(found.values()) == [1.0]


def test_labels_name_node_pod_container_and_device():
    made = accounts(allocations=[holds("a")])
    row = next(iter(samples(made.snapshot(WALL), m.CONTAINER_ALLOCATED)))
    assert row == ("node-1", "team", "a", container("a").pod_uid, "main", GPU.uuid, "exclusive")
