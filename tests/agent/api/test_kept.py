"""What pages show of the store: use by the hour, runs, nodes, decisions; drawn without a guess."""

from types import SimpleNamespace

import pytest

from gputailor_agent.api import timeline
from gputailor_agent.api.kept import KeptStore, Strip
from gputailor_agent.api.nodes import line, standing, table
from gputailor_agent.ledger import DISMISSED
from gputailor_agent.model.inventory import (
    ContainerSpec,
    GpuRequest,
    Inventory,
    Node,
    Outcome,
    Pod,
    PodAssignment,
    Resolution,
    Run,
)
from gputailor_agent.model.ledger import Decision
from gputailor_agent.model.profile import RunUse, Window
from gputailor_agent.model.usage import Device, SignalUse, UsageKey, UsageRow
from gputailor_agent.store import Store
from tests.agent.reports.plans import IDLE, workload

HOUR = 3600
START = 1_764_547_200
WINDOW = Window(start=float(START), end=float(START + 4 * HOUR))


def row(hour: int, uuid: str, observed: float, active: float, container: str = "main") -> UsageRow:
    return UsageRow(
        key=UsageKey(
            cluster="test",
            namespace="team-a",
            pod="old-1",
            pod_uid="u1",
            container=container,
            gpu_uuid=uuid,
            hour=START + hour * HOUR,
        ),
        dialect="gputailor",
        allocated_seconds=3600.0,
        signals={"kernel": SignalUse(observed_seconds=observed, active_seconds=active)},
        memory_peak_bytes=2**30,
    )


@pytest.fixture
def store():
    pod = Pod(
        cluster="test",
        namespace="team-a",
        name="old-1",
        uid="u1",
        node="node-1",
        phase="Running",
        containers=(
            ContainerSpec(name="main", gpus=(GpuRequest(resource="nvidia.com/gpu", count=2),)),
        ),
        started=float(START),
    )
    ended = Pod(
        cluster="test", namespace="a", name="done", uid="u2", node="node-1", phase="Succeeded"
    )
    node = Node(
        cluster="test",
        name="node-1",
        capacity={"nvidia.com/gpu": 8},
        allocatable={"nvidia.com/gpu": 8},
        ready=True,
    )
    told = Inventory(cluster="test", at=WINDOW.end, pods=(pod, ended), nodes=(node,), complete=True)
    with Store.open() as opened:
        with opened.transaction() as tx:
            tx.put_usage(
                [
                    row(0, "GPU-b", 3600.0, 1800.0),
                    row(1, "GPU-b", 0.0, 0.0),
                    row(0, "GPU-a", 3600.0, 0.0),
                    row(0, "GPU-a", 3600.0, 3600.0, container="other"),
                ]
            )
            tx.put_devices(
                Device(cluster="test", gpu_uuid=uuid, node="node-1", index=index, model="L4")
                for uuid, index in (("GPU-a", "1"), ("GPU-b", "0"))
            )
            tx.put_inventory(told)
            tx.put_resolution(
                "test",
                Resolution(
                    workloads=(workload(IDLE),),
                    runs=(
                        Run(id="r1", workload_id=IDLE, pods=("team-a/old-1/u1",), started=1.0),
                        Run(
                            id="r2",
                            workload_id=IDLE,
                            pods=(),
                            started=2.0,
                            outcome=Outcome.SUCCEEDED,
                        ),
                    ),
                    assignments=(
                        PodAssignment(
                            cluster="test",
                            namespace="team-a",
                            pod="old-1",
                            pod_uid="u1",
                            container="main",
                            workload_id=IDLE,
                            run_id="r1",
                        ),
                    ),
                ),
                WINDOW.end,
            )
        yield opened


@pytest.fixture
def kept(store):
    return KeptStore(store, "test", lambda: None)


def test_use_is_of_the_workloads_container_device_by_device(kept):
    strips, left_out = kept.strips(workload(IDLE), WINDOW)
    assert [one.gpu_uuid for one in strips] == ["GPU-b", "GPU-a"]  # as the driver numbers them
    assert strips[0].hours == ((START, 3600.0, 3600.0, 1800.0), (START + HOUR, 3600.0, 0.0, 0.0))
    assert strips[1].hours == ((START, 3600.0, 3600.0, 0.0),)
    assert left_out == 0


def test_a_workload_that_nothing_is_kept_of_has_no_strips(kept):
    assert kept.strips(workload("team-a/Deployment/none/main"), WINDOW) == ([], 0)
    assert kept.runs(workload("team-a/Deployment/none/main")) == []


def test_runs_come_newest_first_with_unknown_figures_unknown(kept):
    runs = kept.runs(workload(IDLE))
    assert [(one.id, one.outcome, one.use) for one in runs] == [
        ("r2", "succeeded", None),
        ("r1", "unknown", None),
    ]


def test_figures_of_runs_are_those_of_the_newest_judgement(store):
    use = RunUse(
        id="r2",
        started=2.0,
        finished=3.0,
        outcome=Outcome.SUCCEEDED,
        oom=False,
        gpus=2.0,
        pods=1,
        gpu_seconds=7200.0,
        memory_peak_bytes=None,
        mean_sm=None,
        mean_kernel=0.5,
    )
    judged = SimpleNamespace(
        resolution=store.resolution("test"),
        profiles=[SimpleNamespace(workload=workload(IDLE), runs=(use,))],
    )
    newest, _oldest = KeptStore(store, "test", lambda: judged).runs(workload(IDLE))
    assert newest.use is use


