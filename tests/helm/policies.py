"""What a cautious cluster asks of objects, in the spirit of checkov, kube-score and Pod Security.

A check is a function of one pod (its component, metadata and spec) or of one object; it says what is
wrong, or nothing. ``EXCEPTIONS`` are those that the chart does not keep, each with the reason; a
test sees to it that there are no others, and that each is still needed.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.helm.objects import WORKLOADS, Objects, of_kind

Spec = Mapping[str, Any]
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
WRITING = {"create", "update", "patch", "delete", "deletecollection", "*"}
#: Volumes that the level restricted takes.
QUIET = {"configMap", "emptyDir", "projected", "secret", "persistentVolumeClaim"}

POD_CHECKS: dict[str, Callable[[Spec, Spec], bool]] = {}
OBJECT_CHECKS: dict[str, Callable[[Spec], bool]] = {}


def pod_check(name: str) -> Callable[[Callable[[Spec, Spec], bool]], Callable[[Spec, Spec], bool]]:
    """Register a check that holds (True) for a pod's spec and one of its containers."""

    def keep(check: Callable[[Spec, Spec], bool]) -> Callable[[Spec, Spec], bool]:
        POD_CHECKS[name] = check
        return check

    return keep


def object_check(name: str) -> Callable[[Callable[[Spec], bool]], Callable[[Spec], bool]]:
    """Register a check that holds (True) for an object of any kind."""

    def keep(check: Callable[[Spec], bool]) -> Callable[[Spec], bool]:
        OBJECT_CHECKS[name] = check
        return check

    return keep


def own(container: Spec) -> Spec:
    """The container's security context."""
    found: Spec = container.get("securityContext") or {}
    return found


def whole(spec: Spec, container: Spec) -> dict[str, Any]:
    """The container's security context over that of its pod."""
    return {**(spec.get("securityContext") or {}), **own(container)}


@pod_check("no host process ids")
def _(spec: Spec, _container: Spec) -> bool:
    return not spec.get("hostPID")


@pod_check("no host network, no host IPC, no host ports")
def _(spec: Spec, container: Spec) -> bool:
    ports = any("hostPort" in port for port in container.get("ports", ()))
    return not (spec.get("hostNetwork") or spec.get("hostIPC") or ports)


@pod_check("no path of the host")
def _(spec: Spec, _container: Spec) -> bool:
    return not any("hostPath" in volume for volume in spec.get("volumes", ()))


@pod_check("paths of the host are read only")
def _(spec: Spec, container: Spec) -> bool:
    paths = {each["name"] for each in spec.get("volumes", ()) if "hostPath" in each}
    mounts = [each for each in container.get("volumeMounts", ()) if each["name"] in paths]
    return all(each.get("readOnly") for each in mounts)


@pod_check("only volumes without rights")
def _(spec: Spec, _container: Spec) -> bool:
    return all((set(each) - {"name"}) <= QUIET for each in spec.get("volumes", ()))


@pod_check("not privileged")
def _(_spec: Spec, container: Spec) -> bool:
    return not own(container).get("privileged")


@pod_check("no more rights than at the start")
def _(_spec: Spec, container: Spec) -> bool:
    return own(container).get("allowPrivilegeEscalation") is False


@pod_check("all capabilities dropped")
def _(_spec: Spec, container: Spec) -> bool:
    return (own(container).get("capabilities") or {}).get("drop") == ["ALL"]


@pod_check("no capability added")
def _(_spec: Spec, container: Spec) -> bool:
    return not (own(container).get("capabilities") or {}).get("add")


@pod_check("not root")
def _(spec: Spec, container: Spec) -> bool:
    context = whole(spec, container)
    return context.get("runAsNonRoot") is True and context.get("runAsUser", 1) > 0


@pod_check("a user id of its own above 10,000")
def _(spec: Spec, container: Spec) -> bool:
    return whole(spec, container).get("runAsUser", 0) > 10_000


@pod_check("read-only root file system")
def _(_spec: Spec, container: Spec) -> bool:
    return own(container).get("readOnlyRootFilesystem") is True


@pod_check("the runtime's seccomp profile")
def _(spec: Spec, container: Spec) -> bool:
    return whole(spec, container).get("seccompProfile") == {"type": "RuntimeDefault"}


@pod_check("SELinux as the cluster has it")
def _(spec: Spec, container: Spec) -> bool:
    return "seLinuxOptions" not in whole(spec, container)


@pod_check("no token of the API server")
def _(spec: Spec, _container: Spec) -> bool:
    return spec.get("automountServiceAccountToken") is False


@pod_check("an image that does not move")
def _(_spec: Spec, container: Spec) -> bool:
    image = container["image"].rpartition("/")[2]
    return "@sha256:" in image or (":" in image and not image.endswith(":latest"))


@pod_check("CPU and memory asked for")
def _(_spec: Spec, container: Spec) -> bool:
    return {"cpu", "memory"} <= set(container["resources"]["requests"])


