"""How a manifest stands to a change, at each edge."""

import pytest

from gputailor_agent.model.judgement import (
    Change,
)
from gputailor_agent.planner.applied import standing
from tests.agent.planner.planning_parts import change


@pytest.mark.parametrize(
    ("kind", "params", "per_pod", "pods", "told"),
    [
        ("set_gpus", {"gpus": 2}, 2.0, 1, "done"),
        ("set_gpus", {"gpus": 2}, 1.0, 1, "less"),
        ("set_gpus", {"gpus": 2}, 3.0, 1, "open"),
        ("set_gpus", {}, 3.0, 1, "elsewhere"),
        ("set_replicas", {"replicas": 2}, 1.0, 2, "done"),
        ("set_replicas", {"replicas": 2}, 1.0, 1, "less"),
        ("set_replicas", {"replicas": 2}, 1.0, 3, "open"),
        ("set_replicas", {"replicas": 2}, 1.0, None, "elsewhere"),
        ("release", {}, 1.0, 1, "open"),
        ("release", {}, 1.0, None, "open"),
        ("release", {}, 1.0, 0, "elsewhere"),
        ("edit_code", {}, 1.0, 1, "elsewhere"),
    ],
)
def test_a_manifest_stands_to_a_change(kind, params, per_pod, pods, told):
    assert standing(change(kind, **params), {}, per_pod=per_pod, pods=pods) == told


PATCH = "spec:\n  a: {limits: {cpu: '2', memory: null}, list: [{name: x, size: 4Gi}, plain]}\n"


@pytest.mark.parametrize(
    ("inside", "kind", "told"),
    [
        ({"limits": {"cpu": "2"}, "list": [{"name": "x", "size": "4Gi"}, "plain"]}, "x", "done"),
        ({"limits": {"cpu": "1500m"}, "list": [{"name": "x", "size": "4Gi"}, "plain"]}, "x", "done"),
        ({"limits": {"cpu": "3"}, "list": [{"name": "x", "size": "4Gi"}, "plain"]}, "x", "open"),
        ({"limits": {"cpu": "3"}, "list": [{"name": "x", "size": "4Gi"}, "plain"]},
         "set_cpu_limit", "done"),
        ({"limits": {"cpu": "1"}, "list": [{"name": "x", "size": "4Gi"}, "plain"]},
         "set_cpu_limit", "open"),
        ({"limits": {"cpu": "2", "memory": "1Gi"},
          "list": [{"name": "x", "size": "4Gi"}, "plain"]}, "x", "open"),
        ({"limits": {"cpu": "2"}, "list": [{"name": "y", "size": "4Gi"}, "plain"]}, "x", "open"),
        ({"limits": {"cpu": "2"}, "list": [{"name": "x", "size": "4Gi"}]}, "x", "open"),
        ({"limits": {"cpu": True}, "list": [{"name": "x", "size": "4Gi"}, "plain"]}, "x", "open"),
        ({"limits": {"cpu": ["2"]}, "list": [{"name": "x", "size": "4Gi"}, "plain"]}, "x", "open"),
        ({"limits": "2", "list": [{"name": "x", "size": "4Gi"}, "plain"]}, "x", "open"),
        ({"limits": {"cpu": "2"}, "list": {"name": "x"}}, "x", "open"),
    ],
)  # fmt: skip
def test_a_patch_that_would_change_nothing_is_done(inside, kind, told):
    made = Change(kind=kind, target="x", patch=PATCH)
    assert standing(made, {"spec": {"a": inside}}, per_pod=1.0, pods=1) == told


def test_a_request_that_is_not_written_is_the_limit():
    made = Change(kind="x", target="x", patch="spec: {requests: {cpu: '2'}}\n")
    for inside, told in (
        ({"limits": {"cpu": "2"}}, "done"),
        ({"limits": {"cpu": "2"}, "requests": {"cpu": "3"}}, "open"),
        ({"limits": {"cpu": "3"}, "requests": {"cpu": "1"}}, "done"),
        ({"limits": "all", "requests": {"cpu": "1"}}, "done"),
        ({}, "open"),
    ):
        assert standing(made, {"spec": inside}, per_pod=1.0, pods=1) == told
