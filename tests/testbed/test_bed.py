"""The test bed does what the tests that stand on it take for granted."""

import json
import time

import pytest

from tests.testbed import objects
from tests.testbed.monitoring import scrape_config
from tests.testbed.servers import CommandFailed, eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]


def pods_of(plane, namespace):
    return {pod["metadata"]["name"]: pod for pod in plane.get("pods", namespace)}


def running_on(plane, namespace, prefix):
    """The nodes of the pods of that name, once all of them run."""
    found = [pod for name, pod in pods_of(plane, namespace).items() if name.startswith(prefix)]
    run = found and all(pod["status"]["phase"] == "Running" for pod in found)
    return [pod["spec"]["nodeName"] for pod in found] if run else None


def test_a_deployments_pods_run_on_the_gpu_nodes_that_have_room(control_plane, namespace, nodes):
    nodes(objects.gpu_node("room-a", 4), objects.gpu_node("room-b", 4))
    control_plane.apply(objects.deployment("serve", replicas=2, gpus=3), namespace)
    where = eventually(lambda: running_on(control_plane, namespace, "serve-"), "two pods run")
    assert sorted(where) == ["room-a", "room-b"]


def test_a_pod_that_asks_for_more_gpus_than_there_are_stays_pending(
    control_plane, namespace, nodes
):
    nodes(objects.gpu_node("small", 2))
    control_plane.apply(objects.pod("large", gpus=9), namespace)
    control_plane.wait(
        "pod/large",
        'jsonpath={.status.conditions[?(@.type=="PodScheduled")].reason}=Unschedulable',
        namespace,
    )
    said = control_plane.get("pod large", namespace)["status"]["conditions"][0]["message"]
    assert "Insufficient nvidia.com/gpu" in said


def test_a_cron_jobs_run_completes_and_leads_back_to_the_cron_job(control_plane, namespace, nodes):
    nodes(objects.gpu_node("batch", 2))
    control_plane.apply(objects.cron_job("nightly", 2, completes_after="1s"), namespace)
    control_plane.kubectl("create", "job", "--from=cronjob/nightly", "nightly-1", "-n", namespace)
    control_plane.wait("job/nightly-1", "condition=Complete", namespace)
    (pod,) = pods_of(control_plane, namespace).values()
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (pod["status"]["phase"], ended["exitCode"]) == ("Succeeded", 0)
    assert ended["startedAt"] < ended["finishedAt"]
    assert pod["metadata"]["ownerReferences"][0]["name"] == "nightly-1"
    owners = control_plane.get("job nightly-1", namespace)["metadata"]["ownerReferences"]
    assert [(owner["kind"], owner["name"]) for owner in owners] == [("CronJob", "nightly")]


def test_a_job_fails_as_its_annotations_say(control_plane, namespace, nodes):
    nodes(objects.gpu_node("failing", 1))
    template = {"fails_after": "1s", "exit_code": "137", "reason": "OOMKilled"}
    control_plane.apply(objects.job("doomed", 1, **template), namespace)
    control_plane.wait("job/doomed", "condition=Failed", namespace)
    (pod,) = pods_of(control_plane, namespace).values()
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_a_container_restarts_once_as_its_annotations_say(control_plane, namespace, nodes):
    nodes(objects.gpu_node("restarting", 1))
    played = {"restarts_after": "1s", "exit_code": "137", "reason": "OOMKilled"}
    control_plane.apply(objects.pod("flaky", 1, **played), namespace)
    restarts = "jsonpath={.status.containerStatuses[0].restartCount}=1"
    control_plane.wait("pod/flaky", restarts, namespace)
    status = control_plane.get("pod flaky", namespace)["status"]
    assert status["phase"] == "Running"
    assert status["containerStatuses"][0]["lastState"]["terminated"]["reason"] == "OOMKilled"


