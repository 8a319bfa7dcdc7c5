"""What we may read: the rules as data, and what of them a cluster does not grant.

``rbac.yaml`` is the one place; the chart's roles, the documentation and ``doctor`` follow it.
``python -m gputailor_agent.inventory.live [--namespaced]`` prints the role as a manifest.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import resources as packaged
from typing import Any, Final

import msgspec
import yaml

from gputailor_agent.inventory.live.choosing import NamespaceChoice
from gputailor_agent.inventory.live.client import Client
from gputailor_agent.inventory.live.discovering import Discovery
from gputailor_agent.inventory.live.errors import ClusterError

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_READING: Final = frozenset({"get", "list", "watch"})


class AccessRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of ``rbac.yaml``, or of ``writing_rights``.

    ``scope``: "namespaced" (a Role is enough) or "cluster".
    """

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    scope: str
    without: str  # what is missing in reports without it
    optional: bool = False
    owners: bool = False  # whether its resources stand above pods


class MissingPermission(msgspec.Struct, frozen=True, kw_only=True):
    """Verbs on one resource that are not granted. ``namespace`` '' is the whole cluster."""

    resource: str  # as kubectl names it: "pods", "jobs.batch"
    verbs: tuple[str, ...]
    namespace: str
    optional: bool
    without: str
    scope: str = "namespaced"  # or "cluster": no Role can hold it
    reason: str = ""  # the server's own words, where it gave any

    @property
    def text(self) -> str:
        """For a person: what is missing, what that costs, and how to see and grant it."""
        place = f"in namespace {self.namespace}" if self.namespace else "in all namespaces"
        flag = f"-n {self.namespace}" if self.namespace else "-A"
        said = f" ({self.reason})" if self.reason else ""
        return (
            f"{', '.join(self.verbs)} on {self.resource} is not granted {place}{said}: "
            f"{self.without}; check with: kubectl auth can-i {self.verbs[0]} {self.resource} {flag}"
        )


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rules: tuple[AccessRule, ...]


@cache
def reading_rules() -> tuple[AccessRule, ...]:
    """Everything in ``rbac.yaml``, in its order."""
    text = packaged.files(__package__).joinpath("rbac.yaml").read_text("utf-8")
    rules = msgspec.convert(yaml.safe_load(text), _File).rules
    for rule in rules:
        if not _READING.issuperset(rule.verbs) or rule.scope not in {"namespaced", "cluster"}:
            raise ValueError(f"rbac.yaml: {rule.resources}: only reading verbs; two scopes")
    return rules


def rules(*, namespaced: bool = False) -> list[dict[str, list[str]]]:
    """The rules as Kubernetes' PolicyRules, for a ClusterRole.

    ``namespaced``: only those a Role can hold, for installations that may see some namespaces.
    """
    return [
        policy_rule(rule)
        for rule in reading_rules()
        if not namespaced or rule.scope == "namespaced"
    ]


def policy_rule(rule: AccessRule) -> dict[str, list[str]]:
    """A rule as Kubernetes writes it."""
    return {
        "apiGroups": list(rule.groups),
        "resources": list(rule.resources),
        "verbs": list(rule.verbs),
    }


def role(
    name: str = "gputailor",
    *,
    namespaced: bool = False,
    more: Sequence[dict[str, list[str]]] = (),
) -> dict[str, Any]:
    """The rules as a ClusterRole, or as a Role to be applied in each namespace that may be seen.

    ``more``: PolicyRules beside them.
    """
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role" if namespaced else "ClusterRole",
        "metadata": {"name": name},
        "rules": [*rules(namespaced=namespaced), *more],
    }


def rules_table() -> str:
    """The rules as a Markdown table, for the documentation."""
    lines = ["| resources | verbs | held by | without it |", "|---|---|---|---|"]
    for rule in reading_rules():
        names = [f"{r}.{g}" if g else r for g in rule.groups for r in rule.resources]
        held = "ClusterRole" if rule.scope == "cluster" else "Role or ClusterRole"
        optional = " (optional)" if rule.optional else ""
        shown = ", ".join(f"`{name}`" for name in names)
        lines.append(f"| {shown} | {', '.join(rule.verbs)} | {held}{optional} | {rule.without} |")
    return "\n".join(lines) + "\n"


class _Answer(msgspec.Struct):
    allowed: bool = False
    reason: str = ""


class _Review(msgspec.Struct):
    status: _Answer


def missing_permissions(
    client: Client, namespaces: Sequence[str] | None = None
) -> tuple[MissingPermission, ...]:
    """What of the rules the cluster does not grant us, asked by SelfSubjectAccessReview.

    ``namespaces`` None (or a pattern) asks for all at once. Groups that the cluster does not serve
    are left out. Raises ``ClusterError`` when the cluster does not answer.
    """
    return missing_of(client, reading_rules(), namespaces)


def missing_of(
    client: Client, asked: Iterable[AccessRule], namespaces: Sequence[str] | None = None
) -> tuple[MissingPermission, ...]:
    """Likewise of other rules than those of reading."""
    discovery, places = Discovery(client), NamespaceChoice.of(namespaces).places
    return tuple(
        missing
        for rule in asked
        for group, resource in _served(discovery, rule)
        for namespace in (places if rule.scope == "namespaced" else ("",))
        if (missing := _missing(client, rule, group, resource, namespace)) is not None
    )


def _served(discovery: Discovery, rule: AccessRule) -> Iterator[tuple[str, str]]:
    """The rule's resources that exist here; of a group whose discovery fails, all of them."""
    for group in rule.groups:
        for resource in rule.resources:
            try:
                known = not group or discovery.served(group, resource) is not None
            except ClusterError:
                known = True
            if known:
                yield group, resource


def _missing(
    client: Client, rule: AccessRule, group: str, resource: str, namespace: str
) -> MissingPermission | None:
    refused = list(refusals(client, rule.verbs, group, resource, namespace))
    if not refused:
        return None
    return MissingPermission(
        resource=f"{resource}.{group}" if group else resource,
        verbs=tuple(verb for verb, _ in refused),
        namespace=namespace,
        optional=rule.optional,
        without=rule.without,
        scope=rule.scope,
        reason=next((reason for _, reason in refused if reason), ""),
    )


def refusals(
    client: Client, verbs: Iterable[str], group: str, resource: str, namespace: str
) -> Iterator[tuple[str, str]]:
    """Verbs that we may not use on a resource ('' everywhere), each with the server's reason."""
    for verb in verbs:
        attributes: dict[str, Any] = {"verb": verb, "group": group, "resource": resource}
        if namespace:
            attributes["namespace"] = namespace
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = client.review(_REVIEWS, review, _Review).status
        if not answer.allowed:
            yield verb, answer.reason
