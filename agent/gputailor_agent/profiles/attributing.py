"""Whose use a device's was, where no exporter names the pod: by what Kubernetes handed out.

Kubernetes does not say which device of a node a pod holds. Where one container held all devices of
a node for the whole of an hour there is no doubt, and the hour's rows are its. Anything else (a
node that several share, an hour in which the container began or ended) stays unknown: the device's
value is never split or guessed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from gputailor_agent.model.inventory import Inventory, Pod
from gputailor_agent.model.packed import Place, PlacedPart, UsagePart
from gputailor_agent.model.profile import Window
from gputailor_agent.model.usage import HOUR_SECONDS, Device, UsageRow
from gputailor_agent.profiles.holding import asked_gpus, held_seconds

#: A container that held the devices for so much of the hour had all of it.
_WHOLE: Final = 0.95


def attributed(
    rows: Iterable[UsageRow | PlacedPart], devices: Iterable[Device], inventory: Inventory
) -> Iterator[UsageRow | PlacedPart]:
    """Yield rows as ``Attribution`` does, of one stream."""
    return Attribution(devices, inventory).attributed(rows)


def pod_of(row: UsageRow | PlacedPart) -> tuple[str, str]:
    """Namespace and name of the pod whose use a row is; two empty ones where it names none."""
    if isinstance(row, tuple):
        return row[0][0], row[0][1]
    return row.key.namespace, row.key.pod


class Attribution:
    """Attributes rows of one cluster. What it needs of the inventory is indexed at first need."""

    def __init__(self, devices: Iterable[Device], inventory: Inventory) -> None:
        self._devices = devices
        self._inventory = inventory
        self._holders: _Holders | None = None

    def attributed(self, rows: Iterable[UsageRow | PlacedPart]) -> Iterator[UsageRow | PlacedPart]:
        """Yield the rows of pods; of those without a pod the ones whose pod is beyond doubt.

        A part of a whole day is attributed only where one container held the devices all of its
        hours.
        """
        for row in rows:
            if pod_of(row)[1]:
                yield row
                continue
            holders = self._all()
            found = holders.of_part(*row) if isinstance(row, tuple) else holders.of_row(row)
            if found is not None:
                yield found

    def devices_on(self, nodes: Iterable[str]) -> Iterator[str]:
        """Yield the UUIDs of the devices of these nodes."""
        by_node = self._all().by_node
        for node in nodes:
            yield from by_node.get(node, ())

    def _all(self) -> "_Holders":
        if self._holders is None:
            self._holders = _Holders(self._devices, self._inventory)
        return self._holders


class _Holders:
    """Containers that ask for devices, by node."""

    def __init__(self, devices: Iterable[Device], inventory: Inventory) -> None:
        self._at = inventory.at
        self._node_of: dict[str, str] = {}
        self.by_node: dict[str, list[str]] = defaultdict(list)  # UUIDs of devices
        self._seen: dict[str, set[str]] = defaultdict(set)  # whole cards of a node
        nodes = {node.name: node for node in inventory.nodes}
        for device in devices:
            self._node_of[device.gpu_uuid] = device.node
            self.by_node[device.node].append(device.gpu_uuid)
            if not device.parent_uuid:
                self._seen[device.node].add(device.gpu_uuid)
        self._count = {name: node.gpu_count for name, node in nodes.items() if node.gpu_count}
        self._pods: dict[str, list[tuple[Pod, str, float]]] = defaultdict(list)
        for pod in inventory.pods:
            if pod.template or not pod.node:
                continue
            for container in pod.containers:
                asked = asked_gpus(container, nodes.get(pod.node))
                if asked > 0:
                    self._pods[pod.node].append((pod, container.name, asked))

    def of_row(self, row: UsageRow) -> UsageRow | None:
        """Return the row as the one container's that held the whole node; None in any doubt."""
        place = self._holder(row.key.gpu_uuid, row.key.hour, row.key.hour)
        if place is None:
            return None
        namespace, pod, uid, container, _ = place
        key = msgspec.structs.replace(
            row.key, namespace=namespace, pod=pod, pod_uid=uid, container=container
        )
        return msgspec.structs.replace(row, key=key)

    def of_part(self, place: Place, part: UsagePart) -> PlacedPart | None:
        """Likewise for a part of one hour or of a day."""
        found = self._holder(place[-1], part.hour, part.last_hour)
        return None if found is None else (found, part)

    def _holder(self, gpu_uuid: str, first_hour: int, last_hour: int) -> Place | None:
        node = self._node_of.get(gpu_uuid, "")
        end = min(float(last_hour + HOUR_SECONDS), max(self._at, first_hour + 1.0))
        window = Window(start=float(first_hour), end=end)
        there = [
            (pod, name, asked, held_seconds(pod, window, self._at))
            for pod, name, asked in self._pods.get(node, ())
        ]
        there = [one for one in there if one[3] is None or one[3] > 0]
        if len(there) != 1:
            return None
        pod, container, asked, held = there[0]
        count = self._count.get(node) or len(self._seen.get(node, ()))
        if held is None or held < _WHOLE * (end - first_hour) or asked < count:
            return None
        return (pod.namespace, pod.name, pod.uid, container, gpu_uuid)
