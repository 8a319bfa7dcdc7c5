import threading
from functools import cache

import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.model.inventory import (
    Inventory,
    Node,
    Owner,
    Pod,
    PodAssignment,
    Resolution,
    Run,
    Workload,
)
from gputailor_agent.model.judgement import (
    Change,
    Confidence,
    Finding,
    Message,
    Plan,
    Saving,
    Severity,
    Verdict,
)
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import Device, Histogram, SignalUse, UsageKey, UsageRow, Warmup
from gputailor_agent.store import Store, ledger_tables, outbox_tables, tables
from gputailor_agent.store.migrating import newest
from gputailor_agent.store.tables import SCHEMA, metadata

HOUR = 1_800_000_000 // 3600 * 3600


def row(hour=HOUR, pod="p", active=1800.0, **more) -> UsageRow:
    seconds = (0.0,) * 10 + (3600.0,) + (0.0,) * 10
    key = UsageKey(
        cluster="c1",
        namespace="n",
        pod=pod,
        pod_uid="u",
        container="main",
        gpu_uuid="GPU-0",
        hour=hour,
    )
    kernel = SignalUse(
        observed_seconds=3600.0,
        active_seconds=active,
        maximum=0.5,
        histogram=Histogram(seconds=seconds, resolution=0.25),
    )
    return UsageRow(
        key=key,
        dialect="gputailor",
        allocated_seconds=3600.0,
        share=0.5,
        signals={"kernel": kernel, "sm": SignalUse(observed_seconds=1.0, active_seconds=0.5)},
        warmup={"kernel": Warmup(observed_seconds=600.0, active_seconds=1.0)},
        conditions={"link_saturated": 3.0},
        link_bytes={"pcie/rx": 2.0**50},
        memory_peak_bytes=2**37,
        memory_total_bytes=2**38,
        energy_joules=1e6,
        last_active=HOUR + 5.5,
        spread_seconds=1.0,
        samples=120,
        **more,
    )


def put(store, *rows):
    with store.transaction() as tx:
        tx.put_usage(rows)


def usage(store, start=HOUR, end=HOUR + 3600):
    return sorted(store.usage("c1", start, end), key=lambda found: found.key)


def test_a_row_comes_back_as_it_was(store):
    put(store, row())
    assert usage(store) == [row()]


@cache
def memory_store() -> Store:
    return Store.open()


optional_seconds = st.none() | st.floats(0, 1e9)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(0, 3600), min_size=21, max_size=21),
    optional_seconds,
    st.none() | st.integers(0, 2**50),
    st.dictionaries(st.text(max_size=5), st.floats(0, 1e9), max_size=3),
)
def test_any_row_comes_back_as_it_was(seconds, value, count, conditions):
    wanted = msgspec.structs.replace(
        row(),
        signals={
            "dram": SignalUse(
                observed_seconds=1.0,
                active_seconds=0.0,
                maximum=value,
                histogram=Histogram(seconds=tuple(seconds)),
            )
        },
        conditions=conditions,
        energy_joules=value,
        cpu_used_seconds=value,
        memory_peak_bytes=count,
        restarts=count,
        last_active=value,
    )
    put(memory_store(), wanted)
    assert usage(memory_store()) == [wanted]


def test_writing_an_hour_twice_keeps_one_row_with_the_last_figures(store):
    put(store, row(active=100.0))
    put(store, row(active=200.0))
    assert usage(store) == [row(active=200.0)]


def test_only_hours_that_touch_the_window_are_read(store):
    put(store, *(row(hour=HOUR + step * 3600) for step in range(5)))
    found = usage(store, HOUR + 1.5 * 3600, HOUR + 3 * 3600)
    assert [one.key.hour for one in found] == [HOUR + 3600, HOUR + 7200]


def test_the_span_of_what_is_there_is_told(store):
    assert store.usage_span("c1") is None
    put(store, row(hour=HOUR), row(hour=HOUR + 7200))
    assert store.usage_span("c1") == (HOUR, HOUR + 7200)


def test_another_clusters_rows_are_not_read(store):
    put(store, row())
    assert list(store.usage("c2", 0, HOUR * 2)) == []


