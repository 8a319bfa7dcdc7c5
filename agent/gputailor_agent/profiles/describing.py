"""What profiles say of devices and pods, found from what is known of them."""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Final

from gputailor_agent.model.inventory import ContainerSpec, Node, Pod, Workload
from gputailor_agent.model.packed import DAY_SECONDS
from gputailor_agent.model.profile import GpuUse, Window
from gputailor_agent.model.usage import Device
from gputailor_agent.profiles.holding import asked_gpus
from gputailor_agent.profiles.runs import Member

#: Share of a UTC day that must have been observed for it to count as a full day.
FULL_DAY_SHARE: Final = 0.9


def latest_devices(devices: Iterable[Device]) -> dict[str, Device]:
    """Return each device as it was seen last, by UUID."""
    latest: dict[str, Device] = {}
    for device in devices:
        known = latest.get(device.gpu_uuid)
        if known is None or (device.last_seen, repr(device)) > (known.last_seen, repr(known)):
            latest[device.gpu_uuid] = device
    return latest


def container_spec(pod: Pod | None, name: str) -> ContainerSpec | None:
    """Return the container of that name of a pod; None where either is not known."""
    if pod is None:
        return None
    return next((container for container in pod.containers if container.name == name), None)


def device_of_node(node: Node, uuid: str, mig_profile: str) -> Device:
    """Return what Kubernetes tells of a device that no source told of."""
    return Device(
        cluster=node.cluster,
        gpu_uuid=uuid,
        node=node.name,
        model=node.gpu_product,
        memory_total_bytes=None if mig_profile else node.gpu_memory_bytes,
        mig_profile=mig_profile,
    )


def gpus_per_pod(workload: Workload, asking: list[Pod], members: list[Member]) -> float:
    """Devices of the most common pod: of those that ran, else of those that ask, else as told."""
    counts = Counter(member.asked or float(len(member.tallies)) for member in members)
    if not counts:
        specs = (container_spec(pod, workload.container) for pod in asking)
        counts = Counter(asked_gpus(spec) for spec in specs if spec is not None)
    if counts:
        return max(counts, key=lambda count: (counts[count], count))
    return asked_gpus(ContainerSpec(name="", gpus=workload.gpu_requests))


def full_days(uses: Iterable[GpuUse], window: Window) -> int:
    """Whole UTC days of the window in which some device was observed for 0.9 of the day."""
    first = math.ceil(window.start / DAY_SECONDS)
    best: dict[int, float] = {}
    told = [use.hours for use in uses if use.hours]
    for hours in told if len(told) > 1 else ():
        for hour, observed, _ in hours:
            if observed > best.get(hour, -1.0):
                best[hour] = observed
    days: dict[int, float] = {}
    alone = ((hour, observed) for hour, observed, _ in told[0]) if len(told) == 1 else ()
    for hour, observed in best.items() or alone:
        day = hour // DAY_SECONDS
        days[day] = days.get(day, 0.0) + observed
    return sum(
        seconds >= FULL_DAY_SHARE * DAY_SECONDS
        for day, seconds in days.items()
        if day >= first and (day + 1) * DAY_SECONDS <= window.end
    )
