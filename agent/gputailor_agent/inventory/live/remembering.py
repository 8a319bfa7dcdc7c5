"""Pods and nodes as last seen, in little room.

Only pods that ask for accelerators are kept: they are what is judged, and a cluster's other pods
would fill memory and store. A pod is kept packed, as the value the rest of the agent knows: half a
kilobyte, beside its containers, which pods of one controller share. One with DRA claims is kept as
the object's parts, since its claims may come later. A pod that is deleted stays known for a while,
ended when it was last seen, so that what ran between two readings is not lost.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from gputailor_agent.inventory import raw
from gputailor_agent.inventory.claims import UNKNOWN_CLAIM, Claims
from gputailor_agent.inventory.holding import asks_for_devices
from gputailor_agent.inventory.live.sharing import Once, Unpacking
from gputailor_agent.inventory.nodes import read_node
from gputailor_agent.inventory.pods import owner_references, read_pod
from gputailor_agent.model.inventory import GpuRequest, Node, OwnerReference, Pod

#: Longer annotations and arguments are cut: nothing reads that far, and people put whole scripts
#: and manifests there.
LONGEST_ANNOTATION: Final = 1024
LONGEST_ARGUMENT: Final = 4096

DELETED: Final = "Deleted"
_ENDED: Final = ("Succeeded", "Failed")
_MOST_PROBLEMS: Final = 100


class PodEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One pod, packed. ``ended``: when a pod that is gone was last seen (Unix seconds)."""

    namespace: str
    name: str
    uid: str
    owners: tuple[OwnerReference, ...]
    packed: bytes
    claims: bool  # packed is the object's parts, to be read with its claims
    containers: bytes = b""  # packed apart from the pod, where there are no claims
    problems: tuple[str, ...] = ()
    ended: float | None = None

    @property
    def key(self) -> str:
        """What tells one pod from every other, also of the same name."""
        return self.uid or f"{self.namespace}/{self.name}"


_POD_OBJECT: Final = msgspec.json.Decoder(raw.RawPod)
_NODE_OBJECT: Final = msgspec.json.Decoder(raw.RawNode)
_PACK: Final = msgspec.msgpack.Encoder()
_POD: Final = msgspec.msgpack.Decoder(Pod)
_PARTS: Final = msgspec.msgpack.Decoder(raw.RawPod)