def test_a_pod_of_a_custom_resource_runs_and_names_its_owner_by_uid(
    control_plane, namespace, nodes
):
    nodes(objects.gpu_node("custom", 8))
    training = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train"},
        "spec": {"pytorchReplicaSpecs": {}},
    }
    control_plane.apply([objects.custom_definition("PyTorchJob"), training], namespace)
    owner = control_plane.get("pytorchjob train", namespace)
    control_plane.apply(objects.pod("train-worker-0", 8, owner=owner), namespace)
    control_plane.wait("pod/train-worker-0", "condition=Ready", namespace)
    pod = control_plane.get("pod train-worker-0", namespace)
    assert pod["spec"]["nodeName"] == "custom"
    assert pod["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]


def test_kube_state_metrics_shows_gpus_and_slices_that_can_be_handed_out(kube_state_metrics, nodes):
    nodes(objects.gpu_node("sliced", 7, mig={"1g.10gb": 7}, unhealthy=1))

    def allocatable(resource):
        found = [
            line.rsplit(" ", 1)[1]
            for line in kube_state_metrics.page().splitlines()
            if line.startswith("kube_node_status_allocatable{")
            and 'node="sliced"' in line
            and f'resource="{resource}"' in line
        ]
        return [float(value) for value in found]

    assert eventually(lambda: allocatable("nvidia_com_gpu"), "the node is shown") == [6.0]
    assert allocatable("nvidia_com_mig_1g_10gb") == [7.0]


def test_prometheus_scrapes_kube_state_metrics_and_answers(prometheus, kube_state_metrics, nodes):
    nodes(objects.gpu_node("scraped", 8))
    server = prometheus(scrape_config({"kube-state-metrics": kube_state_metrics.target}))
    expression = 'kube_node_status_capacity{node="scraped", resource="nvidia_com_gpu"}'
    (series,) = server.wait_for(expression)
    assert float(series["value"][1]) == 8
    assert server.api("status/buildinfo")["version"].startswith("3.")


def test_prometheus_answers_from_history_that_was_written_before_its_start(prometheus):
    now = int(time.time())
    begin = now - 14 * 86_400
    samples = [f'gpu_busy{{gpu="0"}} {at % 7} {at}' for at in range(begin, now, 3_600)]
    text = "\n".join(["# TYPE gpu_busy gauge", *samples, "# EOF", ""])
    server = prometheus(history=text)
    (found,) = server.query("count_over_time(gpu_busy[15d])", at=now)
    assert float(found["value"][1]) == len(samples)
    (series,) = server.query_range("gpu_busy", begin, begin + 7_200, step_seconds=3_600)
    assert [float(value) for _, value in series["values"]] == [
        at % 7 for at in (begin, begin + 3_600, begin + 7_200)
    ]


def test_prometheus_takes_a_new_configuration_and_refuses_a_wrong_one(prometheus, tmp_path):
    server = prometheus()
    rules = tmp_path / "rules.yml"
    groups = {"groups": [{"name": "g", "rules": [{"record": "answer", "expr": "vector(42)"}]}]}
    rules.write_text(json.dumps(groups), "utf-8")
    server.reload(scrape_config({}, rules=[rules]))
    (series,) = server.wait_for("answer")
    assert series["value"][1] == "42"
    with pytest.raises(AssertionError, match="unmarshal"):
        server.reload("scrape_configs: wrong")


@pytest.mark.parametrize(("program", "major"), [("helm", "v4."), ("helm3", "v3.")])
def test_helm_is_of_that_major_version_and_sees_the_control_plane(
    request, control_plane, namespace, program, major
):
    helm = request.getfixturevalue(program)
    assert helm("version", "--short").startswith(major)
    assert helm("list", "-n", namespace, "-o", "json", cluster=control_plane).strip() == "[]"


def test_helm_installs_a_chart_whose_pods_run_and_takes_it_away(
    helm, control_plane, namespace, nodes, tmp_path
):
    nodes(objects.gpu_node("charted", 0))
    chart = str(tmp_path / "web")
    helm("create", chart)
    where = ("-n", namespace, "--wait", "--timeout=60s")
    helm("install", "web", chart, *where, cluster=control_plane)
    assert running_on(control_plane, namespace, "web-") == ["charted"]
    helm("uninstall", "web", *where, cluster=control_plane)
    assert not control_plane.get("deployments", namespace)


def test_helm_says_why_it_cannot(helm):
    with pytest.raises(CommandFailed, match=r"no such file") as raised:
        helm("lint", "/nonexistent-chart")
    assert raised.value.status == 1


READER = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reads-pods}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader-reads-pods}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reads-pods}
subjects:
- {kind: ServiceAccount, name: reader}
"""


@pytest.fixture
def reader(control_plane, namespace):
    """Token of a service account that may read pods of its namespace, and nothing else."""
    control_plane.apply(READER, namespace)
    return control_plane.token("reader", namespace)


def test_a_service_account_with_a_reading_role_lists_pods_and_cannot_delete_them(
    control_plane, namespace, nodes, reader
):
    nodes(objects.gpu_node("read", 1))
    control_plane.apply(objects.pod("kept", 1), namespace)
    own = control_plane.kubeconfig_with(reader, namespace)
    assert "kept" in control_plane.kubectl("get", "pods", kubeconfig=own)
    with pytest.raises(CommandFailed, match=r"(?i)forbidden"):
        control_plane.kubectl("delete", "pod", "kept", kubeconfig=own)
    assert "kept" in pods_of(control_plane, namespace)


def test_the_audit_log_tells_what_a_service_account_asked_for(control_plane, namespace, reader):
    path = f"/api/v1/namespaces/{namespace}/pods"
    assert control_plane.request("GET", path, token=reader).status_code == 200
    assert control_plane.request("DELETE", path, token=reader).status_code == 403
    asked = {
        (event["verb"], event["objectRef"]["resource"], event["responseStatus"]["code"])
        for event in control_plane.audit(f"system:serviceaccount:{namespace}:reader")
    }
    assert asked == {("list", "pods", 200), ("deletecollection", "pods", 403)}


def test_a_user_without_a_role_may_read_nothing(control_plane):
    token = control_plane.identity.tokens["nobody"]
    assert control_plane.request("GET", "/api/v1/pods", token=token).status_code == 403
