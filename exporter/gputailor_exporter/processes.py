"""From a process on a device to the container it runs in.

``/proc/<pid>/cgroup`` names the pod's UID and the container's id (``cgroups``). Kubelet's log
folders ``/var/log/pods/<namespace>_<name>_<uid>/<container>/`` lead from the UID to the names, the
links ``/var/log/containers/<pod>_<namespace>_<container>-<id>.log`` from the id to the container,
and to the pod where the cgroup names none (KubeEdge). This needs the host's process ids (hostPID)
and both folders mounted read-only. Without the links the container of a pod that has several is
left empty: the pod is sure, and accounting takes the one of its containers that holds the device,
if it is only one.

A static pod's UID here is the hash of its manifest, as kubelet names its folder, not the UID that
the API server gave its mirror. A pod that runs in a virtual machine (Kata Containers) brings its
own driver: no process of it is seen on this node's.
"""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gputailor_exporter.attribution.allocations import UNTOLD, ContainerRef
from gputailor_exporter.attribution.cgroups import CgroupRef, parse_cgroup
from gputailor_exporter.attribution.tracking import CACHED_PROCESSES, PROC, TrackedProcesses

POD_LOGS: Final = Path("/var/log/pods")
#: How often folders are read again for a name that is not there, though their time did not change.
READ_AGAIN_SECONDS: Final = 1.0
#: Beginning of the MPS server's command name, of which the kernel keeps 15 characters. Its control
#: daemon has the same, but no work on a device.
MPS_COMMAND: Final = "nvidia-cuda-mps"

_LOG_LINK = re.compile(
    r"^(?P<pod>[^_]+)_(?P<namespace>[^_]+)_(?P<container>.+)-(?P<id>[0-9a-f]{64})\.log$"
)


