"""Whether a manifest has a change already."""

import pytest
import yaml

from gputailor_agent.model.judgement import Change
from gputailor_agent.planner.applied import standing


def deployment(resources, **pod):
    container = {"name": "main", "resources": resources}
    return {"spec": {"replicas": 2, "template": {"spec": {"containers": [container], **pod}}}}


def patched(kind, body, **params):
    return Change(
        kind=kind, target="Deployment team/web", patch=yaml.safe_dump(body), params=params
    )


def stands(change, body, per_pod=1.0, pods=2.0):
    return standing(change, body, per_pod=per_pod, pods=pods)


AMOUNTS = {"nvidia.com/gpu": None, "nvidia.com/mig-1g.10gb": 1}


def template(resources):
    """A patch of the pods' template alone."""
    return {"spec": {"template": deployment(resources)["spec"]["template"]}}


SLICE = patched("set_gpu_type", template({"limits": AMOUNTS, "requests": dict(AMOUNTS)}))


@pytest.mark.parametrize(
    ("per_pod", "expected"), [(4, "open"), (3, "open"), (2, "done"), (1, "less")]
)
def test_devices_are_compared_as_numbers_whatever_the_kind_calls_them(per_pod, expected):
    change = Change(kind="set_gpus", target="RayJob team/x", params={"gpus": 2, "gpus_now": 4})
    assert stands(change, {}, per_pod=per_pod) == expected


@pytest.mark.parametrize(("pods", "expected"), [(3, "open"), (2, "done"), (1, "less")])
def test_replicas_are_compared_as_numbers(pods, expected):
    change = Change(kind="set_replicas", target="x", params={"replicas": 2})
    assert stands(change, {}, pods=pods) == expected


def test_replicas_that_the_manifest_does_not_say_are_not_taken_for_fewer():
    change = Change(kind="set_replicas", target="x", params={"replicas": 2})
    assert stands(change, {}, pods=None) == "elsewhere"


def test_a_slice_instead_of_a_card_is_done_where_the_card_is_gone():
    assert stands(SLICE, deployment({"limits": {"nvidia.com/mig-1g.10gb": 1}})) == "done"
    assert stands(SLICE, deployment({"limits": {"nvidia.com/mig-1g.10gb": "1"}})) == "done"
    assert stands(SLICE, deployment({"limits": {"nvidia.com/gpu": 1}})) == "open"
    both = {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1}
    assert stands(SLICE, deployment({"limits": both})) == "open"


def test_beyond_a_change_is_done_and_short_of_it_is_not():
    less = patched("set_requests", template({"requests": {"cpu": "2", "memory": "16Gi"}}))
    assert stands(less, deployment({"requests": {"cpu": "500m", "memory": "8Gi"}})) == "done"
    assert stands(less, deployment({"requests": {"cpu": "4", "memory": "8Gi"}})) == "open"
    more = patched("set_cpu_limit", template({"limits": {"cpu": "8"}, "requests": {"cpu": "8"}}))
    assert stands(more, deployment({"limits": {"cpu": "16"}})) == "done"
    assert stands(more, deployment({"limits": {"cpu": "4"}})) == "open"


def test_shared_memory_is_joined_by_the_volumes_name():
    volume = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    change = patched("mount_shared_memory", {"spec": {"volumes": [volume]}})
    assert stands(change, {"spec": {"volumes": [{"name": "data"}, volume]}}) == "done"
    assert stands(change, {"spec": {"volumes": []}}) == "open"
    assert stands(change, {"spec": {}}) == "open"


def test_a_release_without_a_patch_is_open_while_pods_are_asked_for():
    change = Change(kind="release", target="Pod team/x")
    assert stands(change, {}, pods=1) == "open"
    assert stands(change, {}, pods=0) == "elsewhere"


def test_a_change_of_the_program_is_none_of_the_manifest():
    assert stands(Change(kind="edit_code", target="x", code="x = 1"), {}) == "elsewhere"
