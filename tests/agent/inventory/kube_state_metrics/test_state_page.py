"""A real page of kube-state-metrics gives what the same objects of the API server give."""

import msgspec
import pytest

from gputailor_agent.dialects.kube_state_metrics import KubeState, StateSample, original
from gputailor_agent.inventory.files import read_inventory
from gputailor_agent.inventory.holding import holding
from gputailor_agent.inventory.identity import resolve
from gputailor_agent.inventory.kube_state_metrics import inventory_of
from tests.agent.inventory.kube_state_metrics.told import HERE, READ_AT, real_page

#: What kube-state-metrics cannot tell of a pod, or tells in other words.
_UNTOLD = {"labels", "annotations", "owners", "containers", "tolerations", "exit_code"}


@pytest.fixture(scope="module")
def told():
    return inventory_of(KubeState(at=READ_AT, samples=tuple(real_page())), "lab")


@pytest.fixture(scope="module")
def real():
    return read_inventory([HERE / "objects.json"], "lab", READ_AT)


def by_name(items):
    return {one.name: one for one in items}


def test_workloads_have_the_ids_that_they_have_by_the_api_server(told, real):
    ids, expected = ({one.id for one in resolve(each).workloads} for each in (told, real))
    assert ids == expected
    assert {"team/Deployment/chat/main", "team/CronJob/nightly/main"} < ids


def test_runs_have_the_same_times_and_outcomes(told, real):
    def runs(inventory):
        return sorted(
            (run.workload_id, run.started, run.finished, run.outcome)
            for run in resolve(inventory).runs
        )

    assert runs(told) == runs(real)
    jobs = [run.id for run in resolve(told).runs if "Job/" in run.id and "PyTorch" not in run.id]
    assert set(jobs) <= {run.id for run in resolve(real).runs}  # by the uid in the pods' labels


def test_pods_are_the_same_but_for_what_is_not_told(told, real):
    expected = by_name(real.pods)
    assert by_name(told.pods).keys() == expected.keys()
    for pod in told.pods:
        for field in set(pod.__struct_fields__) - _UNTOLD:
            assert getattr(pod, field) == getattr(expected[pod.name], field), (pod.name, field)
        assert holding(pod) == holding(expected[pod.name])


def test_containers_ask_for_the_same(told, real):
    for pod in told.pods:
        for ours, theirs in zip(
            pod.containers, by_name(real.pods)[pod.name].containers, strict=True
        ):
            image = ours.image or theirs.image  # of a pod that waits no image is told
            assert msgspec.structs.replace(ours, image=image) == msgspec.structs.replace(
                theirs, command=(), args=()
            )


def test_nodes_are_the_same_but_for_the_spelling_of_labels_that_nothing_reads(told, real):
    expected = by_name(real.nodes)
    for node in told.nodes:
        for field in set(node.__struct_fields__) - {"labels", "taints"}:
            assert getattr(node, field) == getattr(expected[node.name], field), field
    assert by_name(told.nodes).keys() == expected.keys()


def test_a_killed_container_and_its_restart_are_told(told):
    pods = by_name(told.pods)
    doomed = next(pod for name, pod in pods.items() if name.startswith("doomed"))
    assert (doomed.phase, doomed.reason, doomed.oom_killed) == ("Failed", "OOMKilled", True)
    assert (pods["flaky"].restarts, pods["flaky"].oom_killed) == (1, True)


def scraped_without_honor_labels(sample):
    """As Prometheus keeps it when the target has labels of its own."""
    own = {"namespace": "monitoring", "pod": "state-0", "container": "metrics", "node": "else"}
    labels = {f"exported_{key}" if key in own else key: text for key, text in sample.labels.items()}
    more = {**own, "job": "state", "instance": "10.0.0.9:8080", "prometheus_replica": "b"}
    return StateSample(sample.name, original({**labels, **more}), sample.value)


def test_a_second_replica_that_renames_labels_changes_nothing(told):
    page = real_page()
    twice = [*page, *map(scraped_without_honor_labels, page)]
    again = inventory_of(KubeState(at=READ_AT, samples=tuple(twice)), "lab")
    assert again == told


def test_a_scrape_without_honor_labels_alone_tells_the_same(told):
    renamed = tuple(map(scraped_without_honor_labels, real_page()))
    assert inventory_of(KubeState(at=READ_AT, samples=renamed), "lab") == told


def test_the_order_of_series_does_not_matter(told):
    page = tuple(reversed(real_page()))
    assert inventory_of(KubeState(at=READ_AT, samples=page), "lab") == told
