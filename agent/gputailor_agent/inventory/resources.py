"""GPU resource names and amounts: what a container, a pod or a node says in Kubernetes' words.

The names live in ``resources.yaml``; here is only the arithmetic. Amounts such as GPU memory or
cores (kind ``other``) describe how big a fraction is; they are kept, and never counted as devices.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources as packaged
from typing import Any, Final

import msgspec
import yaml

from gputailor_agent.model.inventory import ContainerSpec, GpuRequest, Pod


class ResourceRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table: the names it matches and what they stand for."""

    vendor: str
    kind: str
    pattern: str = ""
    key: str = ""
    amount_of: str = ""
    again: tuple[str, ...] = ()
    times: str = ""
    container: str = ""


class ResourceTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of ``resources.yaml``."""

    resources: tuple[ResourceRow, ...]
    annotations: tuple[ResourceRow, ...]
    device_classes: tuple[ResourceRow, ...]


class GpuResource(msgspec.Struct, frozen=True, kw_only=True):
    """What a resource name stands for.

    ``amount_of`` names the device resource an amount cuts, ``again`` other names of its devices.
    """

    vendor: str
    kind: str
    partition: str = ""
    amount_of: str = ""
    again: tuple[str, ...] = ()


@cache
def resource_table() -> ResourceTable:
    """The packaged table of accelerator resources."""
    text = packaged.files(__package__).joinpath("resources.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), ResourceTable)


def _match(rows: Iterable[ResourceRow], name: str) -> GpuResource | None:
    for row in rows:
        found = re.fullmatch(row.pattern or re.escape(row.key), name)
        if found:
            groups = {key: value or "" for key, value in found.groupdict().items()}
            return GpuResource(
                vendor=row.vendor,
                kind=row.kind,
                partition=groups.get("partition", ""),
                amount_of=row.amount_of.format_map(groups),
                again=row.again,
            )
    return None


#: Before a device class's name, where a pod asks for it like for an extended resource.
_OF_CLASS: Final = "deviceclass.resource.kubernetes.io/"


@lru_cache(maxsize=4096)
def gpu_resource(name: str) -> GpuResource | None:
    """What an extended resource stands for; None when it is no accelerator."""
    if name.startswith(_OF_CLASS):
        return device_class(name.removeprefix(_OF_CLASS))
    return _match(resource_table().resources, name)


@lru_cache(maxsize=256)
def device_class(name: str) -> GpuResource | None:
    """What a DRA device class stands for; None when no row knows it."""
    return _match(resource_table().device_classes, name)


_SUFFIXES: Final[dict[str, float]] = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3,
    "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_QUANTITY: Final = re.compile(
    r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i))?\s*"
)


@lru_cache(maxsize=4096)
def _quantity_of_text(text: str) -> float | None:
    found = _QUANTITY.fullmatch(text)
    if not found:
        return None
    number, exponent, suffix = found.groups()
    return float(number + (exponent or "")) * _SUFFIXES[suffix or ""]


def quantity(value: object) -> float | None:
    """A Kubernetes quantity ("500m", "16Gi", 2, "1e3") as a number; None when it is none.

    The grammar is that of apimachinery's ``resource.Quantity``.
    """
    if isinstance(value, bool) or value is None:
        return None
    number = float(value) if isinstance(value, int | float) else _quantity_of_text(str(value))
    return number if number is not None and math.isfinite(number) else None


def whole(value: object) -> int | None:
    """A quantity of bytes, rounded; None when it is none."""
    number = quantity(value)
    return None if number is None else round(number)


def _asked(limits: Mapping[Any, Any], requests: Mapping[Any, Any]) -> dict[str, Any]:
    """For extended resources a limit is the request; a request alone counts where no limit is."""
    return {str(name): value for name, value in (*requests.items(), *limits.items())}


def gpu_requests(
    limits: Mapping[Any, Any], requests: Mapping[Any, Any], problems: list[str] | None = None
) -> tuple[GpuRequest, ...]:
    """The accelerators a container's ``resources`` ask for, in order of their names.

    An amount that is no number (an unfilled placeholder) counts as 1 and is told in ``problems``.
    """
    asked: dict[str, tuple[GpuResource, float]] = {}
    for name, value in _asked(limits, requests).items():
        known = gpu_resource(name) if "/" in name else None
        if known is None:
            continue
        count = quantity(value)
        if count is None:
            count = 1.0
            if problems is not None:
                problems.append(
                    f"{name}: {str(value)!r} is not a number, counted as 1; "
                    "fill in the placeholder to get the real count"
                )
        if count > 0:
            asked[name] = (known, count)
    cut = {known.amount_of for known, _ in asked.values() if known.amount_of}
    return tuple(
        GpuRequest(
            resource=name,
            count=count,
            kind="fractional" if name in cut and known.kind == "gpu" else known.kind,
            vendor=known.vendor,
            mig_profile=known.partition,
        )
        for name, (known, count) in sorted(asked.items())
    )


def annotation_requests(annotations: Mapping[str, str]) -> tuple[str, tuple[GpuRequest, ...]]:
    """What a pod asks for by annotation, and the container it is for ('' = the first)."""
    container, found = "", []
    for row in resource_table().annotations:
        keys = [row.key] if row.key in annotations else []
        if row.pattern:
            keys = sorted(key for key in annotations if re.fullmatch(row.pattern, key))
        for key in keys:
            count = quantity(annotations[key])
            known = _match([row], key)
            if count is None or count <= 0 or known is None:
                continue
            times = quantity(annotations.get(row.times)) if row.times else None
            container = container or annotations.get(row.container, "")
            found.append(
                GpuRequest(
                    resource=key,
                    count=count * (times or 1.0),
                    kind=known.kind,
                    vendor=known.vendor,
                    mig_profile=known.partition,
                )
            )
    return container, tuple(found)


def gpu_amounts(amounts: Mapping[Any, Any] | None) -> dict[str, float]:
    """The accelerator resources of a node's capacity or allocatable."""
    found: dict[str, float] = {}
    for name, value in (amounts or {}).items():
        count = quantity(value)
        if count is not None and gpu_resource(str(name)) is not None:
            found[str(name)] = count
    return found