class PodLogFolders:
    """Names of pods and containers from kubelet's log folders.

    They are read again when a folder's time changed, and, at most once a second, for a name that
    is not known: two changes within one tick of the file system's clock leave the same time.
    """

    def __init__(
        self,
        root: Path | str = POD_LOGS,
        links: Path | str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``root``: ``/var/log/pods``; ``links``: ``/var/log/containers``, by default beside it."""
        self._clock = clock
        self._read_at: dict[Path, float] = {}
        self._root = Path(root)
        self._links = self._root.parent / "containers" if links is None else Path(links)
        self._stamps: dict[Path, tuple[int, int]] = {}
        self._pods: dict[str, tuple[str, str]] = {}  # uid -> namespace, name
        self._uids: dict[tuple[str, str], list[str]] = {}
        self._containers: dict[str, tuple[str, str, str]] = {}  # id -> namespace, pod, container

    def pod(self, uid: str) -> tuple[str, str] | None:
        """Return namespace and name of a pod by its UID."""
        self._read_pods()
        if uid not in self._pods:
            self._read_pods(again=True)
        return self._pods.get(uid)

    def pod_uid(self, namespace: str, pod: str) -> str:
        """Return the UID of a pod by its name; of several (a pod made anew) the newest's; or ''."""
        self._read_pods()
        if (namespace, pod) not in self._uids:
            self._read_pods(again=True)
        uids = self._uids.get((namespace, pod), [])
        if len(uids) == 1:
            return uids[0]
        return max(uids, key=lambda uid: self._made(namespace, pod, uid)) if uids else ""

    def _made(self, namespace: str, pod: str, uid: str) -> int:
        try:
            return (self._root / f"{namespace}_{pod}_{uid}").stat().st_mtime_ns
        except OSError:
            return 0

    def container(self, uid: str, container_id: str) -> str:
        """Return the name of a pod's container by its id, or by being the only one; or ''."""
        pod = self.pod(uid)
        if pod is None:
            return ""
        self._read_links()
        if container_id not in self._containers:
            self._read_links(again=True)
        linked = self._containers.get(container_id)
        if linked is not None and linked[:2] == pod:
            return linked[2]
        names = [
            name for name, folder in _entries(self._root / f"{pod[0]}_{pod[1]}_{uid}") if folder
        ]
        return names[0] if len(names) == 1 else ""

    def container_ref(self, container_id: str) -> ContainerRef | None:
        """Return the container of an id by its link alone; None where there is no such link."""
        self._read_links()
        if container_id not in self._containers:
            self._read_links(again=True)
        linked = self._containers.get(container_id)
        if linked is None:
            return None
        namespace, pod, container = linked
        return ContainerRef(namespace, pod, container, self.pod_uid(namespace, pod))

    def _due(self, folder: Path, *, again: bool) -> bool:
        """Tell whether to read a folder: it changed, or ``again`` is asked for and not too soon."""
        now = self._clock()
        soon = now - self._read_at.get(folder, -READ_AGAIN_SECONDS) < READ_AGAIN_SECONDS
        if not self._changed(folder) and (soon or not again):
            return False
        self._read_at[folder] = now
        return True

    def _changed(self, folder: Path) -> bool:
        """Tell whether entries came or went since the last call, by the folder's own times."""
        try:
            found = os.stat(folder)  # noqa: PTH116 - asked for each pod, twice as fast
        except OSError:
            stamp = (0, 0)
        else:
            stamp = (found.st_mtime_ns, found.st_ino)
        changed = self._stamps.get(folder) != stamp
        self._stamps[folder] = stamp
        return changed

    def _read_pods(self, *, again: bool = False) -> None:
        if not self._due(self._root, again=again):
            return
        self._pods, self._uids = {}, {}
        for entry, folder in _entries(self._root):
            parts = entry.split("_")
            if folder and len(parts) == 3 and all(parts):  # noqa: PLR2004 namespace, name, uid
                namespace, name, uid = parts
                self._pods[uid] = (namespace, name)
                self._uids.setdefault((namespace, name), []).append(uid)

    def _read_links(self, *, again: bool = False) -> None:
        if not self._due(self._links, again=again):
            return
        matches = (_LOG_LINK.match(entry) for entry, _ in _entries(self._links))
        self._containers = {
            match["id"]: (match["namespace"], match["pod"], match["container"])
            for match in matches
            if match is not None
        }


def _entries(folder: Path) -> list[tuple[str, bool]]:
    """Return the names in a folder and whether each is a folder; empty where it cannot be read."""
    try:
        with os.scandir(folder) as found:
            return [(entry.name, entry.is_dir()) for entry in found]
    except OSError:
        return []


class CgroupAttribution:
    """A ``ProcessAttribution`` by cgroups and log folders. Used from one thread."""

    def __init__(
        self,
        proc_root: Path | str = PROC,
        pod_logs_root: Path | str = POD_LOGS,
        container_logs_root: Path | str | None = None,
        *,
        cached: int = CACHED_PROCESSES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Roots are the host's; ``cached`` bounds the processes that are remembered."""
        self._proc = Path(proc_root)
        self.folders = PodLogFolders(pod_logs_root, container_logs_root, clock)
        self.tracked = TrackedProcesses(self._proc, self._look_up, clock=clock, cached=cached)

    def owner(self, pid: int) -> ContainerRef | None:
        """Return the container of ``pid``; None outside any pod, ``UNTOLD`` if it can't be told.

        The container's name is empty where only the pod is known.
        """
        return self.tracked.owner(pid)

    def _look_up(self, pid: int, command: str) -> tuple[ContainerRef | None, bool]:
        """Return the container and whether the answer may be kept.

        A pod whose folder or container is not there yet may be known at the next look.
        """
        try:
            text = (self._proc / str(pid) / "cgroup").read_text("utf-8", "replace")
        except OSError:
            return UNTOLD, False
        ref = parse_cgroup(text)
        owner, sure = (None, True) if ref is None else self._container(ref)
        if command.startswith(MPS_COMMAND):
            at = UNTOLD if owner is None else owner
            owner = ContainerRef(at.namespace, at.pod, at.container, at.pod_uid, mps_server=True)
        return owner, sure

    def _container(self, ref: CgroupRef) -> tuple[ContainerRef | None, bool]:
        if not ref.pod_uid:
            linked = self.folders.container_ref(ref.container_id)
            if linked is None and not ref.of_pod:
                return None, True
            return (linked, True) if linked is not None else (UNTOLD, False)
        pod = self.folders.pod(ref.pod_uid)
        if pod is None:
            return UNTOLD, False
        container = self.folders.container(ref.pod_uid, ref.container_id)
        return ContainerRef(pod[0], pod[1], container, ref.pod_uid), container != ""
