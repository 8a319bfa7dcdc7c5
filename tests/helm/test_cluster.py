"""The chart on a real API server: accepted, installed, upgraded, uninstalled; its rights."""

import contextlib
import re
import threading

import pytest
import yaml

from gputailor_agent.inventory.live import connect, missing_permissions, rules
from tests.helm.value_sets import NAMED_NAMESPACES
from tests.testbed.objects import custom_definition, deployment, gpu_node
from tests.testbed.servers import CommandFailed, eventually

pytestmark = pytest.mark.system

SECRETS = "/api/v1/namespaces/{}/secrets"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


@pytest.fixture
def operator_kinds(control_plane):
    """The kinds of the Prometheus operator, with any content."""
    made = [
        custom_definition(kind, "monitoring.coreos.com")
        for kind in ("ServiceMonitor", "PrometheusRule")
    ]
    control_plane.apply(made)
    yield
    for each in made:
        control_plane.kubectl("delete", "crd", each["metadata"]["name"], "--wait=true")


@pytest.fixture
def install(helm, chart, control_plane, namespace, values_file):
    """A function that installs or upgrades with values; uninstalled after the test."""

    def call(values=(), verb="install", name="gt"):
        file = values_file(dict(values))
        return helm(verb, name, str(chart), "-n", namespace, "-f", file, cluster=control_plane)

    yield call
    with contextlib.suppress(CommandFailed):  # the test may have uninstalled it
        helm("uninstall", "gt", "-n", namespace, cluster=control_plane)


def granted(control_plane, namespace, token):
    """(verb, group, resource) of all that a token may do in a namespace and not every account."""
    everybody = control_plane.token("default", "default")
    return allowed(control_plane, namespace, token) - allowed(control_plane, namespace, everybody)


