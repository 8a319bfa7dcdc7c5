"""Whose work a pod is: team, queue and priority, from labels, annotations and the namespace.

The keys are data (``belonging.yaml``); the team's may be set, since every house has its own.
Nothing found is '', never a guess from other words of a name.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources as packaged

import msgspec
import yaml

from gputailor_agent.inventory.owners import Link
from gputailor_agent.inventory.spelling import snake, spelled
from gputailor_agent.model.inventory import Pod


class BelongingTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of ``belonging.yaml``."""

    team: tuple[str, ...]
    namespace_team: tuple[str, ...]
    namespace_name: tuple[str, ...]
    queue: tuple[str, ...]
    priority: tuple[str, ...]


class Belonging(msgspec.Struct, frozen=True, kw_only=True):
    """Whose a pod is; '' where nothing says it."""

    team: str = ""
    queue: str = ""
    priority_class: str = ""
    service_account: str = ""


@cache
def belonging_table() -> BelongingTable:
    """The packaged table of keys."""
    text = packaged.files(__package__).joinpath("belonging.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), BelongingTable)


def _found(places: Iterable[Mapping[str, str]], keys: Sequence[str]) -> str:
    for place in places:
        for key in keys:
            if value := place.get(key, ""):
                return value
    return ""


def _of_namespace(name: str) -> str:
    for pattern in belonging_table().namespace_name:
        if found := re.fullmatch(pattern, name):
            return found.group("team")
    return ""


@cache
def _readable(keys: tuple[str, ...]) -> tuple[str, ...]:
    """The keys, and how they stand in a Prometheus, where nobody knows them by their own name."""
    return tuple(dict.fromkeys(way(key) for key in keys for way in (str, spelled, snake)))


def _team(
    namespace: str,
    places: Sequence[Mapping[str, str]],
    namespace_labels: Mapping[str, str],
    own: Sequence[str],
) -> str:
    table = belonging_table()
    return (
        _found([*places, namespace_labels], _readable(tuple(own)))
        or _found(places, table.team)
        or _found([namespace_labels], table.namespace_team)
        or _of_namespace(namespace)
    )


def belonging(
    pod: Pod,
    chain: Sequence[Link],
    namespace_labels: Mapping[str, str] | None = None,
    team_keys: Sequence[str] = (),
) -> Belonging:
    """Team, queue, priority and service account of a pod with these owners.

    ``team_keys`` are labels or annotations, of pod, owner or namespace; one of them anywhere wins
    over the packaged keys. Annotations of one place count before its labels.
    """
    table = belonging_table()
    places: list[Mapping[str, str]] = [pod.annotations, pod.labels]
    for link in chain:
        places += [link.annotations, link.labels]
    return Belonging(
        team=_team(pod.namespace, places, namespace_labels or {}, team_keys),
        queue=_found(places, table.queue),
        priority_class=pod.priority_class or _found(places, table.priority),
        service_account=pod.service_account,
    )
