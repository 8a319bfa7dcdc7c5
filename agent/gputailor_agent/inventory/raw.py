"""The parts of Kubernetes objects that are read, as small structs.

Everything else in an object is skipped while decoding, which is what makes 10,000 pods quick.
Fields are as loose as people's YAML is: a number where a string belongs is taken as its text.
"""

import sys
from datetime import datetime
from typing import Any

import msgspec

Loose = str | int | float | bool | None
StringMap = dict[Any, Any] | None


class RawOwnerReference(msgspec.Struct, rename="camel"):
    """An entry of ``metadata.ownerReferences``."""

    api_version: str | None = None
    kind: str | None = None
    name: Loose = None
    uid: str | None = None
    controller: bool | None = None


class RawMetadata(msgspec.Struct, rename="camel"):
    """What is read of ``metadata``."""

    name: Loose = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: Loose = None
    labels: StringMap = None
    annotations: StringMap = None
    owner_references: list[RawOwnerReference] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class RawEnv(msgspec.Struct):
    """An environment variable; one that comes from elsewhere has no ``value``."""

    name: Loose = None
    value: Loose = None


class RawPort(msgspec.Struct, rename="camel"):
    """A container port."""

    container_port: Loose = None


class RawClaimName(msgspec.Struct):
    """A DRA claim a container names, or one request of it."""

    name: Loose = None
    request: Loose = None


class RawResources(msgspec.Struct):
    """A container's ``resources``."""

    limits: StringMap = None
    requests: StringMap = None
    claims: list[RawClaimName] | None = None


class RawMount(msgspec.Struct, rename="camel"):
    """A volume mount."""

    name: Loose = None
    mount_path: str | None = None


class RawContainer(msgspec.Struct, rename="camel"):
    """A container or an init container."""

    name: Loose = None
    image: Any = None  # an unfilled `{…}` is a mapping to YAML
    command: Any = None
    args: Any = None
    env: list[RawEnv] | None = None
    ports: list[RawPort] | None = None
    resources: RawResources | None = None
    restart_policy: str | None = None
    volume_mounts: list[RawMount] | None = None


class RawEmptyDir(msgspec.Struct, rename="camel"):
    """An emptyDir volume."""

    medium: str | None = None
    size_limit: Loose = None


class RawVolume(msgspec.Struct, rename="camel"):
    """A volume; only emptyDirs are looked into."""

    name: Loose = None
    empty_dir: RawEmptyDir | None = None


class RawToleration(msgspec.Struct):
    """A toleration."""

    key: str | None = None
    value: Loose = None
    effect: str | None = None


class RawPodClaim(msgspec.Struct, rename="camel"):
    """An entry of ``spec.resourceClaims``."""

    name: Loose = None
    resource_claim_name: Loose = None
    resource_claim_template_name: Loose = None
    source: "RawPodClaim | None" = None


class RawPodSpec(msgspec.Struct, rename="camel"):
    """What is read of a pod's ``spec``."""

    node_name: str | None = None
    containers: list[RawContainer] | None = None
    init_containers: list[RawContainer] | None = None
    volumes: list[RawVolume] | None = None
    tolerations: list[RawToleration] | None = None
    priority_class_name: str | None = None
    service_account_name: str | None = None
    overhead: StringMap = None
    resource_claims: list[RawPodClaim] | None = None
    active_deadline_seconds: Loose = None


class RawContainerState(msgspec.Struct, rename="camel"):
    """``running`` or ``terminated`` of a container state."""

    started_at: str | None = None
    finished_at: str | None = None
    exit_code: int | None = None
    reason: str | None = None


class RawStates(msgspec.Struct):
    """A container's state; waiting says nothing about times."""

    running: RawContainerState | None = None
    terminated: RawContainerState | None = None


class RawContainerStatus(msgspec.Struct, rename="camel"):
    """A container's status."""

    name: Loose = None
    state: RawStates | None = None
    last_state: RawStates | None = None
    restart_count: int | None = None


class RawCondition(msgspec.Struct, rename="camel"):
    """A condition of a pod or a node."""

    type: str | None = None
    status: Loose = None
    last_transition_time: str | None = None


class RawPodStatus(msgspec.Struct, rename="camel"):
    """What is read of a pod's ``status``."""

    phase: str | None = None
    reason: str | None = None
    start_time: str | None = None
    conditions: list[RawCondition] | None = None
    container_statuses: list[RawContainerStatus] | None = None
    resource_claim_statuses: list[RawPodClaim] | None = None
    init_container_statuses: list[RawContainerStatus] | None = None


class RawPod(msgspec.Struct, rename="camel"):
    """A pod, or a pod template (which has no status)."""

    metadata: RawMetadata | None = None
    spec: RawPodSpec | None = None
    status: RawPodStatus | None = None


class RawTaint(msgspec.Struct):
    """A taint of a node."""

    key: str | None = None
    value: Loose = None
    effect: str | None = None


class RawNodeSpec(msgspec.Struct):
    """What is read of a node's ``spec``."""

    unschedulable: bool | None = None
    taints: list[RawTaint] | None = None


class RawAddress(msgspec.Struct):
    """An address of a node, or a name that stands for it."""

    type: str | None = None
    address: Loose = None


class RawNodeStatus(msgspec.Struct):
    """What is read of a node's ``status``."""

    addresses: list[RawAddress] | None = None
    capacity: StringMap = None
    allocatable: StringMap = None
    conditions: list[RawCondition] | None = None


class RawNode(msgspec.Struct):
    """A node."""

    metadata: RawMetadata | None = None
    spec: RawNodeSpec | None = None
    status: RawNodeStatus | None = None


def text(value: object) -> str:
    """A scalar as Kubernetes would print it; None is ''."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def string_map(values: StringMap) -> dict[str, str]:
    """Labels or annotations as strings. Keys are kept once: every node has the same forty."""
    return {sys.intern(text(key)): text(value) for key, value in (values or {}).items()}


def instant(value: str | None) -> float | None:
    """An RFC 3339 time in Unix seconds; None when absent or unreadable.

    A time without a zone is UTC, as everything Kubernetes prints.
    """
    if not value:
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = datetime.fromisoformat(value + "+00:00")
    return at.timestamp()
