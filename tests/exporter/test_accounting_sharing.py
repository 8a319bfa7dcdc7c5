"""Shared devices: per process, never a copy of the device, and nothing is lost or doubled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputailor_exporter import metrics as m
from gputailor_exporter.attribution.allocations import ContainerRef
from gputailor_exporter.devices.base import ProcessReading
from gputailor_exporter.metrics import Sharing, Signal
from tests.exporter.machines import (
    GIB,
    WALL,
    accounts,
    advance,
    container,
    holds,
    one,
    reading,
    samples,
    sliced,
)

#: pids below 100 belong to pod a, below 200 to pod b, others to no pod
PODS = ("a", "b")


def owner(pid):
    return container(PODS[pid // 100]) if pid < 200 else None


def shared(at, processes, kernel=0.6, *, known=True, joules=None, used=10 * GIB, **more):
    return reading(
        at,
        {Signal.KERNEL: kernel, Signal.SM: 0.3, **more},
        used_bytes=used,
        energy_joules=joules,
        processes=processes,
        process_utilization_known=known,
    )


def process(pid, kernel=0.0, memory=GIB):
    return ProcessReading(pid, memory, kernel, 0.0, 0.0)


def two_pods():
    return accounts(allocations=[sliced("a"), sliced("b")])


def active(made, pod, signal="kernel"):
    return one(made.snapshot(WALL), m.CONTAINER_ACTIVE_SECONDS, pod=pod, signal=signal)


def unattributed(made, signal="kernel"):
    return one(made.snapshot(WALL), m.DEVICE_UNATTRIBUTED_ACTIVE_SECONDS, signal=signal)


def test_each_sharer_has_an_allocation_row_of_its_own():
    found = samples(two_pods().snapshot(WALL), m.CONTAINER_ALLOCATED)
    assert {row[2] for row in found} == {"a", "b"}


def test_use_goes_by_process_and_the_remainder_is_unattributed():
    made = two_pods()
    group = (process(1, 0.2), process(2, 0.1), process(101, 0.1), process(900, 0.1))
    advance(made, [shared(0.0, group), shared(1.0, group)], owner_of=owner)
    assert active(made, "a") == pytest.approx(0.3)
    assert active(made, "b") == pytest.approx(0.1)
    assert unattributed(made) == pytest.approx(0.2)


def test_process_shares_above_the_device_are_scaled_down():
    made = two_pods()
    group = (process(1, 0.9), process(101, 0.3))
    advance(made, [shared(0.0, group), shared(1.0, group)], owner_of=owner)
    assert active(made, "a") == pytest.approx(0.45)
    assert active(made, "b") == pytest.approx(0.15)
    assert unattributed(made) == pytest.approx(0.0)


def test_signals_that_no_process_tells_are_never_copied_to_the_sharers():
    made = two_pods()
    group = (process(1, 0.6),)
    advance(made, [shared(0.0, group), shared(1.0, group)], owner_of=owner)
    snapshot = made.snapshot(WALL)
    assert active(made, "a", "sm") is None
    assert unattributed(made, "sm") == pytest.approx(0.3)
    assert (
        one(snapshot, m.EXPORTER_SIGNAL_UNAVAILABLE, signal="sm", reason="not_attributable") == 1.0
    )


def test_without_trusted_process_values_a_sharer_is_unknown_not_0():
    made = two_pods()
    group = (process(1), process(101))
    advance(made, [shared(at, group, known=False) for at in (0.0, 1.0)], owner_of=owner)
    snapshot = made.snapshot(WALL)
    assert active(made, "a") is None
    assert unattributed(made) == pytest.approx(0.6)
    assert (
        one(snapshot, m.EXPORTER_SIGNAL_UNAVAILABLE, signal="kernel", reason="not_attributable")
        == 1.0
    )
    assert one(snapshot, m.CONTAINER_MEMORY_USED, pod="a") == GIB


def test_without_attribution_no_sharer_is_called_idle():
    made = two_pods()
    group = (process(1, 0.3),)
    advance(made, [shared(at, group) for at in (0.0, 1.0)], owner_of=None)
    assert active(made, "a") is None
    assert one(made.snapshot(WALL), m.CONTAINER_MEMORY_USED, pod="a") is None


def test_while_no_owner_was_ever_found_a_stranger_may_be_anyones():
    made = two_pods()
    group = (process(900, 0.3),)
    advance(made, [shared(at, group) for at in (0.0, 1.0)], owner_of=owner)
    assert active(made, "a") is None


def test_once_owners_are_found_a_sharer_without_process_was_idle():
    made = two_pods()
    group = (process(900, 0.3), process(1, 0.1))
    advance(made, [shared(at, group) for at in (0.0, 1.0)], owner_of=owner)
    snapshot = made.snapshot(WALL)
    assert active(made, "b") == 0.0
    assert one(snapshot, m.CONTAINER_OBSERVED_SECONDS, pod="b", signal="kernel") == 1.0
    assert one(snapshot, m.CONTAINER_MEMORY_USED, pod="b") == 0.0


@pytest.mark.parametrize("used", [None, 30 * GIB])
def test_a_driver_that_lists_no_process_on_a_device_in_use_makes_no_sharer_idle(used):
    made = two_pods()
    for at in (0.0, 1.0):
        blind = reading(
            at,
            {Signal.KERNEL: 0.0},
            used_bytes=used,
            processes=(),
            process_utilization_known=True,
        )
        advance(made, [blind], owner_of=owner)
    snapshot = made.snapshot(WALL)
    assert active(made, "a") is None
    assert one(snapshot, m.CONTAINER_MEMORY_USED, pod="a") is None
    assert one(snapshot, m.CONTAINER_MEMORY_PEAK, pod="a") is None


def test_a_device_without_any_context_is_idle_for_all_its_sharers():
    made = two_pods()
    advance(made, [shared(at, (), 0.0, used=8 << 20) for at in (0.0, 1.0)], owner_of=owner)
    assert active(made, "a") == 0.0
    assert one(made.snapshot(WALL), m.CONTAINER_MEMORY_USED, pod="b") == 0.0


def test_a_client_of_mps_is_not_idle_while_the_server_runs_kernels():
    way = {"sharing": Sharing.MPS, "share": 0.5}
    made = accounts(allocations=[holds("a", **way), holds("b", **way)])
    group = (process(1), process(101, 0.2), process(900, 0.4))
    advance(made, [shared(at, group) for at in (0.0, 1.0)], owner_of=owner)
    assert active(made, "a") is None
    assert active(made, "b") == pytest.approx(0.2)
    assert unattributed(made) == pytest.approx(0.4)


def test_process_memory_above_the_device_is_scaled_down():
    made = two_pods()
    group = (process(1, memory=9 * GIB), process(101, memory=6 * GIB), process(900, memory=5 * GIB))
    advance(made, [shared(0.0, group)], owner_of=owner)
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.CONTAINER_MEMORY_USED, pod="a") == 4.5 * GIB
    assert one(snapshot, m.CONTAINER_MEMORY_USED, pod="b") == 3 * GIB
    assert one(snapshot, m.DEVICE_UNATTRIBUTED_MEMORY) == 2.5 * GIB


def test_a_process_that_does_not_tell_its_share_makes_its_container_unknown():
    made = two_pods()
    group = (ProcessReading(1, GIB, None), process(2, 0.2), process(101, 0.1))
    advance(made, [shared(at, group) for at in (0.0, 1.0)], owner_of=owner)
    assert active(made, "a") is None
    assert active(made, "b") == pytest.approx(0.1)


def test_energy_goes_by_share_of_the_activity_and_an_idle_cycle_to_nobody():
    made = two_pods()
    group = (process(1, 0.3), process(101, 0.15))
    advance(
        made, [shared(0.0, group, joules=0.0), shared(1.0, group, joules=100.0)], owner_of=owner
    )
    idle = (process(1), process(101))
    advance(made, [shared(2.0, idle, kernel=0.0, joules=150.0)], owner_of=owner)
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.CONTAINER_ENERGY, pod="a") == pytest.approx(50.0)
    assert one(snapshot, m.CONTAINER_ENERGY, pod="b") == pytest.approx(25.0)
    assert one(snapshot, m.DEVICE_UNATTRIBUTED_ENERGY) == pytest.approx(75.0)


def test_memory_goes_by_process_and_the_peak_is_the_containers_own():
    made = two_pods()
    for at, size in ((0.0, 2), (1.0, 5), (2.0, 3)):
        group = (process(1, memory=size * GIB), process(101), process(900))
        advance(made, [shared(at, group)], owner_of=owner)
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.CONTAINER_MEMORY_USED, pod="a") == 3 * GIB
    assert one(snapshot, m.CONTAINER_MEMORY_PEAK, pod="a") == 5 * GIB
    assert one(snapshot, m.DEVICE_UNATTRIBUTED_MEMORY) == 6 * GIB


def test_an_owner_without_uid_or_container_name_matches_the_only_sharer_it_can_be():
    made = two_pods()
    group = (process(1, 0.2),)
    advance(
        made,
        [shared(at, group) for at in (0.0, 1.0)],
        owner_of=lambda _: ContainerRef("team", "a", "", ""),
    )
    assert active(made, "a") == pytest.approx(0.2)


def test_an_owner_with_another_uid_is_another_pod():
    made = two_pods()
    group = (process(1, 0.2),)
    advance(
        made,
        [shared(at, group) for at in (0.0, 1.0)],
        owner_of=lambda _: ContainerRef("team", "a", "main", "uid-of-an-older-pod"),
    )
    assert active(made, "a") == 0.0
    assert unattributed(made) == pytest.approx(0.6)


SHARE = st.floats(0.0, 1.0)
PROCESS = st.builds(
    ProcessReading,
    pid=st.sampled_from([1, 2, 101, 102, 900]),
    memory_used_bytes=st.none() | st.integers(0, 20 * GIB),
    kernel=st.none() | SHARE,
    encoder=SHARE,
    decoder=SHARE,
)
CYCLE = st.tuples(
    st.floats(0.2, 4.0), SHARE, SHARE, st.none() | st.lists(PROCESS, max_size=5), st.booleans()
)


@given(cycles=st.lists(CYCLE, max_size=15), late=st.booleans())
def test_sharers_and_unattributed_add_up_to_the_device_always(cycles, late):
    made = accounts(allocations=[sliced("a")] if late else [sliced("a"), sliced("b")])
    at, joules = 0.0, 0.0
    for step, kernel, encoder, processes, known in cycles:
        if late and at > 3.0:
            made.set_allocations([sliced("a"), sliced("b")], at + step / 2)
        at += step
        joules += 100.0 * step
        group = None if processes is None else tuple(processes)
        more = {Signal.ENCODER: encoder}
        one_cycle = reading(
            at,
            {Signal.KERNEL: kernel, Signal.SM: 0.5, **more},
            used_bytes=10 * GIB,
            energy_joules=joules,
            processes=group,
            process_utilization_known=known,
        )
        advance(made, [one_cycle], owner_of=owner)
    snapshot = made.snapshot(WALL)
    for signal in ("kernel", "encoder", "sm"):
        parts = samples(snapshot, m.CONTAINER_ACTIVE_SECONDS, signal=signal).values()
        rest = one(snapshot, m.DEVICE_UNATTRIBUTED_ACTIVE_SECONDS, signal=signal) or 0.0
        whole = one(snapshot, m.DEVICE_ACTIVE_SECONDS, signal=signal) or 0.0
        assert sum(parts) + rest == pytest.approx(whole, abs=1e-9)
    energy = sum(samples(snapshot, m.CONTAINER_ENERGY).values())
    rest = one(snapshot, m.DEVICE_UNATTRIBUTED_ENERGY) or 0.0
    assert energy + rest == pytest.approx(one(snapshot, m.DEVICE_ENERGY) or 0.0, abs=1e-6)
    memory = sum(samples(snapshot, m.CONTAINER_MEMORY_USED).values())
    rest = one(snapshot, m.DEVICE_UNATTRIBUTED_MEMORY)
    if rest is not None:  # processes were readable in the last cycle
        assert memory + rest == pytest.approx(one(snapshot, m.DEVICE_MEMORY_USED))
    for pod in PODS:
        observed = one(snapshot, m.CONTAINER_OBSERVED_SECONDS, pod=pod, signal="kernel") or 0.0
        allocated = one(snapshot, m.CONTAINER_ALLOCATED_SECONDS, pod=pod) or 0.0
        assert observed <= allocated + 1e-9