def test_a_transaction_that_fails_writes_nothing(store):
    def write_and_fail():
        with store.transaction() as tx:
            tx.put_usage([row()])
            tx.put_checkpoint("rollup", b"new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_fail()
    assert usage(store) == []
    assert store.checkpoint("rollup") is None


def test_a_checkpoint_is_replaced(store):
    for body in (b"one", b"two"):
        with store.transaction() as tx:
            tx.put_checkpoint("rollup", body)
    assert store.checkpoint("rollup") == b"two"


def test_an_older_sight_of_a_device_replaces_nothing(store):
    for seen, model in ((200.0, "A100"), (100.0, "old")):
        with store.transaction() as tx:
            tx.put_devices([Device(cluster="c1", gpu_uuid="G", model=model, last_seen=seen)])
    assert [device.model for device in store.devices("c1")] == ["A100"]


def pod(name="p", **more):
    return Pod(cluster="c1", namespace="n", name=name, uid=f"u-{name}", phase="Running", **more)


def put_inventory(store, at, *pods, problems=(), **more):
    with store.transaction() as tx:
        tx.put_inventory(
            Inventory(cluster="c1", at=at, pods=tuple(pods), problems=problems, **more)
        )


def test_an_inventory_comes_back_as_it_was(store):
    owner = Owner(
        cluster="c1", api_version="apps/v1", kind="Deployment", namespace="n", name="d", uid="o"
    )
    node = Node(cluster="c1", name="a", gpu_count=8)
    put_inventory(store, 100.0, pod(), nodes=(node,), owners=(owner,))
    found = store.inventory("c1", 150.0)
    assert (found.pods, found.nodes, found.owners) == ((pod(),), (node,), (owner,))


def test_a_pod_gone_from_a_complete_reading_ended_when_last_seen(store):
    put_inventory(store, 100.0, pod("a"), pod("b"))
    put_inventory(store, 200.0, pod("b"))
    gone, there = store.inventory("c1", 200.0).pods
    assert (gone.name, gone.phase, gone.finished) == ("a", "Unknown", 100.0)
    assert (there.phase, there.finished) == ("Running", None)


def test_a_failed_reading_drops_nothing(store):
    owner = Owner(
        cluster="c1", api_version="apps/v1", kind="Deployment", namespace="n", name="d", uid="o"
    )
    put_inventory(store, 100.0, pod("a"), owners=(owner,))
    put_inventory(store, 200.0, problems=("the API server did not answer",))
    found = store.inventory("c1", 200.0)
    assert found.pods == (pod("a"),)
    assert found.owners == (owner,)


def test_after_a_day_unseen_a_pod_is_gone_though_no_reading_was_complete(store):
    put_inventory(store, 100.0, pod("a"), problems=("one kind is forbidden",))
    put_inventory(store, 100.0 + 90000, problems=("one kind is forbidden",))
    [gone] = store.inventory("c1", 100.0 + 90000).pods
    assert gone.finished == 100.0


def test_a_reading_that_listed_everything_is_complete_whatever_else_it_lacked(store):
    put_inventory(store, 100.0, pod("a"), pod("b"))
    put_inventory(store, 200.0, pod("b"), problems=("labels are not shown",), complete=True)
    gone, _ = store.inventory("c1", 200.0).pods
    assert (gone.name, gone.finished) == ("a", 100.0)


def test_a_reading_that_says_it_is_not_complete_drops_nothing_though_it_has_no_problem(store):
    put_inventory(store, 100.0, pod("a"))
    put_inventory(store, 200.0, complete=False)
    assert store.inventory("c1", 200.0).pods == (pod("a"),)


def test_history_of_pods_can_be_bounded(store):
    put_inventory(store, 100.0, pod("a"))
    put_inventory(store, 900.0, pod("b"))
    assert [one.name for one in store.inventory("c1", 900.0, since=500.0).pods] == ["b"]


def test_a_resolution_comes_back_and_can_be_resolved_again(store):
    workload = Workload(
        id="n/Deployment/d/main",
        cluster="c1",
        namespace="n",
        kind="Deployment",
        name="d",
        container="main",
    )
    run = Run(id="r", workload_id=workload.id, pods=("n/p/u",))
    place = PodAssignment(
        cluster="c1",
        namespace="n",
        pod="p",
        pod_uid="u",
        container="main",
        workload_id=workload.id,
        run_id="r",
    )
    resolution = Resolution(workloads=(workload,), runs=(run,), assignments=(place,))
    for _ in range(2):
        with store.transaction() as tx:
            tx.put_resolution("c1", resolution, 100.0)
    assert store.resolution("c1") == resolution


def plan(made_at) -> Plan:
    workload = Workload(id="w", cluster="c1", namespace="n", kind="Pod", name="w", container="main")
    finding = Finding(
        id="c1/w/idle",
        cluster="c1",
        workload_id="w",
        rule="idle",
        severity=Severity.HIGH,
        message=Message(key="idle", params={"seconds": 7200.0, "count": 2}),
        confidence=Confidence.HIGH,
        evidence=(),
        change=Change(kind="release", target="Pod n/w"),
        saving=Saving(gpu_hours_per_month=730.0),
        window=Window(start=0.0, end=made_at),
    )
    verdict = Verdict(
        workload=workload,
        primary=finding,
        alternatives=(),
        silences=(),
        gpu_hours=1.0,
        cost=None,
    )
    window = Window(start=0.0, end=made_at)
    return Plan(cluster="c1", window=window, made_at=made_at, verdicts=(verdict,))


def test_the_latest_plan_comes_back_with_the_days_findings(store):
    assert store.latest_plan("c1") is None
    for made_at in (HOUR, HOUR + 3600):
        with store.transaction() as tx:
            tx.put_plan(plan(made_at))
    assert store.latest_plan("c1") == plan(HOUR + 3600)
    assert [found.rule for found in store.findings("c1", "2027-01-15")] == ["idle"]


def test_a_plan_of_many_workloads_comes_back_in_its_order(store):
    small = plan(HOUR)
    (one,) = small.verdicts
    large = msgspec.structs.replace(
        small,
        made_at=HOUR + 3600,
        verdicts=tuple(msgspec.structs.replace(one, gpu_hours=float(at)) for at in range(1203)),
    )
    for made in (small, large):
        with store.transaction() as tx:
            tx.put_plan(made)
    assert store.latest_plan("c1") == large
    with store.transaction() as tx:
        tx.put_plan(small)  # shorter again: nothing of the former stays
    assert store.latest_plan("c1") == small


def test_a_plan_that_an_earlier_release_kept_in_one_piece_is_read(store):
    kept = plan(HOUR)
    row = {"cluster": "c1", "period": "2027-01-15T01", "made_at": kept.made_at}
    with store.transaction() as tx:
        tx.upsert(tables.plans, [row | {"document": msgspec.json.encode(kept).decode()}])
    assert store.latest_plan("c1") == kept


def test_the_migrations_make_exactly_the_tables_of_the_code(store):
    assert metadata is ledger_tables.tasks.metadata is outbox_tables.outbox.metadata
    with store._engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    assert newest() == SCHEMA


def test_a_store_opens_again_with_what_it_had(tmp_path):
    path = tmp_path / "deep" / "er" / "gputailor.db"
    for _ in range(2):
        with Store.open(path) as store:
            put(store, row())
            assert usage(store) == [row()]


def test_several_can_open_a_new_store_at_once(tmp_path):
    errors = []

    def open_and_write(place):
        try:
            with Store.open(f"sqlite:///{tmp_path}/g.db") as store:
                put(store, row(pod=f"p{place}"))
        except Exception as error:  # noqa: BLE001 - whatever it is fails the test
            errors.append(error)

    threads = [threading.Thread(target=open_and_write, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with Store.open(tmp_path / "g.db") as store:
        assert len(usage(store)) == 6


def test_a_reader_does_not_wait_for_a_writer(store):
    put(store, row())
    with store.transaction() as tx:
        tx.put_usage([row(active=5.0)])
        assert usage(store) == [row()]
