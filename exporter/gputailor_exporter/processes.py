"""From a process on a device to the container it runs in.

``/proc/<pid>/cgroup`` names the pod's UID and the container's id, whatever the driver (cgroupfs,
systemd), version (1, 2) or runtime (containerd, CRI-O, Docker). Kubelet's log folders
``/var/log/pods/<namespace>_<name>_<uid>/<container>/`` lead from the UID to the names, the links
``/var/log/containers/<pod>_<namespace>_<container>-<id>.log`` from the id to the container. This
needs the host's process ids (hostPID) and both folders mounted read-only. Without the links the
container of a pod that has several is left empty: the pod is sure, and accounting takes the one of
its containers that holds the device, if it is only one.

A static pod's UID here is the hash of its manifest, as kubelet names its folder, not the UID that
the API server gave its mirror.
"""

import os
import re
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gputailor_exporter.allocations import ContainerRef

PROC: Final = Path("/proc")
POD_LOGS: Final = Path("/var/log/pods")
CACHED_PROCESSES: Final = 4096
_STAT_START: Final = 19  # of the fields after the command's name: field 22 of proc(5)

# The UID with dashes (cgroupfs), underscores (systemd) or as a static pod's 32 digits; then the
# container's 64, behind a runtime's prefix, in the next part of the path or after a colon.
_UID = r"pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
_CGROUP = re.compile(rf"(?:^|[/-]){_UID}(?:\.slice)?(?P<rest>[/:].*)?$")
_CONTAINER = re.compile(r"^(?:[a-z]+(?:-[a-z]+)*[-:])?(?P<id>[0-9a-f]{64})(?:\.scope)?$")
_LOG_LINK = re.compile(
    r"^(?P<pod>[^_]+)_(?P<namespace>[^_]+)_(?P<container>.+)-(?P<id>[0-9a-f]{64})\.log$"
)


@dataclass(frozen=True, slots=True)
class CgroupRef:
    """What a cgroup path says: the pod's UID, and the container's id ('' for the pod's own)."""

    pod_uid: str
    container_id: str


def parse_cgroup(text: str) -> CgroupRef | None:
    """Return pod and container of the lines of ``/proc/<pid>/cgroup``; None outside any pod.

    Where pods are nested in pods, the outermost counts: it is the one this node's kubelet runs.
    """
    found: CgroupRef | None = None
    for line in text.splitlines():
        ref = _parse_path(line.split(":", 2)[-1])
        if ref is not None and (found is None or (ref.container_id and not found.container_id)):
            found = ref
    return found


def _parse_path(path: str) -> CgroupRef | None:
    match = _CGROUP.search(path)
    if match is None:
        return None
    container = ""
    for part in (match["rest"] or "").lstrip(":/").split("/"):
        inside = _CONTAINER.match(part)
        if inside is not None:
            container = inside["id"]
            break
    return CgroupRef(match["uid"].replace("_", "-"), container)


class PodLogFolders:
    """Names of pods and containers from kubelet's log folders.

    They are read again when a folder's time changed, and for a name that is not known: two
    changes within one tick of the file system's clock leave the same time.
    """

    def __init__(self, root: Path | str = POD_LOGS, links: Path | str | None = None) -> None:
        """``root``: ``/var/log/pods``; ``links``: ``/var/log/containers``, by default beside it."""
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

    def _changed(self, folder: Path) -> bool:
        """Tell whether entries came or went since the last call, by the folder's own times."""
        try:
            found = folder.stat()
        except OSError:
            stamp = (0, 0)
        else:
            stamp = (found.st_mtime_ns, found.st_ino)
        changed = self._stamps.get(folder) != stamp
        self._stamps[folder] = stamp
        return changed

    def _read_pods(self, *, again: bool = False) -> None:
        if not self._changed(self._root) and not again:
            return
        self._pods, self._uids = {}, {}
        for entry, folder in _entries(self._root):
            parts = entry.split("_")
            if folder and len(parts) == 3 and all(parts):  # noqa: PLR2004 namespace, name, uid
                namespace, name, uid = parts
                self._pods[uid] = (namespace, name)
                self._uids.setdefault((namespace, name), []).append(uid)

    def _read_links(self, *, again: bool = False) -> None:
        if not self._changed(self._links) and not again:
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
    ) -> None:
        """Roots are the host's; ``cached`` bounds the processes that are remembered."""
        self._proc = Path(proc_root)
        self.folders = PodLogFolders(pod_logs_root, container_logs_root)
        self._cached = cached
        self._known: OrderedDict[int, tuple[str, ContainerRef | None]] = OrderedDict()

    def owner(self, pid: int) -> ContainerRef | None:
        """Return the container of ``pid``; None when it is in no pod, gone, or cannot be told.

        The container's name is empty where only the pod is known.

        A process is remembered with the time it started, so that a new one that got the same
        pid is looked up anew.
        """
        started = self._started(pid)
        if not started:
            self._known.pop(pid, None)
            return None
        known = self._known.get(pid)
        if known is not None and known[0] == started:
            self._known.move_to_end(pid)
            return known[1]
        found, sure = self._look_up(pid)
        if self._started(pid) != started:  # replaced while we looked
            return None
        if sure:
            self._known[pid] = (started, found)
            self._known.move_to_end(pid)
            if len(self._known) > self._cached:
                self._known.popitem(last=False)
        return found

    def _started(self, pid: int) -> str:
        """Return the start time of a process in clock ticks since boot; '' when it is gone."""
        try:
            text = (self._proc / str(pid) / "stat").read_bytes()
        except OSError:
            return ""
        fields = text.rpartition(b")")[2].split()  # the name may hold blanks and brackets
        return fields[_STAT_START].decode("ascii", "replace") if len(fields) > _STAT_START else ""

    def _look_up(self, pid: int) -> tuple[ContainerRef | None, bool]:
        """Return the container and whether the answer may be kept.

        A pod whose folder or container is not there yet may be known at the next cycle.
        """
        try:
            text = (self._proc / str(pid) / "cgroup").read_text("utf-8", "replace")
        except OSError:
            return None, False
        ref = parse_cgroup(text)
        if ref is None:
            return None, True
        pod = self.folders.pod(ref.pod_uid)
        container = self.folders.container(ref.pod_uid, ref.container_id)
        if pod is None:
            return None, False
        return ContainerRef(pod[0], pod[1], container, ref.pod_uid), container != ""