def device_count(requests: Iterable[GpuRequest]) -> float:
    """Devices, partitions or shares asked for; amounts of memory or cores are not devices."""
    return sum(request.count for request in requests if request.kind != "other")


def add_requests(groups: Iterable[Iterable[GpuRequest]]) -> tuple[GpuRequest, ...]:
    """Sum by resource name (and MIG profile of a claim), in order of the names."""
    total: dict[tuple[str, str], GpuRequest] = {}
    for group in groups:
        for request in group:
            key = (request.resource, request.mig_profile)
            seen = total.get(key)
            count = request.count + (seen.count if seen else 0.0)
            total[key] = msgspec.structs.replace(request, count=count)
    return tuple(total[key] for key in sorted(total))


def _highest(a: Sequence[GpuRequest], b: Sequence[GpuRequest]) -> tuple[GpuRequest, ...]:
    most = {(request.resource, request.mig_profile): request for request in a}
    for request in b:
        key = (request.resource, request.mig_profile)
        if key not in most or request.count > most[key].count:
            most[key] = request
    return tuple(most[key] for key in sorted(most))


def containers_ask(containers: Iterable[ContainerSpec]) -> tuple[GpuRequest, ...]:
    """What containers, in their starting order, hold at once at most: the scheduler's arithmetic.

    An init container runs alone beside the sidecars started before it; sidecars (init containers
    with restartPolicy Always, here ``init=False`` at their place in the order) and application
    containers run together. Source: Kubernetes, "Resource sharing within containers".
    """
    together: tuple[GpuRequest, ...] = ()
    highest: tuple[GpuRequest, ...] = ()
    for container in containers:
        if not container.gpus:
            continue
        beside = add_requests((together, container.gpus))
        if container.init:
            highest = _highest(highest, beside)
        else:
            together = beside
    return _highest(highest, together)


def pod_requests(pod: Pod) -> tuple[GpuRequest, ...]:
    """What one pod asks the scheduler for."""
    return containers_ask(pod.containers)
