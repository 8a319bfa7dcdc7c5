"""The chart keeps our own policy checks, but for exceptions that say why."""

import copy

import pytest

from tests.helm.objects import of_kind
from tests.helm.policies import EXCEPTIONS, OBJECT_CHECKS, POD_CHECKS, failures
from tests.helm.value_sets import PRESETS, VALUE_SETS

pytestmark = pytest.mark.system

#: Volumes and mounts that a set of values brings by itself, beyond what the chart answers for.
OF_THE_USER = {"a driver on the host": "paths of the host are read only"}
PLAIN = ("", "gpu-operator", "eks", "aks", "k3s")


@pytest.mark.parametrize("name", VALUE_SETS)
def test_what_is_not_kept_is_an_exception_with_a_reason(render, name):
    found = set(failures(render(VALUE_SETS[name])))
    brought = {(OF_THE_USER[name], "exporter")} if name in OF_THE_USER else set()
    assert found - set(EXCEPTIONS) - brought == set()


def test_every_exception_is_needed(render):
    found = {each for values in VALUE_SETS.values() for each in failures(render(values))}
    assert set(EXCEPTIONS) - found == set()
    assert all(EXCEPTIONS.values())


@pytest.mark.parametrize("check", [*POD_CHECKS, *OBJECT_CHECKS])
def test_every_check_can_fail(render, check):
    objects = spoilt(render(VALUE_SETS["an Ingress with a login"]))
    assert check in {name for name, _ in failures(objects)}


def spoilt(objects):
    """The objects as a careless chart would have them."""
    objects = copy.deepcopy(objects)
    for each in objects:
        match each["kind"]:
            case "Service":
                each["spec"]["type"] = "LoadBalancer"
            case "ClusterRole":
                each["rules"].append({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})
            case "ClusterRoleBinding":
                each["subjects"] = [{"kind": "Group", "name": "system:authenticated"}]
            case "ServiceAccount":
                each["automountServiceAccountToken"] = True
            case "Ingress":
                del each["spec"]["tls"]
            case "Deployment" | "DaemonSet":
                spoil_pod(each["spec"]["template"]["spec"])
        if "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = "default"
    return objects


def spoil_pod(spec):
    spec |= {
        "hostPID": True,
        "hostNetwork": True,
        "automountServiceAccountToken": True,
        "securityContext": {},
        "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
    }
    (container,) = spec["containers"]
    probe = {"httpGet": {"path": "/healthz", "port": 1}}
    container |= {
        "image": "gputailor-agent:latest",
        "env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}],
        "volumeMounts": [{"name": "root", "mountPath": "/host"}],
        "resources": {"requests": {"nvidia.com/gpu": 1}, "limits": {}},
        "livenessProbe": probe,
        "readinessProbe": probe,
        "securityContext": {
            "privileged": True,
            "runAsUser": 0,
            "capabilities": {"add": ["SYS_ADMIN"]},
            "seLinuxOptions": {"type": "spc_t"},
        },
    }
    del container["startupProbe"]


@pytest.mark.parametrize("preset", PLAIN)
def test_an_exporter_is_not_privileged_where_a_runtime_brings_devices(render, preset):
    ((name, component),) = {
        each
        for each in failures(of_kind(render({"preset": preset}), "DaemonSet"))
        if each[0] in {"not privileged", "no path of the host", "no capability added"}
    }
    assert (name, component) == ("no path of the host", "exporter")


def test_an_exporter_is_privileged_only_where_a_preset_or_a_value_says_so(render):
    loud = {
        preset
        for preset in PRESETS
        if ("not privileged", "exporter") in set(failures(render({"preset": preset})))
    }
    assert loud == {"gke", "bare"}
    objects = render({"exporter": {"privileged": True}})
    assert ("not privileged", "exporter") in set(failures(objects))
    objects = render({"preset": "bare", "exporter": {"privileged": False}})
    assert ("not privileged", "exporter") not in set(failures(objects))


def test_only_the_exporter_needs_more_than_the_level_restricted(render):
    strict = {"no host process ids", "no path of the host", "not privileged", "not root"}
    for values in VALUE_SETS.values():
        found = {(name, part) for name, part in failures(render(values)) if name in strict}
        assert {part for _, part in found} <= {"exporter"}