def allowed(control_plane, namespace, token):
    """(verb, group, resource) of all that a token may do in a namespace."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    answer = control_plane.request("POST", REVIEW, token=token, body=review).json()["status"]
    assert not answer.get("incomplete")
    return triples(answer["resourceRules"])


def triples(policy):
    return {
        (verb, group, resource)
        for rule in policy
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def agents_token(control_plane, namespace):
    return control_plane.token("gt-gputailor-agent", namespace)


def test_monitors_and_rules_are_made_where_the_operator_is(
    control_plane, operator_kinds, namespace, install
):
    notes = install({"serviceMonitor": {"labels": {"release": "stack"}}})
    monitors = control_plane.get("servicemonitors", namespace)
    assert [each["metadata"]["labels"]["release"] for each in monitors] == ["stack", "stack"]
    (rule,) = control_plane.get("prometheusrules", namespace)
    assert rule["spec"]["groups"]
    assert 'by the labels {"release":"stack"}' in notes
    assert "--set monitoring.labels.release=RELEASE" in notes


def test_without_the_operator_the_notes_say_how_to_scrape(install):
    assert "honor_labels: true" in install()


def test_exporters_run_on_gpu_nodes_and_nowhere_else(control_plane, namespace, nodes, install):
    plain = gpu_node("helm-plain", gpus=0)
    plain["metadata"]["labels"] = {"kubernetes.io/hostname": "helm-plain"}
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    nodes(gpu_node("helm-gpu-a"), gpu_node("helm-gpu-b", taints=[taint]), plain)
    install()

    def running():
        pods = control_plane.get("pods -l app.kubernetes.io/component=exporter", namespace)
        ready = {
            each["spec"]["nodeName"]: each["spec"]["hostPID"]
            for each in pods
            if each["status"]["phase"] == "Running"
        }
        return ready if {"helm-gpu-a", "helm-gpu-b"} <= set(ready) else None

    found = eventually(running, "exporters run on both GPU nodes")
    assert "helm-plain" not in found
    assert all(found.values())


def test_the_agent_runs_beside_them(control_plane, namespace, nodes, install):
    nodes(gpu_node("helm-agent"))
    install({"agent": {"persistence": {"enabled": False}}})
    control_plane.wait("deployment/gt-gputailor-agent", "condition=Available", namespace)


def test_the_agent_may_do_what_its_table_says_and_nothing_else(control_plane, namespace, install):
    install()
    token = agents_token(control_plane, namespace)
    assert granted(control_plane, namespace, token) == triples(rules())
    assert granted(control_plane, "kube-system", token) == triples(rules())


def test_kubectl_says_yes_to_pods_and_no_to_secrets_and_writing(control_plane, namespace, install):
    install()
    config = control_plane.kubeconfig_with(agents_token(control_plane, namespace))

    def can(verb, resource):
        with contextlib.suppress(CommandFailed):  # it ends with 1 when it says no
            said = control_plane.kubectl("auth", "can-i", verb, resource, "-A", kubeconfig=config)
            return said.strip().endswith("yes")
        return False

    assert can("list", "pods")
    assert can("watch", "nodes")
    for verb in ("get", "list", "watch"):
        assert not can(verb, "secrets")
        assert not can(verb, "configmaps")
    for verb in ("create", "update", "patch", "delete"):
        assert not can(verb, "pods")
        assert not can(verb, "deployments.apps")


def test_the_server_refuses_secrets_to_the_agent(control_plane, namespace, install):
    install()
    token = agents_token(control_plane, namespace)
    for place in (namespace, "kube-system"):
        answer = control_plane.request("GET", SECRETS.format(place), token=token)
        assert answer.status_code == 403
    assert control_plane.request("GET", "/api/v1/pods", token=token).is_success


def test_the_exporters_account_may_do_nothing(control_plane, namespace, install):
    install()
    token = control_plane.token("gt-gputailor-exporter", namespace)
    assert granted(control_plane, namespace, token) == set()


def test_doctor_misses_no_permission(control_plane, namespace, install):
    install()
    config = control_plane.kubeconfig_with(agents_token(control_plane, namespace))
    assert missing_permissions(connect(kubeconfig=config)) == ()


def test_where_namespaces_are_named_the_others_are_closed(control_plane, namespace, install):
    install({"namespaces": [namespace]})
    token = agents_token(control_plane, namespace)
    assert granted(control_plane, namespace, token) == triples(rules())
    cluster_wide = triples([rule for rule in rules() if rule not in rules(namespaced=True)])
    assert granted(control_plane, NAMED_NAMESPACES[0], token) == cluster_wide


def test_an_upgrade_changes_the_settings_and_rolls_the_agent(control_plane, namespace, install):
    def template():
        found = control_plane.get("deployment/gt-gputailor-agent", namespace)
        return found["spec"]["template"]["metadata"]["annotations"]["checksum/settings"]

    install()
    before = template()
    install({"clusterName": "blue"}, verb="upgrade")
    text = control_plane.get("configmap/gt-gputailor-agent", namespace)["data"]["agent.yaml"]
    assert yaml.safe_load(text)["cluster"] == "blue"
    assert template() != before


def test_an_upgrade_with_wrong_values_changes_nothing(control_plane, namespace, install):
    install({"clusterName": "blue"})
    with pytest.raises(CommandFailed, match="cluster_name"):
        install({"cluster_name": "red"}, verb="upgrade")
    text = control_plane.get("configmap/gt-gputailor-agent", namespace)["data"]["agent.yaml"]
    assert yaml.safe_load(text)["cluster"] == "blue"


def test_an_uninstall_leaves_the_history_and_an_install_takes_it_up(
    control_plane, helm, namespace, install
):
    install()
    (claim,) = control_plane.get("persistentvolumeclaims", namespace)
    helm("uninstall", "gt", "-n", namespace, cluster=control_plane)
    kinds = "configmaps,daemonsets,deployments,roles,rolebindings,services,serviceaccounts"
    eventually(
        lambda: (
            not [
                each
                for each in control_plane.get(kinds, namespace)
                if each["metadata"]["name"].startswith("gt-")
            ]
        ),
        "everything else is gone",
    )
    bound = control_plane.get("clusterroles,clusterrolebindings")
    assert not [each for each in bound if each["metadata"]["name"].startswith(f"{namespace}-gt-")]
    install()
    (again,) = control_plane.get("persistentvolumeclaims", namespace)
    assert again["metadata"]["uid"] == claim["metadata"]["uid"]


def test_two_releases_stand_in_one_cluster(control_plane, helm, namespace, install, chart):
    install()
    helm("install", "other", str(chart), "-n", namespace, cluster=control_plane)
    found = [each["metadata"]["name"] for each in control_plane.get("daemonsets", namespace)]
    assert found == ["gt-gputailor-exporter", "other-gputailor-exporter"]
    helm("uninstall", "other", "-n", namespace, cluster=control_plane)


def test_pods_of_others_are_not_selected(control_plane, namespace, nodes, install):
    nodes(gpu_node("helm-others"))
    control_plane.apply(deployment("gputailor", gpus=1), namespace)
    install({"agent": {"persistence": {"enabled": False}}})
    control_plane.wait("deployment/gt-gputailor-agent", "condition=Available", namespace)
    control_plane.wait("deployment/gputailor", "condition=Available", namespace)
    slices = control_plane.get(
        "endpointslices -l kubernetes.io/service-name=gt-gputailor-agent", namespace
    )
    ends = [end["targetRef"]["name"] for each in slices for end in each["endpoints"]]
    assert len(ends) == 1
    assert ends[0].startswith("gt-gputailor-agent-")


@pytest.fixture(params=["helm", "helm3"])
def tested(request):
    """Helm 4, and Helm 3."""
    return request.getfixturevalue(request.param)


def test_helm_test_ends_well_when_its_pod_does(control_plane, namespace, nodes, install, tested):
    nodes(gpu_node("helm-test"))
    install({"agent": {"persistence": {"enabled": False}}})
    said = []
    running = threading.Thread(
        target=lambda: said.append(tested("test", "gt", "-n", namespace, cluster=control_plane))
    )
    running.start()
    pod = "pod/gt-gputailor-test-ready"

    def annotated():
        with contextlib.suppress(CommandFailed):  # it is not there yet
            mark = "testbed.gputailor.io/completes-after=0s"
            return control_plane.kubectl("annotate", pod, mark, "-n", namespace)
        return None

    eventually(annotated, "the test's pod is there")
    running.join(60)
    assert re.search(r"Phase:\s+Succeeded", said[0])