class _Name(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Header(msgspec.Struct):
    metadata: _Name | None = None


def _name_of(content: msgspec.Raw) -> _Name:
    """Which object this is, as far as even a broken one says."""
    try:
        return msgspec.json.decode(content, type=_Header).metadata or _Name()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Name()


class _Told:
    """Problems with single objects, as long as they last, and not without end."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._texts: dict[str, str] = {}

    def add(self, content: msgspec.Raw, error: Exception) -> None:
        name = _name_of(content)
        where = "/".join(part for part in (name.namespace, name.name) if part) or "without a name"
        if len(self._texts) < _MOST_PROBLEMS:
            self._texts[name.uid] = (
                f"{self._kind} {where}: cannot be read: {error}; "
                "expected the fields of the Kubernetes API"
            )

    def clear(self, uid: str) -> None:
        self._texts.pop(uid, None)

    def texts(self) -> list[str]:
        return list(self._texts.values())


def short(pod: Pod) -> Pod:
    """The pod without what is longer than anything reads."""
    annotations = pod.annotations
    if any(len(text) > LONGEST_ANNOTATION for text in annotations.values()):
        annotations = {k: v for k, v in annotations.items() if len(v) <= LONGEST_ANNOTATION}
    containers = tuple(
        msgspec.structs.replace(
            one,
            command=tuple(text[:LONGEST_ARGUMENT] for text in one.command),
            args=tuple(text[:LONGEST_ARGUMENT] for text in one.args),
            env={name: text[:LONGEST_ARGUMENT] for name, text in one.env.items()},
        )
        for one in pod.containers
    )
    return msgspec.structs.replace(pod, annotations=annotations, containers=containers)


def ended(pod: Pod, at: float) -> Pod:
    """A pod that is gone: as it ended, or else of unknown end when it was last seen."""
    if pod.phase in _ENDED:
        return pod if pod.finished is not None else msgspec.structs.replace(pod, finished=at)
    return msgspec.structs.replace(
        pod,
        phase="Unknown",
        finished=at if pod.finished is None else pod.finished,
        reason=pod.reason or DELETED,
    )


@dataclass(frozen=True, slots=True)
class MemoryBounds:
    """How long and how many pods that are gone are kept; the oldest go first."""

    keep_ended_seconds: float = 86_400.0
    most_ended: int = 20_000


class PodMemory:
    """The pods of a cluster that ask for accelerators. Safe to use from several threads."""

    def __init__(
        self,
        cluster: str,
        bounds: MemoryBounds | None = None,
        takes: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self.cluster = cluster
        self._takes = takes  # whether pods of a namespace are kept
        self._bounds = bounds or MemoryBounds()
        self._lock = threading.Lock()
        self._live: dict[str, PodEntry] = {}
        self._ended: dict[str, PodEntry] = {}  # in the order they ended
        self._told = _Told("pod")
        self._claimed: dict[str, dict[str, tuple[GpuRequest, ...]]] = {}  # by pod, by container
        self._forgotten = 0
        self._once = Once()

    def take(self, content: msgspec.Raw) -> PodEntry | None:
        """A pod object as an entry; None for one that asks for no accelerator."""
        try:
            return self._entry(_POD_OBJECT.decode(content))
        except (msgspec.DecodeError, ValueError, TypeError, AttributeError) as error:
            with self._lock:
                self._told.add(content, error)
            return None

    def _entry(self, parts: raw.RawPod) -> PodEntry | None:
        metadata, spec = parts.metadata or raw.RawMetadata(), parts.spec or raw.RawPodSpec()
        if not self._takes(metadata.namespace or ""):
            return None
        containers = b""
        if spec.resource_claims:
            packed, owners = _PACK.encode(parts), owner_references(metadata)
            problems: list[str] = []
        else:
            problems = []
            pod = read_pod(parts, self.cluster, Claims(), problems)
            if not asks_for_devices(pod):
                return None
            pod = short(pod)
            packed, owners = _PACK.encode(msgspec.structs.replace(pod, containers=())), pod.owners
            with self._lock:
                containers = self._once.of(_PACK.encode(pod.containers))
        return PodEntry(
            namespace=metadata.namespace or "",
            name=raw.text(metadata.name),
            uid=metadata.uid or "",
            owners=owners,
            packed=packed,
            claims=bool(spec.resource_claims),
            containers=containers,
            problems=tuple(problems),
        )

    def replace(
        self, entries: Sequence[PodEntry], namespace: str, at: float, unseen_since: float
    ) -> None:
        """All pods of a namespace ('' for every one); those missing ended at ``unseen_since``."""
        with self._lock:
            there = {entry.key for entry in entries}
            for entry in [*self._live.values()]:
                if entry.key not in there and namespace in {"", entry.namespace}:
                    self._end(entry, unseen_since)
            for entry in entries:
                self._keep(entry)
            self._prune(at)

    def put(self, content: msgspec.Raw) -> PodEntry | None:
        """A pod that is new or different; what it is now."""
        entry = self.take(content)
        if entry is not None:
            with self._lock:
                self._told.clear(entry.uid)
                self._keep(entry)
        return entry

    def remove(self, content: msgspec.Raw, at: float) -> None:
        """A pod that was deleted at ``at``; where its last state cannot be read, the one before."""
        entry, name = self.take(content), _name_of(content)
        with self._lock:
            self._told.clear(name.uid)
            last = entry or self._live.get(name.uid)
            if last is not None:
                self._end(last, at)
                self._prune(at)

    def entries(self) -> list[PodEntry]:
        """Every pod kept, those that are gone first."""
        with self._lock:
            return [*self._ended.values(), *self._live.values()]

    def problems(self) -> list[str]:
        """What could not be read, and whether the bound was met."""
        with self._lock:
            told = self._told.texts()
            if self._forgotten:
                told.append(
                    f"{self._forgotten:,} ended pods were forgotten before their time: more than "
                    f"{self._bounds.most_ended:,} ended between two readings"
                )
            return told

    def pods(
        self, entries: Iterable[PodEntry], claims: Claims, problems: list[str]
    ) -> tuple[Pod, ...]:
        """The pods of entries, with what their claims are, or were when that was last known.

        A claim made for a pod goes with it, and a server may refuse the claims for a while.
        """
        found = tuple(unpack(entries, self.cluster, claims, problems, self._settled))
        with self._lock:
            self._claimed = {
                key: known
                for key, known in self._claimed.items()
                if key in self._live or key in self._ended
            }
        return found

    def _settled(self, entry: PodEntry, pod: Pod) -> Pod:
        with self._lock:
            known = self._claimed.get(entry.key)
            if known is None or (entry.ended is None and not any(map(_is_open, _asked(pod)))):
                self._claimed[entry.key] = {one.name: one.gpus for one in pod.containers}
                return pod
        containers = (
            msgspec.structs.replace(one, gpus=known.get(one.name, one.gpus))
            for one in pod.containers
        )
        return msgspec.structs.replace(pod, containers=tuple(containers))

    def prune(self, at: float) -> None:
        """Forget pods that ended too long ago."""
        with self._lock:
            self._prune(at)

    def _keep(self, entry: PodEntry) -> None:
        self._ended.pop(entry.key, None)
        self._live[entry.key] = entry

    def _end(self, entry: PodEntry, at: float) -> None:
        self._live.pop(entry.key, None)
        self._ended.setdefault(entry.key, msgspec.structs.replace(entry, ended=at))

    def _prune(self, at: float) -> None:
        oldest = at - self._bounds.keep_ended_seconds
        for key, entry in [*self._ended.items()]:
            late = len(self._ended) > self._bounds.most_ended
            if not late and (entry.ended or 0.0) >= oldest:
                break
            self._forgotten += (entry.ended or 0.0) >= oldest
            del self._ended[key]


def _asked(pod: Pod) -> Iterator[GpuRequest]:
    return (request for container in pod.containers for request in container.gpus)


def _is_open(request: GpuRequest) -> bool:
    """Whether a claim's kind or number is not known (yet, or any more)."""
    claimed = "/" not in request.resource or request.resource.startswith(UNKNOWN_CLAIM)
    return request.kind == "other" and claimed


def unpack(
    entries: Iterable[PodEntry],
    cluster: str,
    claims: Claims,
    problems: list[str],
    settle: Callable[[PodEntry, Pod], Pod] = lambda _, pod: pod,
) -> Iterator[Pod]:
    """The pods of entries; those that turn out to ask for no accelerator are left out.

    ``settle`` is asked about each pod that has claims.
    """
    unpacking = Unpacking()
    for entry in entries:
        if entry.claims:
            told: list[str] = []
            read = short(read_pod(_PARTS.decode(entry.packed), cluster, claims, told))
            pod = settle(entry, read)
            if not asks_for_devices(pod):
                continue
        else:
            containers, told = unpacking.containers(entry.containers), list(entry.problems)
            pod = msgspec.structs.replace(_POD.decode(entry.packed), containers=containers)
        problems += [f"pod {entry.namespace}/{entry.name}: {text}" for text in told]
        yield pod if entry.ended is None else ended(pod, entry.ended)


class NodeMemory:
    """The nodes of a cluster. Safe to use from several threads."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._nodes: dict[str, Node] = {}
        self._told = _Told("node")

    def take(self, content: msgspec.Raw) -> Node | None:
        """A node object as a value; None for one that cannot be read, which is told."""
        try:
            return read_node(_NODE_OBJECT.decode(content), self._cluster)
        except (msgspec.DecodeError, ValueError, TypeError, AttributeError) as error:
            with self._lock:
                self._told.add(content, error)
            return None

    def listed(self, items: Sequence[Node], at: float, unseen_since: float) -> None:
        """Every node there is."""
        _ = at, unseen_since
        with self._lock:
            self._nodes = {node.name: node for node in items}

    def changed(self, content: msgspec.Raw, at: float) -> None:
        """A node is new or different."""
        _ = at
        node = self.take(content)
        if node is not None:
            with self._lock:
                self._told.clear(_name_of(content).uid)
                self._nodes[node.name] = node

    def deleted(self, content: msgspec.Raw, at: float) -> None:
        """A node is gone."""
        _ = at
        name = _name_of(content)
        with self._lock:
            self._told.clear(name.uid)
            self._nodes.pop(name.name, None)

    def nodes(self) -> tuple[Node, ...]:
        """All of them, by name."""
        with self._lock:
            return tuple(self._nodes[name] for name in sorted(self._nodes))

    def problems(self) -> list[str]:
        """What could not be read."""
        with self._lock:
            return self._told.texts()
