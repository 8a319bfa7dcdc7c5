"""Mistakes in what a manifest asks for are told with their place; what is right is left alone."""

import pytest

from gputailor_agent.inventory.mistakes import MISTAKES, mistakes


def found(limits=None, requests=None):
    resources = {"limits": limits, "requests": requests}
    container = {"name": "main", "resources": resources}
    body = {"kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [container]}}
    return list(mistakes("pod.yaml: document 1 (line 1)", body))


@pytest.mark.parametrize(
    ("limits", "requests", "kind", "refused"),
    [
        ({"nvidia.com/gpus": 1}, None, "unknown", True),
        ({"nvida.com/gpu": 1}, None, "unknown", True),
        ({"nvidia.com/mig-1g.5g": 1}, None, "unknown", True),
        ({"gpu": 1}, None, "unknown", True),
        ({"nvidia.com/our-gpus-of-2026": 1}, None, "unknown", False),
        (None, {"nvidia.com/gpu": 1}, "no_limit", True),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 2}, "unequal", True),
        ({"nvidia.com/gpu": -1}, None, "negative", True),
        ({"nvidia.com/gpu": 0.5}, None, "fraction", True),
        ({"nvidia.com/gpu": "500m"}, None, "fraction", True),
        ({"nvidia.com/gpu": 0}, None, "zero", False),
    ],
)
def test_each_mistake_is_told_by_its_kind(limits, requests, kind, refused):
    (one,) = found(limits, requests)
    assert (one.kind, one.refused) == (kind, refused)
    assert one.kind in MISTAKES
    side = "limits" if limits else "requests"
    assert one.path == f"spec.containers[main].resources.{side}.{one.resource}"


@pytest.mark.parametrize(
    ("limits", "requests"),
    [
        ({"nvidia.com/gpu": 1}, None),
        ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": 1}),
        ({"nvidia.com/mig-1g.10gb": 1, "cpu": "500m"}, {"cpu": "100m", "memory": "1.5Gi"}),
        ({"nvidia.com/cx6_nic": 1, "rdma/hca": 1}, {"ephemeral-storage": "1Gi"}),
        ({"nvidia.com/gpu": "{{ gpus }}"}, None),
        ({"deviceclass.resource.kubernetes.io/gpus": 1}, None),
    ],
)
def test_what_is_right_or_no_accelerator_is_left_alone(limits, requests):
    assert found(limits, requests) == []


def test_a_misspelled_name_comes_with_the_one_that_is_meant():
    (one,) = found({"nvidia.com/GPU": 1})
    assert one.meant == "nvidia.com/gpu"


def test_an_object_that_holds_itself_ends():
    body: dict = {"kind": "X", "spec": {}}
    body["spec"]["again"] = body
    assert list(mistakes("x", body)) == []
