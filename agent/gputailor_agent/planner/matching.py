"""Which pods that wait could run on devices that primary findings would free."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from gputailor_agent.model.inventory import Node, Pod
from gputailor_agent.model.judgement import Serving, Waiting
from gputailor_agent.planner.waiting import Room, Wish

_NEARLY: Final = 1e-9


def served(
    found: Iterable[Waiting],
    groups: Mapping[Wish, list[Pod]],
    around: list[Room],
    freed: Iterable[Serving],
) -> tuple[Waiting, ...]:
    """Say which of those that wait could run on what primary findings would free.

    What waits longest is served first; no device is promised twice, and free devices beside those
    of a node that would be freed count with them. Devices that are freed are taken to be of the
    resource that the node offers most of.
    """
    spare: dict[str, list[Serving]] = defaultdict(list)
    for one in sorted(freed, key=lambda one: (one.node, one.workload_id)):
        spare[one.node].append(one)
    around = [room for room in around if room.node.name in spare]
    left = {room.node.name: dict(room.free) for room in around}
    answers = []
    for entry in found:
        pod = groups[Wish(entry.namespace, entry.owner, entry.resource, entry.devices)][0]
        takes: list[Serving] = []
        count = 0
        while count < entry.pods and (taken := _place(entry, pod, around, left, spare)):
            takes += taken
            count += 1
        joined = _joined(takes)
        answers.append(msgspec.structs.replace(entry, served_pods=count, served_by=joined))
    return tuple(answers)


def _place(
    entry: Waiting,
    pod: Pod,
    around: list[Room],
    left: dict[str, dict[str, float]],
    spare: dict[str, list[Serving]],
) -> list[Serving]:
    """Take devices of one node for one pod; nothing where none has enough."""
    for room in around:
        name = room.node.name
        if entry.resource not in room.free or not room.available or room.untolerated(pod):
            continue
        free = left[name][entry.resource]
        offered = spare.get(name, []) if _main(room.node) == entry.resource else []
        if not offered or free + sum(one.devices for one in offered) < entry.devices - _NEARLY:
            continue
        left[name][entry.resource] = max(0.0, free - entry.devices)
        return _take(offered, max(0.0, entry.devices - free))
    return []


def _main(node: Node) -> str:
    amounts = node.allocatable or node.capacity
    return max(sorted(amounts), key=lambda name: amounts[name], default="")


def _take(offered: list[Serving], wanted: float) -> list[Serving]:
    """Take so many devices from what a node would have freed."""
    taken = []
    while wanted > _NEARLY and offered:
        one = offered.pop(0)
        part = min(one.devices, wanted)
        wanted -= part
        taken.append(msgspec.structs.replace(one, devices=part))
        if one.devices - part > _NEARLY:
            offered.insert(0, msgspec.structs.replace(one, devices=one.devices - part))
    return taken


def _joined(takes: list[Serving]) -> tuple[Serving, ...]:
    sums: dict[tuple[str, str, str], float] = defaultdict(float)
    for one in takes:
        sums[one.workload_id, one.rule, one.node] += one.devices
    return tuple(
        Serving(workload_id=work, rule=rule, node=node, devices=devices)
        for (work, rule, node), devices in sorted(sums.items())
    )
