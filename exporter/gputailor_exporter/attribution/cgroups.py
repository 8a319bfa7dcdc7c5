"""What a cgroup path says of a process: its pod and container, or its unit on a bare host.

Pure: text in, values out. Paths come in many forms: cgroup v1 (a line per controller) and v2 (one
line), the drivers cgroupfs (``/kubepods/burstable/pod<uid>/<id>``) and systemd
(``…-pod<uid_with_underscores>.slice/cri-containerd-<id>.scope``, or ``…slice:cri-containerd:<id>``
where the runtime does not know of systemd), a prefix where the kubelet itself runs in a container
(kind, k3d, sysbox), in a user's session (rootless) or with a cgroup root of its own, ``/../..``
where the reader has a cgroup namespace, and a tail where something runs inside the container
(Docker in Docker). Sources of the forms stand beside the tests' table.
"""

import re
from dataclasses import dataclass
from typing import Final

# The UID with dashes (cgroupfs), underscores (systemd) or as a static pod's 32 digits; then the
# container's 64, behind a runtime's prefix, in the next part of the path or after a colon.
_UID: Final = r"pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
_POD: Final = re.compile(rf"(?:^|[/-]){_UID}(?:\.slice)?(?P<rest>[/:].*)?$")
_CONTAINER: Final = re.compile(
    r"^(?:(?P<runtime>[a-z]+(?:-[a-z]+)*)[-:])?(?P<id>[0-9a-f]{64})(?:\.scope)?$"
)
#: Runtimes that only a kubelet drives: their container is a pod's though the path names no pod.
_POD_RUNTIMES: Final = frozenset({"crio", "cri-containerd"})

# slurm/uid_1000/job_7 (v1; slurm_<node> with several slurmd), system.slice/slurmstepd.scope/job_7
# (v2; <node>_slurmstepd.scope likewise); Slurm 26.05 writes its SLUID, "s" and 13 characters.
_SLURM: Final = re.compile(
    r"/(?:slurm(?:_[^/]+)?/uid_\d+|(?:[^/]+_)?slurmstepd\.scope)/(?P<job>job_\d+|s[0-9A-Z]{13})(?:/|$)"
)
_LXC: Final = re.compile(r"/lxc(?:\.payload\.|/)(?P<name>[^/]+)")
_USER_MANAGER: Final = re.compile(r"^user@\d+\.service$")
_SHORT_ID: Final = 12  # digits of a container's id that its own tools show


@dataclass(frozen=True, slots=True)
class CgroupRef:
    """A pod's UID ('' where the path names none) and a container's id ('' for the pod's own)."""

    pod_uid: str
    container_id: str
    of_pod: bool = True  # False: the container may be one of no pod


def parse_cgroup(text: str) -> CgroupRef | None:
    """Return pod and container of the lines of ``/proc/<pid>/cgroup``; None outside both.

    Where pods are nested in pods, the outermost counts: it is the one this node's kubelet runs. A
    container whose path names no pod is returned by its id alone.
    """
    paths = [line.split(":", 2)[-1] for line in text.splitlines()]
    found: CgroupRef | None = None
    for path in paths:
        ref = _pod(path)
        if ref is not None and (found is None or (ref.container_id and not found.container_id)):
            found = ref
    if found is not None:
        return found
    return next((ref for path in paths if (ref := _bare_container(path)) is not None), None)


def _pod(path: str) -> CgroupRef | None:
    match = _POD.search(path)
    if match is None:
        return None
    container = ""
    for part in (match["rest"] or "").lstrip(":/").split("/"):
        inside = _CONTAINER.match(part)
        if inside is not None:
            container = inside["id"]
            break
    return CgroupRef(match["uid"].replace("_", "-"), container)


def _bare_container(path: str) -> CgroupRef | None:
    for part in path.split("/"):
        match = _CONTAINER.match(part)
        if match is not None:
            return CgroupRef("", match["id"], of_pod=match["runtime"] in _POD_RUNTIMES)
    return None


def host_unit(text: str) -> str:
    """Return what stands in for a pod on a bare host, from the lines of ``/proc/<pid>/cgroup``.

    A Slurm job (``job_123``), else a container (``docker-0123456789ab``, ``lxc-web``), else the
    innermost systemd unit (``ollama.service``, ``session-3.scope``); '' where there is none but
    the user's own service manager.
    """
    lines = [line.split(":", 2) for line in text.splitlines()]
    paths = [parts[-1] for parts in lines]
    for path in paths:
        job = _SLURM.search(path)
        if job is not None:
            return job["job"]
    for path in paths:
        name = _container_name(path)
        if name:
            return name
    # systemd's own hierarchy where there are several: other controllers' may be coarser.
    own = [parts[-1] for parts in lines if len(parts) > 1 and parts[1] in {"name=systemd", ""}]
    return next((unit for path in own or paths if (unit := _unit(path))), "")


def _container_name(path: str) -> str:
    parts = path.split("/")
    for place, part in enumerate(parts):
        match = _CONTAINER.match(part)
        if match is not None:
            runtime = match["runtime"] or (parts[place - 1] if place else "") or "container"
            return f"{runtime}-{match['id'][:_SHORT_ID]}"
    lxc = _LXC.search(path)
    return "" if lxc is None else f"lxc-{lxc['name']}"


def _unit(path: str) -> str:
    for part in reversed(path.split("/")):
        if part.endswith((".service", ".scope")) and not _USER_MANAGER.match(part):
            return "" if part == "init.scope" else part
    return ""
