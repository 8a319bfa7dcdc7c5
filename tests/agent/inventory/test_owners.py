import pytest

from gputailor_agent.inventory.owners import OwnerIndex, root_of
from tests.agent.inventory.objects import controller, inventory, owner, pod


def _root(found, name):
    one = next(pod for pod in found.pods if pod.name == name)
    root = root_of(one, OwnerIndex(found.owners, found.pods))
    return root.kind, root.name


def test_a_bare_pod_is_its_own_root(tmp_path):
    assert _root(inventory(tmp_path, pod("alone")), "alone") == ("Pod", "alone")


@pytest.mark.parametrize(
    ("middle", "top"),
    [
        ("ReplicaSet", "Deployment"),
        ("Job", "CronJob"),
        ("Job", "JobSet"),
        ("Job", "MPIJob"),
        ("RayCluster", "RayJob"),
        ("RayCluster", "RayService"),
        ("Job", "Workflow"),
        ("PyTorchJob", "SomethingNobodyHeardOf"),
    ],
)
def test_any_kind_rolls_up_to_its_root_by_uid_case_26(tmp_path, middle, top):
    found = inventory(
        tmp_path,
        controller(top, "top", uid="t"),
        controller(middle, "middle", uid="m", owners=[owner(top, "top", "t")]),
        pod("p", owners=[owner(middle, "middle", "m")]),
    )
    assert _root(found, "p") == (top, "top")


def test_an_owner_whose_object_is_missing_stands_as_the_root(tmp_path):
    found = inventory(tmp_path, pod("p", owners=[owner("PyTorchJob", "train", "gone")]))
    assert _root(found, "p") == ("PyTorchJob", "train")


def test_half_a_chain_goes_as_far_as_it_is_known(tmp_path):
    found = inventory(
        tmp_path,
        controller("Job", "nightly-1", uid="j", owners=[owner("CronJob", "nightly", "gone")]),
        pod("p", owners=[owner("Job", "nightly-1", "j")]),
    )
    assert _root(found, "p") == ("CronJob", "nightly")


def test_a_ring_of_owners_ends_where_it_closes(tmp_path):
    found = inventory(
        tmp_path,
        controller("A", "a", uid="a", owners=[owner("B", "b", "b")]),
        controller("B", "b", uid="b", owners=[owner("A", "a", "a")]),
        pod("p", owners=[owner("A", "a", "a")]),
    )
    assert _root(found, "p") == ("B", "b")


def test_an_owner_that_owns_itself_is_survived(tmp_path):
    found = inventory(
        tmp_path,
        controller("A", "a", uid="a", owners=[owner("A", "a", "a")]),
        pod("p", owners=[owner("A", "a", "a")]),
    )
    assert _root(found, "p") == ("A", "a")


def test_a_pod_may_stand_between_owners(tmp_path):
    found = inventory(
        tmp_path,
        controller("LeaderWorkerSet", "lws", uid="l"),
        controller("StatefulSet", "lws", uid="s", owners=[owner("LeaderWorkerSet", "lws", "l")]),
        pod("lws-0", uid="leader", owners=[owner("StatefulSet", "lws", "s")]),
        controller("StatefulSet", "lws-0", uid="w", owners=[owner("Pod", "lws-0", "leader")]),
        pod("lws-0-1", owners=[owner("StatefulSet", "lws-0", "w")]),
    )
    assert _root(found, "lws-0-1") == ("LeaderWorkerSet", "lws")


def test_the_controlling_owner_goes_before_the_others(tmp_path):
    other = {**owner("Tracker", "t", "x"), "controller": False}
    found = inventory(tmp_path, pod("p", owners=[other, owner("Job", "j", "y")]))
    assert _root(found, "p") == ("Job", "j")


def test_a_missing_replicaset_still_leads_to_its_deployment(tmp_path):
    found = inventory(
        tmp_path,
        pod("web-7d4b9c6f5-x7k2p", labels={"pod-template-hash": "7d4b9c6f5"},
            owners=[owner("ReplicaSet", "web-7d4b9c6f5", "gone", api_version="apps/v1")]),
    )  # fmt: skip
    assert _root(found, "web-7d4b9c6f5-x7k2p") == ("Deployment", "web")


@pytest.mark.parametrize(
    ("reference", "labels", "root"),
    [
        (owner("Job", "train-ranks-0", "gone"),
         {"jobset.sigs.k8s.io/jobset-name": "train"}, ("JobSet", "train")),
        (owner("RayCluster", "sweep-raycluster-x7k2p", "gone"),
         {"ray.io/originated-from-cr-name": "sweep", "ray.io/originated-from-crd": "RayJob"},
         ("RayJob", "sweep")),
        (owner("StatefulSet", "llm-0", "gone"),
         {"leaderworkerset.sigs.k8s.io/name": "llm"}, ("LeaderWorkerSet", "llm")),
    ],
)  # fmt: skip
def test_what_pods_labels_tell_stands_above_a_missing_owner(tmp_path, reference, labels, root):
    found = inventory(tmp_path, pod("p", owners=[reference], labels=labels))
    assert _root(found, "p") == root


def test_objects_nobody_refers_to_are_not_kept_as_owners(tmp_path):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "uid": "s"}}
    odd = {"apiVersion": "x/v1", "kind": "Odd", "metadata": {"name": "o", "uid": "o"}}
    assert inventory(tmp_path, service, odd, pod("p")).owners == ()
