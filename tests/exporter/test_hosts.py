"""A machine without Kubernetes: users, jobs and units stand in for namespaces and pods."""

import threading

import pytest

from gputailor_agent.dialects.gputailor import DIALECT
from gputailor_exporter import metrics as m
from gputailor_exporter.attribution.allocations import UNTOLD, Allocation, ContainerRef
from gputailor_exporter.attribution.hosts import (
    KEEP_SECONDS,
    NAME_SECONDS,
    ProcessAllocations,
    UserNames,
    WatchedBackend,
)
from gputailor_exporter.devices.base import DeviceError, ProcessReading, Reason, want_processes
from gputailor_exporter.metrics import Sharing, Signal
from tests.exporter.hosttree import Host, Ticking
from tests.exporter.machines import (
    GIB,
    GPU,
    OTHER,
    PARENT,
    SLICE,
    WALL,
    accounts,
    one,
    reading,
    samples,
)
from tests.exporter.running_sampler import running, value
from tests.exporter.stubs import Gate, StubBackend, eventually

JOB = "0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0"
SESSION = "0::/user.slice/user-1001.slice/session-3.scope"
TRAIN = ContainerRef("alice", "job_123", "python")
NOTEBOOK = ContainerRef("bob", "session-3.scope", "jupyter-lab")


@pytest.fixture
def host(tmp_path):
    made = Host(tmp_path)
    made.process(10, JOB, name="python", uid=1000)
    made.process(11, JOB, name="python", uid=1000)
    made.process(20, SESSION, name="jupyter-lab", uid=1001)
    return made


@pytest.fixture
def users(host):
    return host.users(alice=1000, bob=1001, root=0)


def test_user_job_and_command_stand_in_for_namespace_pod_and_container(users):
    assert users.owner(10) == TRAIN
    assert users.owner(20) == NOTEBOOK


def test_without_a_unit_the_command_stands_in_for_the_pod(host, users):
    host.process(30, "0::/user.slice/user-1000.slice/user@1000.service/init.scope", name="x y")
    assert users.owner(30) == ContainerRef("alice", "x y", "x y")


def test_a_process_that_cannot_be_seen_may_be_anyones(host, users):
    (host.proc / "20" / "status").unlink()
    assert users.owner(20) == UNTOLD
    assert users.owner(99) == UNTOLD


def test_the_real_user_counts_not_the_one_it_acts_as(host):
    attribution = host.users(alice=1000, root=0)  # status says 1000 real, 0 effective
    assert attribution.owner(10).namespace == "alice"


@pytest.mark.parametrize("status", ["", "Uid:\n", "Uid:\tx\t0\n", "Name:\tUid: 3\n"])
def test_a_status_without_a_user_leads_to_nobody(host, users, status):
    (host.proc / "10" / "status").write_text(status)
    assert users.owner(10) == UNTOLD


def test_a_name_is_waited_for_without_holding_anybody_up_then_the_number_stands():
    gate, clock = Gate(), Ticking()
    names = UserNames(clock, lambda uid: gate.wait() or "late")
    assert names.name(7) is None
    clock.now += NAME_SECONDS / 2
    assert names.name(7) is None
    clock.now += NAME_SECONDS / 2
    assert names.name(7) == "7"
    gate.open()
    eventually(lambda: names.name(8) == "late")
    assert names.name(7) == "7"  # a label does not change


def test_names_come_from_the_system_and_a_number_without_one_stands_for_itself():
    names = UserNames()
    assert names.name(0) == "root"
    eventually(lambda: names.name(4_000_000_000) == "4000000000")


def on(gpu, *pids, memory=GIB, **more):
    group = tuple(ProcessReading(pid, memory, **more) for pid in pids)
    return lambda uuid, at: group if uuid == gpu.uuid else ()


def held(users, seen, *devices):
    return ProcessAllocations(seen, users).allocations(devices or (GPU, OTHER), 0.0)


def test_one_user_alone_holds_the_device_for_itself(users):
    assert held(users, on(GPU, 10, 11)) == (Allocation(TRAIN, GPU.uuid, lasting=True),)


def test_one_user_alone_on_a_slice_holds_the_slice(users):
    found = held(users, on(SLICE, 10), PARENT, SLICE)
    assert found == (Allocation(TRAIN, SLICE.uuid, Sharing.MIG, lasting=True),)


def test_several_share_it(users):
    found = held(users, on(GPU, 10, 20))
    assert {(one.holder, one.sharing, one.share) for one in found} == {
        (TRAIN, Sharing.SHARED, 0.5),
        (NOTEBOOK, Sharing.SHARED, 0.5),
    }


def test_beside_a_process_that_cannot_be_seen_nobody_is_alone(users):
    assert [one.sharing for one in held(users, on(GPU, 10, 99))] == [Sharing.SHARED]


def test_an_idle_display_server_makes_no_device_shared_but_a_working_one_does(host, users):
    host.process(30, "0::/system.slice/gdm.service", name="Xorg", uid=0)
    idle = (ProcessReading(10, GIB), ProcessReading(30, 4 << 20))
    busy = (ProcessReading(10, GIB), ProcessReading(30, GIB))
    assert [one.holder for one in held(users, lambda *_: idle, GPU)] == [TRAIN]
    assert len(held(users, lambda *_: busy, GPU)) == 2


