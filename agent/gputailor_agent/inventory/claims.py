"""Devices asked for by claim (dynamic resource allocation).

A container names a claim of its pod, the pod names a ResourceClaim or a template, and that asks
for devices of a class. A claim whose object is not at hand is noted as ``other``: asked for, but
of unknown kind and number, and never counted as a device.
"""

import re
from collections import Counter
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


def _device_request(request: dict[str, Any]) -> GpuRequest | None:
    """One entry of ``devices.requests``, in the shape of v1 (``exactly``) or of the betas.

    None for classes that name no accelerator (network cards, fabric channels).
    """
    alternatives = request.get("firstAvailable") or ()
    wanted = request.get("exactly") or (alternatives[0] if alternatives else request)
    name = raw.text(wanted.get("deviceClassName"))
    known = device_class(name)
    if known is None:
        return None
    return GpuRequest(
        resource=name,
        count=quantity(wanted.get("count")) or 1.0,
        kind=known.kind,
        vendor=known.vendor,
        mig_profile=(_selected_profile(wanted) or _class_profile(name))
        if known.kind == "mig"
        else "",
    )


def claimed_devices(spec: object) -> dict[str, GpuRequest]:
    """The devices of a ResourceClaim's ``spec`` by request name; empty in any other shape."""
    devices = spec.get("devices") if isinstance(spec, dict) else None
    requests = devices.get("requests") if isinstance(devices, dict) else None
    found: dict[str, GpuRequest] = {}
    for request in requests or ():
        device = _device_request(request) if isinstance(request, dict) else None
        if device is not None:
            found[raw.text(request.get("name"))] = device
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
            self._claims[key] = claimed_devices(spec)

    def of_pod(self, spec: raw.RawPodSpec, namespace: str) -> dict[str, tuple[GpuRequest, ...]]:
        """Claimed devices by container name. Containers that share a claim share its devices."""
        if not spec.resource_claims:
            return {}
        claims = {raw.text(claim.name): claim for claim in spec.resource_claims}
        users = Counter[tuple[str, str]]()
        named: list[tuple[str, str, str]] = []
        for container in (*(spec.init_containers or ()), *(spec.containers or ())):
            resources = container.resources or raw.RawResources()
            for use in resources.claims or ():
                claim, request = raw.text(use.name), raw.text(use.request)
                if claim in claims:
                    users[claim, request] += 1
                    named.append((raw.text(container.name), claim, request))
        found: dict[str, list[GpuRequest]] = {}
        for container_name, claim, request in named:
            devices = self._devices(claims[claim], request, namespace, users[claim, request])
            found.setdefault(container_name, []).extend(devices)
        return {name: _joined(devices) for name, devices in found.items()}

    def _devices(
        self, claim: raw.RawPodClaim, request: str, namespace: str, users: int
    ) -> list[GpuRequest]:
        source = claim.source or claim  # the alpha API had one level more
        template = raw.text(source.resource_claim_template_name)
        name = template or raw.text(source.resource_claim_name)
        known = (self._templates if template else self._claims).get((namespace, name))
        if known is None:
            return [GpuRequest(resource=f"resourceclaims/{name}", count=1.0, kind="other")]
        shared = users > 1 or not template  # a ResourceClaim of its own may serve several pods
        return [
            msgspec.structs.replace(
                device,
                count=device.count / users,
                kind="shared" if shared and device.kind == "gpu" else device.kind,
            )
            for label, device in known.items()
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
