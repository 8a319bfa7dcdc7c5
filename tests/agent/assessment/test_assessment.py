import pytest

from gputailor_agent.assessment import AssessmentSettings, assess, assess_store
from gputailor_agent.catalog import load_catalogue
from gputailor_agent.inventory.identity import IdentitySettings
from gputailor_agent.model.inventory import Inventory
from gputailor_agent.model.profile import Window
from gputailor_agent.rollup import CounterRollup
from gputailor_agent.store import Store
from tests.agent.rollup.exporter_model import Exporter, Job, run_pages
from tests.agent.schedule.fakes import T0, inventory_of

HOURS = 4
END = T0 + HOURS * 3600
WINDOW = Window(start=T0, end=END)


@pytest.fixture(scope="module")
def measured():
    """Rows, devices and inventory of a pod that idles and one that works."""
    jobs = [
        Job(lambda _: 0.0, T0 + 5, pod="sleeper", pod_uid="u1", gpu_uuid="GPU-0"),
        Job(lambda _: 0.9, T0 + 5, pod="worker", pod_uid="u2", gpu_uuid="GPU-1"),
    ]
    exporter = Exporter(jobs, T0)
    rollup = CounterRollup("c1")
    for page in run_pages(exporter, END, 60):
        rollup.add(page)
    return rollup.take_rows(), rollup.devices(), inventory_of(exporter)(END)


def judge(rows, devices, inventory, **more):
    return assess(
        rows, devices, inventory, window=WINDOW, now=END, catalogue=load_catalogue(), **more
    )


def test_the_chain_gives_a_verdict_for_each_workload(measured):
    assessment = judge(*measured)
    verdicts = {v.workload.name: v for v in assessment.plan.verdicts}
    assert set(verdicts) == {"sleeper", "worker"}
    assert verdicts["worker"].mean_kernel == pytest.approx(0.9, abs=0.001)
    assert verdicts["sleeper"].mean_kernel == 0.0
    assert len(assessment.profiles) == 2
    assert len(assessment.resolution.workloads) == 2


def test_the_order_of_the_rows_changes_nothing(measured):
    rows, devices, inventory = measured
    assert judge(rows, devices, inventory).plan == judge(rows[::-1], devices, inventory).plan


def test_rows_may_be_a_stream(measured):
    rows, devices, inventory = measured
    assert judge(iter(rows), iter(devices), inventory).plan == judge(*measured).plan


def test_a_store_is_judged_like_the_rows_it_holds(measured, tmp_path):
    rows, devices, inventory = measured
    with Store.open(tmp_path / "g.db") as store:
        with store.transaction() as tx:
            tx.put_usage(rows)
            tx.put_devices(devices)
        stored = assess_store(store, "c1", inventory, WINDOW, now=END, catalogue=load_catalogue())
    assert stored.plan == judge(*measured).plan


def test_problems_of_the_sources_and_of_the_inventory_are_told(measured):
    rows, devices, inventory = measured
    broken = Inventory(
        cluster="c1", at=END, pods=inventory.pods, problems=("jobs could not be listed",)
    )
    plan = judge(rows, devices, broken, problems=("line 7 is broken",), sources=("a file",)).plan
    assert {"line 7 is broken", "jobs could not be listed"} <= set(plan.problems)
    assert "a file" in plan.sources


def test_settings_of_identity_reach_the_resolution(measured):
    rows, devices, inventory = measured
    settings = AssessmentSettings(identity=IdentitySettings(annotation="example.org/name"))
    pods = tuple(
        type(pod)(
            **{f: getattr(pod, f) for f in pod.__struct_fields__ if f != "annotations"},
            annotations={"example.org/name": "both"},
        )
        for pod in inventory.pods
    )
    named = Inventory(cluster="c1", at=END, pods=pods)
    assert len(judge(rows, devices, named, settings=settings).resolution.workloads) == 1
