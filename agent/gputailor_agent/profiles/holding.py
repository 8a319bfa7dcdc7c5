"""Who held how many devices, and when, by the inventory's clock.

A pod holds its devices from the moment it is bound to a node until it ends: a bound Pending pod
holds them, a Completed one does not, whatever its requests still say. Where the object has no
times, the source's clock has to do.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from gputailor_agent.inventory.holding import held_interval, holding
from gputailor_agent.model.inventory import ContainerSpec, Inventory, Node, Pod
from gputailor_agent.model.profile import GpuUse, Window
from gputailor_agent.model.usage import HOUR_SECONDS
from gputailor_agent.profiles.tally import DeviceTally

#: Kinds of requests that count devices one by one.
_COUNTED: Final = frozenset({"gpu", "mig", "fractional"})


def asked_gpus(container: ContainerSpec, node: Node | None = None) -> float:
    """Devices that one container asks for, on ``node`` where that is known.

    Several turns on shared devices (time-slicing) may all be on one, so they count as one; so does
    an amount of memory or cores without a device beside it.
    """
    if node is not None and node.sharing_replicas > 1:
        return 1.0 if container.gpus else 0.0
    counted = sum(request.count for request in container.gpus if request.kind in _COUNTED)
    return counted or (1.0 if container.gpus else 0.0)


#: Pods asked about last, by identity: rules and sums ask ten times about one pod in a row.
_asked: Final[dict[int, tuple[Pod, tuple[float, float] | None]]] = {}
_MOST_ASKED: Final = 4096


def _span(pod: Pod) -> tuple[float, float] | None:
    """``held_interval`` without an end, remembered; a pod is a value, its span never changes."""
    known = _asked.get(id(pod))
    if known is not None and known[0] is pod:
        return known[1]
    if len(_asked) >= _MOST_ASKED:
        _asked.clear()
    found = held_interval(pod, math.inf)
    _asked[id(pod)] = (pod, found)
    return found


def held_from(pod: Pod) -> float | None:
    """When the pod began to hold its devices (Unix seconds); None when it does not say."""
    span = _span(pod)
    return None if span is None else span[0]


def holds_at(pod: Pod, at: float) -> bool:
    """Whether the pod held its devices at ``at``."""
    span = _span(pod)
    if span is None:
        return holding(pod)
    return span[0] <= at < span[1]


def is_pending(pod: Pod) -> bool:
    """Whether the pod waits for a node: it asks, but holds nothing."""
    return not pod.template and not pod.node and pod.phase == "Pending"


def held_seconds(pod: Pod, window: Window, known_until: float) -> float | None:
    """Seconds of ``window`` in which the pod held its devices; None when its times are unknown.

    ``known_until``: a pod that has not ended is taken to hold its devices up to here.
    """
    span = _span(pod)
    if span is None:
        return None
    end = min(span[1], known_until) if pod.finished is None else span[1]
    return max(0.0, min(end, window.end) - max(span[0], window.start))


def allocations(
    tallies: Mapping[str, DeviceTally], held: float | None, asked: int
) -> dict[str, float]:
    """Allocated seconds by device.

    By the inventory every device is held as long as the pod lives. Where more devices were seen
    than asked for (one was swapped), they share that time as the source saw it.
    """
    by_source = {uuid: tally.allocated_seconds for uuid, tally in tallies.items()}
    if held is None:
        return by_source
    total = sum(by_source.values())
    if not asked or len(tallies) <= asked or total <= 0:
        return dict.fromkeys(tallies, held)
    return {uuid: held * asked * seconds / total for uuid, seconds in by_source.items()}


class Holdings:
    """Pods of one inventory, found by their key or by their name alone."""

    def __init__(self, inventory: Inventory) -> None:
        """Index the pods; of several with one name and no UID to tell, the latest made counts."""
        self.at = inventory.at
        self.pods = inventory.pods
        self._named: dict[tuple[str, str], Pod | tuple[Pod, ...]] = {}
        for pod in inventory.pods:
            name = (pod.namespace, pod.name)
            known = self._named.get(name)
            self._named[name] = pod if known is None else (*_all(known), pod)
        self._live = any(not pod.template for pod in inventory.pods)
        self._last: tuple[Iterable[GpuUse], Window, tuple[GpuUse, ...]] | None = None

    def find(self, namespace: str, name: str, uid: str) -> Pod | None:
        """Return the pod; an empty ``uid`` matches by name, another only itself or a template."""
        known = self._named.get((namespace, name))
        if known is None:
            return None
        if not isinstance(known, tuple) and (not uid or uid == known.uid):
            return known
        there = _all(known)
        if not uid:
            return max(reversed(there), key=lambda pod: (pod.created or 0.0, pod.uid))
        own = [pod for pod in there if pod.uid == uid] or [pod for pod in there if pod.template]
        return own[-1] if own else None

    def holds_now(self, use: GpuUse, window: Window) -> bool:
        """Whether the pod behind ``use`` held its device at the window's end."""
        pod = self.find(use.namespace, use.pod, use.pod_uid)
        return self.pod_holds_now(pod, window, use.last_hour)

    def pod_holds_now(self, pod: Pod | None, window: Window, last_hour: int) -> bool:
        """Like ``holds_now``; ``last_hour`` is the start of the last hour with a row.

        Without any real pod in the inventory (a log on its own, or beside a manifest) a pod counts
        as there while its rows reach into the last two hours; with some, a pod that is not among
        them has gone.
        """
        if pod is not None and not pod.template:
            return holds_at(pod, window.end)
        if pod is None and self._live:
            return False
        return last_hour + 2 * HOUR_SECONDS > window.end

    def live_uses(self, uses: Iterable[GpuUse], window: Window) -> tuple[GpuUse, ...]:
        """Those of ``uses`` whose pod held its device at the window's end.

        The last answer is remembered: many rules ask about one profile's devices in a row.
        """
        last = self._last
        if isinstance(uses, tuple) and last is not None and last[0] is uses and last[1] == window:
            return last[2]
        found = tuple(use for use in uses if self.holds_now(use, window))
        self._last = (uses, window, found)
        return found


def _all(pods: Pod | tuple[Pod, ...]) -> tuple[Pod, ...]:
    return pods if isinstance(pods, tuple) else (pods,)
