"""A cluster followed: what it is asked for is known at any time without asking it anew.

Pods and nodes are listed once and watched; owners are read within seconds of the first pod that
names them, since short jobs take them along when they go. A reading costs the API server nothing
but what changed.
"""

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from gputailor_agent.inventory.live.choosing import NamespaceChoice
from gputailor_agent.inventory.live.client import Client, Timeouts
from gputailor_agent.inventory.live.configuring import find_connection
from gputailor_agent.inventory.live.discovering import NODES, PODS
from gputailor_agent.inventory.live.errors import ClusterError
from gputailor_agent.inventory.live.naming import NamespaceMemory
from gputailor_agent.inventory.live.owning import OwnerMemory, Reference
from gputailor_agent.inventory.live.reading import (
    Memories,
    absent,
    assemble,
    no_nodes,
    no_pods,
    references_of,
)
from gputailor_agent.inventory.live.remembering import (
    MemoryBounds,
    NodeMemory,
    PodEntry,
    PodMemory,
)
from gputailor_agent.inventory.live.waiting import Patience
from gputailor_agent.inventory.live.watching import Watching, WatchSettings
from gputailor_agent.model.inventory import Inventory

log = logging.getLogger(__name__)

_GATHERING_SECONDS: Final = 0.5  # new pods come in groups: one look at their owners is enough
_JOIN_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """How a cluster is followed. Times in seconds.

    ``namespaces`` None: all; names, shell patterns, and behind ``!`` what is left out.
    ``ready_seconds``: how long a first reading waits for the lists.
    ``stale_seconds``: a reading older than that is refused, so that nobody takes it for news.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    namespaces: tuple[str, ...] | None = None
    ready_seconds: float = 30.0
    stale_seconds: float = 300.0
    owners_fresh_seconds: float = 600.0
    memory: MemoryBounds = field(default_factory=MemoryBounds)
    watch: WatchSettings = field(default_factory=WatchSettings)
    patience: Patience = field(default_factory=Patience)
    timeouts: Timeouts = field(default_factory=Timeouts)


class _News:
    """Owners that pods name, until somebody takes them to read. Safe to use from threads."""

    def __init__(self) -> None:
        self._there = threading.Event()
        self._lock = threading.Lock()
        self._references: dict[str, Reference] = {}

    def tell(self, references: Iterable[Reference]) -> None:
        """These may be new: whoever waits wakes up."""
        self.keep(references)
        self._there.set()

    def keep(self, references: Iterable[Reference]) -> None:
        """These are to be looked at, too, when there is something else."""
        with self._lock:
            self._references.update(
                (reference.uid, (ns, reference)) for ns, reference in references
            )

    def wait(self) -> None:
        """Until something is told."""
        self._there.wait()

    def take(self) -> list[Reference]:
        """What was told since it was last taken."""
        self._there.clear()
        with self._lock:
            taken, self._references = [*self._references.values()], {}
        return taken


class _PodSink:
    """Feeds the pods of one namespace to the memory, and says which owners may be new."""

    def __init__(self, memory: PodMemory, namespace: str, news: _News) -> None:
        self._memory = memory
        self._namespace = namespace
        self._news = news
        self.take = memory.take

    def listed(self, items: Sequence[PodEntry], at: float, unseen_since: float) -> None:
        self._memory.replace(items, self._namespace, at, unseen_since)
        self._news.tell(references_of(items))

    def changed(self, content: msgspec.Raw, at: float) -> None:
        _ = at
        entry = self._memory.put(content)
        if entry is not None:
            self._news.tell(references_of([entry]))

    def deleted(self, content: msgspec.Raw, at: float) -> None:
        self._memory.remove(content, at)


class LiveInventory:
    """Follows one cluster between ``start`` and ``stop``; ``snapshot`` is an inventory reader.

    ``clock`` returns Unix seconds. The constructor raises ``AccessError`` where there is no way
    to the cluster; nothing is asked before ``start``.
    """

    def __init__(
        self,
        cluster: str,
        config: LiveSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        config = config or LiveSettings()
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._stopped = threading.Event()
        self._news = _News()
        self._client = Client(
            find_connection(config.kubeconfig, config.context),
            patience=config.patience,
            timeouts=config.timeouts,
            sleep=self._stopped.wait,
        )
        choice = NamespaceChoice.of(config.namespaces)
        self._pods = PodMemory(cluster, config.memory, choice.takes)
        self._nodes = NodeMemory(cluster)
        self._owners = OwnerMemory(self._client, cluster, fresh_seconds=config.owners_fresh_seconds)
        self._namespaces = NamespaceMemory(
            self._client,
            one_by_one=choice.places != ("",),
            fresh_seconds=config.owners_fresh_seconds,
        )
        self._pod_watches = [
            self._watching(PODS, place, _PodSink(self._pods, place, self._news))
            for place in choice.places
        ]
        self._node_watch = self._watching(NODES, "", self._nodes)
        self._absent: tuple[float, list[str]] = (-math.inf, [])  # looked for at, and told
        self._threads: list[threading.Thread] = []

    @property
    def where(self) -> str:
        """Which cluster this is: context and file, or the pod's own."""
        return self._client.where

    def start(self) -> None:
        """Begin to follow in the background."""
        if self._threads:
            raise RuntimeError("already started; a stopped LiveInventory is not started again")
        bodies = [watch.run for watch in (*self._pod_watches, self._node_watch)]
        for body in (*bodies, self._follow_owners):
            thread = threading.Thread(target=body, name="gputailor-inventory", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End every watch and wait for the threads."""
        self._stopped.set()
        self._news.tell(())
        for watch in (*self._pod_watches, self._node_watch):
            watch.interrupt()
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)
        self._client.close()

    def snapshot(self, at: float) -> Inventory:
        """What the cluster is asked for as of ``at`` (Unix seconds).

        Waits for the first lists. Raises ``ClusterError`` when pods could not be read yet, or
        not for so long that they are no news; the last known inventory is better then.
        """
        if not self._threads or self._stopped.is_set():
            raise ClusterError(f"{self.where} is not followed now: start comes first")
        self._wait_ready()
        problems = self._pod_problems() + self._node_problems()
        now = self._clock()
        self._pods.prune(now)
        known = Memories(
            pods=self._pods,
            nodes=self._nodes,
            owners=self._owners,
            namespaces=self._namespaces,
        )
        found = assemble(self._client, at, known, now=now, problems=problems)
        self._owners.keep_only(
            [owner.uid for owner in found.owners]
            + [reference.uid for pod in found.pods for reference in pod.owners]
            + [reference.uid for owner in found.owners for reference in owner.owners]
        )
        lost = self._absent_namespaces({pod.namespace for pod in found.pods}, now)
        return msgspec.structs.replace(found, problems=(*found.problems, *lost)) if lost else found

    def __call__(self, at: float) -> Inventory:
        """The same as ``snapshot``, as the agent's service calls its reader."""
        return self.snapshot(at)

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    def _watching(self, resource: Any, namespace: str, sink: Any) -> Watching[Any]:
        return Watching(
            self._client,
            resource,
            namespace,
            sink,
            clock=self._clock,
            stopped=self._stopped,
            jitter=random.random,
            settings=self._config.watch,
        )

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + self._config.ready_seconds
        for watch in self._pod_watches:
            while not watch.synced.wait(0.05) and not watch.refused:
                if time.monotonic() > deadline:
                    break
        self._node_watch.tried.wait(max(0.0, deadline - time.monotonic()))

    def _pod_problems(self) -> list[str]:
        """Why some pods are not as of now; raises where none are."""
        now, problems, known = self._clock(), list[str](), 0
        for watch in self._pod_watches:
            seen = watch.seen_at(now)
            if not watch.synced.is_set() or seen is None:
                problems.append(watch.problem or f"{self._client.host} has not answered yet")
            else:
                of = f" of {watch.namespace}" if watch.namespace else ""
                stale = self._stale(watch, f"pods{of}", now - seen)
                known += not stale
                problems += stale
        if not known:
            raise ClusterError(no_pods(problems))
        return problems

    def _absent_namespaces(self, having_pods: Container[str], now: float) -> list[str]:
        """Named namespaces that are not there, looked for once in a while where no pod is."""
        looked_at, told = self._absent
        if now - looked_at >= self._config.owners_fresh_seconds:
            names = [one.namespace for one in self._pod_watches if one.namespace]
            told = absent(self._client, [name for name in names if name not in having_pods])
            self._absent = (now, told)
        return told

    def _stale(self, watch: Watching[Any], what: str, age_seconds: float) -> list[str]:
        if age_seconds <= self._config.stale_seconds:
            return []
        reason = watch.problem or "no answer"
        return [f"{what} were last heard of {age_seconds:.0f} s ago: {reason}"]

    def _node_problems(self) -> list[str]:
        watch, now = self._node_watch, self._clock()
        seen = watch.seen_at(now)
        if not watch.synced.is_set() or seen is None:
            if watch.refused:
                return [no_nodes(self.where)]
            return [f"nodes could not be read: {watch.problem or 'no answer yet'}"]
        return self._stale(watch, "nodes", now - seen)

    def _follow_owners(self) -> None:
        """Read owners soon after the first pod that names them; those that failed, next time."""
        while not self._stopped.is_set():
            self._news.wait()
            self._stopped.wait(_GATHERING_SECONDS)
            references = self._news.take()
            if self._stopped.is_set():
                return
            try:
                self._owners.resolve(references, self._clock())
            except Exception:  # the thread goes on: a snapshot looks again
                log.exception("owners could not be read")
            self._news.keep(self._owners.unread(references))
