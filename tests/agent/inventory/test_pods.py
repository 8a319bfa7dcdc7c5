import pytest

from gputailor_agent.inventory.holding import held_interval, holding
from gputailor_agent.inventory.redaction import MASK, mask_arguments, mask_text
from gputailor_agent.inventory.resources import device_count, pod_requests
from tests.agent.inventory.objects import NOON_SECONDS, container, inventory, pod

LATER = "2026-03-02T13:30:00Z"
LATER_SECONDS = NOON_SECONDS + 5400


def _one(tmp_path, *args, **kwargs):
    return inventory(tmp_path, pod(*args, **kwargs)).pods[0]


def _ended(code=0, reason="Completed", name="main", **more):
    state = {
        "terminated": {"startedAt": NOON, "finishedAt": LATER, "exitCode": code, "reason": reason}
    }
    return {"name": name, "restartCount": 0, "state": state, **more}


NOON = "2026-03-02T12:00:00Z"


def test_a_running_pod_holds_its_devices_since_it_was_bound(tmp_path):
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-02T11:59:00Z"}
    found = _one(tmp_path, "a", status={"conditions": [bound]})
    assert holding(found)
    assert held_interval(found, LATER_SECONDS) == (NOON_SECONDS - 60, LATER_SECONDS)


def test_a_pending_pod_holds_devices_only_once_it_is_bound(tmp_path):
    assert holding(_one(tmp_path, "a", phase="Pending", node="node-1"))
    waiting = _one(tmp_path, "a", phase="Pending", node=None)
    assert not holding(waiting)
    assert held_interval(waiting, LATER_SECONDS) is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_completed_pod_holds_none_though_its_request_stays(tmp_path, phase):
    found = _one(tmp_path, "a", phase=phase, status={"containerStatuses": [_ended()]})
    assert device_count(pod_requests(found)) == 1
    assert not holding(found)
    assert held_interval(found, LATER_SECONDS + 99999) == (NOON_SECONDS, LATER_SECONDS)


def test_the_end_of_an_interval_is_cut_at_the_time_asked_for(tmp_path):
    found = _one(tmp_path, "a", phase="Succeeded", status={"containerStatuses": [_ended()]})
    assert held_interval(found, NOON_SECONDS + 60) == (NOON_SECONDS, NOON_SECONDS + 60)
    assert held_interval(found, NOON_SECONDS) is None


def test_a_pod_that_ended_at_an_unknown_time_is_unknown_not_until_now(tmp_path):
    assert held_interval(_one(tmp_path, "a", phase="Succeeded"), LATER_SECONDS) is None


def test_a_pod_of_unknown_phase_is_not_said_to_hold(tmp_path):
    assert not holding(_one(tmp_path, "a", phase="Unknown"))


def test_a_pod_without_accelerators_holds_none(tmp_path):
    found = _one(tmp_path, "a", containers=[container(gpus=None)])
    assert not holding(found)
    assert held_interval(found, LATER_SECONDS) is None


def test_a_manifest_holds_nothing(tmp_path):
    written = pod("a", phase=None)
    del written["metadata"]["uid"], written["status"]
    found = inventory(tmp_path, written).pods[0]
    assert found.template
    assert not holding(found)
    assert held_interval(found, LATER_SECONDS) is None


def test_times_and_exit_code_of_a_failed_container_are_read(tmp_path):
    found = _one(tmp_path, "a", phase="Failed", status={"containerStatuses": [_ended(1, "Error")]})
    assert (found.started, found.finished) == (NOON_SECONDS, LATER_SECONDS)
    assert (found.exit_code, found.reason, found.oom_killed) == (1, "Error", False)


def test_an_oom_kill_is_seen_in_the_current_and_in_the_last_state(tmp_path):
    ended = _one(
        tmp_path, "a", phase="Failed", status={"containerStatuses": [_ended(137, "OOMKilled")]}
    )
    assert ended.oom_killed
    last = {
        "terminated": {
            "startedAt": NOON,
            "finishedAt": LATER,
            "exitCode": 137,
            "reason": "OOMKilled",
        }
    }
    alive = _one(
        tmp_path,
        "b",
        status={"containerStatuses": [
            {"name": "main", "restartCount": 1, "state": {"running": {"startedAt": LATER}}, "lastState": last}
        ]},
    )  # fmt: skip
    assert alive.oom_killed
    assert alive.restarts == 1
    assert alive.started == NOON_SECONDS
    assert alive.exit_code is None


def test_after_many_restarts_the_start_is_when_the_pod_was_initialised(tmp_path):
    found = _one(
        tmp_path,
        "a",
        status={
            "conditions": [{"type": "Initialized", "status": "True", "lastTransitionTime": NOON}],
            "containerStatuses": [
                {"name": "main", "restartCount": 5, "state": {"running": {"startedAt": LATER}}}
            ],
        },
    )
    assert found.started == NOON_SECONDS