def test_a_node_tells_what_is_held_and_free(kept):
    (node,) = kept.nodes(WINDOW.end)
    told = line(node)
    assert (told.held, told.pods, told.free, told.devices_seen) == (2.0, 1, 6.0, 2)
    assert standing(told) == "ready"


def test_resources_of_a_node_are_never_added_up(kept):
    (known,) = kept.nodes(WINDOW.end)
    offers = {"nvidia.com/gpu": 4.0, "nvidia.com/mig-1g.10gb": 14.0}
    mixed = known._replace(
        node=Node(cluster="test", name="n", allocatable=offers, ready=True),
        held={"nvidia.com/mig-1g.10gb": 6.0, "amd.com/gpu": 1.0, "nvidia.com/gpu": 2.0},
        holders={"nvidia.com/mig-1g.10gb": 6, "amd.com/gpu": 1, "nvidia.com/gpu": 2},
        pods=9,
    )
    told = line(mixed)
    assert (told.held, told.free) == (None, None)
    assert [
        (one.resource, one.offered, one.held, one.free, one.pods) for one in told.by_resource
    ] == [
        ("nvidia.com/gpu", 4.0, 2.0, 2.0, 2),
        ("nvidia.com/mig-1g.10gb", 14.0, 6.0, 8.0, 6),
        ("amd.com/gpu", 0.0, 1.0, 0.0, 1),
    ]
    rows = table([told]).rows
    assert [row[0] for row in rows] == ["n"] * 3
    assert [row[4:9] for row in rows] == [
        ("nvidia.com/gpu", "4", "2", "2", "2"),
        ("nvidia.com/mig-1g.10gb", "14", "6", "8", "6"),
        ("amd.com/gpu", "0", "1", "0", "1"),
    ]


def test_a_node_that_says_nothing_of_its_resources_is_one_row_of_unknown(kept):
    (known,) = kept.nodes(WINDOW.end)
    silent = known._replace(
        node=Node(cluster="test", name="n"), held={}, holders={}, pods=0, devices=()
    )
    (row,) = table([line(silent)]).rows
    assert row[3:9] == ("unknown", "unknown", "unknown", "0", "unknown", "0")


def test_a_node_that_takes_no_pods_has_nothing_free_and_an_unknown_one_is_unknown(kept):
    (known,) = kept.nodes(WINDOW.end)
    node = {"cluster": "test", "name": "n", "allocatable": {"nvidia.com/gpu": 8.0}}
    cordoned = known._replace(node=Node(**node, ready=True, schedulable=False))
    assert line(cordoned).free == 0.0
    assert standing(line(cordoned)) == "cordoned"
    assert line(known._replace(node=Node(**node))).free is None
    assert standing(line(known._replace(node=Node(**node)))) == "unknown"


def test_decisions_are_kept_and_taken_back(kept):
    made = Decision(
        workload_id=IDLE,
        rule="idle",
        kind=DISMISSED,
        reason="x",
        decided_by="ops",
        decided_at=1.0,
    )
    kept.decide(made)
    assert kept.decisions() == [made]
    assert kept.withdraw(IDLE, "idle")
    assert not kept.withdraw(IDLE, "idle")


def strip(*hours: tuple[float, float, float]) -> Strip:
    made = tuple((START + at * HOUR, *figures) for at, figures in enumerate(hours))
    return Strip("pod", "GPU-1", None, made, None, None)


def test_zero_is_drawn_as_held_and_unknown_as_hatched():
    (zero,) = timeline.draw([strip((3600.0, 3600.0, 0.0))], WINDOW)
    assert (zero.asked, zero.used, zero.unseen) == ("M0 48V0H180V48z", "", "")
    assert "working 0 % of the observed time" in zero.text
    (unknown,) = timeline.draw([strip((3600.0, 0.0, 0.0))], WINDOW)
    assert (unknown.used, unknown.unseen) == ("", "M0 48V0H180V48z")
    assert "working unknown of the observed time" in unknown.text
    assert unknown.days[0].use == "unknown"


def test_half_used_is_half_as_high_and_what_was_not_held_is_not_drawn():
    (drawn,) = timeline.draw([strip((3600.0, 3600.0, 1800.0), (0.0, 0.0, 0.0))], WINDOW)
    assert drawn.used == "M0 48V24H180V48z"
    assert drawn.asked == "M0 48V0H180V48z"


def test_a_long_window_is_drawn_in_as_many_steps_as_can_be_told_apart():
    hours = strip(*[(3600.0, 3600.0, 900.0)] * 2000)
    window = Window(start=float(START), end=float(START + 2000 * HOUR))
    (drawn,) = timeline.draw([hours], window)
    assert drawn.asked.count("M") <= timeline.MOST_STEPS
    assert len(drawn.days) == 84


def test_an_empty_strip_says_unknown_and_draws_nothing():
    (drawn,) = timeline.draw([strip()], WINDOW)
    assert (drawn.asked, drawn.used, drawn.unseen, drawn.days) == ("", "", "", ())
    assert "unknown of it observed" in drawn.text
