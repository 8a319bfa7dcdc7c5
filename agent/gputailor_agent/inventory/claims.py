"""Devices asked for by claim (dynamic resource allocation).

A container names a claim of its pod, the pod names a ResourceClaim or a template, and that asks
for devices of a class. A claim whose object is not at hand is noted as ``other``: asked for, but
of unknown kind and number, and never counted as a device; so is one for all devices of a node until
its allocation tells how many those are. Administrative access holds no device.

Classes are made by whoever runs the cluster, under any name. One that the table does not know is
known by its driver: as the selectors of the request, the allocation or the class's own selectors
name it.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from gputailor_agent.inventory import raw
from gputailor_agent.inventory.resources import GpuResource, device_class, quantity
from gputailor_agent.model.inventory import GpuRequest

#: What a claim whose object is not at hand is noted as, before its name.
UNKNOWN_CLAIM: Final = "resourceclaims/"

_MIG_PROFILE: Final = re.compile(r"\b([0-9]+g\.[0-9]+gb(?:\.me)?)\b")
_SLICED: Final = re.compile(r"\.type\s*==\s*[\"']mig[\"']")
_DRIVER: Final = re.compile(r"device\.driver\s*==\s*[\"']([a-z0-9.-]+)[\"']")


def _listed(part: object, *path: str) -> list[dict[str, Any]]:
    """The mappings of a list somewhere below; empty in any other shape."""
    for step in path:
        part = part.get(step) if isinstance(part, dict) else None
    return [one for one in part if isinstance(one, dict)] if isinstance(part, list) else []


def _expressions(request: Mapping[str, Any]) -> str:
    selectors = ((one.get("cel") or {}) for one in _listed(request, "selectors"))
    return "\n".join(str(cel.get("expression") or "") for cel in selectors if isinstance(cel, dict))


def _selected_profile(request: Mapping[str, Any]) -> str:
    found = _MIG_PROFILE.search(_expressions(request))
    return found.group(1) if found else ""


def _selected(part: Mapping[str, Any]) -> GpuResource | None:
    """What the selectors of a class or a request choose, where they name a driver."""
    told = _expressions(part)
    found = _DRIVER.search(told)
    return _of_driver(found.group(1), sliced=bool(_SLICED.search(told))) if found else None


def _of_driver(name: str, *, sliced: bool) -> GpuResource | None:
    known = device_class(name)
    if known is None or not sliced:
        return known
    return msgspec.structs.replace(known, kind="mig")


def _class_profile(name: str) -> str:
    """The profile in the name of a class made per profile (``mig-1g-12gb.gpu.nvidia.com``)."""
    found = re.match(r"mig-([0-9]+g)-([0-9]+gb)", name)
    return ".".join(found.groups()) if found else ""


class _Result(msgspec.Struct, frozen=True, kw_only=True):
    """One device that the scheduler allocated. ``part``: for which of the alternatives."""

    request: str
    part: str
    driver: str
    device: str
    shared: bool

    @property
    def stands_for(self) -> GpuResource | None:
        """What its driver's devices are; the driver names those that it cut a card into."""
        return _of_driver(self.driver, sliced="-mig-" in self.device)


def _results(status: object) -> list[_Result]:
    found = []
    for one in _listed(status, "allocation", "devices", "results"):
        request, _, part = raw.text(one.get("request")).partition("/")
        found.append(
            _Result(
                request=request,
                part=part,
                driver=raw.text(one.get("driver")),
                device=raw.text(one.get("device")),
                shared=bool(one.get("shareID")),
            )
        )
    return found


def _wanted(request: Mapping[str, Any], results: Sequence[_Result]) -> dict[str, Any]:
    """What a request is for: ``exactly`` (v1), itself (the betas) or one of its alternatives.

    Of these the one that was allocated, else the first.
    """
    alternatives = _listed(request, "firstAvailable")
    taken = {one.part for one in results}
    chosen = [one for one in alternatives if raw.text(one.get("name")) in taken] or alternatives
    exactly = request.get("exactly")
    return dict(exactly if isinstance(exactly, dict) else chosen[0] if chosen else request)


def _told(wanted: Mapping[str, Any], results: Sequence[_Result]) -> GpuResource | None:
    """What a request is for as far as it and its allocation tell, without its class's object."""
    known = device_class(raw.text(wanted.get("deviceClassName"))) or _selected(wanted)
    return known or next((told for one in results if (told := one.stands_for)), None)


def _strange(spec: object, status: object) -> bool:
    """Whether a claim asks for a class that only the class's own object can tell of."""
    results = _results(status)
    for request in _listed(spec, "devices", "requests"):
        own = [one for one in results if one.request == raw.text(request.get("name"))]
        wanted = _wanted(request, own)
        if wanted.get("deviceClassName") and not own and _told(wanted, own) is None:
            return True
    return False


def _device_request(
    request: Mapping[str, Any], results: Sequence[_Result], classes: Mapping[str, GpuResource]
) -> GpuRequest | None:
    """One entry of ``devices.requests``.

    None for classes that name no accelerator (network cards, fabric channels), and for monitors.
    """
    wanted = _wanted(request, results)
    name = raw.text(wanted.get("deviceClassName"))
    known = _told(wanted, results) or classes.get(name)
    if known is None or wanted.get("adminAccess") is True:
        return None
    every = wanted.get("allocationMode") == "All"
    kind = "other" if every and not results else known.kind
    return GpuRequest(
        resource=name,
        count=float(len(results) or 1) if every else quantity(wanted.get("count")) or 1.0,
        kind="shared" if kind == "gpu" and any(one.shared for one in results) else kind,
        vendor=known.vendor,
        mig_profile=(_selected_profile(wanted) or _class_profile(name))
        if known.kind == "mig"
        else "",
    )


