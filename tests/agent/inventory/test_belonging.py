import pytest

from gputailor_agent.inventory.identity import IdentitySettings, resolve
from tests.agent.inventory.objects import controller, inventory, owner, pod


def _only(tmp_path, *objects, **settings):
    (workload,) = resolve(inventory(tmp_path, *objects), IdentitySettings(**settings)).workloads
    return workload


@pytest.mark.parametrize(
    ("metadata", "team"),
    [
        ({"labels": {"team": "vision"}}, "vision"),
        ({"labels": {"gputailor.io/team": "speech", "team": "vision"}}, "speech"),
        ({"annotations": {"gputailor.io/team": "speech"}, "labels": {"team": "vision"}}, "speech"),
        ({"labels": {"project": "pa"}}, "pa"),
        ({"labels": {"app": "vision"}}, ""),
        ({"namespace": "hyperpod-ns-blue"}, "blue"),
        ({"namespace": "runai-red"}, "red"),
        ({"namespace": "runai"}, ""),
    ],
)
def test_labels_annotations_and_namespaces_name_the_team(tmp_path, metadata, team):
    assert _only(tmp_path, pod("a", **metadata)).team == team


def test_an_owner_s_team_counts_where_the_pod_has_none(tmp_path):
    made = pod("run-0", owners=[owner("Job", "run", "u")])
    job = controller("Job", "run", uid="u", labels={"team": "vision"})
    assert _only(tmp_path, made, job).team == "vision"


def test_a_namespace_s_label_names_the_team_of_pods_that_name_none(tmp_path):
    space = {"kind": "Namespace", "metadata": {"name": "team-a", "labels": {"team": "vision"}}}
    assert _only(tmp_path, pod("a"), space).team == "vision"
    assert _only(tmp_path, pod("a", labels={"team": "speech"}), space).team == "speech"


def test_the_house_s_own_key_comes_first(tmp_path):
    labels = {"team": "vision", "cost-centre": "4711"}
    assert _only(tmp_path, pod("a", labels=labels), team_keys=("cost-centre",)).team == "4711"


def test_the_house_s_own_key_wins_wherever_it_stands(tmp_path):
    made = pod("run-0", owners=[owner("Job", "run", "u")], labels={"team": "vision"})
    job = controller("Job", "run", uid="u", labels={"cost-centre": "4711"})
    assert _only(tmp_path, made, job, team_keys=("cost-centre",)).team == "4711"
    space = {"metadata": {"name": "team-a", "labels": {"squad": "blue"}}, "kind": "Namespace"}
    assert _only(tmp_path, made, job, space, team_keys=("squad",)).team == "blue"


def test_without_the_house_s_own_key_the_known_ones_count(tmp_path):
    made = pod("a", labels={"team": "vision"})
    assert _only(tmp_path, made, team_keys=("cost-centre",)).team == "vision"


@pytest.mark.parametrize("told", ["example_org_cost_centre", "example_org_cost_centre_id"])
def test_the_house_s_own_key_is_found_as_a_prometheus_spells_it(tmp_path, told):
    keys = ("example.org/cost-centre", "example.org/costCentre-ID")
    assert _only(tmp_path, pod("a", labels={told: "4711"}), team_keys=keys).team == "4711"


@pytest.mark.parametrize(
    "key",
    [
        "kueue.x-k8s.io/queue-name",
        "kai.scheduler/queue",
        "runai/queue",
        "yunikorn.apache.org/queue",
    ],
)
def test_queues_are_named_by_each_scheduler_s_label(tmp_path, key):
    assert _only(tmp_path, pod("a", labels={key: "night"})).queue == "night"


def test_volcano_names_its_queue_by_annotation(tmp_path):
    made = pod("a", annotations={"scheduling.volcano.sh/queue-name": "night"})
    assert _only(tmp_path, made).queue == "night"


@pytest.mark.parametrize(
    "spec",
    [
        {"queue": "night", "priorityClassName": "low"},  # Volcano's Job
        {
            "runPolicy": {"schedulingPolicy": {"queue": "night", "priorityClass": "low"}}
        },  # Kubeflow's
        {"batchSchedulerOptions": {"queue": "night", "priorityClassName": "low"}},  # Spark's
    ],
)
def test_a_custom_resource_says_queue_and_priority_for_its_pods(tmp_path, spec):
    owned = {"owners": [owner("PyTorchJob", "run", "u")]}
    job = controller("PyTorchJob", "run", uid="u") | {"spec": spec}
    found = _only(tmp_path, pod("run-0", **owned), job)
    assert (found.queue, found.priority_class) == ("night", "low")
    labelled = pod("run-0", **owned, labels={"runai/queue": "day"})
    assert _only(tmp_path, labelled, job).queue == "day"


@pytest.mark.parametrize(
    "spec", [{"queue": {"name": "night"}}, {"runPolicy": {"schedulingPolicy": 1}}]
)
def test_what_is_no_name_of_a_queue_is_none(tmp_path, spec):
    job = controller("PyTorchJob", "run", uid="u") | {"spec": spec}
    made = pod("run-0", owners=[owner("PyTorchJob", "run", "u")])
    assert _only(tmp_path, made, job).queue == ""


def test_priority_and_service_account_are_kept(tmp_path):
    found = _only(
        tmp_path,
        pod("a", labels={"kueue.x-k8s.io/priority-class": "low"}, serviceAccountName="trainer"),
    )
    assert (found.priority_class, found.service_account) == ("low", "trainer")
    assert _only(tmp_path, pod("a", priorityClassName="high")).priority_class == "high"