@pod_check("a limit of memory")
def _(_spec: Spec, container: Spec) -> bool:
    return "memory" in container["resources"]["limits"]


@pod_check("a limit of CPU")
def _(_spec: Spec, container: Spec) -> bool:
    return "cpu" in container["resources"]["limits"]


@pod_check("no GPU held")
def _(_spec: Spec, container: Spec) -> bool:
    asked = {**container["resources"]["requests"], **container["resources"]["limits"]}
    return not any("/" in name for name in asked)


@pod_check("probes")
def _(_spec: Spec, container: Spec) -> bool:
    return all(probe in container for probe in PROBES)


@pod_check("readiness and liveness are not the same question")
def _(_spec: Spec, container: Spec) -> bool:
    asked = [{**container[probe], "periodSeconds": 0} for probe in PROBES[1:] if probe in container]
    return not asked or asked[0] != asked[1]


@pod_check("no secret in a variable")
def _(_spec: Spec, container: Spec) -> bool:
    named = any(
        "secretKeyRef" in (each.get("valueFrom") or {}) for each in container.get("env", ())
    )
    return not (named or any("secretRef" in each for each in container.get("envFrom", ())))


@object_check("bound to no group and to no default account")
def _(each: Spec) -> bool:
    if not each["kind"].endswith("RoleBinding"):
        return True
    return all(one["kind"] == "ServiceAccount" for one in each["subjects"])


@object_check("roles without stars, without secrets, without writing")
def _(each: Spec) -> bool:
    if each["kind"] not in {"Role", "ClusterRole"}:
        return True
    return not any(
        "*" in (*rule["resources"], *rule["apiGroups"])
        or "secrets" in rule["resources"]
        or WRITING & set(rule["verbs"])
        for rule in each["rules"]
    )


@object_check("an account gives no token away by itself")
def _(each: Spec) -> bool:
    return each["kind"] != "ServiceAccount" or each["automountServiceAccountToken"] is False


@object_check("no service open to the world")
def _(each: Spec) -> bool:
    kind = each["spec"].get("type", "ClusterIP") if each["kind"] == "Service" else "ClusterIP"
    return bool(kind == "ClusterIP")


@object_check("no default namespace")
def _(each: Spec) -> bool:
    return each["metadata"].get("namespace") != "default" or each["kind"] in {"Role", "RoleBinding"}


@object_check("TLS at the door")
def _(each: Spec) -> bool:
    return each["kind"] != "Ingress" or bool(each["spec"].get("tls"))


#: What the chart does not keep: check and component (or kind), and why.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("no host process ids", "exporter"): "a process on a shared GPU is told by its pid; can be off",
    ("no path of the host", "exporter"): "kubelet's socket and the names of log folders are there",
    ("only volumes without rights", "exporter"): "the same",
    ("not privileged", "exporter"): "gke and bare: nobody hands out /dev/nvidia* there",
    ("no more rights than at the start", "exporter"): "what privileged means; the same presets",
    ("all capabilities dropped", "exporter"): "likewise",
    (
        "no capability added",
        "exporter",
    ): "by a value alone: counters kept to administrators, fdinfo",
    ("not root", "exporter"): "kubelet's socket belongs to root",
    ("a user id of its own above 10,000", "exporter"): "likewise",
    ("a user id of its own above 10,000", "agent"): "OpenShift gives the id, by namespace",
    ("a user id of its own above 10,000", "test"): "likewise",
    (
        "SELinux as the cluster has it",
        "exporter",
    ): "OpenShift: kubelet's socket is closed otherwise",
    ("no token of the API server", "agent"): "it reads pods, nodes and owners",
    ("a limit of CPU", "exporter"): "a throttled exporter loses the seconds that it measures",
    ("a limit of CPU", "agent"): "a plan over a large cluster wants a core for some seconds",
    ("a limit of CPU", "test"): "it lives for a minute",
    ("probes", "test"): "it serves nothing and ends",
    ("readiness and liveness are not the same question", "exporter"): (
        "with client certificates only the port can be asked"
    ),
    ("no secret in a variable", "agent"): "secretSettings and extraEnvFrom: by a value alone",
    ("TLS at the door", "Ingress"): "where the user's controller has the certificate by itself",
}


def failures(objects: Objects) -> Iterator[tuple[str, str]]:
    """Check and component (or kind) of all that does not hold."""
    for each in objects:
        for name, holds in OBJECT_CHECKS.items():
            if not holds(each):
                yield name, each["kind"]
    for each in of_kind(objects, *WORKLOADS, "Pod"):
        spec = each["spec"]["template"]["spec"] if each["kind"] != "Pod" else each["spec"]
        component = each["metadata"]["labels"]["app.kubernetes.io/component"]
        for container in spec["containers"]:
            for name, check in POD_CHECKS.items():
                if not check(spec, container):
                    yield name, component