def test_the_mps_server_holds_nothing_beside_its_clients_and_stands_for_hidden_ones(host, users):
    host.process(30, "0::/system.slice/mps.service", name="nvidia-cuda-mps", uid=1000)
    assert [one.holder for one in held(users, on(GPU, 10, 30))] == [TRAIN]
    ways = {one.sharing for one in held(users, on(GPU, 10, 20, 30))}
    assert ways == {Sharing.MPS}
    alone = held(users, on(GPU, 30))
    assert [one.holder.pod for one in alone] == ["mps.service"]


def test_the_processes_last_seen_stand_for_a_device_that_hangs_for_a_bounded_time():
    group = (ProcessReading(10),)
    backend = WatchedBackend(StubBackend(answer=lambda _, at: reading(at, processes=group)))
    assert backend.processes(GPU.uuid, 0.0) == ()
    backend.read(GPU, 5.0)
    assert backend.processes(GPU.uuid, 5.0 + KEEP_SECONDS) == group
    assert backend.processes(GPU.uuid, 5.1 + KEEP_SECONDS) == ()


def test_a_device_that_left_is_forgotten():
    stub = StubBackend(answer=lambda _, at: reading(at, processes=(ProcessReading(10),)))
    backend = WatchedBackend(stub)
    backend.read(GPU, 0.0)
    stub.identities = ()
    backend.devices()
    assert backend.processes(GPU.uuid, 0.0) == ()


def test_a_watched_back_end_is_else_as_it_is():
    def lost(*_):
        raise DeviceError(Reason.GPU_IS_LOST, "gone")

    stub = StubBackend(answer=lost)
    backend = WatchedBackend(stub)
    backend.open()
    assert (backend.name, backend.expected(), backend.devices()) == ("stub", 1, (GPU,))
    assert backend.wait_events(0.0) == ()
    with pytest.raises(DeviceError):
        backend.read(GPU, 0.0)
    backend.close()
    assert stub.closed


class Scene:
    """Processes on one GPU that a test changes while the sampler runs."""

    def __init__(self, *pids):
        self.pids = pids

    def __call__(self, _, at):
        group = tuple(ProcessReading(pid, GIB, 0.25, 0.0, 0.0) for pid in self.pids)
        return reading(
            at,
            {Signal.KERNEL: 0.5, Signal.SM: 0.2},
            used_bytes=3 * GIB,
            processes=group,
            process_utilization_known=True,
        )


def watching(scene, users):
    backend = WatchedBackend(StubBackend(answer=scene))
    turn = threading.Lock()

    class Serial:
        def owner(self, pid):
            with turn:
                return users.owner(pid)

    return running(backend, ProcessAllocations(backend.processes, Serial()), Serial())


def test_a_device_is_held_from_the_first_to_the_last_process_and_counters_linger(host, users):
    scene = Scene()
    with watching(scene, users) as sampler:
        scene.pids = (10, 11)
        eventually(lambda: value(sampler, m.CONTAINER_ACTIVE_SECONDS, signal="sm"))
        row = next(iter(samples(sampler.snapshot(), m.CONTAINER_ALLOCATED)))
        assert row == ("node-1", "alice", "job_123", "", "python", GPU.uuid, "exclusive")
        scene.pids = ()
        eventually(lambda: value(sampler, m.CONTAINER_ALLOCATED) is None)
        assert value(sampler, m.CONTAINER_ALLOCATED_SECONDS) > 0.0


def test_a_second_user_is_told_apart_by_process(host, users):
    host.clock.now += 1.0
    with watching(Scene(10, 20), users) as sampler:
        for pod in ("job_123", "session-3.scope"):
            eventually(
                lambda pod=pod: value(sampler, m.CONTAINER_ACTIVE_SECONDS, signal="kernel", pod=pod)
            )
        snapshot = sampler.snapshot()
        assert one(snapshot, m.CONTAINER_MEMORY_USED, pod="job_123") == GIB
        assert one(snapshot, m.DEVICE_UNATTRIBUTED_MEMORY) == GIB


def test_a_job_that_comes_back_within_its_linger_time_goes_on_though_it_has_no_uid():
    held = Allocation(TRAIN, GPU.uuid, lasting=True)
    made = accounts(allocations=[held])
    made.set_allocations([], 10.0)
    made.set_allocations([held], 15.0)
    made.set_allocations([held], 17.0)
    assert one(made.snapshot(WALL), m.CONTAINER_ALLOCATED_SECONDS) == 12.0


def test_the_agent_reads_such_rows_as_those_of_a_pod_without_uid(users):
    found = held(users, on(GPU, 10))
    labels = dict(
        zip(
            m.CONTAINER_LABELS,
            ("n", *(found[0].holder.namespace, found[0].holder.pod, ""), "python", GPU.uuid),
            strict=True,
        )
    )
    place = DIALECT.place(m.CONTAINER_ALLOCATED_SECONDS.name, labels, "c")
    assert (place.holder.namespace, place.holder.pod, place.holder.pod_uid) == (
        "alice",
        "job_123",
        "",
    )


def test_processes_are_wanted_of_every_device_where_they_say_who_holds_it():
    stub = StubBackend()
    stub.want_processes = lambda _: pytest.fail("the back end would list them seldom")
    want_processes(WatchedBackend(stub), frozenset())
