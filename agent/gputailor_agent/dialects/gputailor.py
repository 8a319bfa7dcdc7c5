"""Our own exporter. Its contract is ``gputailor_exporter.metrics``; names come from there only.

Base units and ratios already, so nothing is scaled. Where the exporter was scraped by a Prometheus
that did not honour its labels, the pod's labels come as ``exported_pod`` and so on: both are read.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final

from gputailor_agent.dialects.base import Field, Holder, Place, PlaceError
from gputailor_agent.model.usage import Device
from gputailor_exporter import metrics

NAME: Final = "gputailor"

_Labels = Mapping[str, str]
_Placing = Callable[[_Labels, str], Place]


def _need(labels: _Labels, name: str) -> str:
    value = labels.get("exported_" + name, labels.get(name))
    if value is None:
        raise PlaceError(f"the label {name!r}")
    return value


def _holder(labels: _Labels) -> Holder:
    return Holder(
        namespace=_need(labels, "namespace"),
        pod=_need(labels, "pod"),
        pod_uid=labels.get("exported_pod_uid", labels.get("pod_uid", "")),
        container=_need(labels, "container"),
        gpu_uuid=_need(labels, "gpu_uuid"),
    )


def _device(labels: _Labels, cluster: str) -> Device:
    return Device(
        cluster=cluster,
        gpu_uuid=_need(labels, "gpu_uuid"),
        node=labels.get("exported_node", labels.get("node", "")),
        index=labels.get("gpu", ""),
        vendor=labels.get("vendor", ""),
        model=labels.get("model", ""),
        mig_profile=labels.get("mig_profile", ""),
        parent_uuid=labels.get("parent_uuid", ""),
        compute_capability=labels.get("compute_capability", ""),
        driver_version=labels.get("driver_version", ""),
        cuda_version=labels.get("cuda_version", ""),
    )


def _of_container(field: Field, label: str = "") -> _Placing:
    def placing(labels: _Labels, _cluster: str) -> Place:
        return Place(field, _need(labels, label) if label else "", holder=_holder(labels))

    return placing


def _of_device(field: Field) -> _Placing:
    def placing(labels: _Labels, cluster: str) -> Place:
        return Place(field, device=_device(labels, cluster))

    return placing


def _of_device_counter(family: str, label: str) -> _Placing:
    def placing(labels: _Labels, cluster: str) -> Place:
        key = f"{family}/{_need(labels, label)}"
        return Place(Field.DEVICE, key, device=_device(labels, cluster))

    return placing


def _of_link(labels: _Labels, _cluster: str) -> Place:
    key = f"{_need(labels, 'link')}/{_need(labels, 'direction')}"
    return Place(Field.LINK_BYTES, key, holder=_holder(labels))


def _of_bucket(labels: _Labels, _cluster: str) -> Place:
    edge = _need(labels, "le")
    try:
        bound = float(edge)
    except ValueError:
        bound = math.nan
    if math.isnan(bound):
        raise PlaceError(f"a number in the label 'le', not {edge!r}")
    signal = _need(labels, "signal")
    return Place(Field.HISTOGRAM, signal, holder=_holder(labels), bound=bound)


_PLACINGS: Final[dict[str, _Placing]] = {
    metrics.CONTAINER_ALLOCATED.name: _of_container(Field.ALLOCATED),
    metrics.CONTAINER_ALLOCATED_SHARE.name: _of_container(Field.SHARE),
    metrics.CONTAINER_ALLOCATED_SECONDS.name: _of_container(Field.ALLOCATED_SECONDS),
    metrics.CONTAINER_ACTIVE_SECONDS.name: _of_container(Field.ACTIVE, "signal"),
    metrics.CONTAINER_OBSERVED_SECONDS.name: _of_container(Field.OBSERVED, "signal"),
    metrics.CONTAINER_ACTIVITY.name + "_bucket": _of_bucket,
    metrics.CONTAINER_CONDITION_SECONDS.name: _of_container(Field.CONDITIONS, "condition"),
    metrics.CONTAINER_LINK_BYTES.name: _of_link,
    metrics.CONTAINER_MEMORY_USED.name: _of_container(Field.MEMORY_USED),
    metrics.CONTAINER_MEMORY_PEAK.name: _of_container(Field.MEMORY_PEAK),
    metrics.CONTAINER_ENERGY.name: _of_container(Field.ENERGY),
    metrics.CONTAINER_LAST_ACTIVE.name: _of_container(Field.LAST_ACTIVE),
    metrics.DEVICE_INFO.name: _of_device(Field.INFO),
    metrics.DEVICE_MEMORY_TOTAL.name: _of_device(Field.MEMORY_TOTAL),
    metrics.DEVICE_POWER_LIMIT.name: _of_device(Field.POWER_LIMIT),
    metrics.DEVICE_UP.name: _of_device(Field.UP),
    metrics.DEVICE_THROTTLED_SECONDS.name: _of_device_counter("throttled", "reason"),
    metrics.DEVICE_XID_ERRORS.name: _of_device_counter("xid", "xid"),
    metrics.DEVICE_ECC_ERRORS.name: _of_device_counter("ecc", "severity"),
    metrics.EXPORTER_BUILD_INFO.name: lambda _labels, _cluster: Place(Field.PRESENCE),
    metrics.PROCESS_START_TIME.name: lambda _labels, _cluster: Place(Field.PROCESS_STARTED),
}


class _Gputailor:
    """The dialect of our exporter."""

    name = NAME
    prefixes = (metrics.PREFIX, metrics.PROCESS_START_TIME.name)

    def place(self, sample: str, labels: _Labels, cluster: str) -> Place | None:
        """Where the series belongs; None for families that only people look at."""
        placing = _PLACINGS.get(sample)
        return placing(labels, cluster) if placing is not None else None


DIALECT: Final = _Gputailor()
