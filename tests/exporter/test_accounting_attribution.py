"""Whose work it was where that is not plain: MPS, processes nobody can place, devices nobody holds."""

import pytest

from gputailor_exporter import metrics as m
from gputailor_exporter.attribution.allocations import UNTOLD, Allocation, ContainerRef
from gputailor_exporter.devices.base import ProcessReading
from gputailor_exporter.metrics import CONTAINER_SIGNALS, Sharing, Signal
from tests.exporter.machines import (
    GIB,
    GPU,
    PARENT,
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

MPS = {"sharing": Sharing.MPS, "share": 0.5}
SERVER = 900
GONE = 800


def owner(pid):
    """Below 100 pod a, below 200 pod b; the server, one that is gone, others of the host."""
    if pid == SERVER:
        return ContainerRef("", "", "", mps_server=True)
    if pid == GONE:
        return UNTOLD
    return container("ab"[pid // 100]) if pid < 200 else None


def process(pid, kernel=0.0, memory=GIB):
    return ProcessReading(pid, memory, kernel, 0.0, 0.0)


def two_cycles(made, *group, kernel=0.6, joules=(0.0, 100.0), owner_of=owner, **more):
    for at, energy in zip((0.0, 1.0), joules, strict=True):
        cycle = reading(
            at,
            {Signal.KERNEL: kernel},
            used_bytes=10 * GIB,
            energy_joules=energy,
            processes=group,
            process_utilization_known=True,
            **more,
        )
        advance(made, [cycle], owner_of=owner_of)
    return made.snapshot(WALL)


def active(snapshot, pod):
    return one(snapshot, m.CONTAINER_ACTIVE_SECONDS, signal="kernel", pod=pod)


def memory(snapshot, pod):
    return one(snapshot, m.CONTAINER_MEMORY_USED, pod=pod)


def rest(snapshot):
    return one(snapshot, m.DEVICE_UNATTRIBUTED_ACTIVE_SECONDS, signal="kernel")


def test_the_mps_servers_work_is_that_of_the_only_holder():
    made = accounts(allocations=[holds("a", **MPS)])
    snapshot = two_cycles(made, process(1), process(SERVER, 0.6))
    assert active(snapshot, "a") == pytest.approx(0.6)
    assert rest(snapshot) == pytest.approx(0.0)
    assert one(snapshot, m.CONTAINER_ENERGY, pod="a") == pytest.approx(100.0)


def test_the_servers_own_memory_is_no_clients():
    made = accounts(allocations=[holds("a", **MPS)])
    snapshot = two_cycles(made, process(1, memory=2 * GIB), process(SERVER, 0.6))
    assert memory(snapshot, "a") == 2 * GIB
    assert one(snapshot, m.DEVICE_UNATTRIBUTED_MEMORY) == 8 * GIB


def test_of_two_holders_the_one_with_a_client_did_the_servers_work():
    made = accounts(allocations=[holds("a", **MPS), holds("b", **MPS)])
    snapshot = two_cycles(made, process(1), process(SERVER, 0.6))
    assert active(snapshot, "a") == pytest.approx(0.6)
    assert active(snapshot, "b") == 0.0


def test_with_clients_of_two_holders_nobody_can_tell_whose_the_servers_work_was():
    made = accounts(allocations=[holds("a", **MPS), holds("b", **MPS)])
    snapshot = two_cycles(made, process(1, memory=3 * GIB), process(101), process(SERVER, 0.6))
    assert active(snapshot, "a") is None
    assert active(snapshot, "b") is None
    assert rest(snapshot) == pytest.approx(0.6)
    assert memory(snapshot, "a") == 3 * GIB


def test_clients_that_the_driver_tells_of_have_their_own_work_beside_the_server():
    made = accounts(allocations=[holds("a", **MPS), holds("b", **MPS)])
    snapshot = two_cycles(made, process(1, 0.2), process(101, 0.1), process(SERVER, 0.3))
    assert active(snapshot, "a") == pytest.approx(0.2)
    assert active(snapshot, "b") == pytest.approx(0.1)
    assert rest(snapshot) == pytest.approx(0.3)


def test_a_server_is_believed_though_the_way_of_sharing_was_not_stated():
    made = accounts(allocations=[sliced("a"), sliced("b")])
    snapshot = two_cycles(made, process(1), process(101), process(SERVER, 0.6))
    assert active(snapshot, "a") is None


def test_an_idle_server_leaves_its_clients_idle():
    made = accounts(allocations=[holds("a", **MPS), holds("b", **MPS)])
    snapshot = two_cycles(made, process(1), process(101), process(SERVER, 0.0), kernel=0.0)
    assert active(snapshot, "a") == active(snapshot, "b") == 0.0


def test_a_server_in_the_pod_that_holds_the_device_works_for_that_pod():
    made = accounts(allocations=[sliced("a"), sliced("b")])

    def inside(pid):
        ref = container("a")
        return ContainerRef(ref.namespace, ref.pod, ref.container, ref.pod_uid, pid == 2)

    snapshot = two_cycles(made, process(1), process(2, 0.6), owner_of=inside)
    assert active(snapshot, "a") == pytest.approx(0.6)


def test_beside_a_process_nobody_can_place_a_holder_without_one_is_unknown_not_idle():
    made = accounts(allocations=[sliced("a"), sliced("b")])
    snapshot = two_cycles(made, process(1, 0.2), process(GONE, 0.3))
    assert active(snapshot, "a") == pytest.approx(0.2)
    assert active(snapshot, "b") is None
    assert memory(snapshot, "b") is None
    assert rest(snapshot) == pytest.approx(0.4)


def test_beside_the_work_of_a_process_nobody_can_place_no_work_is_no_zero():
    made = accounts(allocations=[sliced("a"), sliced("b")])
    snapshot = two_cycles(made, process(1, 0.2), process(101), process(GONE, 0.3))
    assert active(snapshot, "b") is None
    assert memory(snapshot, "b") == GIB


def test_a_process_of_a_pod_with_two_containers_here_is_neithers_for_sure():
    pair = [
        Allocation(ContainerRef("team", "a", name, "u"), GPU.uuid, Sharing.TIME_SLICING, 0.25)
        for name in ("one", "two")
    ]
    made = accounts(allocations=[*pair, sliced("b")])

    def pod_only(pid):
        return ContainerRef("team", "a", "", "u") if pid == 1 else container("b")

    snapshot = two_cycles(made, process(1, 0.4), process(101, 0.1), owner_of=pod_only)
    assert active(snapshot, "a") is None
    assert active(snapshot, "b") == pytest.approx(0.1)
    assert rest(snapshot) == pytest.approx(0.5)


def test_a_device_that_nobody_holds_is_unattributed_as_a_whole():
    made = accounts()
    snapshot = two_cycles(made, process(900, 0.6))
    assert rest(snapshot) == pytest.approx(0.6)
    assert one(snapshot, m.DEVICE_UNATTRIBUTED_ENERGY) == pytest.approx(100.0)
    assert one(snapshot, m.DEVICE_UNATTRIBUTED_MEMORY) == 10 * GIB


def test_a_device_held_by_one_container_leaves_only_the_time_before_it():
    made = accounts()
    two_cycles(made)
    made.set_allocations([holds("a")], 1.25)
    cycle = reading(2.0, {Signal.KERNEL: 0.8}, used_bytes=GIB, energy_joules=200.0)
    advance(made, [cycle], owner_of=owner)
    snapshot = made.snapshot(WALL)
    assert rest(snapshot) == pytest.approx(0.6 + 0.8 * 0.25)
    assert active(snapshot, "a") == pytest.approx(0.8 * 0.75)
    assert one(snapshot, m.DEVICE_UNATTRIBUTED_ENERGY) == pytest.approx(125.0)
    assert one(snapshot, m.DEVICE_UNATTRIBUTED_MEMORY) == 0.0


def test_a_cycle_that_began_before_the_allocation_takes_nothing_from_it():
    made = accounts()
    two_cycles(made)
    made.set_allocations([holds("a")], 3.0)
    cycle = reading(2.0, {Signal.KERNEL: 0.8}, used_bytes=GIB, energy_joules=200.0)
    advance(made, [cycle], owner_of=owner)  # it was read at 2 and took until after 3
    snapshot = made.snapshot(WALL)
    assert active(snapshot, "a") == 0.0
    assert one(snapshot, m.CONTAINER_OBSERVED_SECONDS, pod="a", signal="kernel") == 0.0
    assert one(snapshot, m.CONTAINER_LAST_ACTIVE, pod="a") is None
    assert rest(snapshot) == pytest.approx(0.6 + 0.8)


def test_the_board_of_mig_instances_keeps_energy_that_is_no_containers():
    made = accounts((PARENT,))
    advance(made, [reading(at, energy_joules=at * 50) for at in (0.0, 1.0)], PARENT)
    snapshot = made.snapshot(WALL)
    assert one(snapshot, m.DEVICE_UNATTRIBUTED_ENERGY, gpu_uuid=PARENT.uuid) == 50.0
    assert samples(snapshot, m.DEVICE_UNATTRIBUTED_ACTIVE_SECONDS) == {}


def test_only_signals_that_containers_carry_have_a_remainder():
    made = accounts()
    advance(made, [reading(at, dict.fromkeys(Signal, 0.5)) for at in (0.0, 1.0)])
    found = samples(made.snapshot(WALL), m.DEVICE_UNATTRIBUTED_ACTIVE_SECONDS)
    assert {row[-1] for row in found} == {str(signal) for signal in CONTAINER_SIGNALS}


def test_ten_thousand_processes_of_a_hundred_sharers_are_each_placed_once():
    holders = [sliced(f"p{n}", share=0.01) for n in range(100)]
    made = accounts(allocations=holders)
    asked = []

    def of_many(pid):
        asked.append(pid)
        return container(f"p{pid % 100}")

    group = tuple(process(pid, 0.00005, 1 << 20) for pid in range(10_000))
    snapshot = two_cycles(made, *group, owner_of=of_many)
    assert len(asked) == 2 * len(group)
    assert active(snapshot, "p7") == pytest.approx(0.005)
    assert rest(snapshot) == pytest.approx(0.6 - 0.5)
