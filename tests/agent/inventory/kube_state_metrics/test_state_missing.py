"""What kube-state-metrics does not tell is named, with the setting that gives it."""

import pytest

from gputailor_agent.dialects.kube_state_metrics import KubeState
from gputailor_agent.inventory.kube_state_metrics import inventory_of, lacking
from tests.agent.inventory.kube_state_metrics.told import AT, inventory, pod, sample


def told_of(found, word):
    return [one for one in found.problems if word in one]


@pytest.mark.parametrize(
    ("metric", "lost"),
    [
        ("kube_pod_status_phase", "who holds a GPU now is unknown"),
        ("kube_pod_container_info", "images are unknown"),
        ("kube_pod_created", "missing measurements do not show"),
    ],
)
def test_a_metric_of_pods_that_is_missing_is_named_with_what_is_lost(metric, lost):
    found = inventory(one for one in pod("a") if one.name != metric)
    (problem,) = told_of(found, f"{metric} is missing")
    assert lost in problem
    assert "--metric-allowlist" in problem


def test_labels_and_annotations_are_named_with_the_allow_list_that_shows_them():
    problems = inventory(pod("a"), sample("kube_node_info", node="n")).problems
    assert any("--metric-labels-allowlist=pods=[*]" in one for one in problems)
    assert any("--metric-annotations-allowlist=pods=[*]" in one for one in problems)
    assert any("--metric-labels-allowlist=nodes=[*]" in one for one in problems)


def test_what_nothing_needs_is_not_missed():
    assert inventory(sample("kube_node_info", node="n"), sample("kube_node_labels", node="n")) == (
        inventory(sample("kube_node_labels", node="n"), sample("kube_node_info", node="n"))
    )
    none = inventory(sample("kube_node_info", node="n"), sample("kube_node_labels", node="n"))
    assert none.problems == ()
    assert not told_of(inventory(pod("a")), "kube_pod_completion_time")


def test_a_pod_that_ended_misses_its_completion_time():
    found = inventory(pod("a", phase="Failed"))
    (problem,) = told_of(found, "kube_pod_completion_time is missing")
    assert "last seen running" in problem
    assert found.pods[0].finished is None


def test_a_server_without_it_gives_nothing_and_says_so():
    found = inventory_of(KubeState(at=AT, found=False, current=False), "lab")
    assert (found.pods, found.nodes, found.complete) == ((), (), False)
    (problem,) = found.problems
    assert "the server has no series of it" in problem
    assert "--inventory PATH" in problem


def test_a_reading_of_the_past_is_not_complete():
    found = inventory(pod("a"), current=False)
    assert found.complete is False
    assert told_of(found, "it was last scraped 2027-01-15 08:00 UTC")


def test_a_reading_of_now_is_complete_though_settings_are_missing():
    found = inventory(pod("a"))
    assert found.problems
    assert found.complete is True


def test_several_clusters_in_one_server_are_noticed():
    one, two = (sample("kube_node_info", node=name, cluster=name) for name in ("east", "west"))
    (problem,) = told_of(inventory(one, two), "series of 2 clusters")
    assert "--prometheus-label cluster=east" in problem


def test_pods_without_a_uid_are_told_to_be_of_an_old_version():
    found = inventory(sample("kube_node_info", node="n"), nameless=True)
    assert found.complete is False
    assert told_of(found, "upgrade it to version 2")


def test_a_used_up_budget_is_told():
    assert told_of(inventory(pod("a"), unread=12), "12 pods that ended earlier are left out")


def test_a_job_whose_owner_is_not_told_is_named():
    found = inventory(pod("a-0", owner=("Job", "a")))
    (problem,) = told_of(found, "kube_job_owner tells nothing of team/a")
    assert "have jobs in its --resources" in problem


def test_each_gap_comes_with_its_advice_apart():
    gaps = lacking(KubeState(at=AT, samples=tuple(pod("a"))))
    assert all(gap.found and gap.advice for gap in gaps)
    assert [str(gap) for gap in gaps] == list(inventory(pod("a")).problems)
