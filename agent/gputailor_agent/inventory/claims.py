"""Devices asked for by claim (dynamic resource allocation).

A container names a claim of its pod, the pod names a ResourceClaim or a template, and that asks
for devices of a class. A claim whose object is not at hand is noted as ``other``: asked for, but
of unknown kind and number, and never counted as a device; so is one for all devices of a node until
its allocation tells how many those are. Administrative access holds no device.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from gputailor_agent.inventory import raw
from gputailor_agent.inventory.resources import device_class, quantity
from gputailor_agent.model.inventory import GpuRequest

_MIG_PROFILE: Final = re.compile(r"\b([0-9]+g\.[0-9]+gb(?:\.me)?)\b")


def _selected_profile(request: dict[str, Any]) -> str:
    for selector in request.get("selectors") or ():
        expression = ((selector or {}).get("cel") or {}).get("expression") or ""
        if found := _MIG_PROFILE.search(str(expression)):
            return found.group(1)
    return ""


def _class_profile(name: str) -> str:
    """The profile in the name of a class made per profile (``mig-1g-12gb.gpu.nvidia.com``)."""
    found = re.match(r"mig-([0-9]+g)-([0-9]+gb)", name)
    return ".".join(found.groups()) if found else ""


def _device_request(request: dict[str, Any], allocated: int | None) -> GpuRequest | None:
    """One entry of ``devices.requests``, in the shape of v1 (``exactly``) or of the betas.

    None for classes that name no accelerator (network cards, fabric channels), and for monitors.
    """
    alternatives = request.get("firstAvailable") or ()
    wanted = request.get("exactly") or (alternatives[0] if alternatives else request)
    name = raw.text(wanted.get("deviceClassName"))
    known = device_class(name)
    if known is None or wanted.get("adminAccess") is True:
        return None
    every = wanted.get("allocationMode") == "All"
    return GpuRequest(
        resource=name,
        count=float(allocated or 1) if every else quantity(wanted.get("count")) or 1.0,
        kind="other" if every and allocated is None else known.kind,
        vendor=known.vendor,
        mig_profile=(_selected_profile(wanted) or _class_profile(name))
        if known.kind == "mig"
        else "",
    )


def _allocated(status: object) -> Counter[str]:
    """How many devices the scheduler allocated, by request name (without a subrequest's)."""
    allocation = status.get("allocation") if isinstance(status, dict) else None
    devices = allocation.get("devices") if isinstance(allocation, dict) else None
    results = devices.get("results") if isinstance(devices, dict) else None
    names = [raw.text(one.get("request")) for one in results or () if isinstance(one, dict)]
    return Counter(name.partition("/")[0] for name in names)


def claimed_devices(
    spec: object, allocated: Mapping[str, int] | None = None
) -> dict[str, GpuRequest]:
    """The devices of a ResourceClaim's ``spec`` by request name; empty in any other shape.

    ``allocated`` says how many devices a request for all of them got.
    """
    counts = allocated or {}
    devices = spec.get("devices") if isinstance(spec, dict) else None
    requests = devices.get("requests") if isinstance(devices, dict) else None
    found: dict[str, GpuRequest] = {}
    for request in requests or ():
        name = raw.text(request.get("name")) if isinstance(request, dict) else ""
        device = _device_request(request, counts.get(name)) if isinstance(request, dict) else None
        if device is not None:
            found[name] = device
    return found


class Claims:
    """ResourceClaims and their templates, by namespace and name."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], dict[str, GpuRequest]] = {}
        self._templates: dict[tuple[str, str], dict[str, GpuRequest]] = {}

    def add(self, body: dict[str, Any]) -> None:
        """Take in a ResourceClaim or ResourceClaimTemplate object."""
        metadata = body.get("metadata") or {}
        key = (raw.text(metadata.get("namespace")) or "default", raw.text(metadata.get("name")))
        spec = body.get("spec") or {}
        if body.get("kind") == "ResourceClaimTemplate":
            self._templates[key] = claimed_devices(spec.get("spec"))
        else:
            self._claims[key] = claimed_devices(spec, _allocated(body.get("status")))

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
        known = (self._templates if template else self._claims).get((namespace, name))
        if template:
            made = generated.get(raw.text(claim.name), "")
            known = self._claims.get((namespace, made), known)
        return _Source(name=name, own=bool(template), known=known)


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    """One claim of a pod. ``own``: made for this pod; others may serve several pods."""

    name: str
    own: bool
    known: dict[str, GpuRequest] | None

    def devices(self, request: str, users: int) -> list[GpuRequest]:
        """What one of ``users`` containers gets of one request ('' for all of them)."""
        if self.known is None:
            return [GpuRequest(resource=f"resourceclaims/{self.name}", count=1.0, kind="other")]
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