def claimed_devices(
    spec: object, status: object = None, classes: Mapping[str, GpuResource] | None = None
) -> dict[str, GpuRequest]:
    """The devices of a ResourceClaim's ``spec`` by request name; empty in any other shape.

    ``status`` tells what was allocated; ``classes`` what classes of the cluster's own stand for.
    """
    results = _results(status)
    found: dict[str, GpuRequest] = {}
    for request in _listed(spec, "devices", "requests"):
        name = raw.text(request.get("name"))
        own = [one for one in results if one.request == name]
        device = _device_request(request, own, classes or {})
        if device is not None:
            found[name] = device
    return found


class Claims:
    """ResourceClaims and their templates by namespace and name, and classes by name."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], tuple[object, object]] = {}
        self._templates: dict[tuple[str, str], object] = {}
        self._classes: dict[str, GpuResource] = {}

    def add(self, body: dict[str, Any]) -> None:
        """Take in a ResourceClaim, ResourceClaimTemplate or DeviceClass object."""
        metadata = body.get("metadata") or {}
        key = (raw.text(metadata.get("namespace")) or "default", raw.text(metadata.get("name")))
        spec = body.get("spec") or {}
        if body.get("kind") == "ResourceClaimTemplate":
            self._templates[key] = spec.get("spec")
        elif body.get("kind") == "DeviceClass":
            if (known := _selected(spec)) is not None:
                self._classes[key[1]] = known
        else:
            self._claims[key] = (spec, body.get("status"))

    @property
    def need_classes(self) -> bool:
        """Whether some claim can be told by the DeviceClass objects only.

        Such a class bears a name of the cluster's own, and nothing of the claim was allocated yet.
        """
        waiting = [*self._claims.values(), *((spec, None) for spec in self._templates.values())]
        return any(_strange(spec, status) for spec, status in waiting)

    def _devices(self, key: tuple[str, str], *, template: bool) -> dict[str, GpuRequest] | None:
        """What a claim or a template asks for; None where it is not at hand."""
        if template:
            known = key in self._templates
            return claimed_devices(self._templates[key], None, self._classes) if known else None
        return claimed_devices(*self._claims[key], self._classes) if key in self._claims else None

    def of_pod(
        self,
        spec: raw.RawPodSpec,
        namespace: str,
        made: Sequence[raw.RawPodClaim] | None = None,
    ) -> dict[str, tuple[GpuRequest, ...]]:
        """Claimed devices by container name. Containers that share a claim share its devices.

        ``made``: the claims made from templates, as the pod's status names them.
        """
        if not spec.resource_claims:
            return {}
        generated = {raw.text(one.name): raw.text(one.resource_claim_name) for one in made or ()}
        claims = {
            raw.text(claim.name): self._source(claim, namespace, generated)
            for claim in spec.resource_claims
        }
        named = [
            (raw.text(container.name), raw.text(use.name), raw.text(use.request))
            for container in (*(spec.init_containers or ()), *(spec.containers or ()))
            for use in (container.resources or raw.RawResources()).claims or ()
            if raw.text(use.name) in claims
        ]
        users = Counter((claim, request) for _, claim, request in named)
        found: dict[str, list[GpuRequest]] = {}
        for container_name, claim, request in named:
            devices = claims[claim].devices(request, users[claim, request])
            found.setdefault(container_name, []).extend(devices)
        return {name: _joined(devices) for name, devices in found.items()}

    def _source(
        self, claim: raw.RawPodClaim, namespace: str, generated: Mapping[str, str]
    ) -> "_Source":
        """What a pod's claim stands for; one made from a template tells its allocation."""
        told = claim.source or claim  # the alpha API had one level more
        template = raw.text(told.resource_claim_template_name)
        name = template or raw.text(told.resource_claim_name)
        known = self._devices((namespace, name), template=bool(template))
        if template and (made := generated.get(raw.text(claim.name), "")):
            allocated = self._devices((namespace, made), template=False)
            known = known if allocated is None else allocated
        return _Source(name=name, own=bool(template), known=known)


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    """One claim of a pod. ``own``: made for this pod; others may serve several pods."""

    name: str
    own: bool
    known: dict[str, GpuRequest] | None

    def devices(self, request: str, users: int) -> list[GpuRequest]:
        """What one of ``users`` containers gets of one request ('' for all of them)."""
        if self.known is None:
            return [GpuRequest(resource=f"{UNKNOWN_CLAIM}{self.name}", count=1.0, kind="other")]
        shared = users > 1 or not self.own
        return [
            msgspec.structs.replace(
                device,
                count=device.count / users,
                kind="shared" if shared and device.kind == "gpu" else device.kind,
            )
            for label, device in self.known.items()
            if not request or label == request
        ]


def _joined(devices: list[GpuRequest]) -> tuple[GpuRequest, ...]:
    """Requests for the same thing as one."""
    total: dict[tuple[str, str, str], GpuRequest] = {}
    for device in devices:
        key = (device.resource, device.mig_profile, device.kind)
        seen = total.get(key)
        count = device.count + (seen.count if seen else 0.0)
        total[key] = msgspec.structs.replace(device, count=count)
    return tuple(total.values())