def test_an_evicted_pod_ended_when_its_conditions_say(tmp_path):
    found = _one(
        tmp_path,
        "a",
        phase="Failed",
        status={
            "reason": "Evicted",
            "conditions": [
                {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": LATER}
            ],
        },
    )
    assert found.reason == "Evicted"
    assert found.finished == LATER_SECONDS


def test_the_failed_container_tells_how_the_pod_ended(tmp_path):
    statuses = [_ended(0, name="sidecar"), _ended(2, "Error", name="main")]
    found = _one(tmp_path, "a", phase="Failed", status={"containerStatuses": statuses})
    assert (found.exit_code, found.reason) == (2, "Error")


def test_what_the_object_does_not_say_is_none(tmp_path):
    bare = pod("a", phase="Pending", node=None)
    bare["status"] = {"phase": "Pending"}
    del bare["metadata"]["creationTimestamp"]
    found = inventory(tmp_path, bare).pods[0]
    unknown = (found.created, found.scheduled, found.started, found.finished, found.exit_code)
    assert unknown == (None, None, None, None, None)


def test_sidecars_count_beside_init_containers(tmp_path):
    found = _one(
        tmp_path,
        "a",
        containers=[container("main", 2)],
        initContainers=[
            {**container("cache", 1), "restartPolicy": "Always"},
            container("prepare", 4),
        ],
    )
    assert [(one.name, one.init) for one in found.containers] == [
        ("cache", False), ("prepare", True), ("main", False),
    ]  # fmt: skip
    assert device_count(pod_requests(found)) == 5


def test_annotated_fractions_go_to_the_container_they_name(tmp_path):
    found = _one(
        tmp_path,
        "a",
        annotations={"gpu-fraction": "0.5", "gpu-fraction-container-name": "b"},
        containers=[container("a", None), container("b", None)],
    )
    assert [device_count(one.gpus) for one in found.containers] == [0, 0.5]


def test_annotated_fractions_without_a_name_go_to_the_first_application_container(tmp_path):
    found = _one(
        tmp_path,
        "a",
        annotations={"gpu-fraction": "0.5"},
        containers=[container("main", None), container("b", None)],
        initContainers=[container("prepare", None)],
    )
    assert [device_count(one.gpus) for one in found.containers] == [0, 0.5, 0]


def test_cpu_and_memory_are_cores_and_bytes(tmp_path):
    resources = {"limits": {"cpu": "4", "memory": "2Gi"}, "requests": {"cpu": "500m"}}
    found = _one(tmp_path, "a", containers=[container(gpus=None, resources=resources)]).containers[
        0
    ]
    assert (found.cpu_request, found.cpu_limit) == (0.5, 4.0)
    assert (found.memory_request_bytes, found.memory_limit_bytes) == (2**31, 2**31)


@pytest.mark.parametrize(
    ("volume", "bytes_"),
    [
        ({"medium": "Memory", "sizeLimit": "8Gi"}, 8 * 2**30),
        ({"medium": "Memory"}, 2**30),  # bounded by the container's memory limit
        ({}, None),
    ],
)
def test_shared_memory_is_the_memory_volume_at_dev_shm(tmp_path, volume, bytes_):
    mounted = container(
        volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}],
        resources={"limits": {"nvidia.com/gpu": 1, "memory": "1Gi"}},
    )
    found = _one(tmp_path, "a", containers=[mounted], volumes=[{"name": "shm", "emptyDir": volume}])
    assert found.shared_memory_bytes == bytes_


def test_secrets_do_not_enter_the_inventory(tmp_path):
    found = _one(
        tmp_path,
        "a",
        annotations={"kubectl.kubernetes.io/last-applied-configuration": '{"env": "s3cret"}'},
        containers=[
            container(
                command=["sh", "-c", "HF_TOKEN=s3cret serve --max-tokens 4096"],
                args=["--api-key", "s3cret", "--password=s3cret"],
                env=[
                    {"name": "HF_TOKEN", "value": "s3cret"},
                    {"name": "AWS_SECRET_ACCESS_KEY", "value": "s3cret"},
                    {"name": "TOKENIZERS_PARALLELISM", "value": "false"},
                    {
                        "name": "FROM_SECRET",
                        "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}},
                    },
                ],
            )
        ],
    )
    assert "s3cret" not in repr(found)
    assert found.containers[0].env["TOKENIZERS_PARALLELISM"] == "false"
    assert "HF_TOKEN" in found.containers[0].env
    assert "--max-tokens 4096" in found.containers[0].command[2]


def test_masking_leaves_other_arguments_alone():
    arguments = ("--tokenizer", "gpt2", "--max-num-batched-tokens=8192", "--key-frames", "3")
    assert mask_arguments(arguments) == arguments
    assert mask_text("login hf_abcdefghijklmnop now") == f"login {MASK} now"
