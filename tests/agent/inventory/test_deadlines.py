"""Time limits of runs, and how large nodes are beside their devices."""

import pytest

from gputailor_agent.inventory import raw
from gputailor_agent.inventory.claims import Claims
from gputailor_agent.inventory.hints import DEADLINE_HINT, hints
from gputailor_agent.inventory.nodes import read_node
from gputailor_agent.inventory.pods import read_pod


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"activeDeadlineSeconds": 3600}, "3600"),
        ({"runPolicy": {"activeDeadlineSeconds": "7200"}}, "7200"),
        ({"jobTemplate": {"spec": {"activeDeadlineSeconds": 60}}}, "60"),
        ({"activeDeadlineSeconds": 60, "runPolicy": {"activeDeadlineSeconds": 90}}, "60"),
        ({"replicatedJobs": [{"template": {"spec": {"activeDeadlineSeconds": 1234567}}},
                             {"template": {"spec": {"activeDeadlineSeconds": 600}}}, "none"]}, "600"),
        ({"replicatedJobs": [{"template": {"spec": {"activeDeadlineSeconds": 1234567}}}]}, "1234567"),
        ({"timeouts": {"pipeline": "1h30m0s"}}, "5400"),
        ({"taskRef": {"name": "t"}, "timeout": "90m"}, "5400"),
        ({"taskRef": {"name": "t"}, "timeout": "0s"}, None),
        ({"timeout": "60s"}, None),  # of a request, as like as not
        ({"activeDeadlineSeconds": 0}, None),
        ({"activeDeadlineSeconds": "soon"}, None),
        ({"runPolicy": "none", "jobTemplate": []}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_the_time_after_which_a_run_is_ended_is_noted(spec, told):
    assert hints(spec, ()).get(DEADLINE_HINT) == told


@pytest.mark.parametrize(("said", "seconds"), [(90, 90.0), ("90", 90.0), (None, None)])
def test_a_pod_s_own_deadline_is_read(said, seconds):
    body = raw.RawPod(spec=raw.RawPodSpec(active_deadline_seconds=said))
    assert read_pod(body, "lab", Claims()).deadline_seconds == seconds


def test_a_node_s_cpus_and_memory_are_those_that_pods_can_have():
    status = raw.RawNodeStatus(
        capacity={"cpu": "96", "memory": "512Gi"},
        allocatable={"cpu": "95500m", "memory": "500Gi"},
    )
    node = read_node(raw.RawNode(status=status), "lab")
    assert (node.cpus, node.memory_bytes) == (95.5, 500 * 2**30)
    whole = read_node(raw.RawNode(status=raw.RawNodeStatus(capacity={"cpu": 4})), "lab")
    assert (whole.cpus, whole.memory_bytes) == (4.0, None)
    assert read_node(raw.RawNode(), "lab").cpus is None
