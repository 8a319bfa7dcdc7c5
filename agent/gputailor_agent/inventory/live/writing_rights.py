"""What the agent may write where it is told to: Events about owners, an annotation on them.

Both are off unless settings ask for them, and neither is in the roles then. A Role cannot tell an
annotation from the rest of an object: whoever may patch a Deployment may patch all of it.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from gputailor_agent.inventory.live.client import Client
from gputailor_agent.inventory.live.rbac import (
    AccessRule,
    MissingPermission,
    missing_of,
    policy_rule,
    reading_rules,
)

#: Settings of the agent, each with the rights that it needs.
EVENTS: Final = "kubernetes_events"
ANNOTATIONS: Final = "kubernetes_annotations"
FEATURES: Final = (EVENTS, ANNOTATIONS)

EVENTS_GROUP: Final = "events.k8s.io"
EVENT_VERBS: Final = ("create", "patch")
ANNOTATION_VERBS: Final = ("patch",)


def access_rules(feature: str) -> tuple[AccessRule, ...]:
    """What a feature needs beside the rights to read; any Role can hold it."""
    if feature == EVENTS:
        return (
            AccessRule(
                groups=(EVENTS_GROUP,),
                resources=("events",),
                verbs=EVENT_VERBS,
                scope="namespaced",
                without="kubernetes_events is on, but no Event is written",
            ),
        )
    return tuple(
        AccessRule(
            groups=rule.groups,
            resources=rule.resources,
            verbs=ANNOTATION_VERBS,
            scope="namespaced",
            without="kubernetes_annotations is on, but nothing is written on these",
        )
        for rule in reading_rules()
        if rule.owners
    )


def writing_rules(features: Iterable[str]) -> list[dict[str, list[str]]]:
    """The same as Kubernetes' PolicyRules."""
    return [policy_rule(rule) for one in features for rule in access_rules(one)]


def missing_to_write(
    client: Client, features: Iterable[str], namespaces: Sequence[str] | None = None
) -> tuple[MissingPermission, ...]:
    """What of it the cluster does not grant us, like ``rbac.missing_permissions``."""
    asked = [rule for one in features for rule in access_rules(one)]
    return missing_of(client, asked, namespaces)


def writing_table() -> str:
    """The rules as a Markdown table, for the documentation."""
    lines = ["| setting | resources | verbs |", "|---|---|---|"]
    for feature in FEATURES:
        for rule in access_rules(feature):
            shown = ", ".join(
                f"`{each}.{group}`".replace(".`", "`")
                for group in rule.groups
                for each in rule.resources
            )
            lines.append(f"| `{feature}` | {shown} | {', '.join(rule.verbs)} |")
    return "\n".join(lines) + "\n"
